"""Writing observations: the blocks of `layout`, in place, only what has changed where that is cheaper.

The static columns of a job are written once, when it becomes visible, and move with it; the columns that
follow the clock are written for the whole window at once, with a logarithm that compiles to vector code.
"""

from __future__ import annotations

from math import log2

import numpy as np

from rlsched.sim.compiled import shared, step
from rlsched.sim.daylight import observe_green, observe_supply
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
)

NUM_STATIC = 5  # static job columns beside the two per resource: present, requested, and three at submit
NUM_MOVING = 5  # job columns after these that change while it waits; one more without a horizon
NUM_STATIC_LOT = 4  # static job columns after these, with a horizon


@shared
def unshow(s: State, v: View, i: int) -> None:
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
def observe_jobs(s: State, o: Outcome, v: View, i: int, window: int) -> None:
    """The `jobs` block: see layout.job_features for the columns."""
    e = s.episodes[i]
    x = v.vector[i]
    if e.reshow != 0:  # what is left of a job that was suspended has changed
        e.reshow = 0
        for c in range(v.jobs_at, v.jobs_at + v.num_shown[i] * v.job_columns):
            x[c] = 0.0
        v.num_shown[i] = 0
    width = v.job_columns
    static = NUM_STATIC + 2 * len(s.resources)
    visible = e.num_ready if len(s.horizon) > 0 else min(e.queue_hi - e.queue_lo, window)
    source = 0
    for k in range(visible):
        row = s.queue[i, e.queue_lo + k]
        while source < v.num_shown[i] and v.shown[i, source] != row:
            source += 1
        at = v.jobs_at + k * width
        if source == v.num_shown[i]:
            write_static(s, v, i, row, at)
        elif source != k:
            origin = v.jobs_at + source * width
            for c in range(static):
                x[at + c] = x[origin + c]
            if len(s.horizon) > 0:
                for c in range(static + NUM_MOVING, static + NUM_MOVING + NUM_STATIC_LOT):
                    x[at + c] = x[origin + c]
        source = min(source + 1, v.num_shown[i])
        v.shown[i, k] = row
    for c in range(v.jobs_at + visible * width, v.jobs_at + v.num_shown[i] * width):
        x[c] = 0.0
    v.num_shown[i] = visible
    scale = np.float32(v.log_time)
    one = np.float32(1)
    for k in range(visible):
        job = s.jobs[i, v.shown[i, k]]
        waited = e.now - job.submit
        v.numbers[k] = 1 + waited
        v.numbers[visible + k] = 1 + waited + job.requested
    log2_all(v, 2 * visible)
    for k in range(visible):
        moving = v.vector[i, v.jobs_at + k * width + static :]
        moving[0] = min(one, v.numbers[k] * scale)
        moving[1] = min(one, v.numbers[visible + k] * scale)
        moving[2] = o.fits[i, k]
        moving[3] = o.mask[i, k]
        moving[4] = v.shown[i, k] == e.reserved
        if len(s.horizon) == 0:
            moving[NUM_MOVING] = 0.0 if o.fits[i, k] else log_ticks(v, expected_delay(s, i, v.shown[i, k]))
    if len(s.horizon) > 0:
        observe_lots(s, o, v, i, static + NUM_MOVING + NUM_STATIC_LOT)
    if v.supply_at != ABSENT:
        for k in range(visible):
            observe_green(s, o, v, i, k)


@step
def expected_delay(s: State, i: int, row: int) -> int:
    """Ticks until the job's demand is expected to be free, if nothing is started before.

    It is the shadow time that `reserve` would find. Releases are in order, so each resource is looked at by
    itself: the latest of them decides.
    """
    e = s.episodes[i]
    delay = 0
    for r in range(len(s.resources)):
        short = s.demand[i, row, r] - s.free[i, r]
        place = 0
        while short > 0 and place < e.num_blocks:
            block = s.block_order[i, place]
            place += 1
            if short > s.block_units[i, block, r]:
                short -= s.block_units[i, block, r]
                continue
            for k in range(s.block_size[i, block]):
                code = s.blocks[i, block, k]
                short -= s.demand[i, code & JOB_MASK, r]
                if short <= 0:
                    delay = max(delay, max(code >> JOB_BITS, e.now + 1) - e.now)
                    break
    return delay


