"""Distributions that models and enrichment share: runtimes, qos, and a bound on arrivals."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np

from rlsched.jobs import LEAST_QOS, FloatArray, IntArray
from rlsched.scenario import Enrichment, MaoWorkload, PoissonWorkload


def draw_runtimes(rng: np.random.Generator, workload: PoissonWorkload | MaoWorkload, jobs: int) -> IntArray:
    """(jobs,) ticks: uniform whole numbers, of `long` in the share `long_share`, else of `short`."""
    long = rng.random(jobs) < workload.long_share
    low = np.where(long, workload.long[0], workload.short[0])
    high = np.where(long, workload.long[1], workload.short[1])
    return rng.integers(low, high, endpoint=True)


def draw_qos(rng: np.random.Generator, shares: PoissonWorkload | Enrichment, jobs: int) -> FloatArray:
    """(jobs,) qos: uniform, of `high_qos` in the share `high_qos_share`, else of `low_qos`; never 0.

    A longer draw from the same stream has the same first values.
    """
    kind, place = rng.random((jobs, 2)).T
    high = kind < shares.high_qos_share
    low_end = np.where(high, shares.high_qos[0], shares.low_qos[0])
    high_end = np.where(high, shares.high_qos[1], shares.low_qos[1])
    return np.clip(low_end + place * (high_end - low_end), LEAST_QOS, 1.0)


def most_jobs(mean: float) -> int:
    """Bound on a Poisson count of arrivals: 8 standard deviations above its mean, and 16 more.

    Args:
        mean: expected arrivals.
    """
    return ceil(mean + 8 * sqrt(mean)) + 16
