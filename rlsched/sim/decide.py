"""The decision process: what is legal, what an action does, when the agent is asked, what it earns.

A transition goes from one question to the next, or to the end of the episode. Between questions the one
legal action is taken; time passes only by the no-op, tick by tick or event by event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray
from rlsched.sim.compiled import kernel, step
from rlsched.sim.events import admissible, fits, happen, next_event, reserve, start, start_behind
from rlsched.sim.state import State

# Reward terms in the order of `Outcome.terms`; envs.objectives says formula, unit and source.
TERMS = (
    "slowdown",
    "bounded_slowdown",
    "wait_time",
    "utilization",
    "makespan",
    "throughput",
    "terminal_bsld",
)
SLOWDOWN, BOUNDED_SLOWDOWN, WAIT_TIME, UTILIZATION, MAKESPAN, THROUGHPUT, TERMINAL_BSLD = range(len(TERMS))

ALL_FINISHED, NO_NEW_JOB, MAX_TICKS = range(3)
TERMINATED, TRUNCATED = 1, 2


class Rules(NamedTuple):
    """What is shared by all environments and never changes."""

    window: int  # slots; the no-op is action number `window`
    commit: bool  # a job that does not fit may be chosen and gets a reservation
    tick_rule: bool  # the no-op advances one tick, not to the next event
    sparse: bool  # rates are earned for the first tick of a transition only
    skip_forced: bool  # no question where one action is legal
    gamma: float  # discount per tick within a transition
    window_scope: bool  # only visible jobs count as waiting
    end: int
    max_ticks: int
    weights: FloatArray  # (term,) of the reward


class Outcome(NamedTuple):
    """What a step writes for its caller."""

    mask: NDArray[np.int8]  # (env, action) 1 where legal
    fits: NDArray[np.int8]  # (env, slot) 1 where the slot's job fits now
    terms: FloatArray  # (env, term) of the last transition
    reward: FloatArray  # (env,) scale x weighted terms
    elapsed: IntArray  # (env,) ticks of the last transition
    terminated: NDArray[np.bool_]  # (env,)
    truncated: NDArray[np.bool_]  # (env,)


@step
def judge(s: State, o: Outcome, rules: Rules, i: int) -> tuple[int, int]:
    """Write which actions are legal now.

    Returns:
        How many are legal, and the last of them.
    """
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
    may_wait = not rules.commit or e.reserved >= 0 or legal == 0
    if may_wait and (e.num_running > 0 or e.next_arrival < e.num_jobs):
        o.mask[i, rules.window] = 1
        legal += 1
        last = rules.window
    return legal, last


@step
def act(s: State, o: Outcome, rules: Rules, i: int, action: int) -> None:
    """Do what a legal action does."""
    e = s.episodes[i]
    if action == rules.window:
        wait(s, o, rules, i)
        return
    e.actions_now += 1
    row = s.queue[i, e.queue_lo + action]
    if e.reserved >= 0:
        start_behind(s, i, action)
    elif fits(s, i, row):
        start(s, i, action, True)
    else:
        reserve(s, i, row)


@kernel
def wait(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Let time pass: to the next event, or by one tick."""
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
    if rules.gamma < 1.0:
        # Real powers: integer ones are multiplied out differently compiled and not.
        factor = e.discount * (1.0 - rules.gamma ** float(counted)) / (1.0 - rules.gamma)
        e.discount *= rules.gamma ** float(ticks)
    else:
        factor = float(counted)
    if factor == 0.0:
        return
    waiting = e.queue_hi - e.queue_lo
    slowdown_rate, bounded_rate = e.slowdown_rate, e.bounded_rate
    if rules.window_scope and waiting > rules.window:
        waiting = rules.window
        slowdown_rate = 0.0
        bounded_rate = 0.0
        for k in range(waiting):
            job = s.jobs[i, s.queue[i, e.queue_lo + k]]
            slowdown_rate += job.slowdown_rate
            bounded_rate += job.bounded_rate
    used = 0.0
    for r in range(s.free.shape[1]):
        used += 1.0 - s.free[i, r] / s.units[r]
    o.terms[i, SLOWDOWN] -= factor * (slowdown_rate + e.running_rate)
    o.terms[i, BOUNDED_SLOWDOWN] -= factor * bounded_rate
    o.terms[i, WAIT_TIME] -= factor * waiting
    o.terms[i, UTILIZATION] += factor * used / s.free.shape[1]
    o.terms[i, MAKESPAN] -= factor


@kernel
def mean_bounded_slowdown(s: State, i: int) -> float:
    """Mean over the episode's jobs of max(1, response / max(runtime, bound)); all have started."""
    n = s.episodes[i].num_jobs
    total = 0.0
    for j in range(n):
        job = s.jobs[i, j]
        total += max(1.0, (job.start + job.runtime - job.submit) * job.bounded_rate)
    return total / n


@step
def settle(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Take forced actions until the agent must be asked or the episode is over."""
    e = s.episodes[i]
    while e.over == 0:
        legal, last = judge(s, o, rules, i)
        if legal > 1:
            return
        if not rules.skip_forced and (rules.tick_rule or last != rules.window):
            return
        act(s, o, rules, i, last)
    o.mask[i, :] = 0
    o.mask[i, rules.window] = 1  # an episode that is over still shows a legal action: nothing


@step
def begin(s: State, o: Outcome, i: int) -> None:
    """Open a transition."""
    e = s.episodes[i]
    e.asked_at = e.now
    e.discount = 1.0
    o.terms[i, :] = 0.0


@step
def close(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Book what the transition came to."""
    e = s.episodes[i]
    total = 0.0
    for k in range(len(rules.weights)):
        if rules.weights[k] != 0.0:
            total += rules.weights[k] * o.terms[i, k]
    o.reward[i] = e.scale * total
    o.elapsed[i] = e.now - e.asked_at
    o.terminated[i] = e.over == TERMINATED
    o.truncated[i] = e.over == TRUNCATED


@kernel
def open_episode(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """From freshly loaded jobs to the first question; what is earned before it is nobody's."""
    begin(s, o, i)
    happen(s, i, s.episodes[i].now, True)
    judge_end(s, rules, i)
    settle(s, o, rules, i)
    begin(s, o, i)
    close(s, o, rules, i)


@kernel
def advance(s: State, o: Outcome, rules: Rules, i: int, action: int) -> None:
    """One transition of one environment; nothing where its episode is over."""
    begin(s, o, i)
    if s.episodes[i].over == 0:
        act(s, o, rules, i, action)
        settle(s, o, rules, i)
    close(s, o, rules, i)
