"""Writing observations: the blocks of `layout`, in place, only what has changed where that is cheaper.

The static columns of a job are written once, when it becomes visible, and move with it; the columns that
follow the clock are written for the whole window at once, with a logarithm that compiles to vector code.
"""

from __future__ import annotations

from math import log2

import numpy as np

from rlsched.sim.columns import (
    COMING_DENSITY,
    COMING_WORK,
    EVENT_FREE,
    EVENT_TIME,
    EVENT_USED,
    HISTORY_ARRIVED,
    HISTORY_FINISHED,
    HISTORY_GAP,
    HISTORY_LOAD,
    HISTORY_USED_REQUESTS,
    HISTORY_WORK,
    OUTLOOK_ARRIVALS_END,
    OUTLOOK_QUEUED_WORK,
    OUTLOOK_RATE,
    OUTLOOK_REMAINING_WORK,
    OUTLOOK_SCALE,
    OUTLOOK_SCALED_RATE,
    OUTLOOK_TO_ARRIVE,
    OUTLOOK_WORK_TO_ARRIVE,
    PROFILE_FREE,
    PROFILE_OFF,
    PROFILE_ROWS,
    PROFILE_USED,
    QUEUE_BACKLOG,
    QUEUE_BATTERY,
    QUEUE_EXTRA,
    QUEUE_FREE,
    QUEUE_LENGTH,
    QUEUE_NEXT_RELEASE,
    QUEUE_ON,
    QUEUE_ON_NEXT,
    QUEUE_PLANNED,
    QUEUE_REMAINING_WORK,
    QUEUE_RESERVATION,
    QUEUE_SHADOW,
    QUEUE_SUSPENDED,
    QUEUE_WORK,
)
from rlsched.sim.compiled import shared, step
from rlsched.sim.observe_jobs import observe_jobs
from rlsched.sim.observe_supply import observe_supply
from rlsched.sim.outcome import Outcome
from rlsched.sim.picture import draw, wipe
from rlsched.sim.state import JOB_BITS, JOB_MASK, State
from rlsched.sim.view import (
    ABSENT,
    HOUR_S,
    LOG_JOBS,
    LOG_RATE,
    View,
    log2_all,
    log_ticks,
    log_time,
    log_whole,
    place,
)


@shared
def clear_observation(s: State, v: View, i: int) -> None:
    """Wipe what was observed of the last episode."""
    v.num_shown[i] = 0
    v.vector[i, :] = 0.0
    if v.picture.cells.shape[0] > 0:
        wipe(s, v.picture, i)


@step
def observe(s: State, o: Outcome, v: View, i: int, window: int) -> None:
    """Write every block of one environment's observation."""
    if v.supply_at != ABSENT:
        observe_supply(s, v, i)
    if v.jobs_at != ABSENT:
        observe_jobs(s, o, v, i, window)
    if v.events_at != ABSENT:
        observe_events(s, v, i)
    if v.queue_at != ABSENT:
        observe_queue(s, v, i, window)
    if v.history_at != ABSENT:
        observe_history(s, v, i)
    if v.outlook_at != ABSENT:
        observe_outlook(s, v, i)
    if v.coming_at != ABSENT:
        observe_coming(s, v, i)
    if v.profile_at != ABSENT:
        observe_profile(s, v, i)
    if v.picture.cells.shape[0] > 0:
        draw(s, v.picture, i)


