"""Writing the `jobs` block of observations: see columns.JOB_FEATURES.

The static columns of a job are written once, when it becomes visible, and move with it; the columns that
follow the clock are written for the whole window at once, with a logarithm that compiles to vector code.
"""

from __future__ import annotations

import numpy as np

from rlsched.sim.columns import (
    JOB_DELAY,
    JOB_DENSITY,
    JOB_DURATION,
    JOB_FILL,
    JOB_FITS,
    JOB_FREE_AT_SUBMIT,
    JOB_LEGAL,
    JOB_LOG_DEMAND,
    JOB_MATCH,
    JOB_PRESENT,
    JOB_QOS,
    JOB_QUEUE_AT_SUBMIT,
    JOB_REQUESTED,
    JOB_RESERVED,
    JOB_RESPONSE,
    JOB_SHARE,
    JOB_SLACK,
    JOB_START,
    JOB_TAIL,
    JOB_VALUE_RATE,
    JOB_WAIT,
    JOB_WORK_AT_SUBMIT,
)
from rlsched.sim.compiled import step
from rlsched.sim.observe_supply import observe_green
from rlsched.sim.outcome import Outcome
from rlsched.sim.state import JOB_BITS, JOB_MASK, State
from rlsched.sim.view import ABSENT, LOG_JOBS, View, log2_all, log_ticks, log_time, log_whole, place


@step
def observe_jobs(s: State, o: Outcome, v: View, i: int, window: int) -> None:
    """Write the block of one environment."""
    e = s.episodes[i]
    if e.rewrite_slots != 0:  # what is left of a job that was suspended has changed
        e.rewrite_slots = 0
        clear_slots(v, i, 0)
    visible = e.num_ready if len(s.grid) > 0 else min(e.queue_hi - e.queue_lo, window)
    move_static(s, v, i, visible)
    clear_slots(v, i, visible)
    v.num_shown[i] = visible
    observe_waits(s, o, v, i)
    if len(s.grid) > 0:
        observe_places(s, o, v, i)
    if v.supply_at != ABSENT:
        for k in range(visible):
            observe_green(s, o, v, i, k)


@step
def clear_slots(v: View, i: int, first: int) -> None:
    """Wipe the slots from this one on."""
    x = v.vector[i]
    for c in range(v.jobs_at + first * v.job_columns, v.jobs_at + v.num_shown[i] * v.job_columns):
        x[c] = 0.0
    v.num_shown[i] = min(first, v.num_shown[i])


@step
def move_static(s: State, v: View, i: int, visible: int) -> None:
    """Write the static columns of jobs that become visible, and move those of the others to their slots."""
    e = s.episodes[i]
    x = v.vector[i]
    resources = len(s.resources)
    width = v.job_columns
    source = 0
    for k in range(visible):
        row = s.queue[i, e.queue_lo + k]
        while source < v.num_shown[i] and v.slot_rows[i, source] != row:
            source += 1
        at = v.jobs_at + k * width
        if source == v.num_shown[i]:
            write_static(s, v, i, row, at)
        elif source != k:
            origin = v.jobs_at + source * width
            for c in range(place(JOB_PRESENT, resources, 0), place(JOB_WAIT, resources, 0)):
                x[at + c] = x[origin + c]
            if len(s.grid) > 0:
                for c in range(place(JOB_DURATION, resources, 0), place(JOB_SLACK, resources, 0)):
                    x[at + c] = x[origin + c]
        source = min(source + 1, v.num_shown[i])
        v.slot_rows[i, k] = row


