"""Training time of algorithms until their policy beats every heuristic.

A run ends with the first policy that keeps all limits in validation and is better than the best heuristic
there, by the 95 % interval of the difference; or after `--minutes`. It is validated after every iteration;
training seconds leave validation out.
Run: `python -m benchmarks.time_to_beat --scenario lublin-256 --algos ppo --seeds 3`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rlsched.cli import output
from rlsched.cli.bench import Figure, show_figures
from rlsched.cli.tables import plain_table
from rlsched.cli.train_settings import settings_given
from rlsched.cli.watch import RichDisplay
from rlsched.learn.algorithms.base import ALGORITHMS
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.folder import RunFolder
from rlsched.learn.run import train
from rlsched.learn.summary import Summary
from rlsched.report.words import number
from rlsched.scenario import Scenario

ONLINE = [name for name, algorithm in ALGORITHMS.items() if algorithm.dataset != "required"]
DEFAULT_ALGOS = ["ppo", "appo", "dqn", "reinforce", "priority_search"]


@dataclass(frozen=True)
class TimedRun:
    """One training run, up to its first policy that is better or to the end of its time.

    Attributes:
        algo: the algorithm.
        seed: of the training.
        ahead: a policy kept all limits and was better than the best heuristic, by interval, in validation.
        interrupted: the run was stopped before.
        decisions: until then.
        learning_s: seconds until then, without validation.
        seconds: seconds until then.
        reached: metric of the best policy.
        heuristic: metric of the best heuristic.
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


def timed_runs(
    scenario: Scenario, config: TrainConfig, algos: Sequence[str], seeds: Sequence[int], out: Path
) -> Iterator[TimedRun]:
    """Train runs one after the other, each in `out/algo-seed`, validated after every iteration.

    Args:
        scenario: what is simulated.
        config: as for `rlsched train`, with `minutes`.
        algos: algorithms to train.
        seeds: of each algorithm.
        out: folder of the runs; none of them may exist.

    Raises:
        BadInputError: a setting cannot be used, or a run exists.
    """
    validation = config.validation.model_copy(update={"every": 1, "until_better": True})
    planned = []
    for algo in algos:
        for seed in seeds:
            folder = RunFolder(out / f"{algo}-{seed}")
            folder.check_free()
            settings = {"algo": algo, "seed": seed, "validation": validation}
            planned.append((config.model_copy(update=settings), folder))
    for written, folder in planned:
        settled = written.resolve(scenario)
        with RichDisplay(settled) as display:
            summary = train(scenario, settled, folder, display)
        yield timed_run(written, folder, summary)
        if summary.reason == "interrupted":
            return


def timed_run(config: TrainConfig, folder: RunFolder, summary: Summary) -> TimedRun:
    """The times of a run that has ended."""
    standing = summary.standing
    return TimedRun(
        config.algo,
        config.seed,
        summary.reason == "better",
        summary.reason == "interrupted",
        standing.steps,
        learning_seconds(folder),
        standing.seconds,
        float("nan") if standing.best_metric is None else standing.best_metric,
        summary.best_heuristic[1],
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


def figures(case: str, runs: Sequence[TimedRun]) -> list[Figure]:
    """Figures of runs that got ahead, and medians of algorithms whose runs all did."""
    rows = []
    for run in runs:
        if run.ahead:
            where = f"{case}, {run.algo}, seed {run.seed}"
            rows.append(Figure("learning_s_to_beat", where, run.learning_s, "s"))
            rows.append(Figure("decisions_to_beat", where, float(run.decisions), "decisions"))
    for algo in dict.fromkeys(run.algo for run in runs):
        same_algo = [run for run in runs if run.algo == algo]
        if all(run.ahead for run in same_algo):
            where = f"{case}, {algo}, median of {len(same_algo)}"
            seconds = median(run.learning_s for run in same_algo)
            decisions = median(float(run.decisions) for run in same_algo)
            rows.append(Figure("learning_s_to_beat", where, seconds, "s"))
            rows.append(Figure("decisions_to_beat", where, decisions, "decisions"))
    return rows


def show(runs: Sequence[TimedRun], targets: output.Targets, case: str) -> None:
    """Show runs as a table, and write their figures as JSON."""
    numeric = ["seed", "decisions", "training s", "with validation", "best", "best heuristic"]
    table = plain_table(["algorithm", "ahead", *numeric], right=numeric)
    for run in runs:
        table.add_row(
            run.algo,
            "yes" if run.ahead else "interrupted" if run.interrupted else "no",
            str(run.seed),
            f"{run.decisions:,}",
            f"{run.learning_s:.0f}",
            f"{run.seconds:.0f}",
            number(run.reached),
            number(run.heuristic),
        )
    show_figures(targets, table, [], "", figures(case, runs), runs=[asdict(run) for run in runs])


def main(argv: Sequence[str] | None = None) -> None:
    """Train the runs, and show their times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--algos", nargs="+", choices=ONLINE, default=DEFAULT_ALGOS)
    parser.add_argument("--seeds", type=int, default=1, help="runs of each algorithm")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each run, validation included")
    parser.add_argument("--out", type=Path, default=Path("runs/time-to-beat"), help="folder of the runs")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--json", metavar="FILE|-")
    arguments = parser.parse_args(argv)
    named = arguments.scenario or (None if arguments.trace is not None else "lublin-256")
    simulated, training = settings_given(None, named, arguments.trace, arguments.set)
    training = training.model_copy(update={"minutes": arguments.minutes})
    seeds = range(training.seed, training.seed + arguments.seeds)
    runs = list(timed_runs(simulated, training, arguments.algos, seeds, arguments.out))
    show(runs, output.Targets(arguments.json).check(), simulated.name)


if __name__ == "__main__":
    main()
