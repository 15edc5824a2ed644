"""Decisions about snapshots of clusters, while no time passes.

The rules, the mask and the observation are those of `transition`; the no-op ends the decisions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.backfill import QueueHeuristic
from rlsched.sim.compiled import by_mode, kernel, shared, step
from rlsched.sim.events import admissible, fits
from rlsched.sim.grid import shift
from rlsched.sim.heuristics import choose
from rlsched.sim.kernel_arguments import KernelArguments, unpack
from rlsched.sim.observe import clear_observation, observe
from rlsched.sim.outcome import Outcome, begin
from rlsched.sim.pools import weakest
from rlsched.sim.rates import book_interval, book_tick
from rlsched.sim.rules import Rules
from rlsched.sim.snapshot import (
    BEYOND_WINDOW,
    BY_POLICY,
    DELAYS_RESERVATION,
    ENOUGH_DECIDED,
    HOLDS_RESERVATION,
    MAY_START,
    NOT_ENOUGH_FREE,
    NOT_LONG_ENOUGH,
    PLAN,
    RESERVE,
    START,
    SUSPEND,
    UNKNOWN,
    Decisions,
    Snapshot,
)
from rlsched.sim.snapshot_load import restore
from rlsched.sim.state import JOB_MASK, State
from rlsched.sim.transition import act, mask_actions
from rlsched.sim.view import View


@step
def record_grid(s: State, o: Outcome, rules: Rules, decisions: Decisions, i: int, action: int) -> None:
    """Record what a legal action that is not the no-op will do, in tick-driven scenarios."""
    e = s.episodes[i]
    n = decisions.num_decided[i]
    decisions.tick[i, n] = e.now
    if action < rules.window:
        first = o.first[i, action]
        decisions.row[i, n] = s.queue[i, e.queue_lo + action]
        decisions.kind[i, n] = START if first == 0 else PLAN
        decisions.tick[i, n] += first
    else:
        decisions.row[i, n] = s.started[i, s.ends[i, weakest(s, i, False)] & JOB_MASK]
        decisions.kind[i, n] = SUSPEND


@step
def record_queue(s: State, o: Outcome, rules: Rules, decisions: Decisions, i: int, action: int) -> None:
    """`record_grid` in event-driven scenarios."""
    e = s.episodes[i]
    n = decisions.num_decided[i]
    row = s.queue[i, e.queue_lo + action]
    decisions.row[i, n] = row
    decisions.kind[i, n] = START if e.reserved >= 0 or fits(s, i, row) else RESERVE
    decisions.tick[i, n] = e.now


@step
def reason_grid(s: State, o: Outcome, rules: Rules, decisions: Decisions, i: int) -> None:
    """Write down why jobs cannot start now, in tick-driven scenarios."""
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
        decisions.reason[i, row] = reason


@step
def reason_queue(s: State, o: Outcome, rules: Rules, decisions: Decisions, i: int) -> None:
    """`reason_grid` in event-driven scenarios."""
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
        decisions.reason[i, row] = reason


record = by_mode(record_grid, record_queue)
reason = by_mode(reason_grid, reason_queue)


@shared
def open_snapshot(
    s: State,
    o: Outcome,
    rules: Rules,
    v: View,
    snapshot: Snapshot,
    decisions: Decisions,
    heuristic: QueueHeuristic,
    c: int,
    i: int,
) -> None:
    """Put cluster `c` of a snapshot into an environment, before any decision about it."""
    decisions.num_decided[i] = 0
    if heuristic.moving == BY_POLICY:  # a heuristic needs no observation
        clear_observation(s, v, i)
    restore(s, o, rules, v, snapshot, c, i)
    begin(s, o, i)
    decisions.reason[i, :] = UNKNOWN
    if heuristic.moving != BY_POLICY:
        for j in range(snapshot.first[c], snapshot.first[c + 1]):
            heuristic.keys[i, snapshot.rank[j]] = snapshot.key[j]


@kernel
def decide_all(
    arguments: KernelArguments,
    snapshot: Snapshot,
    decisions: Decisions,
    heuristic: QueueHeuristic,
    envs: NDArray[np.uint64],
    actions: IntArray,
    opening: bool,
) -> None:
    """Advance to the next decision about each cluster, or past the last one.

    Args:
        arguments: State, Outcome, Rules and View.
        snapshot: where `opening`, it is put into the environments first.
        decisions: those made so far; new ones are appended.
        heuristic: makes the decisions; where `heuristic.moving` is BY_POLICY, the caller does.
        envs: (cluster,) environments; with `opening` cluster k of the snapshot goes into the k-th.
        actions: (cluster,) legal ones, unless `opening`; the no-op ends the decisions.
        opening: begin with a snapshot.
    """
    s, o, rules, v = unpack(arguments)
    noop = rules.num_actions - 1
    for k in range(len(envs)):
        i = envs[k]
        action = -1
        if opening:
            open_snapshot(s, o, rules, v, snapshot, decisions, heuristic, k, i)
        else:
            action = actions[k]
        forced = False
        pending = False
        while action != noop and not pending:
            if action >= 0:
                n = decisions.num_decided[i]
                record(s, o, rules, decisions, i, action)
                act(s, o, rules, i, action)
                if decisions.kind[i, n] == RESERVE:
                    decisions.tick[i, n] = s.episodes[i].shadow
                decisions.forced[i, n] = forced
                decisions.num_decided[i] = n + 1
            legal, action = mask_actions(s, o, rules, i)
            if legal == 0:  # nothing runs, waits or is to arrive
                action = noop
            forced = legal == 1 and (rules.skip_forced or (not rules.tick_rule and action == noop))
            if heuristic.moving != BY_POLICY:
                action = choose(s, o, rules, heuristic, i)
            else:
                pending = legal > 0 and not forced
        decisions.pending[i] = pending
        if pending:
            observe(s, o, v, i, rules.window)
        else:
            reason(s, o, rules, decisions, i)


@step
def pass_idle_queue(s: State, o: Outcome, rules: Rules, i: int, ticks: int) -> None:
    """Book the rates of `ticks` ticks, in event-driven scenarios."""
    book_interval(s, o, rules, i, ticks)
    s.episodes[i].now += ticks


@step
def pass_idle_grid(s: State, o: Outcome, rules: Rules, i: int, ticks: int) -> None:
    """Book the rates of `ticks` ticks, in tick-driven scenarios, as if the forecast came true."""
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


pass_idle = by_mode(pass_idle_grid, pass_idle_queue)


@kernel
def pass_idle_all(arguments: KernelArguments, envs: NDArray[np.uint64], ticks: IntArray) -> None:
    """Let time pass in which nothing happens, and book it: the next snapshot says what happened.

    Args:
        arguments: State, Outcome, Rules and View.
        envs: (env,) which ones.
        ticks: (env,) how many.
    """
    s, o, rules, _ = unpack(arguments)
    for k in range(len(envs)):
        pass_idle(s, o, rules, envs[k], ticks[k])