@step
def write_static(s: State, v: View, i: int, row: int, at: int) -> None:
    """The columns of a job that do not change while it waits."""
    x = v.vector[i, at:]
    job = s.jobs[i, row]
    resources = len(s.resources)
    x[place(JOB_PRESENT, resources, 0)] = 1.0
    x[place(JOB_REQUESTED, resources, 0)] = log_ticks(v, job.requested)
    for r in range(resources):
        demand = s.demand[i, row, r]
        x[place(JOB_SHARE, resources, r)] = demand / s.units[i, r]
        x[place(JOB_LOG_DEMAND, resources, r)] = log_whole(demand) / log_whole(s.units[i, r])
    x[place(JOB_QUEUE_AT_SUBMIT, resources, 0)] = min(1.0, log_whole(job.queue_at_submit) * LOG_JOBS)
    x[place(JOB_WORK_AT_SUBMIT, resources, 0)] = log_time(v, job.work_at_submit / s.units[i, 0])
    x[place(JOB_FREE_AT_SUBMIT, resources, 0)] = job.free_at_submit / s.units[i, 0]
    if len(s.grid) > 0:
        job_value = s.job_values[i, row]
        x[place(JOB_DURATION, resources, 0)] = job.requested / s.used.shape[2]
        x[place(JOB_QOS, resources, 0)] = job_value.qos
        x[place(JOB_VALUE_RATE, resources, 0)] = job_value.value_rate / v.price_top
        x[place(JOB_DENSITY, resources, 0)] = job_value.density / v.density_top


@step
def observe_waits(s: State, o: Outcome, v: View, i: int) -> None:
    """The columns that follow the clock, in every scenario."""
    e = s.episodes[i]
    resources = len(s.resources)
    visible = v.num_shown[i]
    scale = np.float32(v.log_time)
    full = np.float32(1)
    for k in range(visible):
        job = s.jobs[i, v.slot_rows[i, k]]
        waited = e.now - job.submit
        v.numbers[k] = 1 + waited
        v.numbers[visible + k] = 1 + waited + job.requested
    log2_all(v, 2 * visible)
    for k in range(visible):
        x = v.vector[i, v.jobs_at + k * v.job_columns :]
        row = v.slot_rows[i, k]
        x[place(JOB_WAIT, resources, 0)] = min(full, v.numbers[k] * scale)
        x[place(JOB_RESPONSE, resources, 0)] = min(full, v.numbers[visible + k] * scale)
        x[place(JOB_FITS, resources, 0)] = o.fits[i, k]
        x[place(JOB_LEGAL, resources, 0)] = o.mask[i, k]
        x[place(JOB_RESERVED, resources, 0)] = row == e.reserved
        if len(s.grid) == 0:
            delay = 0.0 if o.fits[i, k] else log_ticks(v, expected_delay(s, i, row))
            x[place(JOB_DELAY, resources, 0)] = delay


@step
def expected_delay(s: State, i: int, row: int) -> int:
    """Ticks until the job's demand is expected to be free, if nothing is started before.

    This is the shadow time of `reserve`. Releases are in order, so each resource is looked at by itself: the
    latest of them decides.
    """
    e = s.episodes[i]
    delay = 0
    for r in range(len(s.resources)):
        short = s.demand[i, row, r] - s.free[i, r]
        rank = 0
        while short > 0 and rank < e.num_blocks:
            block = s.block_order[i, rank]
            rank += 1
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
def observe_places(s: State, o: Outcome, v: View, i: int) -> None:
    """The columns that follow the clock in tick-driven scenarios: where each job fits on the grid."""
    e = s.episodes[i]
    resources = len(s.resources)
    last = s.used.shape[2] - 1
    a_row = 1.0 / s.used.shape[2]  # divisions take as long as all else here
    for k in range(v.num_shown[i]):
        row = v.slot_rows[i, k]
        job = s.jobs[i, row]
        x = v.vector[i, v.jobs_at + k * v.job_columns :]
        slack = s.job_values[i, row].due - e.now - job.requested
        first = o.first[i, k]
        x[place(JOB_SLACK, resources, 0)] = min(1.0, max(0.0, 0.5 + 0.5 * slack * a_row))
        x[place(JOB_START, resources, 0)] = first * a_row if first >= 0 else 1.0
        first = max(0, first)
        after = min(first + job.requested, last)
        match = 0.0
        for r in range(resources):
            units = s.demand[i, row, r]
            share = v.shares[r]
            match += units * (max(0, s.free[i, r]) * share * share)
            fill = (s.used[i, r, first] + units) * share
            x[place(JOB_FILL, resources, r)] = min(1.0, fill)
            x[place(JOB_TAIL, resources, r)] = max(0, s.on[i, r, after] - s.used[i, r, after]) * share
        x[place(JOB_MATCH, resources, 0)] = match * (1.0 / resources)
