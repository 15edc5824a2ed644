"""Percentile bootstrap intervals of means, for many samples at once.

A sample holds one value per episode, or one per training seed and episode. Of the latter both seeds and
episodes are drawn anew, independently of each other: the same episodes for all seeds, which all play them.

Sources: [Efron and Tibshirani 1993, chapter 13]; for two crossed factors [Owen 2007]. With few seeds its
intervals are too narrow (docs/guide/evaluate.md). Interquartile means over seeds: [Agarwal et al. 2021].
"""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import NamedTuple

import numpy as np

from rlsched.jobs import FloatArray, IntArray

RESAMPLES = 10_000
LEVEL_PERCENT = 95.0
_BLOCK = 1_000_000  # drawn values per block: bounds memory, whatever the number of episodes


class Interval(NamedTuple):
    """A mean and its 95 % interval; all NaN where there was nothing to average."""

    mean: float
    low: float
    high: float


NOTHING = Interval(nan, nan, nan)


def bootstrap_columns(columns: list[FloatArray], seed: int = 0) -> list[Interval]:
    """95 % percentile bootstrap intervals of the means of several samples.

    Samples of the same shape share their resamples, so the whole comparison costs a few matrix products. The
    order of values within a sample of one seed does not matter, nor that of the seeds in others. One value,
    or equal values, give low = high = mean. Of a very skewed sample the percentile interval can miss its own
    mean; it is then stretched to hold it.

    Args:
        columns: samples (episodes,) or (training seeds, episodes) of any sizes; numbers that are not finite
            are left out.
        seed: of the resampling; the same seed gives the same intervals.

    Returns:
        One interval per sample, in order; one training seed gives what its episodes alone give.
    """
    samples = [_ordered(column) for column in columns]
    result = [NOTHING] * len(samples)
    for shape in sorted({sample.shape for sample in samples if sample.size}):
        members = [k for k, sample in enumerate(samples) if sample.shape == shape]
        table = np.stack([samples[k] for k in members], axis=-1)  # (seeds, episodes, samples)
        origin = np.nanmin(table, axis=(0, 1))  # around the least value, equal values are exact zeros
        offsets = table - origin
        mean = np.nanmean(offsets, axis=(0, 1))
        low, high = _ends(_resampled_means(offsets, seed), mean)
        for position, k in enumerate(members):
            base = origin[position]
            result[k] = Interval(
                float(base + mean[position]), float(base + low[position]), float(base + high[position])
            )
    return result


def interquartile_mean(values: FloatArray) -> float:
    """The mean of the middle half: a quarter of the values, rounded down, is left out at either end.

    As `scipy.stats.trim_mean(values, 0.25)` and rliable's `aggregate_iqm`. Few values that are far out, as
    those of one seed of five or more, hardly move it; the mean they do.

    Args:
        values: of any shape; numbers that are not finite are left out.

    Returns:
        NaN where there is none.
    """
    known = np.sort(values[np.isfinite(values)])
    cut = len(known) // 4
    return float(known[cut : len(known) - cut].mean()) if len(known) else nan


def bootstrap_iqm(values: FloatArray, seed: int = 0) -> Interval:
    """The interquartile mean of a sample, with the interval that resampled seeds and episodes give.

    Args:
        values: (episodes,) or (training seeds, episodes); numbers that are not finite are left out.
        seed: of the resampling, which is that of `bootstrap_columns`.
    """
    sample = _ordered(values)
    if not sample.size:
        return NOTHING
    by_seed, by_episode = np.nonzero(~np.isnan(sample))
    known = sample[by_seed, by_episode]
    rising = np.argsort(known, kind="stable")
    by_seed, by_episode, known = by_seed[rising], by_episode[rising], known[rising]
    origin, gaps = known[0], np.diff(known)
    resampled = []
    for seeds, episodes in _draws(len(sample), sample.shape[1], seed):
        # How many of the drawn values are at most each value, as far as they are in the middle half. Their
        # mean is the highest value less, for each gap between neighbours, the share of those below the gap.
        upto = np.cumsum(seeds[:, by_seed] * episodes[:, by_episode], axis=1, dtype=np.float64)
        drawn = upto[:, -1:].copy()
        cut = np.floor(drawn / 4)
        np.clip(upto, cut, drawn - cut, out=upto)
        middle = drawn[:, 0] - 2 * cut[:, 0]
        with np.errstate(invalid="ignore"):  # where only values were drawn that are missing
            below = ((upto[:, :-1] - cut) @ gaps) / middle
        resampled.append(known[-1] - origin - below)
    mean = interquartile_mean(known)
    low, high = _ends(np.concatenate(resampled)[:, None], np.array([mean - origin]))
    return Interval(mean, float(origin + low[0]), float(origin + high[0]))


def _ordered(column: FloatArray) -> FloatArray:
    """(seeds, episodes) of a sample, sorted; missing values are NaN, empty rows and columns are left out.

    Drawing goes by place, so that the order must not depend on how seeds and episodes are numbered.
    """
    values = np.atleast_2d(np.where(np.isfinite(column), column, nan))
    known = ~np.isnan(values)
    values = values[known.any(axis=1)][:, known.any(axis=0)]
    seeds = np.lexsort(np.hstack([np.sort(values, axis=1), values]).T[::-1]) if len(values) > 1 else [0]
    values = values[seeds] if values.size else values
    return values[:, np.lexsort(values[::-1])] if values.size else values


def _ends(resampled: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(samples,) ends of the intervals of (resamples, samples) means, stretched to hold the means."""
    tail = (100.0 - LEVEL_PERCENT) / 2
    percentile = np.nanpercentile if np.isnan(resampled).any() else np.percentile
    low, high = percentile(resampled, (tail, 100.0 - tail), axis=0)
    return np.minimum(low, mean), np.maximum(high, mean)


def _resampled_means(table: FloatArray, seed: int) -> FloatArray:
    """(resamples, samples) means of drawn seeds and episodes of a table (seeds, episodes, samples)."""
    missing = np.isnan(table)
    known, filled = (~missing).astype(np.float64), np.where(missing, 0.0, table)
    means = []
    for seeds, episodes in _draws(table.shape[0], table.shape[1], seed):
        times = episodes.astype(np.float64)
        total = sum(seeds[:, k, None] * (times @ part) for k, part in enumerate(filled))
        count: FloatArray | int = table.shape[0] * table.shape[1]
        if missing.any():
            count = sum(seeds[:, k, None] * (times @ part) for k, part in enumerate(known))
        with np.errstate(invalid="ignore"):  # where only values were drawn that are missing
            means.append(total / count)
    return np.concatenate(means)


def _draws(seeds: int, episodes: int, seed: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Numbers of draws of each seed (block, seeds) and each episode (block, episodes), block by block.

    Episodes are drawn alike however many seeds there are: one seed is a sample of episodes as any other.
    """
    of_episodes, of_seeds = np.random.default_rng([seed, episodes]), np.random.default_rng([seed, 1, seeds])
    step = max(1, _BLOCK // (seeds * episodes))
    for begin in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - begin)
        picked = np.ones((count, 1), np.int64) if seeds == 1 else _times(of_seeds, count, seeds)
        yield picked, _times(of_episodes, count, episodes)


def _times(rng: np.random.Generator, count: int, size: int) -> IntArray:
    """(count, size) numbers of draws of each of `size` items, of which `size` are drawn with replacement."""
    drawn = rng.integers(size, size=(count, size)) + size * np.arange(count)[:, None]
    return np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size)
