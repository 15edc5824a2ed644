"""Exact search whether any schedule finishes a set of jobs in time, for `rlsched.evaluate.upper_bound`.

A set of jobs is one integer, bit j for job j. Ticks count from the first of the episode.
`rlsched.evaluate.upper_bound` shows why the schedules that are never tried here are never needed.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

import numpy as np

from rlsched.jobs import FloatArray, IntArray
from rlsched.sim.compiled import allocating, kernel, shared
from rlsched.sim.energy import availability, flow, with_error
from rlsched.sim.rules import Plant
from rlsched.sim.upper_bound_limits import Case, Limits, beyond

IMPOSSIBLE, POSSIBLE, GAVE_UP = range(3)
MEMORY = 4_194_301  # states that are remembered; prime
PROBES = 8  # places at which a state may be


class Path(NamedTuple):
    """The sets that run, up to the current tick of the search, and what follows from them."""

    remaining: IntArray  # (tick + 1, job) ticks
    chosen: IntArray  # (tick + 1,) set that runs
    running: IntArray  # (tick + 1,) set that ran at the tick before and is not done
    must: IntArray  # (tick + 1,) set that must go on
    may: IntArray  # (tick + 1,) set that may run
    loose: IntArray  # (tick + 1,) set that is done or may be stopped at the next tick
    tried: IntArray  # (tick + 1,) candidates tried
    key: IntArray  # (tick + 1,) of the state, 0 where it is not remembered


@kernel
def units_on(
    plant: Plant, units: IntArray, supply: FloatArray, least: IntArray, most: IntArray, top: FloatArray
) -> None:
    """Write the least and the most units that can be on, and the highest level of the battery.

    Args:
        plant: of the scenario.
        units: (resource,) of the cluster.
        supply: (ticks of the series,) watts.
        least: (tick, resource) is overwritten.
        most: (tick, resource) likewise.
        top: (tick,) likewise, Wh.
    """
    low, high = plant.initial_wh, plant.initial_wh
    slack = 1e-9 if plant.capacity_wh > 0.0 else 0.0  # levels are sums, rounded in another order
    for t in range(len(least)):
        watts = supply[t % len(supply)]
        low_share, top_share = availability(plant, watts, low), availability(plant, watts, high)
        idle = 0.0
        for r in range(len(units)):
            least[t, r] = floor(units[r] * low_share + 1e-9 - slack)
            most[t, r] = floor(units[r] * top_share + 1e-9 + slack)
            idle += least[t, r] * plant.idle_w[r]
        top[t] = high
        low = flow(plant, watts, plant.full_w, low).level
        high = flow(plant, watts, idle, high).level


@kernel
def forecasts(
    plant: Plant, units: IntArray, supply: FloatArray, seed: int, first: int, top: FloatArray, out: IntArray
) -> None:
    """Write the most that can be forecast, (tick, resource, row), the first tick being `first`."""
    slack = 1e-9 if plant.capacity_wh > 0.0 else 0.0
    for t in range(out.shape[0]):
        level = top[t]
        for k in range(out.shape[2]):
            watts = supply[(t + k) % len(supply)]
            share = availability(plant, watts, level)
            level = flow(plant, watts, plant.full_w, level).level
            share = with_error(share, plant.forecast_error, seed, first + t, k)
            for r in range(len(units)):
                out[t, r, k] = floor(units[r] * share + 1e-9 + slack)


@shared
def remembered(memory: IntArray, key: int, add: bool) -> bool:
    """Whether this state was searched in vain; where it was not, say that it was now if `add`."""
    home = key % len(memory)
    for k in range(PROBES):
        place = (home + k) % len(memory)
        if memory[place] == key:
            return True
        if memory[place] == 0:
            if add:
                memory[place] = key
            return False
    if add:
        memory[home] = key
    return False


@shared
def remaining_request(case: Case, remaining: IntArray, j: int) -> int:
    """Rest of the job's requested time, at least 1."""
    return max(1, case.requested[j] - case.runtime[j] + remaining[j])


@shared
def may_run(case: Case, remaining: IntArray, t: int, subset: int, running: int) -> bool:
    """Whether the set may run at tick t: it fits, and what starts fits the forecast as far as it must."""
    if not case.fits[case.level[t], subset]:
        return False
    if not case.by_request:
        return True
    jobs = len(remaining)
    for i in range(jobs):
        if (subset & ~running) >> i & 1 == 0:
            continue
        for k in range(remaining_request(case, remaining, i)):
            for r in range(case.demand.shape[1]):
                held = 0
                for j in range(jobs):
                    if subset >> j & 1 and remaining_request(case, remaining, j) > k:
                        held += case.demand[j, r]
                if case.demand[i, r] > 0 and held > case.forecast[t, r, k]:
                    return False
    return True