@step
def observe_lots(s: State, o: Outcome, v: View, i: int, column: int) -> None:
    """The columns of the `jobs` block that a horizon adds and that change while a job waits, from this on."""
    e = s.episodes[i]
    resources = len(s.resources)
    last = s.used.shape[2] - 1
    a_row = 1.0 / s.used.shape[2]  # divisions take as long as all else here
    for k in range(v.num_shown[i]):
        row = v.shown[i, k]
        job = s.jobs[i, row]
        at = v.jobs_at + k * v.job_columns + column
        x = v.vector[i, at:]
        slack = s.lots[i, row].due - e.now - job.requested
        first = o.first[i, k]
        x[0] = min(1.0, max(0.0, 0.5 + 0.5 * slack * a_row))
        x[1] = first * a_row if first >= 0 else 1.0
        first = max(0, first)
        after = min(first + job.requested, last)
        match = 0.0
        for r in range(resources):
            units = s.demand[i, row, r]
            share = v.shares[r]
            match += units * (max(0, s.free[i, r]) * share * share)
            x[3 + r] = min(1.0, (s.used[i, r, first] + units) * share)
            x[3 + resources + r] = max(0, s.on[i, r, after] - s.used[i, r, after]) * share
        x[2] = match * (1.0 / resources)


@step
def write_static(s: State, v: View, i: int, row: int, at: int) -> None:
    """The columns of a job that do not change while it waits."""
    x = v.vector[i, at:]
    job = s.jobs[i, row]
    x[0] = 1.0
    x[1] = log_ticks(v, job.requested)
    at = 2
    for r in range(len(s.resources)):
        x[at] = s.demand[i, row, r] / s.units[i, r]
        x[at + 1] = log_whole(s.demand[i, row, r]) / log_whole(s.units[i, r])
        at += 2
    x[at] = min(1.0, log_whole(job.queue_at_submit) * LOG_JOBS)
    x[at + 1] = log_time(v, job.work_at_submit / s.units[i, 0])
    x[at + 2] = job.free_at_submit / s.units[i, 0]
    if len(s.horizon) > 0:
        lot = s.lots[i, row]
        at += 3 + NUM_MOVING
        x[at] = job.requested / s.used.shape[2]
        x[at + 1] = lot.qos
        x[at + 2] = lot.price / v.price_top
        x[at + 3] = lot.density / v.density_top


@step
def observe_events(s: State, v: View, i: int) -> None:
    """The `event_horizon` block: time to each expected release, used and free after it [H fig. 4.5]."""
    e = s.episodes[i]
    x = v.vector[i, v.events_at :]
    resources = len(s.resources)
    width = 1 + 2 * resources
    count = min(e.num_running, v.num_events)
    place, at = 0, 0
    for k in range(count):
        if at == s.block_size[i, s.block_order[i, place]]:
            place, at = place + 1, 0
        code = s.blocks[i, s.block_order[i, place], at]
        at += 1
        v.numbers[k] = 1 + max(code >> JOB_BITS, e.now + 1) - e.now
        v.rows[k] = code & JOB_MASK
    log2_all(v, count)
    for k in range(count):
        x[k * width] = min(np.float32(1), v.numbers[k] * np.float32(v.log_time))
    for r in range(resources):
        free = s.free[i, r]
        share = 1.0 / s.units[i, r]
        for k in range(count):
            free += s.demand[i, v.rows[k], r]
            at = k * width + 1 + 2 * r
            x[at] = 1.0 - free * share
            x[at + 1] = free * share
    # Beyond the last release nothing runs, for as far as can be seen.
    for k in range(count, v.num_events):
        at = k * width
        x[at] = 1.0
        for r in range(resources):
            x[at + 1 + 2 * r] = 0.0
            x[at + 2 + 2 * r] = 1.0


@step
def observe_queue(s: State, v: View, i: int, window: int) -> None:
    """The `queue` block: see layout.queue_features."""
    e = s.episodes[i]
    x = v.vector[i, v.queue_at :]
    waiting = e.queue_hi - e.queue_lo
    used = s.units[i, 0] - s.free[i, 0]
    next_release = 0
    if e.num_running > 0:
        next_release = max(s.blocks[i, s.block_order[i, 0], 0] >> JOB_BITS, e.now + 1) - e.now
    x[0] = min(1.0, log_whole(waiting) * LOG_JOBS)
    x[1] = min(1.0, log_whole(max(0, waiting - window)) * LOG_JOBS)
    x[2] = log_time(v, e.queued_work / s.units[i, 0])
    x[3] = log_time(v, (e.promised - e.now * used) / s.units[i, 0])
    x[4] = log_ticks(v, next_release)
    x[5] = e.reserved >= 0
    x[6] = log_ticks(v, e.shadow - e.now) if e.reserved >= 0 else 0.0
    at = 7
    resources = len(s.resources)
    for r in range(resources):
        x[at + r] = s.free[i, r] / s.units[i, r]
        x[at + resources + r] = max(0, s.extra[i, r]) / s.units[i, r] if e.reserved >= 0 else 0.0
    if len(s.horizon) > 0:
        at += 2 * resources
        following = min(1, s.on.shape[2] - 1)
        for r in range(resources):
            x[at + r] = s.on[i, r, 0] / s.units[i, r]
            x[at + resources + r] = s.on[i, r, following] / s.units[i, r]
        at += 2 * resources
        x[at] = min(1.0, log_whole(e.num_planned) * LOG_JOBS)
        x[at + 1] = min(1.0, log_whole(e.num_suspended) * LOG_JOBS)
        x[at + 2] = e.battery_wh / v.capacity_wh if v.capacity_wh > 0.0 else 0.0


