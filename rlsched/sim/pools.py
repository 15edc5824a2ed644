"""Ready pool, wait pool, plans and suspended jobs: where a job is while it does not run.

The ready pool is the front of the queue (`num_ready` jobs), the wait pool what is behind it. Rules:
docs/green.md.
"""

from __future__ import annotations

import numpy as np

from rlsched.sim.compiled import shared, step
from rlsched.sim.events import (
    count_waiting,
    first_start,
    insert_in_queue,
    leave_queue,
    run_job,
    stop_job,
    uncount_waiting,
)
from rlsched.sim.grid import hold, strains
from rlsched.sim.outcome import Outcome, book
from rlsched.sim.rules import FCFS, HVF, QOS, SJF, STARTED_VALUE, SUSPENSION, Rules
from rlsched.sim.state import JOB_MASK, State


@step
def leave_pools(s: State, i: int, position: int) -> None:
    """Take the job at this position out of the ready or wait pool."""
    e = s.episodes[i]
    if position < e.num_ready:
        e.num_ready -= 1
    leave_queue(s, i, position)


@step
def admission_key(s: State, i: int, row: int, admission: int) -> float:
    """What decides who enters the ready pool; the smallest first."""
    if admission == SJF:
        return float(s.jobs[i, row].requested)
    if admission == QOS:
        return -s.lots[i, row].qos
    if admission == HVF:
        return -s.lots[i, row].price * s.jobs[i, row].requested
    return 0.0


@step
def refill(s: State, rules: Rules, i: int) -> None:
    """Fill free slots of the ready pool: from the suspended jobs, then from the wait pool."""
    e = s.episodes[i]
    while e.num_ready < rules.window:
        if e.num_suspended > 0:
            row = s.suspended[i, 0]
            e.num_suspended -= 1
            for k in range(e.num_suspended):
                s.suspended[i, k] = s.suspended[i, k + 1]
            insert_in_queue(s, i, row, e.num_ready)
        elif e.queue_hi - e.queue_lo > e.num_ready:
            if rules.admission != FCFS:
                bring_forward(s, i, rules.admission)
        else:
            return
        e.num_ready += 1


@shared
def bring_forward(s: State, i: int, admission: int) -> None:
    """Move the best job of the wait pool to its head."""
    e = s.episodes[i]
    head = e.queue_lo + e.num_ready
    best = head
    best_key = admission_key(s, i, s.queue[i, head], admission)
    for k in range(head + 1, e.queue_hi):
        key = admission_key(s, i, s.queue[i, k], admission)
        if key < best_key:
            best, best_key = k, key
    row = s.queue[i, best]
    for k in range(best, head, -1):
        s.queue[i, k] = s.queue[i, k - 1]
    s.queue[i, head] = row


@step
def arrive(s: State, rules: Rules, i: int) -> bool:
    """Let the next job of the episode enter a pool.

    Returns:
        Whether there was room for it.
    """
    e = s.episodes[i]
    row = e.next_arrival
    job = s.jobs[i, row]
    waiting = e.queue_hi - e.queue_lo
    job.queue_at_submit = waiting
    job.work_at_submit = e.queued_work
    job.free_at_submit = max(0, s.free[i, 0])
    e.next_arrival = row + 1
    e.arrived_work += np.int64(s.demand[i, row, 0]) * job.requested
    if e.num_ready == rules.window and waiting - e.num_ready >= rules.wait_pool:
        s.lots[i, row].rejected = 1
        e.num_rejected += 1
        return False
    s.queue[i, e.queue_hi] = row
    e.queue_hi += 1
    if e.num_ready < rules.window:
        e.num_ready += 1
    wait_for(s, i, row)
    return True


@step
def wait_for(s: State, i: int, row: int) -> None:
    """Count the job among those that wait."""
    count_waiting(s, i, row)
    s.episodes[i].waiting_value += s.lots[i, row].value


@step
def wait_no_more(s: State, i: int, row: int) -> None:
    """Take the job out of the count of those that wait."""
    e = s.episodes[i]
    uncount_waiting(s, i, row)
    e.waiting_value = e.waiting_value - s.lots[i, row].value if e.num_waiting > 0 else 0.0


@step
def run_now(s: State, i: int, row: int) -> None:
    """Start or resume a job whose rows are held already."""
    e = s.episodes[i]
    lot = s.lots[i, row]
    wait_no_more(s, i, row)
    if s.jobs[i, row].start < 0:
        lot.number = first_start(s, i, row)
    lot.resumed = e.now
    run_job(s, i, row, lot.number, True)
    e.running_price += lot.price


@step
def book_start(s: State, o: Outcome, rules: Rules, i: int, row: int, ticks: int, sign: float) -> None:
    """Book that a job is expected to end in so many ticks; sign -1: that it is not."""
    book(s, o, i, STARTED_VALUE, sign * s.lots[i, row].value * rules.left[ticks])


@step
def book_change(s: State, o: Outcome, rules: Rules, i: int, row: int, before: int, now: int) -> None:
    """Book that a running job ends in `now` ticks where `before` were expected."""
    book(s, o, i, STARTED_VALUE, s.lots[i, row].value * (rules.left[now] - rules.left[before]))


