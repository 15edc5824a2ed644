"""The learning curve of a training run, with the heuristics it is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from rlsched.evaluate.measures import measure
from rlsched.jobs import FloatArray
from rlsched.report.style import (
    HEURISTIC,
    LEARNED,
    MUTED,
    house_style,
    new_figure,
    quiet_axes,
    shortened,
    value_axis,
)
from rlsched.report.words import Scale, number, scale_for

HEURISTICS_SHOWN = 6
"""Heuristics beside a learning curve, the best ones."""


@dataclass(frozen=True, eq=False)
class Curve:
    """How a metric moved while one run trained.

    Attributes:
        name: of the run.
        steps: (points,) environment steps so far.
        values: (points,) the metric on training episodes.
        validation_steps: (checks,) environment steps at which the policy was validated.
        validation_values: (checks,) the metric on validation episodes.
        kept: (checks,) True where the policy was the best so far, hoarding considered; the last is marked.
    """

    name: str
    steps: FloatArray
    values: FloatArray
    validation_steps: FloatArray
    validation_values: FloatArray
    kept: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """A picture to draw: one metric of one or more runs, with heuristics for comparison.

    Attributes:
        metric: its name.
        curves: one per run.
        heuristics: name to mean on the validation episodes.
    """

    metric: str
    curves: Sequence[Curve]
    heuristics: Mapping[str, float]


def draw_learning(learning: LearningCurves) -> Figure:
    """Steps against the metric: training as a line, validation as points, heuristics as grey lines.

    Raises:
        ValueError: no curve has a point.
    """
    if not any(len(curve.steps) + len(curve.validation_steps) for curve in learning.curves):
        raise ValueError("no curve has a point: train for at least one iteration")
    meaning = measure(learning.metric)
    points = np.concatenate([part for c in learning.curves for part in (c.values, c.validation_values)])
    near, far = _split_heuristics(learning, points)
    everything = np.concatenate([points, np.array(list(near.values()), dtype=np.float64)])
    scale = scale_for(meaning.unit, everything.tolist())
    with house_style():
        figure = new_figure(9.0, 5.0)
        axes = figure.add_subplot()
        for k, curve in enumerate(learning.curves):
            _draw_curve(axes, curve, LEARNED[k % len(LEARNED)], scale, meaning.lower_is_better)
        value_axis(axes, "y", (everything * scale.factor).tolist())
        last = max(
            float(part.max())
            for curve in learning.curves
            for part in (curve.steps, curve.validation_steps)
            if len(part)
        )
        axes.set_xlim(0, last * 1.02 or 1.0)
        _draw_heuristics(axes, near, scale)
        quiet_axes(axes, "both")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
        beyond = ", ".join(f"{name} {scale(value)}" for name, value in far.items())
        axes.set_xlabel("environment steps" + (f"\nbeyond this axis: {beyond}" if far else ""))
        unit = scale.suffix.strip()
        axes.set_title(learning.metric.replace("_", " ") + (f" ({unit})" if unit else ""))
        arrow = "lower is better" if meaning.lower_is_better else "higher is better"
        axes.set_title(arrow, loc="right", fontsize=8.5, fontweight="normal", color=MUTED)
        figure.legend(loc="outside lower center", ncols=4, fontsize=8.5)
    return figure


def _draw_curve(axes: Axes, curve: Curve, colour: str, scale: Scale, lower_is_better: bool) -> None:
    name = shortened(curve.name)
    if len(curve.steps):
        axes.plot(
            curve.steps, curve.values * scale.factor, color=colour, alpha=0.45, linewidth=1.3,
            label=f"{name}, training",
        )  # fmt: skip
    checks = curve.validation_values * scale.factor
    if len(checks):
        axes.plot(
            curve.validation_steps, checks, "o-", color=colour, markersize=4.5, linewidth=1.6,
            label=f"{name}, validation",
        )  # fmt: skip
    if curve.kept.any():
        best = int(np.flatnonzero(curve.kept)[-1])
        at = (float(curve.validation_steps[best]), float(checks[best]))
        axes.plot(*at, "o", color=colour, markersize=9, markerfacecolor="white", markeredgewidth=2, zorder=5)
        axes.annotate(
            f"kept {number(at[1])}",
            at,
            xytext=(0, -12 if lower_is_better else 9),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=8.5,
            fontweight="bold",
            color=colour,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.0},
        )


def _split_heuristics(
    learning: LearningCurves, points: FloatArray
) -> tuple[dict[str, float], dict[str, float]]:
    """The heuristics to draw and those to name only, best first.

    A heuristic far off would press the curves flat; the best one is always drawn.
    """
    sign = 1.0 if measure(learning.metric).lower_is_better else -1.0
    measured = {name: value for name, value in learning.heuristics.items() if isfinite(value)}
    ranked = sorted(measured.items(), key=lambda item: sign * item[1])[:HEURISTICS_SHOWN]
    finite = points[np.isfinite(points)]
    low, high = (finite.min(), finite.max()) if len(finite) else (-np.inf, np.inf)
    room = high - low
    near = {
        name: value for k, (name, value) in enumerate(ranked) if k == 0 or low - room <= value <= high + room
    }
    return near, {name: value for name, value in ranked if name not in near}


def _draw_heuristics(axes: Axes, heuristics: Mapping[str, float], scale: Scale) -> None:
    """Dashed grey lines, named at the right edge; names of close values are moved apart."""
    for value in heuristics.values():
        axes.axhline(value * scale.factor, color=HEURISTIC, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    axes.autoscale_view()
    rising = sorted(heuristics.items(), key=lambda item: item[1])
    heights = [_height(axes, value * scale.factor) for _, value in rising]
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + 0.05)
    for (name, value), height in zip(rising, heights, strict=True):
        axes.annotate(
            f"{shortened(name, 28)}  {scale(value)}",
            (1.015, height),
            xycoords="axes fraction",
            va="center",
            fontsize=8.5,
            color=MUTED,
        )


def _height(axes: Axes, value: float) -> float:
    """Where a value stands on the y axis, 0 bottom to 1 top."""
    pixel = axes.transData.transform((axes.get_xlim()[0], value))
    return float(axes.transAxes.inverted().transform(pixel)[1])


def _count(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g} {suffix}"
    return f"{value:g}"
