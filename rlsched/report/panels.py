"""Panels of pictures over time: power by source, battery, jobs by place, units, completed jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rlsched.evaluate.history import History
from rlsched.jobs import FloatArray, IntArray
from rlsched.report.style import HEURISTIC, INK
from rlsched.report.words import TimeUnit, time_unit

Look = Mapping[str, Any]  # keyword arguments of a patch or a line
POINTS = 500  # most points of a series; longer episodes are drawn as means over several ticks
TRACE = 1e-6  # smaller values count as zero, because of rounding

_BINS = (1, 2, 3, 4, 6, 8, 12, 24, 48, 72, 168)  # ticks; of hourly ticks, parts of days and whole ones

RENEWABLE, BATTERY, BROWN, CHARGED, CURTAILED = "#2a9d6f", "#56b4e9", "#9c6644", "#bfe0f5", "#dfe3e8"
LEVEL = "#0072b2"
RUNNING, PLANNED, SUSPENDED, READY = "#0072b2", "#7fb8de", "#cc79a7", "#e69f00"
WAIT, FINISHED, REJECTED = "#c7ccd6", "#009e73", "#d55e00"
ON, USED = "#d8dce3", "#4a93c6"
HATCHED = {"facecolor": CURTAILED, "edgecolor": "#b8bec8", "hatch": "////"}
DASHED = {"color": HEURISTIC, "linewidth": 1.0, "linestyle": (0, (4, 3))}


@dataclass(frozen=True)
class Grain:
    """Resolution of a time axis."""

    ticks: int  # length of the episode
    step: int  # ticks per point
    tick_s: int  # seconds per tick
    unit: TimeUnit

    @classmethod
    def of(cls, histories: Sequence[History]) -> Grain:
        """A resolution for all of these.

        Raises:
            ValueError: all of them are empty.
        """
        ticks, tick_s = max(history.ticks for history in histories), histories[0].tick_s
        if ticks == 0:
            raise ValueError(f"{histories[0].name}: the episode was over at once: nothing to draw")
        step = next((step for step in _BINS if ticks / step <= POINTS), -(-ticks // POINTS))
        return cls(ticks, step, tick_s, time_unit(ticks * tick_s))

    @property
    def span(self) -> float:
        """Length of the episode, in the unit."""
        return self.ticks * self.tick_s / self.unit.seconds

    def edges(self, ticks: int) -> IntArray:
        """(points + 1,) ticks at the edges of points."""
        return np.append(np.arange(0, ticks, self.step), ticks)

    def time(self, ticks: IntArray) -> FloatArray:
        """Time since the first submit, in the unit."""
        return ticks.astype(np.float64) * (self.tick_s / self.unit.seconds)

    def means(self, values: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
        """A rate (tick,) as steps: times (points + 1,) and means (points + 1,), the last mean twice."""
        edges = self.edges(len(values))
        sums = np.add.reduceat(values.astype(np.float64), edges[:-1])
        means = sums / np.diff(edges)
        return self.time(edges), np.append(means, means[-1:])

    def levels(self, values: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
        """A level (tick + 1,) at the edges of points: times and values."""
        edges = self.edges(len(values) - 1)
        return self.time(edges), values[edges].astype(np.float64)


Kind = Literal["layer", "area", "steps", "curve", "filled", "limit"]
"""Style of a series: a rate (tick,) is a layer on top of those before it, an area from the bottom, or a line
of steps. A level (tick + 1,) is a curve, or filled from the bottom. A limit is one number."""

RATES: tuple[Kind, ...] = ("layer", "area", "steps")
AREAS: tuple[Kind, ...] = ("layer", "area", "filled")


@dataclass(frozen=True)
class Series:
    """A quantity of a history over time."""

    name: str  # in the legend; empty: it has no entry
    values: Callable[[History], FloatArray | IntArray | float]  # computed from a history
    look: Look
    kind: Kind = "layer"


@dataclass(frozen=True)
class Panel:
    """A panel with its series."""

    label: str  # of its vertical axis
    height: float  # inches
    series: tuple[Series, ...]  # from the back to the front
    top: Callable[[History], float] = lambda history: 1.0  # least upper end of the axis
    whole: bool = True  # only whole numbers have ticks
    marks: int = 2  # most ticks of the axis

    def draw(self, axes: Axes, history: History, grain: Grain) -> None:
        """Draw a history."""
        below, highest = np.zeros(1), 0.0
        for series in self.series:
            values, look = np.asarray(series.values(history)), series.look
            if series.kind == "limit":
                axes.axhline(float(values), **look)
                continue
            if not _any(values):  # it has no entry in the legend
                continue
            rate = series.kind in RATES
            times, points = grain.means(values) if rate else grain.levels(values)
            step: Any = "post" if rate else None
            if series.kind == "layer":
                points = below + points
                axes.fill_between(times, below, points, step=step, linewidth=0, **look)
                below = points
            elif series.kind in AREAS:
                axes.fill_between(times, points, step=step, linewidth=0, **look)
            else:
                axes.plot(times, points, drawstyle="steps-post" if rate else "default", **look)
            highest = max(highest, float(points.max()))
        top = self.top(history)
        axes.set_ylim(0, top if highest <= top else 1.05 * highest)
        axes.yaxis.set_major_locator(MaxNLocator(self.marks, integer=self.whole, steps=(1, 2, 5, 10)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))

    def explained(self, histories: Sequence[History]) -> list[Series]:
        """Series for the legend: those with a name, and a value above zero in one of the histories."""
        return [
            series
            for series in self.series
            if series.name and any(_any(series.values(history)) for history in histories)
        ]


def _any(values: FloatArray | IntArray | float) -> bool:
    return bool(np.any(np.asarray(values) > TRACE))


def _power(account: str) -> Callable[[History], FloatArray]:
    return lambda history: history.power_kw(account)


def _place(name: str, *, at_end: bool = False) -> Callable[[History], IntArray]:
    """Jobs at a place at every tick; with `at_end`, at the end of the last tick, too."""
    return lambda history: history.place(name) if at_end else history.place(name)[:-1]


def _share(units: Callable[[History], IntArray]) -> Callable[[History], FloatArray]:
    """Units in percent of all units, mean over resources."""
    return lambda history: 100.0 * (units(history)[:-1] / history.units).mean(axis=1)


POWER = Panel(
    "power (kW)",
    2.5,
    (
        Series("renewable, used at once", lambda history: history.direct_kw, {"color": RENEWABLE}),
        Series("battery", _power("battery_kwh"), {"color": BATTERY}),
        Series("grid", _power("brown_kwh"), {"color": BROWN}),
        Series("renewable, into the battery", _power("charged_kwh"), {"color": CHARGED}),
        Series("renewable, curtailed", _power("curtailed_kwh"), HATCHED),
        Series("draw", _power("energy_kwh"), {"color": INK, "linewidth": 1.0}, "steps"),
        Series("draw of all units under load", lambda history: history.full_kw, DASHED, "limit"),
    ),
    top=lambda history: 1.05 * history.full_kw,
    whole=False,
    marks=6,
)
BATTERY_LEVEL = Panel(
    "battery\n(kWh)",
    0.8,
    (
        Series("", lambda history: history.battery_kwh, {"color": BATTERY, "alpha": 0.45}, "filled"),
        Series("", lambda history: history.battery_kwh, {"color": LEVEL, "linewidth": 1.0}, "curve"),
    ),
    top=lambda history: history.capacity_kwh,
    whole=False,
)
PLACES = Panel(
    "jobs",
    1.8,
    (
        Series("running", _place("running"), {"color": RUNNING}),
        Series("planned", _place("planned"), {"color": PLANNED}),
        Series("suspended", _place("suspended"), {"color": SUSPENDED}),
        Series("ready pool", _place("ready"), {"color": READY}),
    ),
    marks=5,
)
WAIT_POOL = Panel("wait pool\n(jobs)", 0.8, (Series("wait pool", _place("wait"), {"color": WAIT}),))
UNITS = Panel(
    "units (%)",
    0.8,
    (
        Series("units on", _share(lambda history: history.on), {"color": ON}, "area"),
        Series("units that run jobs", _share(lambda history: history.used), {"color": USED}, "area"),
    ),
    top=lambda history: 100.0,
)
DONE = Panel(
    "done\n(jobs)",
    0.8,
    tuple(
        Series(f"{name} so far", _place(name, at_end=True), {"color": colour, "linewidth": 1.5}, "curve")
        for name, colour in (("finished", FINISHED), ("rejected", REJECTED))
    ),
)
VALUE = Panel(
    "value so far",
    0.8,
    (Series("", lambda history: history.value, {"color": FINISHED, "linewidth": 1.5}, "curve"),),
    whole=False,
)
