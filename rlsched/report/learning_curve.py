"""The learning curve of a training run, with heuristics for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from pathlib import Path
from textwrap import fill
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.evaluate.measures import measure
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.jobs import FloatArray
from rlsched.json_files import parse_json
from rlsched.learn.folder import RunFolder
from rlsched.report.style import (
    HEURISTIC,
    LEARNED,
    LOG_FROM,
    MUTED,
    house_style,
    new_figure,
    quiet_axes,
    right_title,
    shortened,
    value_axis,
)
from rlsched.report.words import Scale, labelled, number, scale_for

HEURISTICS_SHOWN = 6  # number of heuristics drawn with a learning curve, best first
DEEPEST = 3  # levels of folders between a run and a policy in it, as in checkpoints/000010/policy
NAME_GAP = 0.05  # least distance between the labels of two heuristics, as a share of the axis
NOTE_WIDTH = 110  # characters per line below the axis
_NO_BREAK = "\N{NO-BREAK SPACE}"  # keeps the name of a heuristic in one line of a note


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric over the training of a run."""

    name: str  # of the run
    steps: FloatArray  # (points,) decisions so far
    values: FloatArray  # (points,) the metric on training episodes
    validation_steps: FloatArray  # (checks,) decisions after which the policy was validated
    validation_values: FloatArray  # (checks,) the metric on validation episodes
    selected: NDArray[np.bool_]  # (checks,) True where the policy was the best so far and did not hoard

    @property
    def all_steps(self) -> FloatArray:
        """Decisions of all points."""
        return np.concatenate([self.steps, self.validation_steps])


@dataclass(frozen=True, eq=False)
class LearningCurves:
    """A picture to draw: one metric of one or more runs, with heuristics for comparison."""

    metric: str  # its name
    curves: Sequence[Curve]  # one per run
    heuristics: Mapping[str, float]  # name to mean on the validation episodes

    @property
    def caption(self) -> str:
        """Caption of the picture, with the best heuristic of validation."""
        sign = 1.0 if measure(self.metric).lower_is_better else -1.0
        title = f"Learning curve: {self.metric.replace('_', ' ')}"
        if not self.heuristics:
            return title
        name, value = min(self.heuristics.items(), key=lambda item: sign * item[1])
        return f"{title}; best heuristic in validation: {name} {value:.4g}"


def learning_of(policies: Sequence[Path]) -> list[LearningCurves]:
    """Learning curves of the runs of these policies; runs with the same validation share a picture.

    Policies outside of runs, and runs without points, are left out.

    Raises:
        BadInputError: files of a run are damaged.
    """
    curves: dict[tuple[str, tuple[tuple[str, float], ...]], list[Curve]] = {}
    for folder in _runs(policies):
        try:
            facts = parse_json(folder.validation.read_text("utf-8"))
            metric = facts["metric"]
            heuristics = []
            for name, values in facts["heuristics"].items():
                heuristic, _, rule = name.partition(":")
                heuristics.append((str(PolicyLabel(heuristic, rule or "greedy")), values[metric]))
            curve = curve_of(folder, metric)
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = f"its validation.json or metrics.csv is damaged ({error!r})"
            raise BadInputError(str(folder.path), problem, "restore or move it") from None
        if len(curve.all_steps):
            curves.setdefault((metric, tuple(heuristics)), []).append(curve)
    return [LearningCurves(metric, same, dict(pairs)) for (metric, pairs), same in curves.items()]


def _runs(policies: Sequence[Path]) -> list[RunFolder]:
    """The runs of these policies, without repeats, in their order."""
    folders: dict[Path, RunFolder] = {}
    for policy in policies:
        for path in (policy, *(policy.parents or policy.absolute().parents)[:DEEPEST]):
            folder = RunFolder(path)
            if folder.validation.is_file():
                folders.setdefault(path.resolve(), folder)
                break
    return list(folders.values())


def curve_of(folder: RunFolder, metric: str) -> Curve:
    """The learning curve of a run."""
    rows = folder.rows()

    def column(name: str) -> tuple[FloatArray, FloatArray]:
        points = [(float(row["steps"]), float(row[name])) for row in rows if row.get(name)]
        steps, values = np.array(points).reshape(-1, 2).T
        return steps, values

    selected = np.array([float(row["kept"]) > 0 for row in rows if row.get(f"validation_{metric}")], np.bool_)
    return Curve(str(folder.path), *column(metric), *column(f"validation_{metric}"), selected)


def draw_learning(learning: LearningCurves, colours: Mapping[str, str] = MappingProxyType({})) -> Figure:
    """Draw the metric over decisions: training as a line, validation as points, heuristics as grey lines.

    Runs have the colours that other pictures give them by name, or else unused ones.

    Raises:
        ValueError: no curve has a point.
    """
    if not any(len(curve.all_steps) for curve in learning.curves):
        raise ValueError("no curve has a point: train for at least one iteration")
    meaning = measure(learning.metric)
    points = np.concatenate([part for c in learning.curves for part in (c.values, c.validation_values)])
    near, far = _split_heuristics(learning, points)
    everything = np.concatenate([points, np.array(list(near.values()), dtype=np.float64)])
    scale = scale_for(meaning.unit, everything.tolist())
    free = [colour for colour in LEARNED if colour not in colours.values()] or list(LEARNED)
    with house_style():
        figure = new_figure(9.0, 5.0)
        axes = figure.add_subplot()
        for k, curve in enumerate(learning.curves):
            _draw_curve(axes, curve, colours.get(curve.name, free[k % len(free)]), scale)
        value_axis(axes, "y", (everything * scale.factor).tolist())
        _step_axis(axes, learning.curves)
        _draw_heuristics(axes, near, scale)
        quiet_axes(axes, "both")
        axes.set_xlabel(_notes(learning, far, scale))
        axes.set_title(labelled(learning.metric, scale))
        arrow = "lower is better" if meaning.lower_is_better else "higher is better"
        right_title(axes, arrow)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
    return figure


