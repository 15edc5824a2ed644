"""The decision process: what is legal, what an action does, when the agent is asked, what it earns.

A transition goes from one question to the next, or to the end of the episode. Between questions the one
legal action is taken; time passes only by the no-op, tick by tick or event by event. What is here is put
together by `step_all` in `transition`.
"""

from __future__ import annotations

from rlsched.sim.clock import mean_bounded_slowdown
from rlsched.sim.compiled import shared, step
from rlsched.sim.events import admissible, fits, happen, next_event, reserve, start, start_behind
from rlsched.sim.grid import NOWHERE, first_fit, fits_now
from rlsched.sim.outcome import TERMINATED, TRUNCATED, Outcome
from rlsched.sim.pools import refill, schedule, suspend, weakest
from rlsched.sim.rules import (
    BOUNDED_SLOWDOWN,
    JOB_STARVATION,
    LONG_WAITS,
    MAKESPAN,
    MAX_TICKS,
    NO_NEW_JOB,
    SLOWDOWN,
    TERMINAL_BSLD,
    THROUGHPUT,
    UNUSED_CAPACITY,
    UTILIZATION,
    WAIT_TIME,
    Rules,
)
from rlsched.sim.state import State


@step
def judge_grid(s: State, o: Outcome, rules: Rules, i: int) -> tuple[int, int]:
    """Write which actions are legal now, with a horizon: what can be placed, or suspended.

    Returns:
        How many are legal, and the last of them.
    """
    e = s.episodes[i]
    o.mask[i, :] = 0
    o.fits[i, :] = 0
    o.first[i, :] = NOWHERE
    legal, last = 0, -1
    capped = e.actions_now >= rules.window + 2
    for k in range(e.num_ready):
        row = s.queue[i, e.queue_lo + k]
        if rules.plan_ahead:
            first = find_place(s, i, row)
        else:
            first = 0 if fits_now(s, i, row) else NOWHERE
        o.first[i, k] = first
        o.fits[i, k] = first == 0
        if first != NOWHERE and not capped:
            o.mask[i, k] = 1
            legal += 1
            last = k
    may_suspend = rules.suspend and not capped and e.num_suspended < rules.suspend_pool
    if may_suspend and weakest(s, i, False) >= 0:
        last = rules.window
        o.mask[i, last] = 1
        legal += 1
    if legal == 0 or e.num_running > 0 or e.num_planned > 0 or e.next_arrival < e.num_jobs:
        last = rules.num_actions - 1
        o.mask[i, last] = 1
        legal += 1
    return legal, last


@step
def find_place(s: State, i: int, row: int) -> int:
    """`first_fit`, beginning where the last search ended if no row has been freed since."""
    e = s.episodes[i]
    lot = s.lots[i, row]
    begin = 0
    if lot.tried_at == e.freed:
        begin = max(0, lot.tried - e.now)
    first = first_fit(s, i, row, begin)
    lot.tried_at = e.freed
    if first >= 0:
        lot.tried = e.now + first
    else:
        lot.tried = e.now + max(begin, s.used.shape[2] - s.jobs[i, row].requested + 1)
    return first


@step
def judge_queue(s: State, o: Outcome, rules: Rules, i: int) -> tuple[int, int]:
    """`judge_grid` without a horizon: what can start, or be given a reservation."""
    e = s.episodes[i]
    visible = min(e.queue_hi - e.queue_lo, rules.window)
    capped = e.actions_now >= rules.window + 2
    behind = rules.commit and e.reserved >= 0
    some_fits = False
    for k in range(visible):
        can_start = fits(s, i, s.queue[i, e.queue_lo + k])
        o.fits[i, k] = can_start
        some_fits |= can_start
    o.fits[i, visible:] = 0
    o.mask[i, :] = 0
    legal, last = 0, -1
    if some_fits and not capped:
        for k in range(visible):
            ok = o.fits[i, k] == 1
            if behind:
                ok = ok and admissible(s, i, s.queue[i, e.queue_lo + k])
            if ok or (rules.commit and not behind):
                o.mask[i, k] = 1
                legal += 1
                last = k
    may_wait = rules.may_wait or e.reserved >= 0 or legal == 0
    if may_wait and (e.num_running > 0 or e.next_arrival < e.num_dated):
        o.mask[i, rules.window] = 1
        legal += 1
        last = rules.window
    return legal, last


@step
def act_grid(s: State, o: Outcome, rules: Rules, i: int, action: int) -> None:
    """Do what a legal action does that is not the no-op, with a horizon."""
    s.episodes[i].actions_now += 1
    if action < rules.window:
        schedule(s, o, rules, i, action, o.first[i, action])
    else:
        suspend(s, o, rules, i, weakest(s, i, False))
    refill(s, rules, i)


@step
def act_queue(s: State, o: Outcome, rules: Rules, i: int, action: int) -> None:
    """`act_grid` without a horizon."""
    e = s.episodes[i]
    e.actions_now += 1
    row = s.queue[i, e.queue_lo + action]
    if e.reserved >= 0:
        start_behind(s, i, action)
    elif fits(s, i, row):
        start(s, i, action, True)
    else:
        reserve(s, i, row)


