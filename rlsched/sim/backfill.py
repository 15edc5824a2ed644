"""Backfilling: which waiting jobs start at an event, given a priority rule.

none: the best job or none. greedy: the best of those that fit. easy: the best job that does not fit gets
a reservation, and others may start if they do not delay it. conservative: every job passed over gets one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlsched.jobs import FloatArray, IntArray
from rlsched.sim.compiled import allocating, shared, step
from rlsched.sim.events import admissible, fits, reserve, start, start_behind
from rlsched.sim.priorities import NOT_BY_SUBMIT, STATIC, key_by_submit, moving_key
from rlsched.sim.state import JOB_BITS, JOB_MASK, NEVER, State

NONE, GREEDY, EASY, CONSERVATIVE = range(4)
BACKFILLS = {"none": NONE, "greedy": GREEDY, "easy": EASY, "conservative": CONSERVATIVE}

ANY, FITS, ADMISSIBLE = range(3)


class QueueHeuristic(NamedTuple):
    """Heuristic for a queue: a priority rule and backfilling."""

    keys: FloatArray  # (env, job) smallest first; read where moving is STATIC
    moving: int  # priorities.moving_key
    by_submit: int  # priorities.key_by_submit
    in_queue_order: bool  # the keys are sorted as the queue is
    backfill: int
    window: int  # only so many of the oldest waiting jobs are looked at


@step
def key_of(s: State, i: int, heuristic: QueueHeuristic, row: int) -> float:
    """The key of a waiting job, now."""
    if heuristic.moving != STATIC:
        return moving_key(s, i, row, heuristic.moving)
    key = heuristic.keys[i, row]
    if s.links.shape[1] > 0 and heuristic.by_submit != NOT_BY_SUBMIT:
        return key_by_submit(s, i, row, key, heuristic.by_submit)
    return key


@step
def best(s: State, i: int, heuristic: QueueHeuristic, need: int, first: int) -> int:
    """Position in the queue of the best waiting job that satisfies `need`, or -1.

    Args:
        s: state.
        i: environment.
        heuristic: priority rule and window.
        need: ANY, FITS or ADMISSIBLE.
        first: positions before it are known not to qualify.
    """
    e = s.episodes[i]
    best_position, best_key = -1, np.inf
    for k in range(first, min(e.queue_hi - e.queue_lo, heuristic.window)):
        row = s.queue[i, e.queue_lo + k]
        if need == FITS:
            if not fits(s, i, row):
                continue
        elif need == ADMISSIBLE and not admissible(s, i, row):
            continue
        if heuristic.in_queue_order:
            return k
        key = key_of(s, i, heuristic, row)
        if key < best_key or best_position < 0:
            best_position, best_key = k, key
    return best_position


@step
def any_free(s: State, i: int) -> bool:
    """Whether a job could fit at all."""
    for r in range(len(s.resources)):
        if s.free[i, r] > 0:
            return True
    return False


@shared
def serve(s: State, i: int, heuristic: QueueHeuristic) -> None:
    """Start, now, every waiting job that the heuristic starts."""
    if heuristic.backfill == CONSERVATIVE:
        serve_conservative(s, i, heuristic)
        return
    look_ahead = heuristic.backfill == EASY
    need = FITS if heuristic.backfill == GREEDY else ANY
    first = 0
    while any_free(s, i):
        k = best(s, i, heuristic, need, first)
        if k < 0:
            return
        e = s.episodes[i]
        row = s.queue[i, e.queue_lo + k]
        if need == ADMISSIBLE:
            start_behind(s, i, k)
        elif need == FITS or fits(s, i, row):
            start(s, i, k, look_ahead)
        elif look_ahead:
            reserve(s, i, row)
            need = ADMISSIBLE
        else:
            return
        # In queue order, those before k did not qualify, and less is free now than then.
        first = k if heuristic.in_queue_order else 0


@allocating
def serve_conservative(s: State, i: int, heuristic: QueueHeuristic) -> None:
    """One pass of conservative backfilling: plan every job by priority on the availability profile.

    The profile is made anew at every event, so that plans move up when jobs end early. A plan matters only
    for what can start now, so the pass ends when no unit is left now.
    """
    e = s.episodes[i]
    count = e.queue_hi - e.queue_lo
    if count == 0 or not any_free(s, i):
        return
    rows = s.queue[i, e.queue_lo : e.queue_hi].copy()
    keys = np.empty(count, np.float64)
    for k in range(count):
        keys[k] = key_of(s, i, heuristic, rows[k])
    ranked = np.arange(count) if heuristic.in_queue_order else np.argsort(keys, kind="mergesort")
    planned = np.zeros(count, np.bool_)
    visible = min(heuristic.window, count)
    # Each plan adds at most two breakpoints.
    ticks = np.empty(e.num_running + 2 * count + 2, np.int64)
    free = np.empty((len(ticks), len(s.resources)), np.int64)
    size = expected_profile(s, i, ticks, free)
    rank = 0
    while rank < count:
        waiting = ranked[rank]
        rank += 1
        if planned[waiting] or waiting >= visible:
            continue
        planned[waiting] = True
        row = rows[waiting]
        begin = earliest(s, i, row, ticks, free, size)
        if begin == e.now:
            if visible < count:  # the window moves on: a job that comes into sight may rank first
                visible += 1
                rank = 0
            position = 0
            while s.queue[i, e.queue_lo + position] != row:
                position += 1
            start(s, i, position, True)
        size = occupy(s, i, row, begin, ticks, free, size)
        nothing_left = True
        for r in range(len(s.resources)):
            nothing_left &= free[0, r] == 0
        if nothing_left:
            return


@step
def expected_profile(s: State, i: int, ticks: IntArray, free: IntArray) -> int:
    """Fill the profile of free units from now on: free[k] holds from ticks[k] to ticks[k + 1].

    Returns:
        Number of breakpoints; the last one holds for ever.
    """
    e = s.episodes[i]
    ticks[0] = e.now
    for r in range(len(s.resources)):
        free[0, r] = s.free[i, r]
    size = 1
    for place in range(e.num_blocks):
        block = s.block_order[i, place]
        for k in range(s.block_size[i, block]):
            code = s.blocks[i, block, k]
            tick = max(code >> JOB_BITS, e.now + 1)
            if tick > ticks[size - 1]:
                ticks[size] = tick
                copy_row(free, size - 1, size)
                size += 1
            for r in range(len(s.resources)):
                free[size - 1, r] += s.demand[i, code & JOB_MASK, r]
    return size


@step
def earliest(s: State, i: int, row: int, ticks: IntArray, free: IntArray, size: int) -> int:
    """First tick from which the job fits for its whole requested time."""
    requested = s.jobs[i, row].requested
    begin = 0
    k = 0
    while k < size:
        short = False
        for r in range(len(s.resources)):
            short |= s.demand[i, row, r] > free[k, r]
        if short:
            begin = k + 1
        elif (ticks[k + 1] if k + 1 < size else NEVER) >= ticks[begin] + requested:
            break
        k += 1
    return ticks[begin]


@step
def occupy(s: State, i: int, row: int, begin: int, ticks: IntArray, free: IntArray, size: int) -> int:
    """Take the job's units out of the profile from `begin` for its requested time; the new size."""
    end = begin + s.jobs[i, row].requested
    size = split(begin, ticks, free, size)
    size = split(end, ticks, free, size)
    for k in range(size):
        if begin <= ticks[k] < end:
            for r in range(len(s.resources)):
                free[k, r] -= s.demand[i, row, r]
    return size


@step
def split(tick: int, ticks: IntArray, free: IntArray, size: int) -> int:
    """Make a breakpoint at this tick if there is none; the new size."""
    at = size
    while at > 0 and ticks[at - 1] > tick:
        at -= 1
    if at > 0 and ticks[at - 1] == tick:
        return size
    for k in range(size, at, -1):
        ticks[k] = ticks[k - 1]
        copy_row(free, k - 1, k)
    ticks[at] = tick
    copy_row(free, at - 1, at)
    return size + 1


@step
def copy_row(free: IntArray, source: int, target: int) -> None:
    """Copy a row; assigned as a whole, numba would compile a message about shapes that differ."""
    for r in range(free.shape[1]):
        free[target, r] = free[source, r]
