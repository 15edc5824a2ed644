"""Slowdown over limits of waits: how much faster jobs finish where they may wait longer.

PPO is trained within limits on the mean wait, as multiples of greedy sjf's, and within one on the largest
wait, on the Lublin model and on HPC2N. The seeds of a limit together, as one policy, play evaluation episodes
beside the heuristics. Prints what each limit gives and whether it is kept, and draws slowdown over mean wait.
On two cores about half an hour for one seed. Run: `make study-limits`, or with `--seeds 1` and
`--cases lublin-256`; what was done is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from benchmarks.studies import StudyOptions, evaluated, study_options, train
from benchmarks.study_hpc import DATA, TRACES, UNSEEN
from rlsched.evaluate.seeds import seed_folders
from rlsched.files import write_whole
from rlsched.report.style import HEURISTIC, LEARNED, house_style, new_figure, quiet_axes, to_png

CASES = {
    "lublin-256": ["--scenario", "lublin-256"],
    "HPC2N": ["--trace", str(DATA / TRACES["HPC2N"].file), *UNSEEN],
}
STEPS, EPISODES = 420_000, 64
LARGEST_WAIT_H = 48
LIMITS = {f"{share} x sjf": ["--limit", f"wait_time={share}:sjf"] for share in ("1.0", "1.3", "1.6")} | {
    f"largest {LARGEST_WAIT_H} h": [
        *("--set", f"objective.starvation_s={LARGEST_WAIT_H * 3600}", "--limit", "job_starvation=0"),
    ]
}
"""Limit -> the words that set it. Without a horizon the limit of `makespan` stays as shipped, and with the
last one that of `wait_time`, too."""


MARKERS = "os^D"
"""Of the limits in the picture."""


class Point(NamedTuple):
    """A policy or heuristic on the evaluation episodes of a case.

    Attributes:
        name: the limit, or the heuristic.
        wait: mean, as a multiple of greedy sjf's.
        slowdown: mean bounded slowdown.
        low: of its 95 % interval.
        high: likewise.
        limits: what an evaluation says of each limit, as in its JSON; empty for heuristics.
    """

    name: str
    wait: float
    slowdown: float
    low: float
    high: float
    limits: Sequence[dict[str, Any]] = ()


def learn(study: StudyOptions, limit: str, case: str, seed: int) -> None:
    """Train a policy of a case within a limit."""
    words = [*CASES[case], *LIMITS[limit], "--steps", str(round(study.scale * STEPS))]
    train(study.folder / case / folder_name(limit) / f"seed-{seed}", words, seed=seed, threads=study.threads)


def folder_name(limit: str) -> str:
    """A name without blanks."""
    return limit.replace(" ", "-")


def points(study: StudyOptions, case: str, limit: str) -> tuple[Point, list[Point]]:
    """All seeds of a limit as one policy, and the heuristics."""
    runs = study.folder / case / folder_name(limit)
    target = study.folder / f"{case}-{folder_name(limit)}.json"
    words = [str(runs), "--episodes", str(EPISODES)]
    return read(limit, json.loads(evaluated(target, words, seed_folders(runs).values()).read_text("utf-8")))


def read(limit: str, values: dict[str, Any]) -> tuple[Point, list[Point]]:
    """The policy and the heuristics of an evaluation, in multiples of greedy sjf's wait."""
    rows = {(r["policy"], r["backfill"], r["metric"]): r for r in values["summary"]}
    sjf = rows["sjf", "greedy", "wait"]["mean"]
    result: dict[bool, list[Point]] = {True: [], False: []}
    for (policy, backfill, metric), row in rows.items():
        if metric != "bounded_slowdown":
            continue
        learned = row["learned"]
        result[learned].append(
            Point(
                limit if learned else f"{policy} + {backfill}",
                rows[policy, backfill, "wait"]["mean"] / sjf,
                row["mean"],
                row["low"],
                row["high"],
                [item for item in values["limits"] if learned and item["policy"] == policy],
            )
        )
    (policy,) = result[True]
    return policy, result[False]


def table(result: Sequence[Point], heuristics: Sequence[Point]) -> str:
    """A line for each limit, and one for the heuristic with the lowest slowdown."""
    form = "  {:<22} {:>8} {:<20} {:>6}  {}"
    lines = [form.format("limit", "slowdown", "95 % interval", "wait", "limits: cost / limit [interval]")]
    for item in result:
        limits = ", ".join(f"{limit['cost']} {share(limit)}" for limit in item.limits)
        lines.append(form.format(item.name, f"{item.slowdown:.2f}", *interval(item), limits))
    best = min(heuristics, key=lambda item: item.slowdown)
    return "\n".join([*lines, form.format(best.name, f"{best.slowdown:.2f}", *interval(best), "")])


def interval(item: Point) -> tuple[str, str]:
    """Its ends, and the wait."""
    return f"[{item.low:.2f}, {item.high:.2f}]", f"{item.wait:.2f}"


def share(limit: dict[str, Any]) -> str:
    """The cost of a limit, as a share of it where it is not 0, and whether the interval reaches the limit."""
    unit = limit["limit"] or 1.0
    ends = [limit[name] / unit for name in ("paid", "low", "high")]
    retained = "kept" if limit["low"] <= limit["limit"] else "exceeded"
    return f"{ends[0]:.3g} [{ends[1]:.3g}, {ends[2]:.3g}] {retained}"


def draw(cases: dict[str, tuple[list[Point], list[Point]]]) -> Figure:
    """Slowdown over mean wait, a panel for each case."""
    with house_style():
        figure = new_figure(8.0, 3.6)
        panels = figure.subplots(1, len(cases), squeeze=False)[0]
        for axes, (case, (policies, heuristics)) in zip(panels, cases.items(), strict=True):
            axes.plot(
                [item.wait for item in heuristics],
                [item.slowdown for item in heuristics],
                "o",
                color=HEURISTIC,
                markersize=4,
                label="heuristics",
            )
            for marker, item in zip(MARKERS, policies, strict=False):
                axes.errorbar(
                    item.wait,
                    item.slowdown,
                    yerr=[[item.slowdown - item.low], [item.high - item.slowdown]],
                    fmt=marker,
                    color=LEARNED[0],
                    markersize=6,
                    linewidth=1.2,
                    label=f"PPO, {item.name}",
                )
            axes.set_yscale("log")
            axes.set_title(case, fontsize=9)
            axes.set_xlabel("mean wait, as a multiple of greedy sjf's")
            quiet_axes(axes, "y")
        panels[0].set_ylabel("mean bounded slowdown; bars: 95 % intervals")
        panels[0].legend(fontsize=7, frameon=False)
    return figure


def main() -> None:
    """Train, evaluate, print, draw."""
    study = study_options(__doc__, CASES, "runs/study-limits")
    for limit in LIMITS:
        study.learn(partial(learn, study, limit))
    result: dict[str, tuple[list[Point], list[Point]]] = {}
    for case, limit in product(study.cases, LIMITS):
        policy, heuristics = points(study, case, limit)
        policies, _ = result.setdefault(case, ([], heuristics))
        policies.append(policy)
    for case, (policies, heuristics) in result.items():
        print(f"{case}, {EPISODES} evaluation episodes, seeds: {study.seeds}\n{table(policies, heuristics)}")
    picture = study.folder / "limits.png"
    write_whole(picture, to_png(draw(result)))
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