@shared
def dominated(case: Case, path: Path, t: int, subset: int) -> bool:
    """Whether another set is at least as good as this one, which may run."""
    remaining = path.remaining[t]
    jobs = len(remaining)
    for j in range(jobs):
        if subset >> j & 1 or path.may[t] >> j & 1 == 0:
            continue
        if path.loose[t] >> j & 1 and may_run(case, remaining, t, subset | 1 << j, path.running[t]):
            return True
        for i in range(jobs):
            if (subset & case.same_demand[j]) >> i & 1 == 0:
                continue
            same = case.requested[i] - case.runtime[i] == case.requested[j] - case.runtime[j]
            same |= not case.by_request
            same &= remaining[i] == remaining[j] and path.running[t] >> i & 1 == path.running[t] >> j & 1
            if (same and j < i) or (case.always and (remaining[j], i) > (remaining[i], j)):
                return True
    return False


@shared
def enter(case: Case, limits: Limits, path: Path, memory: IntArray, t: int) -> bool:
    """Set the jobs that may run at tick t; whether a schedule is still possible."""
    jobs, ticks = len(case.runtime), len(case.level)
    if t == ticks or beyond(limits, path.remaining[t], t):
        return False
    todo, ends = 0, 0
    for j in range(jobs):
        todo |= (path.remaining[t, j] > 0) << j
        ends |= (path.remaining[t, j] == 1) << j
    ran = path.chosen[t - 1] if t > 0 else 0
    before = case.submitted[t - 1] if t > 0 else 0
    running = ran & todo
    must = running & ~case.may_stop[t]
    opened = running != ran or must != running or case.rises[t]
    available = case.submitted[t] & todo
    path.running[t] = running
    path.must[t] = must
    path.may[t] = available if opened else available & (must | ~before)
    path.loose[t] = ends | (case.may_stop[t + 1] if t + 1 < ticks else todo)
    path.tried[t] = 0
    path.key[t] = 0
    if path.may[t] == must or len(memory) == 0:
        return True
    key = t
    for j in range(jobs):
        key = key * (case.runtime[j] + 1) + path.remaining[t, j]
    key = (key << jobs | (running if case.by_request else must)) << 1 | opened
    path.key[t] = key + 1
    return not remembered(memory, key + 1, False)


@shared
def next_set(case: Case, sets: IntArray, path: Path, t: int) -> int:
    """The next set to try at tick t, or -1."""
    must, may, running = path.must[t], path.may[t], path.running[t]
    if may == must:
        path.tried[t] += 1
        return must if path.tried[t] == 1 else -1
    for k in range(path.tried[t], len(sets)):
        subset = sets[k]
        if subset & ~may != 0 or must & ~subset != 0:
            continue
        if may_run(case, path.remaining[t], t, subset, running) and not dominated(case, path, t, subset):
            path.tried[t] = k + 1
            return subset
    return -1


@allocating
def search(
    case: Case, members: int, sets: IntArray, limits: Limits, memory: IntArray, budget: int
) -> tuple[int, IntArray, int]:
    """Look for a schedule that finishes these jobs, tick by tick, in depth.

    Args:
        case: jobs and units.
        members: set of the jobs that are to be finished.
        sets: all sets of them, the most promising first.
        limits: of `limits_of`.
        memory: (MEMORY,) states that lead nowhere, 0 at first; empty where their keys would not fit.
        budget: states to look at.

    Returns:
        POSSIBLE, IMPOSSIBLE or GAVE_UP; (tick + 1,) the set that runs, if POSSIBLE; states looked at.
    """
    jobs, ticks = len(case.runtime), len(case.level)
    row = np.zeros((7, ticks + 1), np.int64)
    remaining = np.zeros((ticks + 1, jobs), np.int64)
    path = Path(remaining, row[0], row[1], row[2], row[3], row[4], row[5], row[6])
    for j in range(jobs):
        path.remaining[0, j] = (members >> j & 1) * case.runtime[j]
    t, states = 0, 0
    forward = True
    while t >= 0:
        if forward:
            states += 1
            if path.remaining[t].sum() == 0:
                path.chosen[t:] = 0
                return POSSIBLE, path.chosen, states
            if states > budget:
                return GAVE_UP, path.chosen, states
        subset = -1
        if not forward or enter(case, limits, path, memory, t):
            subset = next_set(case, sets, path, t)
            if subset < 0 and path.key[t] > 0:
                remembered(memory, path.key[t], True)
        forward = subset >= 0
        if forward:
            path.chosen[t] = subset
            for j in range(jobs):
                path.remaining[t + 1, j] = path.remaining[t, j] - (subset >> j & 1)
            t += 1
        else:
            t -= 1
    return IMPOSSIBLE, path.chosen, states
