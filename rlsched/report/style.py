"""Style of pictures: colours, axes, and figures without global state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from math import isfinite

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    MultipleLocator,
    NullFormatter,
    NullLocator,
)

from rlsched.report.words import TimeUnit

DPI = 130
INK, MUTED, GRID, HEURISTIC = "#1f2430", "#6b7280", "#e5e7eb", "#8b929e"
LEARNED = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe & Ito, colour-blind safe

LOG_FROM = 20.0  # an axis is logarithmic where its largest value is more than this many times its smallest

_STEPS = {
    "s": (1, 2, 5, 10, 15, 30),
    "min": (1, 2, 5, 10, 15, 30),
    "h": (1, 2, 3, 6, 12, 24),
    "d": (1, 2, 5, 7, 14),
}

_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": "#9ca3af",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Use the style of rlsched while drawing, and restore matplotlib's settings afterwards."""
    with rc_context(_RC):  # type: ignore[arg-type]  # matplotlib's literal type of all keys
        yield


def new_figure(width: float, height: float, title: str = "", **spaces: float) -> Figure:
    """A figure of this size in inches, without pyplot: it has no window and need not be closed.

    Spaces are those between its panels, `wspace` and `hspace`, as shares of their size.
    """
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.get_layout_engine().set(**spaces)  # type: ignore[union-attr]
    return figure


def to_png(figure: Figure) -> bytes:
    """The figure as a PNG file; the same figure gives the same bytes."""
    buffer = BytesIO()
    with house_style():
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def quiet_axes(axes: Axes, grid: str) -> None:
    """Draw a light grid along an axis, behind the data, and no tick marks."""
    axes.grid(visible=True, axis=grid)  # type: ignore[arg-type]  # x, y or both
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


def right_title(axes: Axes, text: str) -> None:
    """Write facts above a panel, at its right edge."""
    axes.set_title(text, loc="right", fontsize=8.5, fontweight="normal", color=MUTED)


def value_axis(axes: Axes, direction: str, values: Sequence[float]) -> None:
    """Scale an axis ("x" or "y") for values: logarithmic if they span more than `LOG_FROM`, else linear."""
    finite = [value for value in values if isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    axis = axes.xaxis if direction == "x" else axes.yaxis
    if low > 0 and high > LOG_FROM * low:
        (axes.set_xscale if direction == "x" else axes.set_yscale)("log")
        decades = np.log10(high / low)
        subs = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0, 3.0) if decades < 3.5 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    else:
        axis.set_major_locator(MaxNLocator(nbins=6, steps=(1, 2, 2.5, 5, 10)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def time_axis(axes: Axes, span: float, unit: TimeUnit, grid: str, most: int = 14) -> None:
    """Draw a time axis with at most `most` ticks at round times over a span, and a grid behind the data."""
    step = next((step for step in _STEPS[unit.name] if span / step <= most), None)
    axes.xaxis.set_major_locator(MultipleLocator(step) if step else MaxNLocator(nbins=most - 2))
    quiet_axes(axes, grid)


def shortened(name: str, length: int = 34) -> str:
    """A name that fits a label; the end of a path is its important part."""
    return name if len(name) <= length else "…" + name[-(length - 1) :]
