"""The grid of ticks x resources: units held from now on, and units forecast to be on.

Row k is tick now + k; running and planned jobs hold units. Rules: docs/reference/green-rules.md.
"""

from __future__ import annotations

import numpy as np

from rlsched.sim.compiled import step
from rlsched.sim.rules import Rules
from rlsched.sim.state import State

NOWHERE = -1
"""Row of a job that fits at no row."""


@step
def hold(s: State, i: int, row: int, first: int, last: int, sign: int) -> None:
    """Put the job's demand into the rows `first <= k < last` that the grid has; sign -1 takes it out."""
    last = min(last, s.used.shape[2])
    for r in range(len(s.resources)):
        used = s.used[i, r, first:]  # so that no index may be negative: vector code
        units = np.int32(sign * s.demand[i, row, r])
        for k in range(last - first):
            used[k] += units


@step
def fits_row(s: State, i: int, row: int, k: int) -> bool:
    """Whether the job's demand is free in row k."""
    for r in range(len(s.resources)):
        if s.used[i, r, k] + s.demand[i, row, r] > s.on[i, r, k]:
            return False
    return True


@step
def fits_now(s: State, i: int, row: int) -> bool:
    """Whether the job fits from row 0 until its expected end."""
    requested = s.jobs[i, row].requested
    if requested > s.used.shape[2] or not fits_row(s, i, row, 0):
        return False
    for r in range(len(s.resources)):
        used, on, units = s.used[i, r], s.on[i, r], s.demand[i, row, r]
        short = False
        for k in range(1, requested):  # to the end, so that it compiles to vector code
            short |= used[k] + units > on[k]
        if short:
            return False
    return True


@step
def too_late(s: State, rules: Rules, i: int, row: int, first: int) -> bool:
    """Whether the job, started in row `first`, would end later than the scenario still waits for it."""
    if not rules.latest_start:
        return False
    return s.episodes[i].now + first + s.jobs[i, row].requested > s.job_values[i, row].due + rules.expiry


@step
def first_fit(s: State, i: int, row: int, first: int) -> int:
    """First row from `first` on from which the job fits for its whole requested time, or NOWHERE."""
    requested = s.jobs[i, row].requested
    rows = s.used.shape[2]
    k = first
    while first + requested <= rows:
        if not fits_row(s, i, row, k):
            first = k + 1
        elif k + 1 - first == requested:
            return first
        k += 1
    return NOWHERE


@step
def shift(s: State, i: int) -> None:
    """Move the grid up by one row: the clock has moved by one tick."""
    last = s.used.shape[2] - 1
    for r in range(len(s.resources)):
        used = s.used[i, r]
        for k in range(last):
            used[k] = used[k + 1]
        used[last] = 0


@step
def overfull(s: State, i: int, k: int) -> bool:
    """Whether more is held in row k than will be on."""
    for r in range(len(s.resources)):
        if s.used[i, r, k] > s.on[i, r, k]:
            return True
    return False


@step
def strains(s: State, i: int, row: int, first: int, last: int) -> bool:
    """Whether the job holds units of an overfull resource in some row `first <= k < last`."""
    for r in range(len(s.resources)):
        if s.demand[i, row, r] > 0:
            for k in range(first, min(last, s.used.shape[2])):
                if s.used[i, r, k] > s.on[i, r, k]:
                    return True
    return False