@step
def observe_events(s: State, v: View, i: int) -> None:
    """The `event_horizon` block: see columns.EVENT_FEATURES."""
    e = s.episodes[i]
    x = v.vector[i, v.events_at :]
    resources = len(s.resources)
    width = v.event_columns
    count = min(e.num_running, v.num_events)
    block, position = 0, 0
    for k in range(count):
        if position == s.block_size[i, s.block_order[i, block]]:
            block, position = block + 1, 0
        code = s.blocks[i, s.block_order[i, block], position]
        position += 1
        v.numbers[k] = 1 + max(code >> JOB_BITS, e.now + 1) - e.now
        v.rows[k] = code & JOB_MASK
    log2_all(v, count)
    for k in range(count):
        x[k * width + place(EVENT_TIME, resources, 0)] = min(
            np.float32(1), v.numbers[k] * np.float32(v.log_time)
        )
    for r in range(resources):
        free = s.free[i, r]
        share = 1.0 / s.units[i, r]
        for k in range(count):
            free += s.demand[i, v.rows[k], r]
            x[k * width + place(EVENT_USED, resources, r)] = 1.0 - free * share
            x[k * width + place(EVENT_FREE, resources, r)] = free * share
    # Beyond the last release nothing runs, for as far as can be seen.
    for k in range(count, v.num_events):
        x[k * width + place(EVENT_TIME, resources, 0)] = 1.0
        for r in range(resources):
            x[k * width + place(EVENT_USED, resources, r)] = 0.0
            x[k * width + place(EVENT_FREE, resources, r)] = 1.0


@step
def observe_queue(s: State, v: View, i: int, window: int) -> None:
    """The `queue` block: see columns.QUEUE_FEATURES."""
    e = s.episodes[i]
    x = v.vector[i, v.queue_at :]
    resources = len(s.resources)
    waiting = e.queue_hi - e.queue_lo
    used = s.units[i, 0] - s.free[i, 0]
    reserved = e.reserved >= 0
    next_release = 0
    if e.num_running > 0:
        next_release = max(s.blocks[i, s.block_order[i, 0], 0] >> JOB_BITS, e.now + 1) - e.now
    remaining = (e.expected_end_area - e.now * used) / s.units[i, 0]
    x[place(QUEUE_LENGTH, resources, 0)] = min(1.0, log_whole(waiting) * LOG_JOBS)
    x[place(QUEUE_BACKLOG, resources, 0)] = min(1.0, log_whole(max(0, waiting - window)) * LOG_JOBS)
    x[place(QUEUE_WORK, resources, 0)] = log_time(v, e.queued_work / s.units[i, 0])
    x[place(QUEUE_REMAINING_WORK, resources, 0)] = log_time(v, remaining)
    x[place(QUEUE_NEXT_RELEASE, resources, 0)] = log_ticks(v, next_release)
    x[place(QUEUE_RESERVATION, resources, 0)] = reserved
    x[place(QUEUE_SHADOW, resources, 0)] = log_ticks(v, e.shadow - e.now) if reserved else 0.0
    for r in range(resources):
        x[place(QUEUE_FREE, resources, r)] = s.free[i, r] / s.units[i, r]
        x[place(QUEUE_EXTRA, resources, r)] = max(0, s.extra[i, r]) / s.units[i, r] if reserved else 0.0
    if len(s.grid) > 0:
        following = min(1, s.on.shape[2] - 1)
        for r in range(resources):
            x[place(QUEUE_ON, resources, r)] = s.on[i, r, 0] / s.units[i, r]
            x[place(QUEUE_ON_NEXT, resources, r)] = s.on[i, r, following] / s.units[i, r]
        battery = e.battery_wh / v.capacity_wh if v.capacity_wh > 0.0 else 0.0
        x[place(QUEUE_PLANNED, resources, 0)] = min(1.0, log_whole(e.num_planned) * LOG_JOBS)
        x[place(QUEUE_SUSPENDED, resources, 0)] = min(1.0, log_whole(e.num_suspended) * LOG_JOBS)
        x[place(QUEUE_BATTERY, resources, 0)] = battery


@step
def observe_history(s: State, v: View, i: int) -> None:
    """The `history` block: see columns.HISTORY_FEATURES."""
    e = s.episodes[i]
    x = v.vector[i, v.history_at :]
    arrived, finished = e.next_arrival + e.earlier_arrivals, e.num_finished + e.earlier_finished
    elapsed = e.now - e.history_start + 1
    x[HISTORY_ARRIVED] = min(1.0, log_whole(arrived) * LOG_JOBS)
    x[HISTORY_FINISHED] = min(1.0, log_whole(finished) * LOG_JOBS)
    x[HISTORY_USED_REQUESTS] = e.used_requests / finished if finished > 0 else 1.0
    x[HISTORY_GAP] = log_time(v, elapsed / max(1, arrived))
    x[HISTORY_WORK] = log_time(v, e.arrived_work / s.units[i, 0] / max(1, arrived))
    x[HISTORY_LOAD] = e.arrived_work / (e.arrived_work + np.float64(s.units[i, 0]) * elapsed)


