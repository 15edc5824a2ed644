"""Requested times that differ from runtimes, as users estimate them.

Sources: [Cunha 2022, eq. 2.6] for gaussian errors; [Tsafrir, Etsion and Feitelson 2005], with the constants
of the authors' program, for popular values.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil

import numpy as np

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.scenario import Estimates, ExactEstimates, GaussianEstimates

MINUTE_S, HOUR_S = 60, 3600

HEAD = 20
"""Number of popular values, the longest included."""
HEAD_SHARE = 0.89
"""Share of jobs that request one of them."""
HEAD_SIZES = (14.0491, -0.177531, 0.462513)
"""a, b, c: a exp(b rank) + c in 100 jobs request the value of popularity rank 2, 3, ..., 20."""
TAIL_POWER = -2.267
"""Other values are requested in proportion to rank ** this, from rank 21 on."""
TAIL = 70
"""Number of other values, as in 10,000 jobs of a trace."""
TAIL_TIMES = 1 + 12.1039 * (HEAD + TAIL) ** -0.6026
"""a in (a - 1) x / (a - x): the time, as a share of the longest, at share x of the sorted values."""

POPULAR_S = (
    *(MINUTE_S * k for k in (15, 5, 10)),
    *(HOUR_S * k for k in (6, 2, 3, 1)),
    *(MINUTE_S * k for k in (30,)),
    *(HOUR_S * k for k in (12, 18, 4)),
    *(MINUTE_S * k for k in (20,)),
    *(HOUR_S * k for k in (10, 8, 15, 5, 16)),
    *(MINUTE_S * k for k in (90,)),
    *(HOUR_S * k for k in (17,)),
)
"""Seconds, most popular first, without the longest: of CTC SP2, where 18 hours are the longest. Fifteen of
them are popular in all traces of the paper."""
ROUND_S = (*(HOUR_S * k for k in (200, 100, 50, 10, 5, 2, 1)), *(MINUTE_S * k for k in (20, 10, 5, 1)))
"""Multiples of these, longest first, fill the list of popular values up."""


def estimated(
    jobs: JobTable, estimates: Estimates | None, rng: np.random.Generator, tick_s: int, longest_s: int
) -> JobTable:
    """Jobs with estimated requested times.

    Args:
        jobs: in ticks.
        estimates: how users estimate; None: requested times stay, and nothing is drawn.
        rng: where all randomness comes from.
        tick_s: seconds per tick.
        longest_s: longest runtime, seconds, unless `estimates` has it.
    """
    if estimates is None:
        return jobs
    if isinstance(estimates, ExactEstimates):
        return replace(jobs, requested=jobs.runtime)
    if isinstance(estimates, GaussianEstimates):
        return replace(jobs, requested=_gaussian(jobs.runtime, estimates, rng))
    longest_s = estimates.longest_s or ceil(longest_s / HOUR_S) * HOUR_S
    requested_s = _popular(jobs.runtime * tick_s, longest_s, rng)
    return replace(jobs, requested=np.maximum(-(-requested_s // tick_s), jobs.runtime))


def _gaussian(runtime: IntArray, estimates: GaussianEstimates, rng: np.random.Generator) -> IntArray:
    """(jobs,) runtime x (1 + nu g), g of the standard normal distribution or one half of it; at least 1."""
    error = rng.standard_normal(len(runtime))
    if estimates.side != "two":
        error = np.abs(error) if estimates.side == "over" else -np.abs(error)
    return np.maximum(1, np.rint(runtime * (1.0 + estimates.nu * error))).astype(np.int64)


def _popular(runtime_s: IntArray, longest_s: int, rng: np.random.Generator) -> IntArray:
    """(jobs,) seconds: values by their popularity, assigned so that no job requests less than its runtime.

    From the longest job on, each job gets a random one of the remaining values that are long enough. So the
    ratio of runtime to requested time is as uniform as in traces. Long jobs without such a value request the
    longest one.
    """
    values, shares = popular_values(longest_s)
    drawn = np.sort(rng.choice(values, len(runtime_s), p=shares))[::-1]
    order = np.argsort(-runtime_s, kind="stable")
    runs = runtime_s[order]
    remaining = np.where(drawn < runs, np.maximum(longest_s, runs), drawn).tolist()
    remaining.sort(reverse=True)
    long_enough = np.searchsorted(
        -np.array(remaining), -runs, side="right"
    )  # number of values that are as long as the job
    place = rng.random(len(runs))
    assigned = np.empty(len(runs), np.int64)
    for k, (job, most) in enumerate(zip(order.tolist(), long_enough.tolist(), strict=True)):
        choice = k + int(place[k] * (most - k))
        assigned[job] = remaining[choice]
        remaining[choice] = remaining[k]
    return assigned


@lru_cache(maxsize=64)
def popular_values(longest_s: int) -> tuple[IntArray, FloatArray]:
    """(value,) requested seconds, and (value,) the share of jobs that request them."""
    head = _head(longest_s)
    a, b, c = HEAD_SIZES
    sizes = (a * np.exp(b * np.arange(1, len(head) + 1)) + c) / 100.0
    sizes[0] = max(HEAD_SHARE - sizes[1:].sum(), sizes[0])
    tail = _tail(longest_s, head)
    rest = np.arange(HEAD + 1, HEAD + 1 + len(tail)) ** TAIL_POWER
    np.random.default_rng(0).shuffle(rest)  # the paper assigns shares to values at random, too
    shares = np.concatenate([sizes / sizes.sum() * HEAD_SHARE, rest / rest.sum() * (1 - HEAD_SHARE)])
    return np.concatenate([head, tail]), shares / shares.sum()


def _head(longest_s: int) -> IntArray:
    """(value,) the longest, and up to nineteen others, most popular first."""
    values = [longest_s, *(value for value in POPULAR_S if value < longest_s)]
    for step in ROUND_S:
        for value in range(longest_s // step * step, 0, -step):
            if len(values) == HEAD:
                break
            if value not in values:
                values.append(value)
    return np.array(values)


def _tail(longest_s: int, head: IntArray) -> IntArray:
    """(value,) other values: whole minutes, ascending."""
    x = np.arange(1, TAIL + 1) / TAIL
    times = (TAIL_TIMES - 1) * x / (TAIL_TIMES - x) * longest_s
    minutes = np.unique(np.rint(times / MINUTE_S).astype(np.int64) * MINUTE_S)
    return np.setdiff1d(minutes[(minutes > 0) & (minutes < longest_s)], head)
