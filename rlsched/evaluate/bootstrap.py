"""Percentile bootstrap intervals of means, for many columns at once.

Source: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
"""

from __future__ import annotations

from math import nan
from typing import NamedTuple

import numpy as np

from rlsched.jobs import FloatArray

RESAMPLES = 10_000
LEVEL_PERCENT = 95.0
_BLOCK = 1_000_000  # drawn rows per block: bounds memory, whatever the number of episodes


class Interval(NamedTuple):
    """A mean and its 95 % interval; all NaN where there was nothing to average."""

    mean: float
    low: float
    high: float


def bootstrap_columns(columns: list[FloatArray], seed: int = 0) -> list[Interval]:
    """95 % percentile bootstrap intervals of the means of several samples.

    Samples of the same size share their resamples, so the whole comparison costs a few matrix products. The
    order of values within a sample does not matter. One value, or equal values, give low = high = mean. Of a
    very skewed sample the percentile interval can miss its own mean; it is then stretched to hold it.

    Args:
        columns: samples of any sizes; numbers that are not finite are left out.
        seed: of the resampling; the same seed gives the same intervals.

    Returns:
        One interval per sample, in order.
    """
    samples = [np.sort(column[np.isfinite(column)]) for column in columns]
    result = [Interval(nan, nan, nan)] * len(samples)
    for size in sorted({len(sample) for sample in samples} - {0}):
        members = [k for k, sample in enumerate(samples) if len(sample) == size]
        table = np.stack([samples[k] for k in members], axis=1)  # (n, samples)
        origin = table[0]  # around the least value, equal values are exact zeros
        offsets = table - origin
        mean = offsets.mean(axis=0)
        tail = (100.0 - LEVEL_PERCENT) / 2
        low, high = np.percentile(_resampled_means(offsets, seed), (tail, 100.0 - tail), axis=0)
        low, high = np.minimum(low, mean), np.maximum(high, mean)
        for position, k in enumerate(members):
            base = origin[position]
            result[k] = Interval(
                float(base + mean[position]), float(base + low[position]), float(base + high[position])
            )
    return result


def _resampled_means(table: FloatArray, seed: int) -> FloatArray:
    """(resamples, samples) means of rows drawn with replacement, the same rows for every sample."""
    size = len(table)
    rng = np.random.default_rng([seed, size])
    step = max(1, _BLOCK // size)
    means = []
    for begin in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - begin)
        drawn = rng.integers(size, size=(count, size)) + size * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)
        means.append(times.astype(np.float64) @ table / size)
    return np.concatenate(means)
