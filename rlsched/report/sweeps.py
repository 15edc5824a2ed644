"""The report of a sweep: objectives by searched setting, the Pareto front, and a table of all trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlsched.evaluate.measures import measure
from rlsched.jobs import FloatArray
from rlsched.report.html import version_section
from rlsched.report.markup import fact_list, head, image, page, section, settings_text, table
from rlsched.report.style import (
    HEURISTIC,
    LEARNED,
    MUTED,
    house_style,
    new_figure,
    quiet_axes,
    to_png,
    value_axis,
)
from rlsched.report.words import Scale, in_words, labelled, number, scale_for

COLUMNS = 4  # panels per row
WORDS = 12  # most characters of a textual setting below an axis

ALL, BEST, FRONT = HEURISTIC, LEARNED[1], LEARNED[0]


@dataclass(frozen=True, eq=False)
class TrialRow:
    """A trial."""

    name: str  # of its folder
    settings: Mapping[str, float | str]  # searched setting to its value, a number or a text
    values: FloatArray  # (objective, seed) results; NaN if unknown
    whole: bool  # every seed was trained to its end
    front: bool  # it is on the Pareto front
    excess: float  # violation of limits as a share, mean over seeds; 0: limits are met
    steps: int  # training decisions, summed over seeds
    seconds: float  # training time, summed over seeds

    @property
    def means(self) -> FloatArray:
        """(objective,) means over seeds with known results."""
        known = [values[np.isfinite(values)] for values in self.values]
        return np.array([values.mean() if len(values) else np.nan for values in known])


@dataclass(frozen=True, eq=False)
class SweepResult:
    """Data of a report on a sweep."""

    title: str
    description: str
    objectives: Mapping[str, bool]  # name to whether lower is better; trials are ranked by the first
    trials: Sequence[TrialRow]  # best first
    facts: Mapping[str, str]  # about the search, to be listed
    settings: str  # the sweep as YAML
    limited: bool  # policies have limits to meet

    @property
    def keys(self) -> list[str]:
        """Names of the searched settings."""
        return list(self.trials[0].settings) if self.trials else []

    @property
    def reached(self) -> list[int]:
        """Indices of objectives that are not searched settings."""
        return [k for k, name in enumerate(self.objectives) if name not in self.keys]


def render_sweep(result: SweepResult) -> tuple[str, dict[str, bytes]]:
    """The page, and its pictures by file name."""
    pictures: dict[str, tuple[str, bytes]] = {}
    if any(np.isfinite(trial.values).any() for trial in result.trials) and result.reached:
        marked = "; blue: on the front" if len(result.objectives) > 1 else ""
        caption = (
            f"Objectives by searched setting: means of seeds, with their range; orange: the best{marked}"
        )
        pictures["settings.png"] = (caption, to_png(draw_settings(result)))
        if len(result.objectives) > 1:
            first, second = list(result.objectives)[:2]
            caption = f"{in_words(first)} against {in_words(second)}; blue: the Pareto front"
            pictures["front.png"] = (caption, to_png(draw_front(result)))
    facts = {escape(name): escape(value) for name, value in result.facts.items()}
    parts = [
        head(result.title, result.description),
        section("In short", "".join(f"<p>{escape(line)}</p>" for line in findings(result))),
        section("What was searched", fact_list(facts) + settings_text(result.settings)),
        *(section(caption, image(caption, png)) for caption, png in pictures.values()),
        section("Trials", trial_table(result)),
        version_section(),
    ]
    return page(escape(result.title), "\n".join(parts)), {name: png for name, (_, png) in pictures.items()}


def findings(result: SweepResult) -> list[str]:
    """The result in words."""
    whole = [trial for trial in result.trials if trial.whole]
    if not whole:
        return [f"None of {len(result.trials)} trials has ended yet."]
    name = next(iter(result.objectives))
    best = whole[0]
    scale = scale_of(result, 0)
    settings_text = ", ".join(f"{key} {_value_text(value)}" for key, value in best.settings.items())
    low, high = np.nanmin(best.values[0]), np.nanmax(best.values[0])
    seeds = f" (seeds {scale(low)} to {scale(high)})" if best.values[0].size > 1 else " (one seed)"
    lines = [f"Best {in_words(name)}: {scale(best.means[0])}{scale.suffix}{seeds} with {settings_text}."]
    if result.limited:
        met = sum(trial.excess <= 0 for trial in whole)
        lines.append(f"{met} of {len(whole)} trials meet their limits in validation, with every seed.")
    rivals = [trial for trial in whole[1:] if trial.excess == best.excess]
    reach = [(np.nanmin(trial.values[0]), np.nanmax(trial.values[0])) for trial in rivals]
    close = sum(bool(lowest <= high and highest >= low) for lowest, highest in reach)
    if close:
        trials = "another trial" if close == 1 else f"{close} other trials"
        lines.append(f"Seeds of {trials} reach into its range: the ranking is uncertain.")
    return lines


def trial_table(result: SweepResult) -> str:
    """A table of all trials, best first."""
    scales = [scale_of(result, k) for k in range(len(result.objectives))]
    header = ["Trial", *map(escape, result.keys)]
    header += [escape(labelled(list(result.objectives)[k], scales[k])) for k in result.reached]
    header += (["Limits"] if result.limited else []) + ["Decisions", "Minutes"]
    rows = []
    for trial in result.trials:
        tags = ' <span class="tag learned">front</span>' if trial.front and len(result.objectives) > 1 else ""
        tags += "" if trial.whole else ' <span class="tag bad">not ended</span>'
        row = [escape(trial.name) + tags, *(escape(_value_text(value)) for value in trial.settings.values())]
        for k in result.reached:
            spread = _range(trial.values[k], scales[k])
            row.append(f'{scales[k](trial.means[k])} <span class="range">{spread}</span>')
        if result.limited:
            row.append("met" if trial.excess <= 0 else f"exceeded by {100 * trial.excess:.1f} %")
        rows.append([*row, f"{trial.steps:,}", f"{trial.seconds / 60:.1f}"])
    return table(header, rows, "Means over seeds [lowest, highest seed], best first.")


def _range(values: FloatArray, scale: Scale) -> str:
    known = values[np.isfinite(values)]
    return f"[{scale(known.min())}, {scale(known.max())}]" if len(known) else ""


def draw_settings(result: SweepResult) -> Figure:
    """Draw a panel for each objective and searched setting: trials as points, the best in colour."""
    keys = result.keys
    pairs = [(place, k, key) for place, k in enumerate(result.reached) for key in keys]
    columns = min(COLUMNS, len(keys))
    rows = -(-len(keys) // columns) * len(result.reached)
    with house_style():
        figure = new_figure(3.6 * max(2, columns), 2.9 * rows)
        for place, k, key in pairs:
            first = place * -(-len(keys) // columns) * columns
            _draw_setting(figure.add_subplot(rows, columns, first + keys.index(key) + 1), result, k, key)
    return figure


def _draw_setting(axes: Axes, result: SweepResult, k: int, key: str) -> None:
    name, scale = list(result.objectives)[k], scale_of(result, k)
    inputs = [trial.settings[key] for trial in result.trials]
    numeric = all(not isinstance(value, str) for value in inputs)
    words = list(dict.fromkeys(map(_value_text, inputs)))
    at = [float(v) if numeric else float(words.index(_value_text(v))) for v in inputs]
    outputs: list[float] = []
    best = next((trial for trial in result.trials if trial.whole), None)
    for trial, x in zip(result.trials, at, strict=True):
        values = trial.values[k][np.isfinite(trial.values[k])] * scale.factor
        if not len(values):
            continue
        colour = BEST if trial is best else FRONT if trial.front and len(result.objectives) > 1 else ALL
        axes.vlines(
            x, values.min(), values.max(), color=colour, linewidth=1.2, alpha=0.6, capstyle="projecting"
        )
        axes.plot([x], [values.mean()], "o", color=colour, markersize=5, zorder=3 if colour != ALL else 2)
        outputs += values.tolist()
    if numeric:
        value_axis(axes, "x", at)
    else:
        axes.set_xticks(range(len(words)), [word[:WORDS] for word in words])
        axes.set_xlim(-0.6, len(words) - 0.4)
    value_axis(axes, "y", outputs)
    quiet_axes(axes, "y")
    axes.set_title(labelled(name, scale), fontsize=9)
    axes.set_xlabel(key)


def draw_front(result: SweepResult) -> Figure:
    """Draw the first two objectives against each other; the front is joined if there are only two."""
    names, scales = list(result.objectives)[:2], [scale_of(result, k) for k in (0, 1)]
    with house_style():
        figure = new_figure(7.5, 5.0)
        axes = figure.add_subplot()
        points = []
        for trial in result.trials:
            if not np.isfinite(trial.means[:2]).all():
                continue
            colour = FRONT if trial.front else ALL
            ys, xs = (trial.values[k][np.isfinite(trial.values[k])] * scales[k].factor for k in (0, 1))
            y, x = (trial.means[k] * scales[k].factor for k in (0, 1))
            axes.hlines(y, xs.min(), xs.max(), color=colour, linewidth=1, alpha=0.5, capstyle="projecting")
            axes.vlines(x, ys.min(), ys.max(), color=colour, linewidth=1, alpha=0.5, capstyle="projecting")
            axes.plot([x], [y], "o", color=colour, markersize=6, zorder=3)
            if trial.front:
                points.append((x, y, ", ".join(_value_text(value) for value in trial.settings.values())))
        points.sort()
        if len(names) == len(result.objectives):
            axes.plot([p[0] for p in points], [p[1] for p in points], color=FRONT, linewidth=1.4, alpha=0.6)
        for x, y, label in points:
            axes.annotate(label, (x, y), textcoords="offset points", xytext=(6, -10), fontsize=7, color=MUTED)
        quiet_axes(axes, "both")
        for axis_index, put in ((1, axes.set_xlabel), (0, axes.set_ylabel)):
            better = "lower" if result.objectives[names[axis_index]] else "higher"
            put(f"{labelled(names[axis_index], scales[axis_index])}, {better} is better")
    return figure


def scale_of(result: SweepResult, k: int) -> Scale:
    """The scale of an objective; searched settings are not scaled."""
    name = list(result.objectives)[k]
    if name in result.keys:
        return Scale(1.0, "")
    return scale_for(measure(name).unit, [float(v) for trial in result.trials for v in trial.values[k]])


def _value_text(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)
