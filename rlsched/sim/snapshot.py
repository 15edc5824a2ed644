"""Clusters as they stand, put into environments and decided about while no time passes.

The rules, the mask and the observation are those of `transition`; what differs is where a cluster's state
comes from, a description instead of an episode that was played up to now, and that the no-op ends the matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import DemandArray, FloatArray, IntArray
from rlsched.sim.backfill import Order
from rlsched.sim.clock import book_tick
from rlsched.sim.compiled import by_horizon, kernel, shared, step
from rlsched.sim.decide import earn
from rlsched.sim.energy import forecast
from rlsched.sim.events import admissible, count_waiting, first_start, fits, reserve, run_job
from rlsched.sim.grid import hold, shift
from rlsched.sim.kept import Kept, taken
from rlsched.sim.metrics import BOUND_S
from rlsched.sim.observe import observe, unshow
from rlsched.sim.orders import choose
from rlsched.sim.outcome import Outcome, begin
from rlsched.sim.pools import refill, wait_for, weakest
from rlsched.sim.rules import Rules
from rlsched.sim.state import JOB_MASK, NEVER, State, reset
from rlsched.sim.transition import act, judge
from rlsched.sim.view import View

RUNNING, READY, WAITING, PLANNED, SUSPENDED = range(5)
"""Where a job of a snapshot is. Without a horizon the queue is one, and READY and WAITING are the same."""

START, RESERVE, PLAN, SUSPEND = range(4)
"""What a decision does with a job."""

(
    MAY_START,
    BEYOND_WINDOW,
    NOT_ENOUGH_FREE,
    DELAYS_RESERVATION,
    HOLDS_RESERVATION,
    NOT_LONG_ENOUGH,
    ENOUGH_DECIDED,
) = range(7)
"""Why a job that waits cannot start, once all is decided; the first: it could."""

UNKNOWN = -1
"""Why a job waits that is not in the queue, or waits no more."""

BY_POLICY = -1
"""Stands in the place of an order: no order decides."""


class Snapshot(NamedTuple):
    """Clusters as they stand, the jobs of all of them one after the other, those of a place in its order."""

    first: IntArray  # (cluster + 1,) where the jobs of each begin
    now: IntArray  # (cluster,) tick
    arriving: NDArray[np.bool_]  # (cluster,) whether jobs are still to arrive
    reserved: IntArray  # (cluster,) which of its jobs holds the reservation, -1 none
    began: IntArray  # (cluster,) tick from which on it is known what happened, as the next four
    arrived: IntArray  # (cluster,) jobs
    finished: IntArray  # (cluster,) jobs
    used_requests: FloatArray  # (cluster,) of those: sum of runtime / requested, at most 1 each
    arrived_work: IntArray  # (cluster,) demand x requested, first resource, unit-ticks
    battery_wh: FloatArray  # (cluster,) level
    forecast: NDArray[np.bool_]  # (cluster,) units that are on follow from supply and battery, not from `on`
    on: DemandArray  # (cluster, resource, tick) units on, from now on; with a horizon only
    supply_w: FloatArray  # (cluster, tick) renewable watts, likewise
    carbon: FloatArray  # (cluster, tick) gCO2 per kWh of the grid, likewise
    place: NDArray[np.int8]  # (job,) RUNNING, ...
    rank: IntArray  # (job,) its place among the jobs of its cluster by submit
    submit: IntArray  # (job,) ticks
    requested: IntArray  # (job,) ticks that it asks for, of one that was suspended what is left of them
    moment: IntArray  # (job,) tick at which its run began (RUNNING), or is to begin (PLANNED)
    expected_end: IntArray  # (job,) tick (RUNNING)
    due: IntArray  # (job,) qos violation tick
    demand: DemandArray  # (job, resource) units
    qos: FloatArray  # (job,)
    price: FloatArray  # (job,) value per tick of running
    density: FloatArray  # (job,) value per unit-tick
    key: FloatArray  # (job,) of the order that decides, smallest first
    queue_at_submit: IntArray  # (job,) jobs that waited when it arrived; -1 not known, as the next two
    work_at_submit: IntArray  # (job,) their demand x requested, first resource
    free_at_submit: IntArray  # (job,) free units of the first resource then


class Course(NamedTuple):
    """What was decided."""

    asked: NDArray[np.bool_]  # (env,) there is a question, to which the mask says the answers
    decided: IntArray  # (env,) decisions so far
    row: NDArray[np.int32]  # (env, decision) of the job, by submit
    kind: NDArray[np.int8]  # (env, decision) START, ...
    moment: IntArray  # (env, decision) tick of a start, or from which a reservation holds
    forced: NDArray[np.bool_]  # (env, decision) nothing else was legal
    reason: NDArray[np.int8]  # (env, job) of jobs that wait: MAY_START, ...

    @classmethod
    def room(cls, num_envs: int, max_jobs: int, window: int) -> Course:
        """Arrays for so many environments: after W + 2 actions in a tick only the no-op is legal."""
        shape = (num_envs, window + 3)
        return cls(
            asked=np.zeros(num_envs, np.bool_),
            decided=np.zeros(num_envs, np.int64),
            row=np.zeros(shape, np.int32),
            kind=np.zeros(shape, np.int8),
            moment=np.zeros(shape, np.int64),
            forced=np.zeros(shape, np.bool_),
            reason=np.zeros((num_envs, max_jobs), np.int8),
        )


@shared
def restore(s: State, o: Outcome, rules: Rules, v: View, shot: Snapshot, c: int, i: int) -> None:
    """Put cluster `c` of a snapshot into an environment."""
    e = s.episodes[i]
    first, end = shot.first[c], shot.first[c + 1]
    reset(s, i, end - first, shot.now[c])
    e.began = shot.began[c]
    e.arrived_before = shot.arrived[c] - (end - first)
    e.finished_before = shot.finished[c]
    e.used_requests = shot.used_requests[c]
    e.arrived_work = shot.arrived_work[c]
    for k in range(first, end):
        job = s.jobs[i, shot.rank[k]]
        job.submit = shot.submit[k]
        job.requested = shot.requested[k]
        job.runtime = max(1, shot.requested[k])
        job.start = -1
        job.expected_end = -1
        job.end = -1
        # What it will really take nobody knows: what it asks for stands for it, in what is earned, too.
        job.slowdown_rate = 1.0 / job.runtime
        job.bounded_rate = 1.0 / max(float(job.runtime), BOUND_S / v.tick_s)
        job.queue_at_submit = shot.queue_at_submit[k]
        job.work_at_submit = shot.work_at_submit[k]
        job.free_at_submit = shot.free_at_submit[k]
        for r in range(len(s.resources)):
            s.demand[i, shot.rank[k], r] = shot.demand[k, r]
    if shot.arriving[c]:  # the no-op is legal where something is to come: a job that never does
        s.jobs[i, e.num_jobs].submit = NEVER // 4
        e.num_jobs += 1
    e.num_dated = e.num_jobs
    e.next_arrival = end - first
    if s.links.shape[1] > 0:  # of dependencies a snapshot says nothing
        for j in range(e.num_jobs):
            s.links[i, j].row = j
            s.links[i, j].first = -1
    settle(s, o, rules, shot, c, i)


@step
def guess_arrival(s: State, i: int, row: int) -> None:
    """Where it is not known how things stood when a job arrived: by what still waits of what came before."""
    e = s.episodes[i]
    job = s.jobs[i, row]
    if job.queue_at_submit < 0:
        job.queue_at_submit = e.queue_hi - e.queue_lo
    if job.work_at_submit < 0:
        job.work_at_submit = e.queued_work
    if job.free_at_submit < 0:
        job.free_at_submit = max(0, s.free[i, 0])


@step
def settle_queue(s: State, o: Outcome, rules: Rules, shot: Snapshot, c: int, i: int) -> None:
    """Put the jobs of a cluster where they are, without a horizon."""
    e = s.episodes[i]
    first, end = shot.first[c], shot.first[c + 1]
    for k in range(first, end):
        row = shot.rank[k]
        if shot.place[k] == RUNNING:
            s.jobs[i, row].requested = shot.expected_end[k] - e.now
            s.jobs[i, row].runtime = max(1, s.jobs[i, row].requested)
            run_job(s, i, row, first_start(s, i, row), True)
        else:
            guess_arrival(s, i, row)
            s.queue[i, e.queue_hi] = row
            e.queue_hi += 1
            count_waiting(s, i, row)
    if shot.reserved[c] >= 0:
        reserve(s, i, shot.rank[first + shot.reserved[c]])


@step
def settle_grid(s: State, o: Outcome, rules: Rules, shot: Snapshot, c: int, i: int) -> None:
    """Put the jobs of a cluster where they are, with a horizon, and the forecast before them."""
    e = s.episodes[i]
    begins, end = shot.first[c], shot.first[c + 1]
    rows = s.used.shape[2]
    e.power_ticks = rows
    e.battery_wh = shot.battery_wh[c]
    for k in range(rows):
        s.supply_w[i, k] = shot.supply_w[c, k]
        s.carbon[i, k] = shot.carbon[c, k]
    if shot.forecast[c]:
        forecast(s, rules, i)
    for r in range(len(s.resources)):
        for k in range(rows):
            s.used[i, r, k] = 0
            if not shot.forecast[c]:
                s.on[i, r, k] = shot.on[c, r, k]
        s.free[i, r] = s.on[i, r, 0]
    for j in range(e.num_jobs + 1):  # nothing is known of what is to come: of no value, and hardly any work
        s.ahead[i, j, 0] = 0.0
        s.ahead[i, j, 1] = 1e-9 * j
    for k in range(begins, end):
        row = shot.rank[k]
        job = s.jobs[i, row]
        lot = s.lots[i, row]
        lot.tried = 0
        lot.tried_at = -1
        lot.rejected = 0
        lot.due = shot.due[k]
        lot.qos = shot.qos[k]
        lot.price = shot.price[k]
        lot.density = shot.density[k]
        lot.value = shot.price[k] * shot.requested[k]
        if shot.place[k] == RUNNING:
            job.requested = shot.expected_end[k] - e.now
            job.runtime = max(1, job.requested)
            # Beyond its expected end a job is expected to end at the next tick.
            hold(s, i, row, 0, job.runtime, 1)
            guess_arrival(s, i, row)
            lot.number = first_start(s, i, row)
            lot.resumed = shot.moment[k]
            run_job(s, i, row, lot.number, True)
            # Of a job that is suspended, what is left is what its run was to take, less what it took.
            job.requested = max(1, shot.expected_end[k] - shot.moment[k])
            job.runtime = job.requested
            e.running_price += lot.price
            continue
        guess_arrival(s, i, row)
        wait_for(s, i, row)
        if shot.place[k] == PLANNED:
            lot.planned = shot.moment[k]
            first = lot.planned - e.now
            hold(s, i, row, first, first + job.requested, 1)
            s.planned[i, e.num_planned] = row
            e.num_planned += 1
        elif shot.place[k] == SUSPENDED:
            s.suspended[i, e.num_suspended] = row
            e.num_suspended += 1
        else:
            s.queue[i, e.queue_hi] = row
            e.queue_hi += 1
            if shot.place[k] == READY:
                e.num_ready += 1
    refill(s, rules, i)


settle = by_horizon(settle_grid, settle_queue)


@step
def note_grid(s: State, o: Outcome, rules: Rules, course: Course, i: int, action: int) -> None:
    """Write down what a legal action that is not the no-op will do, with a horizon."""
    e = s.episodes[i]
    n = course.decided[i]
    course.moment[i, n] = e.now
    if action < rules.window:
        first = o.first[i, action]
        course.row[i, n] = s.queue[i, e.queue_lo + action]
        course.kind[i, n] = START if first == 0 else PLAN
        course.moment[i, n] += first
    else:
        course.row[i, n] = s.started[i, s.ends[i, weakest(s, i, False)] & JOB_MASK]
        course.kind[i, n] = SUSPEND


@step
def note_queue(s: State, o: Outcome, rules: Rules, course: Course, i: int, action: int) -> None:
    """`note_grid` without a horizon."""
    e = s.episodes[i]
    n = course.decided[i]
    row = s.queue[i, e.queue_lo + action]
    course.row[i, n] = row
    course.kind[i, n] = START if e.reserved >= 0 or fits(s, i, row) else RESERVE
    course.moment[i, n] = e.now


@step
def reason_grid(s: State, o: Outcome, rules: Rules, course: Course, i: int) -> None:
    """Write down why jobs cannot start now, with a horizon."""
    e = s.episodes[i]
    for k in range(e.queue_hi - e.queue_lo):
        row = s.queue[i, e.queue_lo + k]
        reason = MAY_START
        if k >= e.num_ready:
            reason = BEYOND_WINDOW
        elif o.mask[i, k] == 0:
            if e.actions_now >= rules.window + 2:
                reason = ENOUGH_DECIDED
            elif fits(s, i, row):
                reason = NOT_LONG_ENOUGH
            else:
                reason = NOT_ENOUGH_FREE
        course.reason[i, row] = reason


@step
def reason_queue(s: State, o: Outcome, rules: Rules, course: Course, i: int) -> None:
    """`reason_grid` without a horizon."""
    e = s.episodes[i]
    for k in range(e.queue_hi - e.queue_lo):
        row = s.queue[i, e.queue_lo + k]
        reason = MAY_START
        if row == e.reserved:
            reason = HOLDS_RESERVATION
        elif k >= rules.window:
            reason = BEYOND_WINDOW
        elif not fits(s, i, row):
            reason = NOT_ENOUGH_FREE
        elif e.reserved >= 0 and not admissible(s, i, row):
            reason = DELAYS_RESERVATION
        elif o.mask[i, k] == 0:
            reason = ENOUGH_DECIDED
        course.reason[i, row] = reason


note = by_horizon(note_grid, note_queue)
reason = by_horizon(reason_grid, reason_queue)


@kernel
def decide_all(
    kept: Kept,
    shot: Snapshot,
    course: Course,
    order: Order,
    envs: NDArray[np.uint64],
    actions: IntArray,
    opening: bool,
) -> None:
    """Go on to the next question about each cluster, or to the end of the matter.

    Args:
        kept: State, Outcome, Rules and View.
        shot: where `opening`, what is put into the environments first.
        course: what is decided, to go on with.
        order: who answers; where `order.moving` is BY_POLICY, whoever calls.
        envs: (asked,) environments; with `opening` cluster k of the snapshot goes into the k-th.
        actions: (asked,) legal answers to their questions, else; the no-op ends the matter.
        opening: begin with a snapshot.
    """
    s, o, rules, v = taken(kept)
    idle = rules.num_actions - 1
    for k in range(len(envs)):
        i = envs[k]
        e = s.episodes[i]
        action = -1
        if opening:
            course.decided[i] = 0
            if order.moving == BY_POLICY:  # to an order nothing is shown
                unshow(s, v, i)
            restore(s, o, rules, v, shot, k, i)
            begin(s, o, i)
            course.reason[i, :] = UNKNOWN
            if order.moving != BY_POLICY:
                for j in range(shot.first[k], shot.first[k + 1]):
                    order.keys[i, shot.rank[j]] = shot.key[j]
        else:
            action = actions[k]
        forced = False
        asked = False
        while action != idle and not asked:
            if action >= 0:
                n = course.decided[i]
                note(s, o, rules, course, i, action)
                act(s, o, rules, i, action)
                if course.kind[i, n] == RESERVE:
                    course.moment[i, n] = e.shadow
                course.forced[i, n] = forced
                course.decided[i] = n + 1
            legal, action = judge(s, o, rules, i)
            if legal == 0:  # nothing runs, waits or is to arrive
                action = idle
            forced = legal == 1 and (rules.skip_forced or (not rules.tick_rule and action == idle))
            if order.moving != BY_POLICY:
                action = choose(s, o, rules, order, i)
            else:
                asked = legal > 0 and not forced
        course.asked[i] = asked
        if asked:
            observe(s, o, v, i, rules.window)
        else:
            reason(s, o, rules, course, i)


@step
def spend_queue(s: State, o: Outcome, rules: Rules, i: int, ticks: int) -> None:
    """Book the rates of so many ticks, without a horizon."""
    earn(s, o, rules, i, ticks)
    s.episodes[i].now += ticks


@step
def spend_grid(s: State, o: Outcome, rules: Rules, i: int, ticks: int) -> None:
    """Book the rates of so many ticks, with a horizon, as if what was forecast came."""
    e = s.episodes[i]
    rows = s.on.shape[2]
    for _ in range(ticks):
        book_tick(s, o, rules, i)
        e.now += 1
        e.discount *= rules.gamma
        shift(s, i)
        for r in range(len(s.resources)):
            for k in range(rows - 1):
                s.on[i, r, k] = s.on[i, r, k + 1]
            s.free[i, r] = s.on[i, r, 0] - s.used[i, r, 0]


spend = by_horizon(spend_grid, spend_queue)


@kernel
def spend_all(kept: Kept, envs: NDArray[np.uint64], ticks: IntArray) -> None:
    """Let time pass in which nothing happens, and book it: what happened, the next snapshot tells.

    Args:
        kept: State, Outcome, Rules and View.
        envs: (env,) which ones.
        ticks: (env,) how many.
    """
    s, o, rules, _ = taken(kept)
    for k in range(len(envs)):
        spend(s, o, rules, envs[k], ticks[k])
