"""Loading of snapshots of clusters into environments: a description replaces an episode played up to now."""

from __future__ import annotations

from rlsched.sim.compiled import by_mode, shared, step
from rlsched.sim.energy import forecast
from rlsched.sim.events import count_waiting, first_start, reserve, run_job
from rlsched.sim.grid import hold
from rlsched.sim.metrics import BOUND_S
from rlsched.sim.outcome import Outcome
from rlsched.sim.pools import refill, wait_for
from rlsched.sim.rules import Rules
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, SUSPENDED, Snapshot
from rlsched.sim.state import NEVER, State, reset
from rlsched.sim.view import View


@step
def guess_arrival(s: State, i: int, row: int) -> None:
    """Fill in unknown values at a job's arrival (queue, work, free units) by earlier jobs that still wait."""
    e = s.episodes[i]
    job = s.jobs[i, row]
    if job.queue_at_submit < 0:
        job.queue_at_submit = e.queue_hi - e.queue_lo
    if job.work_at_submit < 0:
        job.work_at_submit = e.queued_work
    if job.free_at_submit < 0:
        job.free_at_submit = max(0, s.free[i, 0])


@step
def place_queue(s: State, o: Outcome, rules: Rules, snapshot: Snapshot, c: int, i: int) -> None:
    """Put the jobs of a cluster where they are, in event-driven scenarios."""
    e = s.episodes[i]
    first, end = snapshot.first[c], snapshot.first[c + 1]
    for k in range(first, end):
        row = snapshot.rank[k]
        if snapshot.place[k] == RUNNING:
            s.jobs[i, row].requested = snapshot.expected_end[k] - e.now
            s.jobs[i, row].runtime = max(1, s.jobs[i, row].requested)
            run_job(s, i, row, first_start(s, i, row), True)
        else:
            guess_arrival(s, i, row)
            s.queue[i, e.queue_hi] = row
            e.queue_hi += 1
            count_waiting(s, i, row)
    if snapshot.reserved[c] >= 0:
        reserve(s, i, snapshot.rank[first + snapshot.reserved[c]])


@step
def load_forecast(s: State, rules: Rules, snapshot: Snapshot, c: int, i: int) -> None:
    """Put in the forecast for the ticks ahead: power, the units that are on, and no jobs to come."""
    e = s.episodes[i]
    rows = s.used.shape[2]
    e.power_ticks = rows
    e.battery_wh = snapshot.battery_wh[c]
    for k in range(rows):
        s.supply_w[i, k] = snapshot.supply_w[c, k]
        s.carbon[i, k] = snapshot.carbon[c, k]
    if snapshot.forecast[c]:
        forecast(s, rules, i)
    for r in range(len(s.resources)):
        for k in range(rows):
            s.used[i, r, k] = 0
            if not snapshot.forecast[c]:
                s.on[i, r, k] = snapshot.on[c, r, k]
        s.free[i, r] = s.on[i, r, 0]
    for j in range(e.num_jobs + 1):  # of no value, and hardly any work
        s.ahead[i, j, 0] = 0.0
        s.ahead[i, j, 1] = 1e-9 * j


@step
def place_running(s: State, snapshot: Snapshot, k: int, i: int, row: int) -> None:
    """Let job k of the snapshot run, in tick-driven scenarios."""
    e = s.episodes[i]
    job = s.jobs[i, row]
    job_value = s.job_values[i, row]
    job.requested = snapshot.expected_end[k] - e.now
    job.runtime = max(1, job.requested)
    # Beyond its expected end a job is expected to end at the next tick.
    hold(s, i, row, 0, job.runtime, 1)
    guess_arrival(s, i, row)
    job_value.number = first_start(s, i, row)
    job_value.resumed = snapshot.begin[k]
    run_job(s, i, row, job_value.number, True)
    # The rest of a suspended job is the expected length of its run, less the time that it ran.
    job.requested = max(1, snapshot.expected_end[k] - snapshot.begin[k])
    job.runtime = job.requested
    e.running_value_rate += job_value.value_rate


@step
def place_grid(s: State, o: Outcome, rules: Rules, snapshot: Snapshot, c: int, i: int) -> None:
    """Put the jobs of a cluster where they are, in tick-driven scenarios, and the forecast before them."""
    e = s.episodes[i]
    load_forecast(s, rules, snapshot, c, i)
    for k in range(snapshot.first[c], snapshot.first[c + 1]):
        row = snapshot.rank[k]
        job_value = s.job_values[i, row]
        job_value.search_from = 0
        job_value.search_version = -1
        job_value.rejected = 0
        job_value.due = snapshot.due[k]
        job_value.qos = snapshot.qos[k]
        job_value.value_rate = snapshot.value_rate[k]
        job_value.density = snapshot.density[k]
        job_value.value = snapshot.value_rate[k] * snapshot.requested[k]
        if snapshot.place[k] == RUNNING:
            place_running(s, snapshot, k, i, row)
            continue
        guess_arrival(s, i, row)
        wait_for(s, i, row)
        if snapshot.place[k] == PLANNED:
            job_value.planned = snapshot.begin[k]
            first = job_value.planned - e.now
            hold(s, i, row, first, first + s.jobs[i, row].requested, 1)
            s.planned[i, e.num_planned] = row
            e.num_planned += 1
        elif snapshot.place[k] == SUSPENDED:
            s.suspended[i, e.num_suspended] = row
            e.num_suspended += 1
        else:
            s.queue[i, e.queue_hi] = row
            e.queue_hi += 1
            if snapshot.place[k] == READY:
                e.num_ready += 1
    refill(s, rules, i)


place_jobs = by_mode(place_grid, place_queue)


@shared
def restore(s: State, o: Outcome, rules: Rules, v: View, snapshot: Snapshot, c: int, i: int) -> None:
    """Put cluster `c` of a snapshot into an environment."""
    e = s.episodes[i]
    first, end = snapshot.first[c], snapshot.first[c + 1]
    reset(s, i, end - first, snapshot.now[c])
    e.history_start = snapshot.history_start[c]
    e.earlier_arrivals = snapshot.arrived[c] - (end - first)
    e.earlier_finished = snapshot.finished[c]
    e.used_requests = snapshot.used_requests[c]
    e.arrived_work = snapshot.arrived_work[c]
    for k in range(first, end):
        job = s.jobs[i, snapshot.rank[k]]
        job.submit = snapshot.submit[k]
        job.requested = snapshot.requested[k]
        job.runtime = max(1, snapshot.requested[k])
        job.start = -1
        job.expected_end = -1
        job.end = -1
        # Its true runtime is not known: its requested time replaces that, in rewards, too.
        job.slowdown_rate = 1.0 / job.runtime
        job.bounded_rate = 1.0 / max(float(job.runtime), BOUND_S / v.tick_s)
        job.queue_at_submit = snapshot.queue_at_submit[k]
        job.work_at_submit = snapshot.work_at_submit[k]
        job.free_at_submit = snapshot.free_at_submit[k]
        for r in range(len(s.resources)):
            s.demand[i, snapshot.rank[k], r] = snapshot.demand[k, r]
    if snapshot.arriving[c]:  # the no-op is legal where something is to come: a job that never does
        s.jobs[i, e.num_jobs].submit = NEVER // 4
        e.num_jobs += 1
    e.num_dated = e.num_jobs
    e.next_arrival = end - first
    if s.links.shape[1] > 0:  # of dependencies a snapshot says nothing
        for j in range(e.num_jobs):
            s.links[i, j].row = j
            s.links[i, j].first = -1
    place_jobs(s, o, rules, snapshot, c, i)
