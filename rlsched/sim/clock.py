"""One tick of a tick-driven scenario: what happens when the clock has moved, in its order.

Completions, capacity and shortfall, plans that are undone, planned starts, expiry, arrivals, the end.
Rules: docs/reference/green-rules.md.
"""

from __future__ import annotations

from rlsched.scenario.terms import TERMINAL_BSLD
from rlsched.sim.booking import book_finish, book_rejection, job_quantities
from rlsched.sim.compiled import shared, step
from rlsched.sim.energy import forecast, forecast_next
from rlsched.sim.events import complete_one
from rlsched.sim.grid import hold, overfull, shift, too_late
from rlsched.sim.outcome import TERMINATED, TRUNCATED, Outcome, add_term
from rlsched.sim.pools import (
    arrive,
    book_change,
    book_start,
    leave_pools,
    refill,
    start_planned,
    suspend,
    undo_one_plan,
    wait_no_more,
    weakest,
)
from rlsched.sim.rates import book_tick
from rlsched.sim.rules import MAX_TICKS, NO_LIMIT, NO_NEW_JOB, Rules
from rlsched.sim.state import JOB_BITS, JOB_MASK, State


@shared
def open_grid(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Begin an episode: an empty grid, a first forecast, the first arrivals."""
    e = s.episodes[i]
    s.used[i, :, :] = 0
    o.totals[i, :] = 0.0
    o.accounts[i, :] = 0.0
    e.battery_wh = rules.plant.initial_wh
    forecast(s, rules, i)
    for r in range(len(s.resources)):
        s.free[i, r] = s.on[i, r, 0]
    enter_tick(s, o, rules, i)


@step
def pass_tick(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Book the tick that began at `now`, and advance to the next one."""
    e = s.episodes[i]
    book_tick(s, o, rules, i)
    e.now += 1
    e.discount *= rules.gamma
    e.actions_now = 0
    shift(s, i)
    complete(s, o, rules, i)
    # A running job at or beyond its expected end is expected to end at the next tick.
    overdue = hold_overdue(s, o, rules, i)
    for r in range(len(s.resources)):
        s.free[i, r] -= s.on[i, r, 0]
    changed = forecast_next(s, rules, i)
    for r in range(len(s.resources)):
        s.free[i, r] += s.on[i, r, 0]
    meet_shortfall(s, o, rules, i)
    if changed:
        e.grid_version += 1
    if changed or overdue:
        undo_plans(s, o, rules, i)
    refill(s, rules, i)
    start_planned(s, i)
    enter_tick(s, o, rules, i)


@step
def enter_tick(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Expiry and arrivals, and whether that is the end."""
    e = s.episodes[i]
    if rules.expiry < NO_LIMIT:
        give_up(s, o, rules, i)
    while e.next_arrival < e.num_jobs and s.jobs[i, e.next_arrival].submit <= e.now:
        row = e.next_arrival
        if not arrive(s, rules, i):
            book_rejection(o.terms, o.totals, i, job_quantities(s, i, row), e.discount)
    if e.num_finished + e.num_rejected == e.num_jobs:
        e.over = TERMINATED
        add_term(s, o, i, TERMINAL_BSLD, -mean_bounded_slowdown(s, i))
    elif rules.end == NO_NEW_JOB and e.next_arrival == e.num_jobs:
        e.over = TERMINATED
        forget(s, o, rules, i)
    elif rules.end == MAX_TICKS and e.now - e.first_submit >= rules.max_ticks:
        e.over = TRUNCATED


@shared
def forget(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Book that nothing comes of the jobs that run or are planned where nothing comes after the end."""
    e = s.episodes[i]
    for k in range(e.num_running):
        row = s.started[i, s.ends[i, k] & JOB_MASK]
        book_start(s, o, rules, i, row, max(1, s.jobs[i, row].expected_end - e.now), -1.0)
    for k in range(e.num_planned):
        row = s.planned[i, k]
        ticks = s.job_values[i, row].planned - e.now + s.jobs[i, row].requested
        book_start(s, o, rules, i, row, ticks, -1.0)


@shared
def mean_bounded_slowdown(s: State, i: int) -> float:
    """Mean over the finished jobs of max(1, response / max(runtime, bound)); 0 where none has finished."""
    total = 0.0
    finished = 0
    for j in range(s.episodes[i].num_jobs):
        job = s.jobs[i, j]
        if job.end >= 0:
            total += max(1.0, (job.end - job.submit) * job.bounded_rate)
            finished += 1
    return total / max(1, finished)


@step
def complete(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Let the jobs that have run for their runtime end."""
    e = s.episodes[i]
    while e.num_running > 0 and s.ends[i, 0] >> JOB_BITS <= e.now:
        row = complete_one(s, i, True)
        job_value = s.job_values[i, row]
        early = s.jobs[i, row].expected_end - e.now
        if early > 0:
            hold(s, i, row, 0, early, -1)
            e.grid_version += 1
        e.running_value_rate = e.running_value_rate - job_value.value_rate if e.num_running > 0 else 0.0
        book_finish(o.terms, o.totals, i, job_quantities(s, i, row), e.discount)
        book_change(s, o, rules, i, row, max(0, early), 0)


@step
def hold_overdue(s: State, o: Outcome, rules: Rules, i: int) -> bool:
    """Put the running jobs at or beyond their expected end into row 0; whether there are any."""
    e = s.episodes[i]
    place, at = 0, 0
    any_overdue = False
    for _ in range(e.num_running):
        if at == s.block_size[i, s.block_order[i, place]]:
            place, at = place + 1, 0
        code = s.blocks[i, s.block_order[i, place], at]
        if code >> JOB_BITS > e.now:
            break
        hold(s, i, code & JOB_MASK, 0, 1, 1)
        book_change(s, o, rules, i, code & JOB_MASK, 0, 1)
        any_overdue = True
        at += 1
    return any_overdue


@step
def meet_shortfall(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Suspend running jobs until the rest fits the units on."""
    while True:
        short = False
        for r in range(len(s.resources)):
            short |= s.free[i, r] < 0
        if not short:
            return
        suspend(s, o, rules, i, weakest(s, i, True))


@shared
def undo_plans(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Take planned jobs back until no row is overfull, or no planned job is to blame."""
    first = 0
    while first < s.used.shape[2]:
        if not overfull(s, i, first):
            first += 1
        elif s.episodes[i].num_planned == 0 or not undo_one_plan(s, o, rules, i):
            return


@shared
def give_up(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Reject waiting jobs that are no longer worth running."""
    e = s.episodes[i]
    position = 0
    while position < e.queue_hi - e.queue_lo:
        row = s.queue[i, e.queue_lo + position]
        job_value = s.job_values[i, row]
        if e.now <= job_value.due + rules.expiry and not too_late(s, rules, i, row, 0):
            position += 1
            continue
        leave_pools(s, i, position)
        wait_no_more(s, i, row)
        job_value.rejected = 1
        e.num_rejected += 1
        book_rejection(o.terms, o.totals, i, job_quantities(s, i, row), e.discount)
    refill(s, rules, i)
