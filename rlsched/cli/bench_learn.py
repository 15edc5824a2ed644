"""What `rlsched bench learn` measures: time until a policy is better than every heuristic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rlsched.cli.bench_core import Figure
from rlsched.cli.watch import RichDisplay
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.folder import RunFolder
from rlsched.learn.run import train
from rlsched.learn.summary import Summary
from rlsched.scenario import Scenario


@dataclass(frozen=True)
class Race:
    """One algorithm's training with one seed, until it is ahead or has no more time.

    Attributes:
        algo: the algorithm.
        seed: of the training.
        ahead: its policy kept all limits and was better than the best heuristic, by interval, in validation.
        interrupted: somebody stopped it before.
        decisions: until then.
        learning_s: seconds until then without validation.
        seconds: with it.
        reached: the metric of the best policy.
        heuristic: the metric of the best heuristic.
    """

    algo: str
    seed: int
    ahead: bool
    interrupted: bool
    decisions: int
    learning_s: float
    seconds: float
    reached: float
    heuristic: float


def race(
    scenario: Scenario, config: TrainConfig, algos: Sequence[str], seeds: Sequence[int], out: Path
) -> Iterator[Race]:
    """Train one after the other, each in `out/algo-seed`, validated after every iteration.

    Args:
        scenario: what is simulated.
        config: how to train, with `minutes`.
        algos: to be trained.
        seeds: of each.
        out: folder for the runs; none of them may be there.

    Raises:
        BadInputError: a setting cannot be used, or a run is there already.
    """
    checked = config.validation.model_copy(update={"every": 1, "until_better": True})
    planned = []
    for algo in algos:
        for seed in seeds:
            folder = RunFolder(out / f"{algo}-{seed}")
            folder.check_free()
            settings = {"algo": algo, "seed": seed, "validation": checked}
            planned.append((config.model_copy(update=settings), folder))
    for each, folder in planned:
        settled = each.settled(scenario)
        with RichDisplay(settled) as display:
            ended = train(scenario, settled, folder, display)
        yield outcome(each, folder, ended)
        if ended.reason == "interrupted":
            return


def outcome(config: TrainConfig, folder: RunFolder, ended: Summary) -> Race:
    """What a run came to."""
    standing = ended.standing
    return Race(
        config.algo,
        config.seed,
        ended.reason == "better",
        ended.reason == "interrupted",
        standing.steps,
        learning_seconds(folder),
        standing.seconds,
        float("nan") if standing.best_metric is None else standing.best_metric,
        ended.best_heuristic[1],
    )


def learning_seconds(folder: RunFolder) -> float:
    """Seconds of the iterations of a run, without validation."""
    total, before = 0.0, 0
    for row in folder.rows():
        steps, speed = int(row["steps"]), float(row["steps_per_second"] or 0.0)
        if speed > 0.0:
            total += (steps - before) / speed
        before = steps
    return total


def figures(case: str, races: Sequence[Race]) -> list[Figure]:
    """In the shape of cli.md: each run that got ahead, and medians where all runs of an algorithm did."""
    found = []
    for one in races:
        if one.ahead:
            where = f"{case}, {one.algo}, seed {one.seed}"
            found.append(Figure("learning_s_to_beat", where, one.learning_s, "s"))
            found.append(Figure("decisions_to_beat", where, float(one.decisions), "decisions"))
    for algo in dict.fromkeys(one.algo for one in races):
        own = [one for one in races if one.algo == algo]
        if all(one.ahead for one in own):
            where = f"{case}, {algo}, median of {len(own)}"
            found.append(Figure("learning_s_to_beat", where, median(one.learning_s for one in own), "s"))
            found.append(
                Figure("decisions_to_beat", where, median(float(one.decisions) for one in own), "decisions")
            )
    return found
