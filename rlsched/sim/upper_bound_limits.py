"""Limits on what any schedule of a set of jobs can run, for `upper_bound`: they cut its search.

A set of jobs is one integer, bit j for job j. Ticks count from the first of the episode.
"""

from __future__ import annotations

from math import exp, floor, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.compiled import allocating, shared

ROUNDS = 60  # of the search for weights that show a set to be impossible
NUM_LIMITS = 10  # the best weights, which then cut the search
TOP_WEIGHT = 1 << 16


class Case(NamedTuple):
    """Jobs, and the units that are on."""

    runtime: IntArray  # (job,) ticks
    requested: IntArray  # (job,) ticks
    demand: IntArray  # (job, resource) units
    same_demand: IntArray  # (job,) set of the jobs of the same demand
    submitted: IntArray  # (tick,) set of jobs
    may_stop: IntArray  # (tick,) set of jobs that may be stopped as the tick begins
    level: IntArray  # (tick,) row of `fits`
    fits: NDArray[np.bool_]  # (level, set) whether the units on carry the set
    rises: NDArray[np.bool_]  # (tick,) whether more is on, or forecast, than at the tick before
    forecast: IntArray  # (tick, resource, row) units, see docs/reference/green-rules.md
    by_request: bool  # starts must fit the forecast for what is requested
    always: bool  # every job may be stopped at every tick, and starts are free


class Limits(NamedTuple):
    """Weights of jobs, and the most weight that can be run."""

    weights: IntArray  # (limit, job)
    totals: IntArray  # (limit, tick + 1) from this tick on


@shared
def most_weight(
    case: Case, members: int, sets: IntArray, weight: IntArray, total: IntArray, ran: IntArray
) -> int:
    """The most weight that these jobs can run, if each tick is looked at by itself.

    Args:
        case: jobs and units.
        members: set of the jobs that count.
        sets: all sets of them.
        weight: (job,) of a tick of the job.
        total: (tick + 1,) is overwritten with the same from each tick on.
        ran: (job,) is overwritten with the ticks that each job then runs.
    """
    ticks, jobs = len(case.level), len(weight)
    ran[:] = 0
    total[ticks] = 0
    most, best, level, available = 0, 0, -1, -1
    for t in range(ticks - 1, -1, -1):
        if case.level[t] != level or case.submitted[t] & members != available:
            level, available = case.level[t], case.submitted[t] & members
            most = -1
            for subset in sets:
                if subset & ~available != 0 or not case.fits[level, subset]:
                    continue
                subset_weight = 0
                for j in range(jobs):
                    subset_weight += (subset >> j & 1) * weight[j]
                if subset_weight > most:
                    most, best = subset_weight, subset
        total[t] = total[t + 1] + most
        for j in range(jobs):
            ran[j] += best >> j & 1
    return total[0]


@allocating
def limits_of(case: Case, members: int, sets: IntArray, first: IntArray) -> tuple[bool, Limits]:
    """Limits that no schedule of these jobs escapes.

    Whatever weights the ticks of the jobs have, what the jobs need must not be more than can be run. After
    some given weights, more are searched for by multiplicative updates: a job that gets less than it needs
    weighs more. By linear duality they converge to a proof wherever jobs that could run in parts of ticks
    would not be done in time.

    Args:
        case: jobs and units.
        members: set of the jobs that are to be finished, at least one.
        sets: all sets of them.
        first: (limit, job) weights to begin with.

    Returns:
        Whether the jobs pass all limits, and those that it is a close thing with.
    """
    jobs, ticks = len(case.runtime), len(case.level)
    limits = Limits(
        np.zeros((len(first) + NUM_LIMITS, jobs), np.int64),
        np.zeros((len(first) + NUM_LIMITS, ticks + 1), np.int64),
    )
    weight, total, ran = np.zeros(jobs, np.int64), np.zeros(ticks + 1, np.int64), np.zeros(jobs, np.int64)
    for k in range(len(first)):
        limits.weights[k] = first[k]
        for j in range(jobs):
            limits.weights[k, j] *= members >> j & 1
        most = most_weight(case, members, sets, limits.weights[k], limits.totals[k], ran)
        if most < (limits.weights[k] * case.runtime).sum():
            return False, limits
    factor = np.zeros(jobs)
    for j in range(jobs):
        factor[j] = members >> j & 1
    ratios = np.full(NUM_LIMITS, inf)
    for number in range(ROUNDS):
        top = factor.max()
        for j in range(jobs):
            weight[j] = floor(factor[j] / top * TOP_WEIGHT)
        need = (weight * case.runtime).sum()
        most = most_weight(case, members, sets, weight, total, ran)
        if most < need:
            return False, limits
        worst = ratios.argmax()
        if most / need < ratios[worst]:
            ratios[worst] = most / need
            limits.weights[len(first) + worst] = weight
            limits.totals[len(first) + worst] = total
        for j in range(jobs):
            surplus = min(2.0, ran[j] / case.runtime[j]) - 1.0
            factor[j] *= exp(-surplus / (2.0 + 0.2 * number))
    return True, limits


@shared
def beyond(limits: Limits, remaining: IntArray, t: int) -> bool:
    """Whether the rest of the work is more than can be run from tick t on."""
    for k in range(len(limits.weights)):
        need = 0
        for j in range(len(remaining)):
            need += limits.weights[k, j] * remaining[j]
        if need > limits.totals[k, t]:
            return True
    return False