def _draw_curve(axes: Axes, curve: Curve, colour: str, scale: Scale) -> None:
    name = shortened(curve.name)
    checks = curve.validation_values * scale.factor
    if len(curve.steps):
        axes.plot(
            curve.steps, curve.values * scale.factor, color=colour, alpha=0.45, linewidth=1.3,
            label=None if len(checks) else name,
        )  # fmt: skip
    if curve.selected.any():
        best = int(np.flatnonzero(curve.selected)[-1])
        name += f", selected {number(float(checks[best]))}"
        axes.plot(
            curve.validation_steps[best], checks[best], "o", color=colour, markersize=9,
            markerfacecolor="white", markeredgewidth=2, zorder=5,
        )  # fmt: skip
    if len(checks):
        axes.plot(
            curve.validation_steps, checks, "o-", color=colour, markersize=4.5, linewidth=1.6, label=name
        )


def _step_axis(axes: Axes, curves: Sequence[Curve]) -> None:
    """Scale the axis of decisions: logarithmic if one run is much longer than another."""
    steps = [curve.all_steps for curve in curves if len(curve.all_steps)]
    ends = [float(part.max()) for part in steps]
    positive = np.concatenate(steps)
    positive = positive[positive > 0]
    last = max(ends) or 1.0
    if len(positive) and last > LOG_FROM * min(end for end in ends if end > 0):
        first = 10.0 ** floor(log10(positive.min()))
        axes.set_xscale("symlog", linthresh=first, linscale=0.4)
        axes.set_xlim(-0.15 * first, 1.3 * last)
        decades = range(round(log10(first)) + 1, ceil(log10(last)) + 1)  # the first one is too close to 0
        axes.xaxis.set_major_locator(FixedLocator([0.0, *(10.0**k for k in decades)]))
    else:
        axes.set_xlim(-0.015 * last, 1.02 * last)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))


def _notes(learning: LearningCurves, far: Mapping[str, float], scale: Scale) -> str:
    """The text below the axis."""
    signs = []
    if any(len(curve.validation_steps) for curve in learning.curves):
        signs.append("points: validation, the hollow one was selected")
    if any(len(curve.steps) for curve in learning.curves):
        signs.append("pale: training episodes")
    lines = ["decisions", "; ".join(signs)]
    if far:
        named = [f"{name} {scale(value)}".replace(" ", _NO_BREAK) for name, value in far.items()]
        lines.append(fill(f"beyond this axis: {', '.join(named)}", NOTE_WIDTH).replace(_NO_BREAK, " "))
    return "\n".join(lines)


def _split_heuristics(
    learning: LearningCurves, points: FloatArray
) -> tuple[dict[str, float], dict[str, float]]:
    """The heuristics to draw, and those to name below the axis only, best first.

    A distant heuristic would flatten the curves. The best one may be twice as far away as the others; it is
    always drawn if there is only one point.
    """
    sign = 1.0 if measure(learning.metric).lower_is_better else -1.0
    measured = {name: value for name, value in learning.heuristics.items() if isfinite(value)}
    ranked = sorted(measured.items(), key=lambda item: sign * item[1])[:HEURISTICS_SHOWN]
    finite = points[np.isfinite(points)]
    if len(finite) and finite.min() == finite.max():
        finite = np.append(finite, [value for _, value in ranked[:1]])
    low, high = (finite.min(), finite.max()) if len(finite) else (-np.inf, np.inf)
    room = high - low
    near = {
        name: value
        for k, (name, value) in enumerate(ranked)
        if max(low - value, value - high) <= (room if k else 2 * room)
    }
    return near, {name: value for name, value in ranked if name not in near}


def _draw_heuristics(axes: Axes, heuristics: Mapping[str, float], scale: Scale) -> None:
    """Draw dashed grey lines with labels at the right edge; labels of close values are moved apart."""
    for value in heuristics.values():
        axes.axhline(value * scale.factor, color=HEURISTIC, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    axes.autoscale_view()
    rising = sorted(heuristics.items(), key=lambda item: item[1])
    to_axes = axes.transData - axes.transAxes  # 0 is the bottom, 1 the top
    edge = axes.get_xlim()[0]
    places = [float(to_axes.transform((edge, value * scale.factor))[1]) for _, value in rising]
    heights = _apart(places, NAME_GAP)
    for (name, value), height in zip(rising, heights, strict=True):
        text = f"{shortened(name, 28)}  {scale(value)}"
        axes.annotate(text, (1.015, height), None, "axes fraction", va="center", fontsize=8.5, color=MUTED)


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move increasing heights as little as possible to a distance of `gap`, within the axis."""
    groups: list[list[float]] = []  # touching labels: their heights minus the gaps below
    for k, height in enumerate(heights):
        group = [height - k * gap]
        while groups and np.mean(groups[-1]) >= np.mean(group):
            group = groups.pop() + group
        groups.append(group)
    highest = 1.0 - gap * (len(heights) - 1)
    lowest = [min(max(float(np.mean(group)), gap / 2), highest) for group in groups for _ in group]
    return [low + k * gap for k, low in enumerate(lowest)]


def _count(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g} {suffix}"
    return f"{value:g}"
