"""Ready pool, wait pool, plans and suspended jobs: the places of a job while it does not run.

The ready pool is the front of the queue (`num_ready` jobs), the wait pool is the rest. Rules:
docs/reference/green-rules.md.
"""

from __future__ import annotations

import numpy as np

from rlsched.scenario.terms import STARTED_VALUE
from rlsched.sim.booking import book_suspension, job_quantities
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
from rlsched.sim.heap import remove_from_heap
from rlsched.sim.outcome import Outcome, add_term
from rlsched.sim.rules import FCFS, HVF, QOS, SJF, Rules
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
    """Key by which jobs enter the ready pool, smallest first."""
    if admission == SJF:
        return float(s.jobs[i, row].requested)
    if admission == QOS:
        return -s.job_values[i, row].qos
    if admission == HVF:
        return -s.job_values[i, row].value_rate * s.jobs[i, row].requested
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
        s.job_values[i, row].rejected = 1
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
    s.episodes[i].waiting_value += s.job_values[i, row].value


@step
def wait_no_more(s: State, i: int, row: int) -> None:
    """Take the job out of the count of those that wait."""
    e = s.episodes[i]
    uncount_waiting(s, i, row)
    e.waiting_value = e.waiting_value - s.job_values[i, row].value if e.num_waiting > 0 else 0.0


@step
def run_now(s: State, i: int, row: int) -> None:
    """Start or resume a job whose rows are held already."""
    e = s.episodes[i]
    job_value = s.job_values[i, row]
    wait_no_more(s, i, row)
    if s.jobs[i, row].start < 0:
        job_value.number = first_start(s, i, row)
    job_value.resumed = e.now
    run_job(s, i, row, job_value.number, True)
    e.running_value_rate += job_value.value_rate


@step
def book_start(s: State, o: Outcome, rules: Rules, i: int, row: int, ticks: int, sign: float) -> None:
    """Book that a job is expected to end in `ticks` ticks; sign -1: undo that booking."""
    add_term(s, o, i, STARTED_VALUE, sign * s.job_values[i, row].value * rules.discounts[ticks])


@step
def book_change(s: State, o: Outcome, rules: Rules, i: int, row: int, before: int, now: int) -> None:
    """Book that a running job ends in `now` ticks where `before` were expected."""
    change = rules.discounts[now] - rules.discounts[before]
    add_term(s, o, i, STARTED_VALUE, s.job_values[i, row].value * change)


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
    s.job_values[i, row].planned = e.now + first
    s.planned[i, e.num_planned] = row
    e.num_planned += 1


@step
def start_planned(s: State, i: int) -> None:
    """Run planned jobs whose tick has come, by row."""
    e = s.episodes[i]
    while True:
        lowest = -1
        for k in range(e.num_planned):
            row = s.planned[i, k]
            if s.job_values[i, row].planned == e.now and (lowest < 0 or row < s.planned[i, lowest]):
                lowest = k
        if lowest < 0:
            return
        row = s.planned[i, lowest]
        e.num_planned -= 1
        s.planned[i, lowest] = s.planned[i, e.num_planned]
        run_now(s, i, row)


@step
def worth_less(s: State, i: int, row: int, begin: int, rival: int, rival_begin: int) -> bool:
    """Whether a job has less value per unit-tick than another; ties: the later begin, then the higher row."""
    density, rival_density = s.job_values[i, row].density, s.job_values[i, rival].density
    if density != rival_density:
        return density < rival_density
    if begin != rival_begin:
        return begin > rival_begin
    return row > rival


@shared
def undo_one_plan(s: State, o: Outcome, rules: Rules, i: int) -> bool:
    """Take back the least valuable planned job that strains a row; whether there was one."""
    e = s.episodes[i]
    least, planned = -1, 0
    for k in range(e.num_planned):
        row = s.planned[i, k]
        job_value = s.job_values[i, row]
        first = job_value.planned - e.now
        if not strains(s, i, row, first, first + s.jobs[i, row].requested):
            continue
        if least < 0 or worth_less(s, i, row, job_value.planned, s.planned[i, least], planned):
            least, planned = k, job_value.planned
    if least < 0:
        return False
    row = s.planned[i, least]
    e.num_planned -= 1
    s.planned[i, least] = s.planned[i, e.num_planned]
    first = s.job_values[i, row].planned - e.now
    hold(s, i, row, first, first + s.jobs[i, row].requested, -1)
    book_start(s, o, rules, i, row, first + s.jobs[i, row].requested, -1.0)
    e.grid_version += 1
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
    least, least_row, resumed = -1, 0, 0
    for k in range(e.num_running):
        row = s.started[i, s.ends[i, k] & JOB_MASK]
        job_value = s.job_values[i, row]
        if only_short:
            holds = False
            for r in range(len(s.resources)):
                holds |= s.free[i, r] < 0 and s.demand[i, row, r] > 0
            if not holds:
                continue
        elif job_value.resumed == e.now:
            continue
        if least < 0 or worth_less(s, i, row, job_value.resumed, least_row, resumed):
            least, least_row, resumed = k, row, job_value.resumed
    return least


@shared
def suspend(s: State, o: Outcome, rules: Rules, i: int, place: int) -> None:
    """Suspend the running job at this place of the heap; it will resume where it stopped."""
    e = s.episodes[i]
    row = s.started[i, s.ends[i, place] & JOB_MASK]
    job = s.jobs[i, row]
    job_value = s.job_values[i, row]
    remove_from_heap(s, i, place)
    ticks = max(1, job.expected_end - e.now)
    hold(s, i, row, 0, ticks, -1)
    book_suspension(o.terms, o.totals, i, job_quantities(s, i, row), e.discount)
    book_start(s, o, rules, i, row, ticks, -1.0)
    e.grid_version += 1
    stop_job(s, i, row, True)
    e.running_value_rate = e.running_value_rate - job_value.value_rate if e.num_running > 0 else 0.0
    ran = e.now - job_value.resumed
    job.end = -1
    job.runtime -= ran
    job.requested = max(1, job.requested - ran)
    job_value.suspensions += 1
    e.rewrite_slots = 1
    s.suspended[i, e.num_suspended] = row
    e.num_suspended += 1
    wait_for(s, i, row)
