"""The comparison picture of an evaluation: every policy, metric by metric, with intervals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil, isnan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlsched.evaluate.measures import measure
from rlsched.evaluate.statistics import PolicyLabel, SummaryRow, headline, order_by
from rlsched.report.style import (
    HEURISTIC,
    INK,
    LEARNED,
    MUTED,
    house_style,
    new_figure,
    quiet_axes,
    right_title,
    shortened,
    value_axis,
)
from rlsched.report.words import count_of, labelled, number, scale_for

HEURISTICS_SHOWN = 12  # heuristics per panel, best first; the tables of the report hold all of them

WIDTH_IN = 12.0


def learned_colours(rows: Iterable[SummaryRow]) -> dict[PolicyLabel, str]:
    """One colour per learned policy, the same in every picture."""
    learned = dict.fromkeys(row.label for row in rows if row.learned)
    return {label: LEARNED[k % len(LEARNED)] for k, label in enumerate(learned)}


def draw_comparison(
    rows: Sequence[SummaryRow], metrics: Sequence[str] | None = None, hoarders: Collection[PolicyLabel] = ()
) -> Figure:
    """Draw a panel per metric: means with 95 % intervals, best on top, learned policies in colour.

    Without metrics, those of the headline are drawn. Hoarders, whose results do not count, are drawn hollow.

    Raises:
        ValueError: none of the metrics was measured.
    """
    if metrics is None:
        metrics = headline(rows)
    panels = {metric: _drawn_rows(rows, metric) for metric in metrics}
    panels = {metric: chosen for metric, chosen in panels.items() if chosen[0]}
    if not panels:
        raise ValueError(f"none of {', '.join(metrics)} was measured: evaluate at least one policy")
    colours = learned_colours(rows)
    columns = min(2, len(panels))
    lines = ceil(len(panels) / columns)
    tallest = max(len(chosen) for chosen, _ in panels.values())
    with house_style():
        figure = new_figure(WIDTH_IN, lines * (0.26 * tallest + 1.15) + 0.35, wspace=0.06, hspace=0.06)
        for k, (metric, (chosen, hidden)) in enumerate(panels.items()):
            axes = figure.add_subplot(lines, columns, k + 1)
            _draw_metric(axes, metric, chosen, hidden, colours, hoarders)
        episodes = max(row.episodes for row in rows)
        seeds = max(row.seeds for row in rows)
        figure.supxlabel(
            f"mean and 95 % interval over {count_of(episodes, 'episode')}"
            + (f" and up to {seeds} seeds;" if seeds > 1 else ";")
            + " dashed: best heuristic; best on top"
            + ("; hollow: does not count, hoards jobs" if hoarders else ""),
            fontsize=8.5,
            color=MUTED,
        )
    return figure


def _drawn_rows(rows: Sequence[SummaryRow], metric: str) -> tuple[list[SummaryRow], int]:
    """The rows to draw, best first, and the number of heuristics that are left out."""
    ordered = [row for row in order_by(rows, metric) if not isnan(row.mean)]
    best = {id(row) for row in [row for row in ordered if not row.learned][:HEURISTICS_SHOWN]}
    chosen = [row for row in ordered if row.learned or id(row) in best]
    return chosen, len(ordered) - len(chosen)


def _draw_metric(
    axes: Axes,
    metric: str,
    rows: list[SummaryRow],
    hidden: int,
    colours: Mapping[PolicyLabel, str],
    hoarders: Collection[PolicyLabel],
) -> None:
    meaning = measure(metric)
    scale = scale_for(meaning.unit, [row.high for row in rows])
    best = next((row.mean for row in rows if not row.learned), None)  # rows are sorted
    if best is not None:
        axes.axvline(best * scale.factor, color=HEURISTIC, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    for height, row in enumerate(reversed(rows)):
        colour = colours.get(row.label, HEURISTIC)
        low, mean, high = (value * scale.factor for value in (row.low, row.mean, row.high))
        axes.hlines(height, low, high, color=colour, linewidth=2.6, alpha=0.45)
        fill, size = "white" if row.label in hoarders else colour, 6.5 if row.learned else 5.0
        axes.plot(mean, height, "o", color=colour, mfc=fill, markeredgewidth=1.6, markersize=size)
        look: dict[str, Any] = {"color": colour, "fontweight": "bold"} if row.learned else {"color": MUTED}
        place = ("axes fraction", "data")
        axes.annotate(number(mean), (1.01, height), None, place, va="center", fontsize=8.5, **look)
    axes.set_yticks(range(len(rows)), [shortened(str(row.label), 30) for row in reversed(rows)])
    for label, row in zip(axes.get_yticklabels(), reversed(rows), strict=True):
        label.set_color(colours.get(row.label, INK))
        label.set_fontweight("bold" if row.learned else "normal")
    axes.set_ylim(-0.7, len(rows) - 0.3)
    arrow = "lower is better" if meaning.lower_is_better else "higher is better"
    axes.set_title(labelled(metric, scale))
    right_title(axes, arrow)
    ends = [value * scale.factor for row in rows for value in (row.low, row.high)]
    value_axis(axes, "x", ends)
    quiet_axes(axes, "x")
    axes.spines["left"].set_visible(False)
    if hidden:
        axes.set_xlabel(f"{count_of(hidden, 'weaker heuristic')} not drawn", fontsize=8)
