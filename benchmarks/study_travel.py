"""A policy for clusters that it never saw: trained on a family of models, evaluated on others and on traces.

A linear priority function is searched for on `lublin-family` first. PPO imitates it from random weights and
learns on. Without another decision of training the seeds together, as one policy, are compared with every
order of the queue, greedy and with EASY backfilling: on members of the family that no training saw, on three
traces by the RLScheduler protocol, and on the Lublin model with 256 processors and with ten times as many.
On two cores about three quarters of an hour for five seeds, two at a time.
Run: `make study-travel`, or with `--seeds 1 --scale 0.05` for a look; what was done is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import yaml
from matplotlib.figure import Figure

from benchmarks.lublin_family import UNSEEN_SEEDS, family
from benchmarks.studies import StudyOptions, evaluated, study_options, train
from benchmarks.study_hpc import DATA, TRACES
from rlsched.evaluate.seeds import seed_folders
from rlsched.files import write_whole
from rlsched.report.style import HEURISTIC, LEARNED, house_style, new_figure, quiet_axes, to_png
from rlsched.scenario import load
from rlsched.sim.priorities import PRIORITIES

FAMILY = ["--scenario", "lublin-family"]

SEARCH_STEPS, STEPS = 30_000_000, 500_000
"""Decisions of a search, and of the PPO training after it."""

PPO = [
    *("--set", "sampling.envs_per_runner=256", "--set", "sampling.candidates=1"),
    *("--set", "validation.every=1", "--set", "ppo.pid.initial=0", "--set", "ppo.calibration=null"),
    *("--set", "ppo.learning_rate=1e-4", "--set", "ppo.final_learning_rate=3e-5"),
    *("--set", "ppo.entropy=0.003", "--set", "ppo.final_temperature=0.3"),
]
"""A batch of 64 environments has too few of the family's members to learn from. A policy that imitates a good
one is lost again at the usual learning rate and entropy (docs/experiments/0011)."""

UNSEEN_MEMBERS, EPISODES, EPISODE_SEED = 30, 128, 2
SMALL, LARGE = 256, 2560
"""Processors that the Lublin model is shown on."""

ORDERS = [f"{order}:{rule}" for order, rule in product(PRIORITIES, ("greedy", "easy"))]
METRIC = "bounded_slowdown"


class PlaceResult(NamedTuple):
    """What a policy reached beside the best order, on the same episodes.

    Attributes:
        place: where.
        mean: bounded slowdown of all seeds.
        best: of the order with the lowest mean.
        order: that one.
        difference: to it.
        low: of the 95 % interval of that.
        high: likewise.
        hoards: whether it only pushes long jobs out of sight.
    """

    place: str
    mean: float
    best: float
    order: str
    difference: float
    low: float
    high: float
    hoards: bool

    @property
    def verdict(self) -> str:
        """Better, worse or level, by the interval."""
        return "better" if self.high < 0 else "worse" if self.low > 0 else "level"


def learn(study: StudyOptions, case: str, seed: int) -> None:
    """Search for a priority function, and train a policy that begins with it."""
    teacher = study.folder / "searched" / f"seed-{seed}"
    words = [*FAMILY, "--algo", "priority_search", "--steps", str(round(study.scale * SEARCH_STEPS))]
    train(teacher, words, seed=seed, threads=study.threads)
    words = [*FAMILY, *PPO, "--steps", str(round(study.scale * STEPS))]
    words += ["--set", f"warm_start.teacher={json.dumps(str(teacher))}"]
    train(study.folder / case / f"seed-{seed}", words, seed=seed, threads=study.threads)


def place_result(study: StudyOptions, place: str, where: Sequence[str]) -> PlaceResult:
    """All seeds as one policy, and all orders."""
    runs = study.folder / "travels"
    words = [str(runs), *where, "--against", ",".join(ORDERS)]
    target = study.folder / f"on-{place}.json"
    seeds = [runs / f"seed-{seed}" for seed in range(study.seeds)]
    return read(place, json.loads(evaluated(target, words, seeds).read_text("utf-8")))


def read(place: str, reported: dict[str, list[dict[str, object]]]) -> PlaceResult:
    """What an evaluation found of the one policy that was evaluated."""
    rows = [row for row in reported["summary"] if row["metric"] == METRIC]
    (policy,) = [row for row in rows if row["learned"]]
    best = min((row for row in rows if not row["learned"]), key=lambda row: float(str(row["mean"])))
    values = (policy["best_heuristic_difference"], policy["difference_low"], policy["difference_high"])
    difference, low, high = (float(str(value)) for value in values)
    return PlaceResult(
        place,
        float(str(policy["mean"])),
        float(str(best["mean"])),
        f"{best['policy']}:{best['backfill']}",
        difference,
        low,
        high,
        any(item["breached"] for item in reported["hoarding"] if item["policy"] == policy["policy"]),
    )


def unseen(folder: Path, kind: str) -> list[Path]:
    """Scenarios of one set of `UNSEEN_SEEDS`: members of the family that no training saw."""
    folder.mkdir(exist_ok=True)
    result = []
    whole = load("lublin-family").model_dump(mode="json", exclude_unset=True)
    for k, part in enumerate(family(UNSEEN_SEEDS[kind], UNSEEN_MEMBERS)):
        arguments = deepcopy(whole) | {"name": f"{kind}-{k}", "workload": part["workload"]}
        arguments["cluster"]["resources"][0]["units"] = part["units"]
        result.append(folder / f"{kind}-{k}.yaml")
        result[-1].write_text(yaml.safe_dump(arguments, sort_keys=False), "utf-8")
    return result


def table(result: Sequence[PlaceResult]) -> str:
    """A line each."""
    form = "  {:<12} {:>9} {:>9} {:<22} {:<26} {}"
    lines = [form.format("", "slowdown", "best", "order", "difference", "")]
    for item in result:
        ends = f"{item.difference:+.2f} [{item.low:+.2f}, {item.high:+.2f}]"
        verdict = f"{item.verdict}{', hoards' if item.hoards else ''}"
        lines.append(
            form.format(item.place, f"{item.mean:.2f}", f"{item.best:.2f}", item.order, ends, verdict)
        )
    counts = ", ".join(
        f"{sum(item.verdict == verdict for item in result)} {verdict}"
        for verdict in ("better", "level", "worse")
    )
    return "\n".join([*lines, f"  {counts} of {len(result)}"])


def draw(members: Sequence[PlaceResult], rest: Sequence[PlaceResult]) -> Figure:
    """Slowdowns as shares of the best order's, with their intervals: members by share, then the others."""
    rows = [*sorted(members, key=lambda item: item.mean / item.best), *rest]
    with house_style():
        figure = new_figure(8.0, 8.0)
        axes = figure.subplots()
        axes.axvline(1.0, color=HEURISTIC, linewidth=0.8, linestyle=(0, (4, 3)))
        for k, item in enumerate(rows):
            colour = LEARNED[0] if k < len(members) else LEARNED[1]
            ends = [1.0 + end / item.best for end in (item.low, item.high)]
            axes.plot(ends, [k, k], color=colour, linewidth=1.6)
            axes.plot(item.mean / item.best, k, "o", color=colour, markersize=4)
        axes.set_yticks(range(len(rows)), [item.place for item in rows], fontsize=7)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel("bounded slowdown as a share of the best order's; bars: 95 % intervals")
        quiet_axes(axes, "x")
    return figure


