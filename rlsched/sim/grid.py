"""The grid of ticks x resources: what is held from now on, and what is forecast to be on.

Row k is tick now + k; running and planned jobs hold units. Rules: docs/green.md.
"""

from __future__ import annotations

from rlsched.sim.compiled import step
from rlsched.sim.state import State

NOWHERE = -1
"""Row of a job that fits at no row."""


@step
def hold(s: State, i: int, row: int, first: int, last: int, sign: int) -> None:
    """Put the job's demand into the rows `first <= k < last` that the grid has; sign -1 takes it out."""
    last = min(last, s.used.shape[1])
    for k in range(first, last):
        for r in range(s.used.shape[2]):
            s.used[i, k, r] += sign * s.demand[i, row, r]


@step
def fits_row(s: State, i: int, row: int, k: int) -> bool:
    """Whether the job's demand is free in row k."""
    for r in range(s.used.shape[2]):
        if s.used[i, k, r] + s.demand[i, row, r] > s.on[i, k, r]:
            return False
    return True


@step
def fits_now(s: State, i: int, row: int) -> bool:
    """Whether the job fits from row 0 until its expected end."""
    requested = s.jobs[i, row].requested
    if requested > s.used.shape[1]:
        return False
    for k in range(requested):
        if not fits_row(s, i, row, k):
            return False
    return True


@step
def first_fit(s: State, i: int, row: int) -> int:
    """First row from which the job fits for its whole requested time, or NOWHERE."""
    requested = s.jobs[i, row].requested
    rows = s.used.shape[1]
    first = 0
    k = 0
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
    rows = s.used.shape[1]
    for k in range(rows - 1):
        for r in range(s.used.shape[2]):
            s.used[i, k, r] = s.used[i, k + 1, r]
    for r in range(s.used.shape[2]):
        s.used[i, rows - 1, r] = 0


@step
def overfull(s: State, i: int, k: int) -> bool:
    """Whether more is held in row k than will be on."""
    for r in range(s.used.shape[2]):
        if s.used[i, k, r] > s.on[i, k, r]:
            return True
    return False


@step
def strains(s: State, i: int, row: int, first: int, last: int) -> bool:
    """Whether the job holds units of an overfull resource in some row `first <= k < last`."""
    for k in range(first, min(last, s.used.shape[1])):
        for r in range(s.used.shape[2]):
            if s.demand[i, row, r] > 0 and s.used[i, k, r] > s.on[i, k, r]:
                return True
    return False