@step
def open_queue(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Begin an episode without a horizon: the first arrivals."""
    happen(s, i, s.episodes[i].now, True)
    judge_end(s, rules, i)


@step
def wait(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Let time pass where there is no horizon: to the next event, or by one tick."""
    e = s.episodes[i]
    tick = next_event(s, i)
    if rules.tick_rule:
        tick = min(tick, e.now + 1)
    if rules.end == MAX_TICKS:
        tick = min(tick, e.first_submit + rules.max_ticks)
    earn(s, o, rules, i, tick - e.now)
    finished = e.num_finished
    if happen(s, i, tick, True) > 0:
        e.reserved = -1
    e.actions_now = 0
    o.terms[i, THROUGHPUT] += e.discount * (e.num_finished - finished)
    if e.num_finished == e.num_jobs:
        e.over = TERMINATED
        o.terms[i, TERMINAL_BSLD] -= e.discount * mean_bounded_slowdown(s, i)
    else:
        judge_end(s, rules, i)


@step
def judge_end(s: State, rules: Rules, i: int) -> None:
    """End an unfinished episode where its end rule says so."""
    e = s.episodes[i]
    if rules.end == NO_NEW_JOB and e.next_arrival == e.num_jobs:
        e.over = TERMINATED
    elif rules.end == MAX_TICKS and e.now - e.first_submit >= rules.max_ticks:
        e.over = TRUNCATED


@step
def earn(s: State, o: Outcome, rules: Rules, i: int, ticks: int) -> None:
    """Book the rates of so many ticks in which nothing happens, and discount what comes after."""
    e = s.episodes[i]
    counted = ticks
    if rules.sparse:
        counted = min(ticks, 1) if e.now == e.asked_at else 0
    if rules.count_late:
        earn_late(s, o, rules, i, ticks, counted)
    if rules.gamma < 1.0:
        # Real powers: integer ones are multiplied out differently compiled and not.
        factor = e.discount * (1.0 - rules.gamma ** float(counted)) / (1.0 - rules.gamma)
        e.discount *= rules.gamma ** float(ticks)
    else:
        factor = float(counted)
    if factor == 0.0:
        return
    waiting = e.queue_hi - e.queue_lo
    slowdown_rate, bounded_rate = e.slowdown_rate + e.running_rate, e.bounded_rate
    if rules.window_scope:
        waiting = min(waiting, rules.window)
        slowdown_rate = 0.0
        bounded_rate = 0.0
        for k in range(waiting):
            job = s.jobs[i, s.queue[i, e.queue_lo + k]]
            slowdown_rate += job.slowdown_rate
            bounded_rate += job.bounded_rate
    used = 0.0
    for r in range(len(s.resources)):
        used += 1.0 - s.free[i, r] / s.units[i, r]
    o.terms[i, SLOWDOWN] -= factor * slowdown_rate
    o.terms[i, BOUNDED_SLOWDOWN] -= factor * bounded_rate
    o.terms[i, WAIT_TIME] -= factor * waiting
    o.terms[i, UTILIZATION] += factor * used / len(s.resources)
    o.terms[i, MAKESPAN] -= factor
    o.terms[i, UNUSED_CAPACITY] -= factor * (1.0 - used / len(s.resources))


@shared
def earn_late(s: State, o: Outcome, rules: Rules, i: int, ticks: int, counted: int) -> None:
    """Book, of so many ticks, what jobs wait beyond the longest wait that is no starvation.

    The queue is in submit order, so those that wait longest stand at its front and no others are looked at.

    Args:
        s: state.
        o: outcome.
        rules: of the scenario.
        i: environment; its clock and discount are those of the first tick.
        ticks: in which nothing happens.
        counted: for how many of them rates are earned.
    """
    e = s.episodes[i]
    scope = rules.window if rules.window_scope else e.num_jobs
    starving = 0.0
    long_waits = 0.0
    for k in range(e.queue_hi - e.queue_lo):
        # Ticks until its wait counts; below 0 it has counted before.
        begin = s.jobs[i, s.queue[i, e.queue_lo + k]].submit - e.now + rules.starvation
        if begin >= ticks:
            break
        first = float(int(max(0.0, begin)))  # the tick in which it begins to count
        if begin >= 0.0:
            long_waits += rules.gamma**first
        if k < scope and first < counted:
            part = min(1.0, first + 1.0 - begin)
            starving += rules.gamma**first * (part - 1.0 + discounted(rules.gamma, counted - first))
    o.terms[i, JOB_STARVATION] -= e.discount * starving
    o.terms[i, LONG_WAITS] -= e.discount * long_waits


@step
def discounted(gamma: float, ticks: float) -> float:
    """Sum of gamma ** 0, gamma ** 1, ... over so many ticks; real powers, as in `earn`."""
    return (1.0 - gamma**ticks) / (1.0 - gamma) if gamma < 1.0 else ticks