@step
def schedule(s: State, o: Outcome, rules: Rules, i: int, position: int, first: int) -> None:
    """Plan the ready job at this position for a row; row 0 is a start."""
    e = s.episodes[i]
    row = s.queue[i, e.queue_lo + position]
    hold(s, i, row, first, first + s.jobs[i, row].requested, 1)
    book_start(s, o, rules, i, row, first + s.jobs[i, row].requested, 1.0)
    leave_pools(s, i, position)
    if first == 0:
        run_now(s, i, row)
        return
    s.lots[i, row].planned = e.now + first
    s.planned[i, e.num_planned] = row
    e.num_planned += 1


@step
def start_planned(s: State, i: int) -> None:
    """Let planned jobs whose tick has come run, by row."""
    e = s.episodes[i]
    while True:
        found = -1
        for k in range(e.num_planned):
            row = s.planned[i, k]
            if s.lots[i, row].planned == e.now and (found < 0 or row < s.planned[i, found]):
                found = k
        if found < 0:
            return
        row = s.planned[i, found]
        e.num_planned -= 1
        s.planned[i, found] = s.planned[i, e.num_planned]
        run_now(s, i, row)


@step
def worth_less(s: State, i: int, row: int, begin: int, other: int, other_begin: int) -> bool:
    """Whether a job has less value per unit-tick than another; ties: the later begin, then the higher row."""
    density, other_density = s.lots[i, row].density, s.lots[i, other].density
    if density != other_density:
        return density < other_density
    if begin != other_begin:
        return begin > other_begin
    return row > other


@shared
def undo_one_plan(s: State, o: Outcome, rules: Rules, i: int) -> bool:
    """Take back the least valuable planned job that strains a row; whether there was one."""
    e = s.episodes[i]
    found, planned = -1, 0
    for k in range(e.num_planned):
        row = s.planned[i, k]
        lot = s.lots[i, row]
        first = lot.planned - e.now
        if not strains(s, i, row, first, first + s.jobs[i, row].requested):
            continue
        if found < 0 or worth_less(s, i, row, lot.planned, s.planned[i, found], planned):
            found, planned = k, lot.planned
    if found < 0:
        return False
    row = s.planned[i, found]
    e.num_planned -= 1
    s.planned[i, found] = s.planned[i, e.num_planned]
    first = s.lots[i, row].planned - e.now
    hold(s, i, row, first, first + s.jobs[i, row].requested, -1)
    book_start(s, o, rules, i, row, first + s.jobs[i, row].requested, -1.0)
    e.freed += 1
    insert_in_queue(s, i, row, e.num_ready)
    if e.num_ready < rules.window:
        e.num_ready += 1
    return True


@step
def weakest(s: State, i: int, only_short: bool) -> int:
    """Place in the heap of the running job with the least value per unit-tick, or -1.

    Ties: last (re)started, then the highest row.

    Args:
        s: state.
        i: environment.
        only_short: look at jobs that hold a resource that is short; else at those that run since before now.
    """
    e = s.episodes[i]
    found, found_row, resumed = -1, 0, 0
    for k in range(e.num_running):
        row = s.started[i, s.ends[i, k] & JOB_MASK]
        lot = s.lots[i, row]
        if only_short:
            holds = False
            for r in range(len(s.resources)):
                holds |= s.free[i, r] < 0 and s.demand[i, row, r] > 0
            if not holds:
                continue
        elif lot.resumed == e.now:
            continue
        if found < 0 or worth_less(s, i, row, lot.resumed, found_row, resumed):
            found, found_row, resumed = k, row, lot.resumed
    return found


@shared
def suspend(s: State, o: Outcome, rules: Rules, i: int, place: int) -> None:
    """Suspend the running job at this place of the heap; what it has done is kept."""
    e = s.episodes[i]
    row = s.started[i, s.ends[i, place] & JOB_MASK]
    job = s.jobs[i, row]
    lot = s.lots[i, row]
    remove_from_heap(s, i, place)
    ticks = max(1, job.expected_end - e.now)
    hold(s, i, row, 0, ticks, -1)
    book(s, o, i, SUSPENSION, -1.0)
    book_start(s, o, rules, i, row, ticks, -1.0)
    e.freed += 1
    stop_job(s, i, row, True)
    e.running_price = e.running_price - lot.price if e.num_running > 0 else 0.0
    ran = e.now - lot.resumed
    job.end = -1
    job.runtime -= ran
    job.requested = max(1, job.requested - ran)
    lot.suspensions += 1
    e.reshow = 1
    s.suspended[i, e.num_suspended] = row
    e.num_suspended += 1
    wait_for(s, i, row)


@step
def remove_from_heap(s: State, i: int, place: int) -> None:
    """Take a code out of the middle of the heap of ends; `num_running` is the caller's."""
    heap = s.ends[i]
    last = s.episodes[i].num_running - 1
    code = heap[last]
    k = place
    while k > 0 and heap[(k - 1) >> 1] > code:
        heap[k] = heap[(k - 1) >> 1]
        k = (k - 1) >> 1
    while True:
        child = 2 * k + 1
        if child >= last:
            break
        if child + 1 < last and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= code:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = code
