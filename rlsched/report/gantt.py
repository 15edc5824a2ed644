"""The Gantt chart: an episode under several policies, processors over time, with the queue below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.report.packing import pack
from rlsched.report.style import INK, MUTED, house_style, new_figure, right_title, shortened, time_axis
from rlsched.report.words import time_unit, written
from rlsched.sim.metrics import Played, job_metrics

Colour = Literal["wait", "size"]
Clock = Callable[[IntArray], FloatArray]

WIDTH_IN, PANEL_IN, LEGEND_IN = 12.0, 3.6, 0.7

# from light (no wait) to dark (the longest waits)
_SHADES = ("#bfe3d8", "#7fcdbb", "#41a6c4", "#2b74b3", "#5b3a94", "#8e2a6f", "#3d0a33")
_WAIT_EDGES_S = (0.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 259_200.0)
_WAIT_NAMES = ("< 1 min", "< 10 min", "< 1 h", "< 6 h", "< 1 d", "< 3 d", "≥ 3 d")


@dataclass(frozen=True, eq=False)
class Schedule:
    """The schedule of a policy."""

    name: str
    jobs: JobTable
    start: IntArray  # (jobs,) ticks, -1 where a job never started


@dataclass(frozen=True, eq=False)
class Gantt:
    """Data of a Gantt chart: the same episode under one or more policies, on one time axis."""

    title: str  # name of the episode
    schedules: Sequence[Schedule]  # one panel each, from top to bottom
    processors: int  # units of the first resource, which is drawn
    tick_s: int = 1  # seconds per tick
    colour: Colour = "wait"  # quantity that the colour of a job shows


def draw_gantt(gantt: Gantt) -> Figure:
    """Draw jobs as rectangles, processors over time, and the number of waiting jobs below each panel.

    Processors are assigned for the picture (`pack`), since the simulator only counts units.

    Raises:
        ValueError: no schedule, no jobs, or a schedule that uses more processors than there are.
    """
    if not gantt.schedules or any(len(schedule.jobs) == 0 for schedule in gantt.schedules):
        raise ValueError(f"{gantt.title}: nothing to draw: give at least one schedule with jobs")
    first = min(int(schedule.jobs.submit.min()) for schedule in gantt.schedules)
    # jobs that never started count by their submit time
    ends = [np.where(s.start >= 0, s.start + s.jobs.runtime, s.jobs.submit).max() for s in gantt.schedules]
    last = int(max(ends))
    unit = time_unit((last - first) * gantt.tick_s)
    names, edges = _bins(gantt)
    shades = ListedColormap(_SHADES[: len(names)])

    def clock(ticks: IntArray) -> FloatArray:
        """Time since the first submit, in the unit of the axis."""
        return (ticks - first).astype(np.float64) * (gantt.tick_s / unit.seconds)

    with house_style():
        panels = len(gantt.schedules)
        figure = new_figure(WIDTH_IN, PANEL_IN * panels + LEGEND_IN, gantt.title, hspace=0.05)
        all_axes = list(figure.subplots(2 * panels, 1, sharex=True, height_ratios=[4.2, 1.0] * panels))
        longest = 1.0
        for schedule, chart, queue in zip(gantt.schedules, all_axes[::2], all_axes[1::2], strict=True):
            _draw_jobs(chart, schedule, gantt, clock, shades, edges)
            longest = max(longest, _draw_queue(queue, schedule, clock, last))
        span = (last - first) * gantt.tick_s / unit.seconds
        for axes in all_axes:
            axes.set_xlim(0, span * 1.005 if span else 1.0)
            time_axis(axes, span, unit, "x")
        for axes in all_axes[1::2]:
            axes.set_ylim(0, 1.05 * longest)
        all_axes[-1].set_xlabel(f"time since the first submit ({unit.name})")
        _legend(figure, all_axes, gantt, shades, names)
    return figure


def _bins(gantt: Gantt) -> tuple[tuple[str, ...], FloatArray]:
    """Labels of the colours, and the lower edges of their values."""
    if gantt.colour == "wait":
        return _WAIT_NAMES, np.array(_WAIT_EDGES_S)
    edges = gantt.processors / 2.0 ** np.arange(len(_SHADES) - 1, -1, -1)
    edges = np.unique(np.concatenate([[0.0], edges[:-1]]))
    names = [f"≤ {high:.0f}" for high in edges[1:]] + [f"> {edges[-1]:.0f}"]
    return tuple(names), edges


def _level(schedule: Schedule, gantt: Gantt, edges: FloatArray) -> IntArray:
    """(jobs,) index of the colour."""
    jobs = schedule.jobs
    if gantt.colour == "wait":
        wait = np.maximum(schedule.start - jobs.submit, 0) * gantt.tick_s
        return np.searchsorted(edges, wait, side="right") - 1
    return np.searchsorted(edges, jobs.demand[:, 0], side="left") - 1


def _draw_jobs(
    axes: Axes, schedule: Schedule, gantt: Gantt, clock: Clock, shades: ListedColormap, edges: FloatArray
) -> None:
    jobs, start = schedule.jobs, schedule.start
    bars = np.array(pack(jobs, start, gantt.processors), dtype=np.int64).reshape(-1, 3)
    rows = bars[:, 0]
    x0, x1 = clock(start[rows]), clock((start + jobs.runtime)[rows])
    low, high = bars[:, 1].astype(np.float64), bars[:, 2].astype(np.float64)
    corners = np.stack([x0, low, x0, high, x1, high, x1, low], axis=1).reshape(-1, 4, 2)
    # borders separate neighbours, but must not hide thousands of thin bars
    border = float(np.clip(120.0 / max(len(bars), 1), 0.12, 0.6))
    colours = shades(_level(schedule, gantt, edges)[rows])
    bodies = PolyCollection(list(corners), facecolors=colours, edgecolors="white", linewidths=border)
    axes.add_collection(bodies)
    axes.set_ylim(0, gantt.processors)
    axes.set_ylabel("processors")
    quarters = MultipleLocator(gantt.processors // 4) if gantt.processors % 4 == 0 else None
    axes.yaxis.set_major_locator(quarters or MaxNLocator(nbins=5, integer=True))
    axes.spines["bottom"].set_visible(False)
    axes.set_facecolor("#f8f9fb")
    axes.set_title(shortened(schedule.name), fontsize=10.5, color=INK)
    right_title(axes, _facts(schedule, gantt))


def _facts(schedule: Schedule, gantt: Gantt) -> str:
    first_resource = replace(schedule.jobs, demand=schedule.jobs.demand[:, :1])
    metrics = job_metrics(Played.of_starts(first_resource, schedule.start), [gantt.processors], gantt.tick_s)
    facts = [
        f"bounded slowdown {written(metrics['bounded_slowdown'], 'ratio')}",
        f"wait {written(metrics['wait'], 's')}",
        f"utilization {written(metrics['utilization'], 'share')}",
        f"span {written(metrics['schedule_span'], 'ratio')} × arrivals",  # noqa: RUF001
    ]
    unfinished = int((schedule.start < 0).sum())
    if unfinished:
        facts.append(f"{unfinished:,} never started")
    return "   ·   ".join(facts)


def _draw_queue(axes: Axes, schedule: Schedule, clock: Clock, end: int) -> float:
    """Draw the number of waiting jobs over time; returns the longest queue."""
    jobs, start = schedule.jobs, schedule.start
    started = start[start >= 0]
    ticks = np.concatenate([jobs.submit, started, [end]])
    change = np.concatenate([np.ones(len(jobs)), -np.ones(len(started)), [0.0]])
    at, position = np.unique(ticks, return_inverse=True)
    waiting = np.maximum(np.cumsum(np.bincount(position, weights=change)), 0)
    axes.fill_between(clock(at), waiting, step="post", color="#c7ccd6", linewidth=0)
    axes.step(clock(at), waiting, where="post", color=MUTED, linewidth=0.8)
    last, whole = clock(np.array([jobs.submit.max(), end]))
    early = last < 0.9 * whole
    axes.axvline(last, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        "last arrival",
        (last, 0.95),
        xycoords=("data", "axes fraction"),
        xytext=(4 if early else -4, 0),
        textcoords="offset points",
        ha="left" if early else "right",
        va="top",
        fontsize=7.5,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.0},
    )
    axes.set_ylabel("waiting")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
    return float(waiting.max())


def _legend(
    figure: Figure, all_axes: list[Axes], gantt: Gantt, shades: ListedColormap, names: tuple[str, ...]
) -> None:
    edges = np.arange(len(names) + 1) - 0.5
    bar = figure.colorbar(
        ScalarMappable(BoundaryNorm(edges, len(names)), shades),
        ax=all_axes,
        location="bottom",
        aspect=70,
        fraction=0.05,
        shrink=0.7,
        pad=0.02,
        ticks=np.arange(len(names)),
    )
    bar.ax.set_xticklabels(names)
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)
    bar.set_label("colour: wait of the job" if gantt.colour == "wait" else "colour: processors of the job")
