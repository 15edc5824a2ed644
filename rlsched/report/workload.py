"""The picture of workloads: sizes, runtimes, arrivals over the day, accuracy of requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator, PercentFormatter

from rlsched.jobs import FloatArray, IntArray
from rlsched.report.style import LEARNED, house_style, new_figure, quiet_axes, shortened
from rlsched.workloads.statistics import HOURS, Sample

WIDTH_IN, HEIGHT_IN = 11.0, 6.6
TIMES_S = {1: "1 s", 60: "1 min", 3600: "1 h", 86_400: "1 d", 864_000: "10 d"}
POINTS = 400


def draw_workloads(samples: Sequence[Sample]) -> Figure:
    """Draw four panels, with a colour for each sample."""
    with house_style():
        figure = new_figure(WIDTH_IN, HEIGHT_IN)
        panels = sizes, runtimes, arrivals, accuracy = list(figure.subplots(2, 2).flat)
        for k, sample in enumerate(samples):
            colour = LEARNED[k % len(LEARNED)]
            _sizes(sizes, sample, k, len(samples), colour)
            _distribution(runtimes, sample.runtimes_s, colour)
            arrivals.plot(np.arange(HOURS) + 0.5, sample.hourly, color=colour)
            _distribution(accuracy, sample.runtimes_s / sample.requested_s, colour)
        titles = ("Processors", "Runtime", "Arrivals over the day", "Runtime as a share of requested time")
        for axes, title in zip(panels, titles, strict=True):
            axes.set_title(title)
            quiet_axes(axes, "y")
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        sizes.set(ylabel="share of jobs", xlabel="processors, up to")
        sizes.legend(loc="upper right")
        runtimes.set(ylabel="cumulative share of jobs", xscale="log")
        runtimes.set_xticks(list(TIMES_S), list(TIMES_S.values()))
        runtimes.minorticks_off()
        arrivals.set(ylabel="share of jobs in the hour", xlabel="hour of the day", xlim=(0, HOURS))
        arrivals.set_ylim(bottom=0)
        arrivals.xaxis.set_major_locator(MultipleLocator(6))
        accuracy.set(ylabel="cumulative share of jobs", xlim=(0, 1.5))
        accuracy.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return figure


def _sizes(axes: Axes, sample: Sample, k: int, count: int, colour: str) -> None:
    """Draw the share of jobs by power of two of their size."""
    exponent = np.ceil(np.log2(np.maximum(sample.sizes, 1))).astype(np.int64)
    shares = np.bincount(exponent) / len(exponent)
    width = 0.8 / count
    places = np.arange(len(shares)) + (k - (count - 1) / 2) * width
    axes.bar(places, shares, width, color=colour, label=shortened(sample.name))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{2 ** round(x):,}" if x >= 0 else ""))
    axes.xaxis.set_major_locator(MultipleLocator(2))


def _distribution(axes: Axes, values: IntArray | FloatArray, colour: str) -> None:
    """Draw the cumulative distribution of values."""
    shares = np.linspace(0.0, 1.0, POINTS)
    axes.plot(np.quantile(values, shares), shares, color=colour)