@step
def observe_history(s: State, v: View, i: int) -> None:
    """The `history` block: see layout.history_features."""
    e = s.episodes[i]
    x = v.vector[i, v.history_at :]
    arrived, finished = e.next_arrival + e.arrived_before, e.num_finished + e.finished_before
    elapsed = e.now - e.began + 1
    x[0] = min(1.0, log_whole(arrived) * LOG_JOBS)
    x[1] = min(1.0, log_whole(finished) * LOG_JOBS)
    x[2] = e.used_requests / finished if finished > 0 else 1.0
    x[3] = log_time(v, elapsed / max(1, arrived))
    x[4] = log_time(v, e.arrived_work / s.units[i, 0] / max(1, arrived))
    x[5] = e.arrived_work / (e.arrived_work + np.float64(s.units[i, 0]) * elapsed)


@step
def observe_profile(s: State, v: View, i: int) -> None:
    """The `profile` block: used, free and off as shares of the units, each for all rows."""
    at = v.profile_at
    rows = s.used.shape[2]
    for r in range(len(s.resources)):
        share = np.float32(1.0 / s.units[i, r])
        units = np.int32(s.units[i, r])
        used, on = s.used[i, r], s.on[i, r]
        x = v.vector[i, at : at + rows]
        for k in range(rows):
            x[k] = used[k] * share
        x = v.vector[i, at + rows : at + 2 * rows]
        for k in range(rows):
            x[k] = max(np.int32(0), on[k] - used[k]) * share
        x = v.vector[i, at + 2 * rows : at + 3 * rows]
        for k in range(rows):
            x[k] = (units - on[k]) * share
        at += 3 * rows


@step
def observe_outlook(s: State, v: View, i: int) -> None:
    """The `outlook` block: see layout.outlook_features."""
    e = s.episodes[i]
    x = v.vector[i, v.outlook_at :]
    used = s.units[i, 0] - s.free[i, 0]
    last_arrival = s.jobs[i, e.num_jobs - 1].submit
    rate = e.bounded_rate / v.tick_s
    x[0] = (e.num_jobs - e.next_arrival) / e.num_jobs
    x[1] = log_time(v, e.arriving_area / s.units[i, 0])
    x[2] = log_time(v, max(0, last_arrival - e.now))  # who waits for another job may come before its time
    x[3] = log_time(v, e.queued_area / s.units[i, 0])
    x[4] = log_time(v, (e.ending - e.now * used) / s.units[i, 0])
    x[5] = min(1.0, log2(1.0 + max(0.0, 10.0 * rate)) * LOG_RATE)
    x[6] = min(1.0, log2(1.0 + max(0.0, HOUR_S * rate * e.scale)) / 10.0)
    x[7] = min(1.0, e.scale * e.num_jobs)


@step
def observe_coming(s: State, v: View, i: int) -> None:
    """The `coming` block: see layout.coming_features.

    Sums over rows, so that a step costs the same however far is looked: jobs among them that were turned
    away, or let in before their turn, count, too.
    """
    e = s.episodes[i]
    x = v.vector[i, v.coming_at :]
    first = e.next_arrival
    if e.queue_lo + e.num_ready < e.queue_hi:
        first = s.queue[i, e.queue_lo + e.num_ready]
    units = 0
    for r in range(len(s.resources)):
        units += s.units[i, r]
    for k in range(len(v.coming)):
        end = min(first + v.coming[k], e.num_jobs)
        x[2 * k] = 0.0
        x[2 * k + 1] = 0.0
        if end > first:
            value = s.ahead[i, end, 0] - s.ahead[i, first, 0]
            work = s.ahead[i, end, 1] - s.ahead[i, first, 1]
            x[2 * k] = value / work / v.density_top
            x[2 * k + 1] = min(1.0, work / ((end - first) * units * s.used.shape[2]))
