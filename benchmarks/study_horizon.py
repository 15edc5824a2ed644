"""What a longer plan and a larger choice are worth on green-10: a learned policy beside the common orders.

Two series with one cell in common: the planning horizon at a ready pool of 5 jobs, and the ready pool at a
horizon of 48 ticks. A priority function that plans on the horizon is searched for on green-10 as it is, and
in every cell the search goes on from there. What is found is evaluated with every common order under both
placements on 24 paired episodes that no training saw; they are the same ones in all cells. What a search may
take is a number of decisions, not of minutes: a busy machine gets the same results, later; on one quiet core
5 minutes for the first, and 2 for each cell. Two searches at a time, each with half of the cores.
Run: `make study-horizon`, or with `--seeds 1 --scale 0.002` for a look; what was done is not done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.studies import (
    GOING_ON_STEPS,
    SEARCH,
    SEARCH_STEPS,
    StudyOptions,
    ahead,
    best_heuristic,
    evaluate,
    going_on_from,
    study_options,
    train,
)
from rlsched.evaluate.statistics import EpisodeResult, SummaryRow, Table, summarise
from rlsched.files import write_whole
from rlsched.report.style import LEARNED, MUTED, house_style, new_figure, quiet_axes, to_png

SHORTER = {5: 1.0, 15: 0.75, 25: 0.6, 50: 0.4, 144: 0.15}
"""Share of decisions that a search has by ready pool: those among more jobs take longer."""

POLICY = "learned"
"""What all seeds of a cell together are called."""

PLACEMENTS = {"now": "orders that start what fits now", "horizon": "orders that plan on the horizon"}
COLOURS = {
    "packing": "#9a7437",
    "sjf": "#9c5f78",
    "qos": "#5f8f78",
    "hvf": "#7d70a8",
    "fcfs": "#5f636b",
    "random": "#9298a3",
}
LABEL_GAP = 0.055  # share of the axis's height that a line of text takes


class Cell(NamedTuple):
    """One setting: ticks that are planned, and ready jobs to choose among."""

    horizon: int
    pool: int

    def __str__(self) -> str:
        return f"horizon-{self.horizon}-pool-{self.pool}"


@dataclass(frozen=True)
class Series:
    """Cells that differ in one number.

    Attributes:
        label: what that number is, with its unit.
        cells: by the number.
        published: how much more than sjf the policy of Venkataswamy 2023 earns; of some numbers only.
    """

    label: str
    cells: Mapping[int, Cell]
    published: Mapping[int, str]


SERIES = {
    "horizon": Series(
        "planning horizon (ticks)",
        {horizon: Cell(horizon, 5) for horizon in (36, 48, 60, 72)},
        {36: "+4 %", 72: "+14 %"},
    ),
    "pool": Series(
        "ready pool (jobs)",
        {pool: Cell(48, pool) for pool in SHORTER},
        {15: "+18 % (its best)"} | dict.fromkeys((25, 50, 144), "+4 to +7 %"),
    ),
}
CELLS = {str(cell): cell for series in SERIES.values() for cell in series.cells.values()}
PUBLISHED = {series.cells[x]: share for series in SERIES.values() for x, share in series.published.items()}


def settings(cell: Cell) -> list[str]:
    """The scenario of a cell."""
    words = ["--scenario", "green-10", "--set", "decision.placement=horizon"]
    return [*words, "--set", f"decision.horizon={cell.horizon}", "--set", f"decision.window={cell.pool}"]


def first(study: StudyOptions, seed: int) -> Path:
    """The run that all cells go on from."""
    return study.folder / f"first-{seed}"


def begin(study: StudyOptions, seed: int) -> None:
    """Search on green-10 as it is."""
    words = ["--scenario", "green-10", "--set", "decision.placement=horizon", *SEARCH]
    steps = ["--steps", str(round(study.scale * SEARCH_STEPS))]
    train(first(study, seed), [*words, *steps], seed=seed, threads=study.threads)


def learn(study: StudyOptions, name: str, seed: int) -> None:
    """Search on for the priority function of a cell."""
    cell = CELLS[name]
    words = [*settings(cell), *going_on_from(first(study, seed))]
    steps = ["--steps", str(round(study.scale * GOING_ON_STEPS * SHORTER[cell.pool]))]
    train(study.folder / f"{name}-{seed}", [*words, *steps], seed=seed, threads=study.threads)


def with_mean_of_seeds(results: Sequence[EpisodeResult]) -> list[EpisodeResult]:
    """The same, and a policy that reaches in every episode what the seeds reach there on average."""
    by_episode: dict[int, list[EpisodeResult]] = {}
    for result in results:
        if result.learned:
            by_episode.setdefault(result.episode, []).append(result)
    means = []
    for seeds in by_episode.values():
        metrics = {name: float(np.mean([seed.metrics[name] for seed in seeds])) for name in seeds[0].metrics}
        means.append(replace(seeds[0], policy=POLICY, metrics=metrics))
    return [*results, *means]


def check_same_episodes(cells: Mapping[Cell, Sequence[EpisodeResult]]) -> None:
    """Episodes are the same where jobs of the same value were submitted in each.

    Raises:
        SystemExit: they are not, so cells must not be compared.
    """
    submitted = {
        cell: [r.metrics["job_value"] / r.metrics["job_value_ratio"] for r in results if r.policy == POLICY]
        for cell, results in cells.items()
    }
    first_cell, first = next(iter(submitted.items()))
    for cell, values in submitted.items():
        if len(values) != len(first) or not np.allclose(values, first, rtol=1e-9):
            raise SystemExit(f"{cell} was evaluated on other episodes than {first_cell}: remove its .json")


class Line(NamedTuple):
    """A policy in all cells: its name, its colour and the shares of value that it earns, in per cent."""

    name: str
    colour: str
    values: list[float]


def of_order(rows: Sequence[SummaryRow], order: str, placement: str) -> SummaryRow:
    """The row of a heuristic."""
    return next(row for row in rows if (row.policy, row.backfill) == (order, placement))


def of_policy(rows: Sequence[SummaryRow]) -> SummaryRow:
    """The row of all seeds together."""
    return next(row for row in rows if row.policy == POLICY)


def of_seeds(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """The rows of the single seeds."""
    return [row for row in rows if row.learned and row.policy != POLICY]


def draw(label: str, cells: Mapping[int, Sequence[SummaryRow]]) -> Figure:
    """The share of value that is earned: a panel of orders for each placement, the learned policy in both.

    Orders that plan on the horizon differ little: with the others in one panel they could not be told apart.
    Where the learned policy has several seeds, each is a dot.

    Args:
        label: what the number is by which the cells are told apart, with its unit.
        cells: rows of `job_value_ratio` of all policies, by that number.
    """
    learned = [of_policy(rows) for rows in cells.values()]
    several = any(len(of_seeds(rows)) > 1 for rows in cells.values())
    with house_style():
        figure = new_figure(11.0, 4.8)
        panels = figure.subplots(1, len(PLACEMENTS), sharey=True)
        named = []
        for axes, (placement, title) in zip(panels, PLACEMENTS.items(), strict=True):
            lines = [
                Line(order, colour, [100 * of_order(rows, order, placement).mean for rows in cells.values()])
                for order, colour in COLOURS.items()
            ]
            for line in lines:
                axes.plot(line.values, "o-", color=line.colour, linewidth=1.4, markersize=3)
            lines.append(_draw_learned(axes, learned))
            for x, rows in enumerate(cells.values()):
                for seed in of_seeds(rows):
                    axes.plot(x, 100 * seed.mean, "o", color=LEARNED[0], markersize=2.5)
            axes.set_title(title)
            axes.set_xticks(range(len(cells)), [str(x) for x in cells])
            axes.set_xlabel(label)
            axes.set_xlim(-0.15, len(cells) - 0.9)
            quiet_axes(axes, "y")
            named.append(lines)
        for axes, lines in zip(panels, named, strict=True):  # their height is known now: they share it
            _name(axes, lines)
        panels[0].set_ylabel("value of finished jobs, of all submitted (%)")
        figure.supxlabel(
            f"means over {learned[0].episodes} episodes, the same everywhere. The learned policy plans on "
            "the horizon and is in both panels;\nits band is the 95 % interval of the mean: "
            "most of it is the luck of the episodes, which all policies share"
            + ("; small dots: its seeds" if several else ""),
            fontsize=8.5,
            color=MUTED,
        )
    return figure


def _draw_learned(axes: Axes, rows: Sequence[SummaryRow]) -> Line:
    low, mean, high = ([100 * getattr(row, end) for row in rows] for end in ("low", "mean", "high"))
    axes.fill_between(range(len(rows)), low, high, color=LEARNED[0], alpha=0.13, linewidth=0, zorder=1)
    axes.plot(mean, "o-", color=LEARNED[0], linewidth=2.8, markersize=6, zorder=4)
    return Line(POLICY, LEARNED[0], mean)


def _name(axes: Axes, lines: Sequence[Line]) -> None:
    """The names of lines at their ends; those of close ends are moved apart, and led to."""
    rising = sorted(lines, key=lambda line: line.values[-1])
    bottom, top = axes.get_ylim()
    heights = [(line.values[-1] - bottom) / (top - bottom) for line in rising]
    for _ in range(100):  # more than enough for all of them to come to rest
        for k in range(1, len(heights)):
            missing = max(0.0, LABEL_GAP - (heights[k] - heights[k - 1]))
            heights[k - 1] = max(0.0, heights[k - 1] - missing / 2)
            heights[k] = min(1.0, heights[k] + missing / 2)
    for line, height in zip(rising, heights, strict=True):
        end = (line.values[-1] - bottom) / (top - bottom)
        axes.plot(
            [1.015, 1.055], [end, height], transform=axes.transAxes, color=line.colour, linewidth=0.8,
            clip_on=False,
        )  # fmt: skip
        axes.annotate(
            f"{line.name}  {line.values[-1]:.1f}",
            (1.065, height),
            xycoords="axes fraction",
            va="center",
            fontsize=8.5,
            fontweight="bold" if line.name == POLICY else "normal",
            color=line.colour,
        )


def table(cells: Mapping[Cell, Sequence[SummaryRow]]) -> str:
    """How far the learned policy is ahead, cell by cell, from the rows of `job_value`."""
    form = "{:<20} {:<16} {:<24} {:>9} {:>12}   {:<16} {}"
    head = ("cell", "best heuristic", "learned - best", "- sjf:now", "- sjf:horizon", "published - sjf")
    lines = [form.format(*head, "each seed - best")]
    for cell, rows in cells.items():
        best, learned = best_heuristic(rows), of_policy(rows)
        sjf = [f"{100 * (learned.mean / of_order(rows, 'sjf', p).mean - 1):+.1f} %" for p in PLACEMENTS]
        seeds = " ".join(f"{100 * (seed.mean / best.mean - 1):+.2f}" for seed in of_seeds(rows))
        known = PUBLISHED.get(cell, "-")
        lines.append(
            form.format(str(cell), f"{best.policy}:{best.backfill}", ahead(learned, best), *sjf, known, seeds)
        )
    lines += [
        "Differences of total value in per cent of the other's, with the 95 % interval over paired episodes.",
        "Published: Venkataswamy 2023, the policy there over the sjf there.",
    ]
    return "\n".join(lines)


def save(figure: Figure, path: Path) -> None:
    """As PNG and as SVG; the same figure gives the same files."""
    write_whole(path.with_suffix(".png"), to_png(figure))
    with house_style(), rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


def main() -> None:
    """Search, evaluate, tell, draw."""
    study = study_options(__doc__, CELLS, "runs/study-horizon")
    study.for_seeds(partial(begin, study))
    study.learn(partial(learn, study))
    if len(study.cases) < len(CELLS):
        print(f"no pictures yet: {len(study.cases)} of {len(CELLS)} cells were asked for")
        return
    results = {}
    for name, cell in CELLS.items():
        runs = [study.folder / f"{name}-{seed}" for seed in range(study.seeds)]
        result = evaluate(runs, settings(cell), study.folder / f"{name}.json")
        results[cell] = with_mean_of_seeds(result)
    check_same_episodes(results)
    rows = {cell: summarise(Table.of(result)) for cell, result in results.items()}
    values = {cell: [row for row in result if row.metric == "job_value"] for cell, result in rows.items()}
    print(table(values))
    for name, series in SERIES.items():
        shares = {
            x: [row for row in rows[cell] if row.metric == "job_value_ratio"]
            for x, cell in series.cells.items()
        }
        save(draw(series.label, shares), study.folder / name)
        print(f"picture: {study.folder / name}.png")


if __name__ == "__main__":
    main()
