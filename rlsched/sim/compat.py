"""The replay semantics of the RLScheduler simulator, for figures that compare with published ones.

Source: Zhang et al. 2020, verified against recorded results of that simulator. It differs from `replay` in
what it commits to and when jobs enter: the head of the queue is chosen and stays until it fits, events come
one at a time in trace order, arrivals enter only while the head waits, and there are no extra processors.

Of jobs that end at the same tick, the order of that simulator's list of running jobs decides. A job that
starts goes to its end. The list is sorted stably by expected end where a head waits and others may be
backfilled, and by real end before each event.
"""

from __future__ import annotations

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.sim.backfill import ANY, GREEDY, QueueHeuristic, best
from rlsched.sim.compiled import kernel, step
from rlsched.sim.events import admit_one, fits, reserve, start, stop_job
from rlsched.sim.heap import remove_from_heap
from rlsched.sim.load import load
from rlsched.sim.priorities import NOT_BY_SUBMIT, STATIC, priority, static_keys
from rlsched.sim.state import JOB_MASK, NEVER, State, allocate, keys_for, starts


def replay_rlscheduler(rows: JobTable, units: int, policy: str, backfill: bool) -> IntArray:
    """Start ticks of jobs under a heuristic, as the RLScheduler simulator would start them.

    Args:
        rows: in trace order, as loaded by that simulator's rules; submit times absolute, not always sorted.
        units: processors of the cluster.
        policy: a name in `PRIORITIES` whose keys do not change while a job waits.
        backfill: start jobs behind the waiting head that will end before its expected start.

    Returns:
        (jobs,) ticks.

    Raises:
        BadInputError: an unknown or unsuitable policy, or a job that the cluster cannot run.
    """
    state = allocate(1, len(rows), [units])
    load(state, 0, rows, in_order=False)
    keys = np.zeros((1, len(rows)))
    keys_for(state, 0, keys, committed_keys(policy, rows, units))
    running = np.zeros(len(rows), np.int64)
    run_committed(
        state, 0, QueueHeuristic(keys, STATIC, NOT_BY_SUBMIT, False, GREEDY, int(NEVER)), backfill, running
    )
    return starts(state, 0)


def committed_keys(policy: str, rows: JobTable, units: int) -> FloatArray:
    """(jobs,) keys of a priority rule in this setting, where wait is the constant -1 - submit."""
    submit, requested, procs = (a.astype(float) for a in (rows.submit, rows.requested, rows.demand[:, 0]))
    wait = -1.0 - submit
    if policy == "wfp3":
        return -((wait / requested) ** 3) * procs
    if policy == "unicep":
        return -(wait + 1e-15) / (np.log2(procs + 1e-15) * requested)
    rule = priority(policy)
    if rule.moving != STATIC:
        raise BadInputError("--policy", f"{policy!r} under rlscheduler", "use an order that does not move")
    return static_keys(rule, rows, [units], seed=0)


@kernel
def run_committed(s: State, i: int, heuristic: QueueHeuristic, backfill: bool, running: IntArray) -> None:
    """Choose the head, wait for it while others may be backfilled, start it; until all jobs have started.

    Args:
        s: state.
        i: environment.
        heuristic: its priority rule chooses the head.
        backfill: start others while the head waits.
        running: (jobs,) scratch: rows of running jobs in the order of the list.
    """
    e = s.episodes[i]
    while True:
        while e.queue_lo == e.queue_hi:
            if e.next_arrival == e.num_jobs:
                return
            one_event(s, i, running)
        head = s.queue[i, e.queue_lo + best(s, i, heuristic, ANY, 0)]
        if backfill and not fits(s, i, head):
            sort_running(s, i, running, True)
            reserve(s, i, head)
        while not fits(s, i, head):
            while backfill:
                k = first_behind(s, i, head)
                if k < 0:
                    break
                start_listed(s, i, k, running)
            one_event(s, i, running)
        position = 0
        while s.queue[i, e.queue_lo + position] != head:
            position += 1
        start_listed(s, i, position, running)


@step
def start_listed(s: State, i: int, position: int, running: IntArray) -> None:
    """Start the waiting job at this position, and list it last of those that run."""
    e = s.episodes[i]
    running[e.num_running] = s.queue[i, e.queue_lo + position]
    start(s, i, position, True)


@step
def sort_running(s: State, i: int, running: IntArray, by_request: bool) -> None:
    """Sort the list stably by expected ends, or by real ones; it is nearly sorted most of the time."""
    for k in range(1, s.episodes[i].num_running):
        row = running[k]
        job = s.jobs[i, row]
        end = job.expected_end if by_request else job.end
        at = k
        while at > 0:
            before = s.jobs[i, running[at - 1]]
            if (before.expected_end if by_request else before.end) <= end:
                break
            running[at] = running[at - 1]
            at -= 1
        running[at] = row


@step
def first_behind(s: State, i: int, head: int) -> int:
    """Position of the first waiting job, by submit time, that fits and is done before the shadow time."""
    e = s.episodes[i]
    first, first_submit = -1, NEVER
    for k in range(e.queue_hi - e.queue_lo):
        row = s.queue[i, e.queue_lo + k]
        job = s.jobs[i, row]
        if row == head or job.submit >= first_submit or e.now + job.requested >= e.shadow:
            continue
        if fits(s, i, row):
            first, first_submit = k, job.submit
    return first


@step
def one_event(s: State, i: int, running: IntArray) -> None:
    """Advance by exactly one arrival or one completion; an arrival comes first at equal times."""
    e = s.episodes[i]
    sort_running(s, i, running, False)
    end = s.jobs[i, running[0]].end if e.num_running > 0 else NEVER
    if e.next_arrival < e.num_jobs and s.jobs[i, e.next_arrival].submit <= end:
        e.now = max(e.now, s.jobs[i, e.next_arrival].submit)
        admit_one(s, i)
    else:
        e.now = max(e.now, end)
        complete_first(s, i, running)


@step
def complete_first(s: State, i: int, running: IntArray) -> None:
    """Take the first job of the list off the cluster."""
    row = running[0]
    count = s.episodes[i].num_running
    place = 0
    while s.started[i, s.ends[i, place] & JOB_MASK] != row:
        place += 1
    remove_from_heap(s, i, place)
    stop_job(s, i, row, True)
    for k in range(1, count):
        running[k - 1] = running[k]
