"""Whether anybody could finish a set of jobs in time: exact search, for `rlsched.evaluate.upper_bound`.

A set of jobs is one integer, bit j for job j. Ticks count from the first of the episode. That what is never
tried here is never needed is shown in `rlsched.evaluate.upper_bound`.
"""

from __future__ import annotations

from math import exp, floor, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray
from rlsched.sim.compiled import allocating, kernel, shared
from rlsched.sim.energy import availability, flow, with_error
from rlsched.sim.rules import Plant

IMPOSSIBLE, FOUND, GAVE_UP = range(3)
MEMORY = 4_194_301  # states that are remembered; prime
PROBES = 8  # places at which a state may be
ROUNDS = 60  # of the hunt for weights that show a set to be impossible
KEPT = 10  # the best weights, which then cut the search
TOP_WEIGHT = 1 << 16


class Case(NamedTuple):
    """Jobs, and the units that are on."""

    runtime: IntArray  # (job,) ticks
    requested: IntArray  # (job,) ticks
    demand: IntArray  # (job, resource) units
    alike: IntArray  # (job,) set of the jobs of the same demand
    submitted: IntArray  # (tick,) set of jobs
    may_stop: IntArray  # (tick,) set of jobs that may be stopped as the tick begins
    level: IntArray  # (tick,) row of `fits`
    fits: NDArray[np.bool_]  # (level, set) whether the units on carry the set
    rises: NDArray[np.bool_]  # (tick,) whether more is on, or forecast, than at the tick before
    forecast: IntArray  # (tick, resource, row) units, see docs/green.md
    by_request: bool  # starts must fit the forecast for what is requested
    always: bool  # every job may be stopped at every tick, and starts are free


class Limits(NamedTuple):
    """Weights of jobs, and the most weight that can be run."""

    weights: IntArray  # (limit, job)
    totals: IntArray  # (limit, tick + 1) from this tick on


class Path(NamedTuple):
    """The sets that run, up to the tick where the search stands, and what follows from them."""

    left: IntArray  # (tick + 1, job) ticks
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
    """Write the least and the most units that are on, whoever decides, and the highest level of the battery.

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
    most, best, level, here = 0, 0, -1, -1
    for t in range(ticks - 1, -1, -1):
        if case.level[t] != level or case.submitted[t] & members != here:
            level, here = case.level[t], case.submitted[t] & members
            most = -1
            for one in sets:
                if one & ~here != 0 or not case.fits[level, one]:
                    continue
                found = 0
                for j in range(jobs):
                    found += (one >> j & 1) * weight[j]
                if found > most:
                    most, best = found, one
        total[t] = total[t + 1] + most
        for j in range(jobs):
            ran[j] += best >> j & 1
    return total[0]


@allocating
def limits_of(case: Case, members: int, sets: IntArray, first: IntArray) -> tuple[bool, Limits]:
    """Limits that no schedule of these jobs escapes.

    Whatever weights the ticks of the jobs have, what the jobs need must not be more than can be run. After
    some given weights, more are hunted for by multiplicative updates: a job that gets less than it needs
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
        np.zeros((len(first) + KEPT, jobs), np.int64), np.zeros((len(first) + KEPT, ticks + 1), np.int64)
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
    ratios = np.full(KEPT, inf)
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
def beyond(limits: Limits, left: IntArray, t: int) -> bool:
    """Whether what is left is more than can be run from tick t on."""
    for k in range(len(limits.weights)):
        need = 0
        for j in range(len(left)):
            need += limits.weights[k, j] * left[j]
        if need > limits.totals[k, t]:
            return True
    return False


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
def asked_for(case: Case, left: IntArray, j: int) -> int:
    """What is left of the job's requested time."""
    return max(1, case.requested[j] - case.runtime[j] + left[j])


@shared
def may_run(case: Case, left: IntArray, t: int, one: int, running: int) -> bool:
    """Whether the set may run at tick t: it fits, and what starts fits the forecast as far as it must."""
    if not case.fits[case.level[t], one]:
        return False
    if not case.by_request:
        return True
    jobs = len(left)
    for i in range(jobs):
        if (one & ~running) >> i & 1 == 0:
            continue
        for k in range(asked_for(case, left, i)):
            for r in range(case.demand.shape[1]):
                held = 0
                for j in range(jobs):
                    if one >> j & 1 and asked_for(case, left, j) > k:
                        held += case.demand[j, r]
                if case.demand[i, r] > 0 and held > case.forecast[t, r, k]:
                    return False
    return True