@step
def observe_profile(s: State, v: View, i: int) -> None:
    """The `profile` block: see columns.PROFILE_FEATURES."""
    at = v.profile_at
    rows = s.used.shape[2]
    for r in range(len(s.resources)):
        share = np.float32(1.0 / s.units[i, r])
        units = np.int32(s.units[i, r])
        used, on = s.used[i, r], s.on[i, r]
        x = v.vector[i, at + PROFILE_USED * rows : at + (PROFILE_USED + 1) * rows]
        for k in range(rows):
            x[k] = used[k] * share
        x = v.vector[i, at + PROFILE_FREE * rows : at + (PROFILE_FREE + 1) * rows]
        for k in range(rows):
            x[k] = max(np.int32(0), on[k] - used[k]) * share
        x = v.vector[i, at + PROFILE_OFF * rows : at + (PROFILE_OFF + 1) * rows]
        for k in range(rows):
            x[k] = (units - on[k]) * share
        at += PROFILE_ROWS * rows


@step
def observe_outlook(s: State, v: View, i: int) -> None:
    """The `outlook` block: see columns.OUTLOOK_FEATURES."""
    e = s.episodes[i]
    x = v.vector[i, v.outlook_at :]
    used = s.units[i, 0] - s.free[i, 0]
    # A job that waits for another one may come before its time in the trace.
    to_last_arrival = max(0, s.jobs[i, e.num_jobs - 1].submit - e.now)
    rate = e.bounded_rate / v.tick_s
    scaled_rate = HOUR_S * rate * e.scale
    x[OUTLOOK_TO_ARRIVE] = (e.num_jobs - e.next_arrival) / e.num_jobs
    x[OUTLOOK_WORK_TO_ARRIVE] = log_time(v, e.arriving_area / s.units[i, 0])
    x[OUTLOOK_ARRIVALS_END] = log_time(v, to_last_arrival)
    x[OUTLOOK_QUEUED_WORK] = log_time(v, e.queued_area / s.units[i, 0])
    x[OUTLOOK_REMAINING_WORK] = log_time(v, (e.end_area - e.now * used) / s.units[i, 0])
    x[OUTLOOK_RATE] = min(1.0, log2(1.0 + max(0.0, 10.0 * rate)) * LOG_RATE)
    x[OUTLOOK_SCALED_RATE] = min(1.0, log2(1.0 + max(0.0, scaled_rate)) / 10.0)
    x[OUTLOOK_SCALE] = min(1.0, e.scale * e.num_jobs)


@step
def observe_coming(s: State, v: View, i: int) -> None:
    """The `coming` block: see columns.COMING_FEATURES.

    Sums over rows, so that a step costs the same however far it looks ahead: jobs among them that were turned
    away, or let in before their turn, count, too.
    """
    e = s.episodes[i]
    x = v.vector[i, v.coming_at :]
    resources = len(s.resources)
    first = e.next_arrival
    if e.queue_lo + e.num_ready < e.queue_hi:
        first = s.queue[i, e.queue_lo + e.num_ready]
    units = 0
    for r in range(resources):
        units += s.units[i, r]
    for k in range(len(v.coming)):
        end = min(first + v.coming[k], e.num_jobs)
        density, size = 0.0, 0.0
        if end > first:
            value = s.ahead[i, end, 0] - s.ahead[i, first, 0]
            work = s.ahead[i, end, 1] - s.ahead[i, first, 1]
            density = value / work / v.density_top
            size = min(1.0, work / ((end - first) * units * s.used.shape[2]))
        x[place(COMING_DENSITY, resources, k)] = density
        x[place(COMING_WORK, resources, k)] = size
