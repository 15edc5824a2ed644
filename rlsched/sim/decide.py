"""The decision process: legal actions, effects of actions, and the passing of time.

A transition goes from one decision to the next, or to the end of the episode. Between decisions the one
legal action is taken; time passes only by the no-op, tick by tick or event by event. `step_all` in
`transition` puts these functions together.
"""

from __future__ import annotations

from rlsched.scenario.terms import TERMINAL_BSLD, THROUGHPUT
from rlsched.sim.clock import mean_bounded_slowdown
from rlsched.sim.compiled import step
from rlsched.sim.events import admissible, fits, happen, next_event, reserve, start, start_behind
from rlsched.sim.grid import NOWHERE, first_fit, fits_now, too_late
from rlsched.sim.outcome import TERMINATED, TRUNCATED, Outcome
from rlsched.sim.pools import refill, schedule, suspend, weakest
from rlsched.sim.rates import book_interval
from rlsched.sim.rules import MAX_TICKS, NO_NEW_JOB, Rules
from rlsched.sim.state import State


@step
def mask_grid(s: State, o: Outcome, rules: Rules, i: int) -> tuple[int, int]:
    """Write which actions are legal now, in tick-driven scenarios: what can be placed, or suspended.

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
        if first != NOWHERE and too_late(s, rules, i, row, first):
            first = NOWHERE
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
    job_value = s.job_values[i, row]
    begin = 0
    if job_value.search_version == e.grid_version:
        begin = max(0, job_value.search_from - e.now)
    first = first_fit(s, i, row, begin)
    job_value.search_version = e.grid_version
    if first >= 0:
        job_value.search_from = e.now + first
    else:
        job_value.search_from = e.now + max(begin, s.used.shape[2] - s.jobs[i, row].requested + 1)
    return first


@step
def mask_queue(s: State, o: Outcome, rules: Rules, i: int) -> tuple[int, int]:
    """`mask_grid` in event-driven scenarios: what can start, or be given a reservation."""
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
    may_noop = rules.may_noop or e.reserved >= 0 or legal == 0
    if may_noop and (e.num_running > 0 or e.next_arrival < e.num_dated):
        o.mask[i, rules.window] = 1
        legal += 1
        last = rules.window
    return legal, last


@step
def act_grid(s: State, o: Outcome, rules: Rules, i: int, action: int) -> None:
    """Do what a legal action does that is not the no-op, in tick-driven scenarios."""
    s.episodes[i].actions_now += 1
    if action < rules.window:
        schedule(s, o, rules, i, action, o.first[i, action])
    else:
        suspend(s, o, rules, i, weakest(s, i, False))
    refill(s, rules, i)


@step
def act_queue(s: State, o: Outcome, rules: Rules, i: int, action: int) -> None:
    """`act_grid` in event-driven scenarios."""
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
    """Begin an episode in event-driven scenarios: the first arrivals."""
    happen(s, i, s.episodes[i].now, True)
    check_end(s, rules, i)


@step
def pass_event(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Let time pass in event-driven scenarios: to the next event, or by one tick."""
    e = s.episodes[i]
    tick = next_event(s, i)
    if rules.tick_rule:
        tick = min(tick, e.now + 1)
    if rules.end == MAX_TICKS:
        tick = min(tick, e.first_submit + rules.max_ticks)
    book_interval(s, o, rules, i, tick - e.now)
    finished = e.num_finished
    if happen(s, i, tick, True) > 0:
        e.reserved = -1
    e.actions_now = 0
    o.terms[i, THROUGHPUT] += e.discount * (e.num_finished - finished)
    if e.num_finished == e.num_jobs:
        e.over = TERMINATED
        o.terms[i, TERMINAL_BSLD] -= e.discount * mean_bounded_slowdown(s, i)
    else:
        check_end(s, rules, i)


@step
def check_end(s: State, rules: Rules, i: int) -> None:
    """End an unfinished episode where its end rule says so."""
    e = s.episodes[i]
    if rules.end == NO_NEW_JOB and e.next_arrival == e.num_jobs:
        e.over = TERMINATED
    elif rules.end == MAX_TICKS and e.now - e.first_submit >= rules.max_ticks:
        e.over = TRUNCATED
