"""Events that change a cluster between ticks: starts, completions, arrivals.

Every formulation and every heuristic uses these functions and no others. The order within a tick is:
completions, arrivals, decisions, time.
"""

from __future__ import annotations

import numpy as np

from rlsched.sim.compiled import shared, step
from rlsched.sim.heap import heap_pop, heap_push
from rlsched.sim.releases import add_release, drop_release
from rlsched.sim.state import JOB_BITS, JOB_MASK, NEVER, State


@step
def fits(s: State, i: int, job: int) -> bool:
    """Whether the job's demand is free now."""
    for r in range(len(s.resources)):
        if s.demand[i, job, r] > s.free[i, r]:
            return False
    return True


@step
def leave_queue(s: State, i: int, position: int) -> None:
    """Close the gap that a job leaves at this position of the queue, from the shorter side.

    A job of the window is near the front, so this never costs more than the window, however long
    the queue behind it is.
    """
    e = s.episodes[i]
    lo, hi = e.queue_lo, e.queue_hi
    at = lo + position
    if at - lo <= hi - at:
        for k in range(at, lo, -1):
            s.queue[i, k] = s.queue[i, k - 1]
        e.queue_lo = lo + 1
    else:
        for k in range(at, hi - 1):
            s.queue[i, k] = s.queue[i, k + 1]
        e.queue_hi = hi - 1


@step
def insert_in_queue(s: State, i: int, row: int, position: int) -> None:
    """Put a job back into the queue at this position, moving the front of the queue where there is room."""
    e = s.episodes[i]
    if e.queue_lo > 0:
        e.queue_lo -= 1
        for k in range(e.queue_lo, e.queue_lo + position):
            s.queue[i, k] = s.queue[i, k + 1]
    else:
        # All of the queue has arrived and not all that arrived wait, so there is room behind it.
        for k in range(e.queue_hi, position, -1):
            s.queue[i, k] = s.queue[i, k - 1]
        e.queue_hi += 1
    s.queue[i, e.queue_lo + position] = row


@step
def count_waiting(s: State, i: int, row: int) -> None:
    """Add the job to the sums over waiting jobs."""
    e = s.episodes[i]
    job = s.jobs[i, row]
    units = np.int64(s.demand[i, row, 0])
    e.queued_work += units * job.requested
    e.queued_area += units * job.runtime
    e.num_waiting += 1
    e.slowdown_rate += job.slowdown_rate
    e.bounded_rate += job.bounded_rate


@step
def uncount_waiting(s: State, i: int, row: int) -> None:
    """Take the job out of the sums over waiting jobs."""
    e = s.episodes[i]
    job = s.jobs[i, row]
    units = np.int64(s.demand[i, row, 0])
    e.queued_work -= units * job.requested
    e.queued_area -= units * job.runtime
    e.num_waiting -= 1
    e.slowdown_rate -= job.slowdown_rate
    e.bounded_rate -= job.bounded_rate
    if e.num_waiting == 0:  # sheds what rounding left of the sums
        e.slowdown_rate = 0.0
        e.bounded_rate = 0.0


@step
def run_job(s: State, i: int, row: int, number: int, keep_releases: bool) -> None:
    """Let the job, which waits no more, run from now on.

    Args:
        s: state.
        i: environment.
        row: of the job.
        number: of its first start.
        keep_releases: keep the sorted list of expected releases (only rules that look ahead need it).
    """
    e = s.episodes[i]
    job = s.jobs[i, row]
    units = np.int64(s.demand[i, row, 0])
    job.expected_end = e.now + job.requested
    job.end = e.now + job.runtime
    heap_push(s.ends[i], e.num_running, job.end << JOB_BITS | number)
    if keep_releases:
        add_release(s, i, row, job.expected_end << JOB_BITS | row)
    e.num_running += 1
    for r in range(len(s.resources)):
        s.free[i, r] -= s.demand[i, row, r]
    e.expected_end_area += units * job.expected_end
    e.end_area += units * job.end
    e.running_rate += job.slowdown_rate


@step
def first_start(s: State, i: int, row: int) -> int:
    """Number the job, which starts now for the first time."""
    e = s.episodes[i]
    number = e.num_started
    s.jobs[i, row].start = e.now
    s.started[i, number] = row
    e.num_started = number + 1
    return number


@step
def start(s: State, i: int, position: int, keep_releases: bool) -> None:
    """Start the waiting job at this position of the queue, now; 0 is the oldest waiting job."""
    row = s.queue[i, s.episodes[i].queue_lo + position]
    uncount_waiting(s, i, row)
    run_job(s, i, row, first_start(s, i, row), keep_releases)
    leave_queue(s, i, position)


@step
def stop_job(s: State, i: int, row: int, keep_releases: bool) -> None:
    """Take a job that was running off the cluster; the heap of ends is the caller's."""
    e = s.episodes[i]
    job = s.jobs[i, row]
    units = np.int64(s.demand[i, row, 0])
    if keep_releases:
        drop_release(s, i, row, job.expected_end << JOB_BITS | row)
    e.num_running -= 1
    for r in range(len(s.resources)):
        s.free[i, r] += s.demand[i, row, r]
    e.expected_end_area -= units * job.expected_end
    e.end_area -= units * job.end
    e.running_rate = e.running_rate - job.slowdown_rate if e.num_running > 0 else 0.0