def main() -> None:
    """Train, show, tell, draw."""
    study = study_options(__doc__, ["travels"], "runs/study-travel")
    study.learn(partial(learn, study))
    if len(trained := seed_folders(study.folder / "travels")) != study.seeds:
        raise SystemExit(f"{study.folder / 'travels'} has {len(trained)} seeds: give --seeds {len(trained)}")
    drawn = ["--episodes", str(EPISODES), "--seed", str(EPISODE_SEED)]
    sets = {
        kind: [
            place_result(study, file.stem, ["--scenario", str(file), *drawn])
            for file in unseen(study.folder / "members", kind)
        ]
        for kind in UNSEEN_SEEDS
    }
    for rows in sets.values():
        print(f"members of the family that no training saw\n{table(rows)}")
    rest = [
        place_result(study, name, ["--trace", str(DATA / trace.file), "--protocol", "rlscheduler"])
        for name, trace in TRACES.items()
    ]
    for units in (SMALL, LARGE):
        where = ["--scenario", "lublin-256", "--set", f"cluster.resources.0.units={units}", *drawn]
        rest.append(place_result(study, f"lublin-{units}", where))
    print(f"traces, and the Lublin model with ten times the processors\n{table(rest)}")
    for item in rest[-2:]:
        print(f"  {item.place}: gains {-100 * item.difference / item.best:.1f} %")
    picture = study.folder / "travel.png"
    write_whole(picture, to_png(draw(sets["member"], rest)))
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