@shared
def dominated(case: Case, path: Path, t: int, one: int) -> bool:
    """Whether another set is at least as good as this one, which may run."""
    left = path.left[t]
    jobs = len(left)
    for j in range(jobs):
        if one >> j & 1 or path.may[t] >> j & 1 == 0:
            continue
        if path.loose[t] >> j & 1 and may_run(case, left, t, one | 1 << j, path.running[t]):
            return True
        for i in range(jobs):
            if (one & case.alike[j]) >> i & 1 == 0:
                continue
            twins = case.requested[i] - case.runtime[i] == case.requested[j] - case.runtime[j]
            twins |= not case.by_request
            twins &= left[i] == left[j] and path.running[t] >> i & 1 == path.running[t] >> j & 1
            if (twins and j < i) or (case.always and (left[j], i) > (left[i], j)):
                return True
    return False


@shared
def enter(case: Case, limits: Limits, path: Path, memory: IntArray, t: int) -> bool:
    """Work out what may run at tick t; whether anything is to be hoped for."""
    jobs, ticks = len(case.runtime), len(case.level)
    if t == ticks or beyond(limits, path.left[t], t):
        return False
    todo, ends = 0, 0
    for j in range(jobs):
        todo |= (path.left[t, j] > 0) << j
        ends |= (path.left[t, j] == 1) << j
    ran = path.chosen[t - 1] if t > 0 else 0
    before = case.submitted[t - 1] if t > 0 else 0
    running = ran & todo
    must = running & ~case.may_stop[t]
    opened = running != ran or must != running or case.rises[t]
    here = case.submitted[t] & todo
    path.running[t] = running
    path.must[t] = must
    path.may[t] = here if opened else here & (must | ~before)
    path.loose[t] = ends | (case.may_stop[t + 1] if t + 1 < ticks else todo)
    path.tried[t] = 0
    path.key[t] = 0
    if path.may[t] == must or len(memory) == 0:
        return True
    key = t
    for j in range(jobs):
        key = key * (case.runtime[j] + 1) + path.left[t, j]
    key = (key << jobs | (running if case.by_request else must)) << 1 | opened
    path.key[t] = key + 1
    return not remembered(memory, key + 1, False)


@shared
def next_set(case: Case, sets: IntArray, path: Path, t: int) -> int:
    """The next set to try at tick t, or -1."""
    must, may = path.must[t], path.may[t]
    if may == must:
        path.tried[t] += 1
        return must if path.tried[t] == 1 else -1
    for k in range(path.tried[t], len(sets)):
        one = sets[k]
        if one & ~may != 0 or must & ~one != 0:
            continue
        if may_run(case, path.left[t], t, one, path.running[t]) and not dominated(case, path, t, one):
            path.tried[t] = k + 1
            return one
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
        FOUND, IMPOSSIBLE or GAVE_UP; (tick + 1,) the set that runs, where found; states looked at.
    """
    jobs, ticks = len(case.runtime), len(case.level)
    row = np.zeros((7, ticks + 1), np.int64)
    left = np.zeros((ticks + 1, jobs), np.int64)
    path = Path(left, row[0], row[1], row[2], row[3], row[4], row[5], row[6])
    for j in range(jobs):
        path.left[0, j] = (members >> j & 1) * case.runtime[j]
    t, states = 0, 0
    forward = True
    while t >= 0:
        if forward:
            states += 1
            if path.left[t].sum() == 0:
                path.chosen[t:] = 0
                return FOUND, path.chosen, states
            if states > budget:
                return GAVE_UP, path.chosen, states
        one = -1
        if not forward or enter(case, limits, path, memory, t):
            one = next_set(case, sets, path, t)
            if one < 0 and path.key[t] > 0:
                remembered(memory, path.key[t], True)
        forward = one >= 0
        if forward:
            path.chosen[t] = one
            for j in range(jobs):
                path.left[t + 1, j] = path.left[t, j] - (one >> j & 1)
            t += 1
        else:
            t -= 1
    return IMPOSSIBLE, path.chosen, states
