"""The replay semantics of the RLScheduler simulator, for figures that compare with published ones.

Source: Zhang et al. 2020, verified against recorded results of that simulator. It differs from `replay` in
what it commits to and when jobs enter: the head of the queue is chosen and kept until it fits, events come
one at a time in trace order, arrivals enter only while the head waits, and there are no extra processors.
"""

from __future__ import annotations

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.sim.backfill import ANY, GREEDY, Order, best
from rlsched.sim.compiled import kernel, step
from rlsched.sim.events import admit_one, complete_one, fits, reserve, start
from rlsched.sim.priorities import STATIC, priority, static_keys
from rlsched.sim.state import JOB_BITS, NEVER, State, allocate, keys_for, load, starts


def replay_rlscheduler(rows: JobTable, units: int, policy: str, backfill: bool) -> IntArray:
    """Start ticks of jobs under a heuristic, as the RLScheduler simulator would start them.

    Args:
        rows: in trace order, as loaded by that simulator's rules; submit times absolute, not always sorted.
        units: processors of the cluster.
        policy: a name in `PRIORITIES` whose order does not follow the free units.
        backfill: start jobs behind the waiting head that will be done before it is expected to start.

    Returns:
        (jobs,) ticks.

    Raises:
        BadInputError: an unknown or unsuitable policy, or a job that the cluster cannot run.
    """
    state = allocate(1, len(rows), [units])
    load(state, 0, rows, in_order=False)
    keys = np.zeros((1, len(rows)))
    keys_for(state, 0, keys, committed_keys(policy, rows, units))
    run_committed(state, 0, Order(keys, STATIC, False, GREEDY, int(NEVER)), backfill)
    return starts(state, 0)


def committed_keys(policy: str, rows: JobTable, units: int) -> FloatArray:
    """(jobs,) keys of an order in this setting, where wait is the constant -1 - submit."""
    submit, requested, procs = (a.astype(float) for a in (rows.submit, rows.requested, rows.demand[:, 0]))
    wait = -1.0 - submit
    if policy == "wfp3":
        return -((wait / requested) ** 3) * procs
    if policy == "unicep":
        return -(wait + 1e-15) / (np.log2(procs + 1e-15) * requested)
    order = priority(policy)
    if order.moving != STATIC:
        raise BadInputError("--policy", f"{policy!r} under rlscheduler", "use an order that does not move")
    return static_keys(order, rows, [units], seed=0)


@kernel
def run_committed(s: State, i: int, order: Order, backfill: bool) -> None:
    """Choose the head, wait for it while others may be backfilled, start it; until all jobs have started."""
    e = s.episodes[i]
    while True:
        while e.queue_lo == e.queue_hi:
            if e.next_arrival == e.num_jobs:
                return
            one_event(s, i)
        head = s.queue[i, e.queue_lo + best(s, i, order, ANY, 0)]
        if backfill and not fits(s, i, head):
            reserve(s, i, head)
        while not fits(s, i, head):
            while backfill:
                k = first_behind(s, i, head)
                if k < 0:
                    break
                start(s, i, k, True)
            one_event(s, i)
        position = 0
        while s.queue[i, e.queue_lo + position] != head:
            position += 1
        start(s, i, position, True)


@step
def first_behind(s: State, i: int, head: int) -> int:
    """Position of the first waiting job, by submit time, that fits and is done before the shadow time."""
    e = s.episodes[i]
    found = -1
    found_submit = NEVER
    for k in range(e.queue_hi - e.queue_lo):
        row = s.queue[i, e.queue_lo + k]
        job = s.jobs[i, row]
        if row == head or job.submit >= found_submit or e.now + job.requested >= e.shadow:
            continue
        if fits(s, i, row):
            found, found_submit = k, job.submit
    return found


@step
def one_event(s: State, i: int) -> None:
    """Advance by exactly one arrival or one completion; an arrival comes first at equal times."""
    e = s.episodes[i]
    end = NEVER
    if e.num_running > 0:
        end = s.ends[i, 0] >> JOB_BITS
    if e.next_arrival < e.num_jobs and s.jobs[i, e.next_arrival].submit <= end:
        e.now = max(e.now, s.jobs[i, e.next_arrival].submit)
        admit_one(s, i)
    else:
        e.now = max(e.now, end)
        complete_one(s, i, True)
