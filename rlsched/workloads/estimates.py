"""What users ask for: requested times that are not the runtimes.

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
"""Values that are popular, the longest among them."""
HEAD_SHARE = 0.89
"""Of jobs that ask for one of them."""
HEAD_SIZES = (14.0491, -0.177531, 0.462513)
"""a, b, c: a exp(b rank) + c in 100 jobs ask for the value of popularity rank 2, 3, ..., 20."""
TAIL_POWER = -2.267
"""What is not popular is asked for in proportion to rank ** this, from rank 21 on."""
TAIL = 70
"""Values that are not popular: as many as 10,000 jobs of a trace have."""
TAIL_TIMES = 1 + 12.1039 * (HEAD + TAIL) ** -0.6026
"""a of (a - 1) x / (a - x), which times, as shares of the longest, are at share x of the values in order."""

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
"""Seconds from the most popular on, beside the longest: of CTC SP2, where 18 hours are the longest. Fifteen
of them are popular in all traces of the paper."""
ROUND_S = (*(HOUR_S * k for k in (200, 100, 50, 10, 5, 2, 1)), *(MINUTE_S * k for k in (20, 10, 5, 1)))
"""Multiples of these, from the longest downwards, make up for what is missing in the twenty."""


def estimated(
    jobs: JobTable, estimates: Estimates | None, rng: np.random.Generator, tick_s: int, longest_s: int
) -> JobTable:
    """The same jobs with what their users ask for.

    Args:
        jobs: in ticks.
        estimates: how they are asked for; None: as they are. Then nothing is drawn.
        rng: where all randomness comes from.
        tick_s: seconds per tick.
        longest_s: that jobs may run, where `estimates` do not say it.
    """
    if estimates is None:
        return jobs
    if isinstance(estimates, ExactEstimates):
        return replace(jobs, requested=jobs.runtime)
    if isinstance(estimates, GaussianEstimates):
        return replace(jobs, requested=_gaussian(jobs.runtime, estimates, rng))
    longest_s = estimates.longest_s or ceil(longest_s / HOUR_S) * HOUR_S
    asked = _popular(jobs.runtime * tick_s, longest_s, rng)
    return replace(jobs, requested=np.maximum(-(-asked // tick_s), jobs.runtime))


def _gaussian(runtime: IntArray, estimates: GaussianEstimates, rng: np.random.Generator) -> IntArray:
    """(jobs,) runtime x (1 + nu g), g of the standard normal distribution or one half of it; at least 1."""
    error = rng.standard_normal(len(runtime))
    if estimates.side != "two":
        error = np.abs(error) if estimates.side == "over" else -np.abs(error)
    return np.maximum(1, np.rint(runtime * (1.0 + estimates.nu * error))).astype(np.int64)


def _popular(runtime_s: IntArray, longest_s: int, rng: np.random.Generator) -> IntArray:
    """(jobs,) seconds: values by their popularity, dealt out so that no job asks for less than it runs.

    From the longest job on, each takes any of what is left and long enough, so that how much of its request
    a job uses is as even as in traces. Where more jobs are long than ask for so much, they ask for the
    longest value.
    """
    values, shares = popular_values(longest_s)
    asked = np.sort(rng.choice(values, len(runtime_s), p=shares))[::-1]
    order = np.argsort(-runtime_s, kind="stable")
    runs = runtime_s[order]
    left = np.where(asked < runs, np.maximum(longest_s, runs), asked).tolist()
    left.sort(reverse=True)
    enough = np.searchsorted(-np.array(left), -runs, side="right")  # the first so many are as long as the job
    place = rng.random(len(runs))
    dealt = np.empty(len(runs), np.int64)
    for k, (job, most) in enumerate(zip(order.tolist(), enough.tolist(), strict=True)):
        taken = k + int(place[k] * (most - k))
        dealt[job] = left[taken]
        left[taken] = left[k]
    return dealt


@lru_cache(maxsize=64)
def popular_values(longest_s: int) -> tuple[IntArray, FloatArray]:
    """(value,) seconds that users ask for, and (value,) the share of jobs that do."""
    head = _head(longest_s)
    a, b, c = HEAD_SIZES
    sizes = (a * np.exp(b * np.arange(1, len(head) + 1)) + c) / 100.0
    sizes[0] = max(HEAD_SHARE - sizes[1:].sum(), sizes[0])
    tail = _tail(longest_s, head)
    rest = np.arange(HEAD + 1, HEAD + 1 + len(tail)) ** TAIL_POWER
    np.random.default_rng(0).shuffle(rest)  # which value has which share, is chance in the paper, too
    shares = np.concatenate([sizes / sizes.sum() * HEAD_SHARE, rest / rest.sum() * (1 - HEAD_SHARE)])
    return np.concatenate([head, tail]), shares / shares.sum()


def _head(longest_s: int) -> IntArray:
    """(value,) the longest, and up to nineteen others, from the most popular on."""
    found = [longest_s, *(value for value in POPULAR_S if value < longest_s)]
    for step in ROUND_S:
        for value in range(longest_s // step * step, 0, -step):
            if len(found) == HEAD:
                break
            if value not in found:
                found.append(value)
    return np.array(found)


def _tail(longest_s: int, head: IntArray) -> IntArray:
    """(value,) whole minutes that are not popular, in ascending order."""
    x = np.arange(1, TAIL + 1) / TAIL
    times = (TAIL_TIMES - 1) * x / (TAIL_TIMES - x) * longest_s
    minutes = np.unique(np.rint(times / MINUTE_S).astype(np.int64) * MINUTE_S)
    return np.setdiff1d(minutes[(minutes > 0) & (minutes < longest_s)], head)