@step
def complete_one(s: State, i: int, keep_releases: bool) -> int:
    """Take the running job that ends first off the cluster; of equal ends the one that started first.

    The clock is the caller's.

    Returns:
        Row of the job.
    """
    e = s.episodes[i]
    row = s.started[i, heap_pop(s.ends[i], e.num_running) & JOB_MASK]
    stop_job(s, i, row, keep_releases)
    e.num_finished += 1
    job = s.jobs[i, row]
    e.used_requests += min(1.0, job.runtime / job.requested)
    if s.links.shape[1] > 0:
        submit_followers(s, i, row)
    return row


@shared
def submit_followers(s: State, i: int, row: int) -> None:
    """Date the arrivals of the jobs that waited for the end of this one.

    They take their places among those that have not arrived, by submit time and then by row.
    """
    e = s.episodes[i]
    end = s.jobs[i, row].end
    follower = s.links[i, row].first
    while follower >= 0:
        link = s.links[i, follower]
        submit = end + link.think if link.think >= 0 else max(end, link.planned)
        s.jobs[i, follower].submit = submit
        place = e.num_dated
        while place > e.next_arrival:
            earlier_row = s.links[i, place - 1].row
            earlier = s.jobs[i, earlier_row].submit
            if earlier < submit or (earlier == submit and earlier_row < follower):
                break
            s.links[i, place].row = earlier_row
            place -= 1
        s.links[i, place].row = follower
        e.num_dated += 1
        follower = link.next


@step
def arriving(s: State, i: int) -> int:
    """Row of the next job to arrive; there must be one whose time is known."""
    place = s.episodes[i].next_arrival
    return s.links[i, place].row if s.links.shape[1] > 0 else place


@step
def admit_one(s: State, i: int) -> None:
    """Let the next job of the episode enter the queue (the clock is the caller's)."""
    e = s.episodes[i]
    row = arriving(s, i)
    job = s.jobs[i, row]
    job.queue_at_submit = e.queue_hi - e.queue_lo
    job.work_at_submit = e.queued_work
    job.free_at_submit = s.free[i, 0]
    s.queue[i, e.queue_hi] = row
    e.queue_hi += 1
    e.next_arrival += 1
    e.arriving_area -= np.int64(s.demand[i, row, 0]) * job.runtime
    e.arrived_work += np.int64(s.demand[i, row, 0]) * job.requested
    count_waiting(s, i, row)


@step
def next_event(s: State, i: int) -> int:
    """Tick of the next completion or arrival; NEVER where none will come."""
    e = s.episodes[i]
    tick = int(NEVER)
    if e.num_running > 0:
        tick = s.ends[i, 0] >> JOB_BITS
    if e.next_arrival < e.num_dated:
        tick = min(tick, s.jobs[i, arriving(s, i)].submit)
    return tick


@step
def happen(s: State, i: int, tick: int, keep_releases: bool) -> int:
    """Set the clock and let everything due by then happen: completions, then arrivals.

    Returns:
        How many completions and arrivals there were.
    """
    e = s.episodes[i]
    e.now = tick
    count = 0
    while e.num_running > 0 and s.ends[i, 0] >> JOB_BITS <= tick:
        complete_one(s, i, keep_releases)
        count += 1
    while e.next_arrival < e.num_dated and s.jobs[i, arriving(s, i)].submit <= tick:
        admit_one(s, i)
        count += 1
    return count


@step
def reserve(s: State, i: int, row: int) -> None:
    """Give the job the EASY reservation: the first expected time at which it fits, and what stays free then.

    Source: Mu'alem & Feitelson 2001 (shadow time and extra processors), for every resource type.
    A running job past its requested time is expected to end at the next tick.
    """
    e = s.episodes[i]
    for r in range(len(s.resources)):
        s.extra[i, r] = s.free[i, r] - s.demand[i, row, r]
    e.reserved = row
    e.shadow = e.now
    short = True
    for place in range(e.num_blocks):
        block = s.block_order[i, place]
        size = s.block_size[i, block]
        if short and still_short(s, i, block):
            for r in range(len(s.resources)):
                s.extra[i, r] += s.block_units[i, block, r]
            e.shadow = max(s.blocks[i, block, size - 1] >> JOB_BITS, e.now + 1)
            continue
        for k in range(size):
            code = s.blocks[i, block, k]
            tick = max(code >> JOB_BITS, e.now + 1)
            if not short and tick > e.shadow:
                return
            released = code & JOB_MASK
            short = False
            for r in range(len(s.resources)):
                s.extra[i, r] += s.demand[i, released, r]
                short |= s.extra[i, r] < 0
            e.shadow = tick


@step
def still_short(s: State, i: int, block: int) -> bool:
    """Whether the reserved job would not fit even when all of this block has ended."""
    for r in range(len(s.resources)):
        if s.extra[i, r] + s.block_units[i, block, r] < 0:
            return True
    return False


@step
def admissible(s: State, i: int, row: int) -> bool:
    """Whether the job fits now and its start does not delay the reserved job."""
    e = s.episodes[i]
    if not fits(s, i, row):
        return False
    if e.now + s.jobs[i, row].requested <= e.shadow:
        return True
    for r in range(len(s.resources)):
        if s.demand[i, row, r] > s.extra[i, r]:
            return False
    return True


@step
def start_behind(s: State, i: int, position: int) -> None:
    """Start an admissible job behind the reservation, booking the extra units that it will still hold."""
    e = s.episodes[i]
    row = s.queue[i, e.queue_lo + position]
    if e.now + s.jobs[i, row].requested > e.shadow:
        for r in range(len(s.resources)):
            s.extra[i, r] -= s.demand[i, row, r]
    start(s, i, position, True)
