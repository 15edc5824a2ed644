"""Writing of wind and sun forecasts, and of the share of each waiting job that they could feed."""

from __future__ import annotations

from rlsched.sim.columns import GREEN_WITHIN, JOB_GREEN, SUPPLY_CARBON, SUPPLY_RENEWABLE
from rlsched.sim.compiled import step
from rlsched.sim.energy import power_index, with_error
from rlsched.sim.outcome import Outcome
from rlsched.sim.state import State
from rlsched.sim.view import View, place


@step
def observe_supply(s: State, v: View, i: int) -> None:
    """The `supply` block: see columns.SUPPLY_FEATURES; and what of it is left over, for the jobs."""
    e = s.episodes[i]
    rows = s.used.shape[2]
    renewable = v.vector[i, v.supply_at + SUPPLY_RENEWABLE * rows :]
    carbon = v.vector[i, v.supply_at + SUPPLY_CARBON * rows :]
    index = power_index(s, i, e.now)
    for k in range(rows):
        share = min(1.0, s.supply_w[i, index] / v.full_w) if v.full_w > 0.0 else 1.0
        share = with_error(share, v.forecast_error, e.noise_seed, e.now, k)
        drawn = 0.0
        for r in range(len(s.resources)):
            drawn += s.on[i, r, k] * v.idle_w[r] + s.used[i, r, k] * v.busy_w[r]
        v.left_over[k] = max(0.0, share - drawn / v.full_w) if v.full_w > 0.0 else 1.0
        renewable[k] = share
        carbon[k] = min(1.0, s.carbon[i, index] / 1000.0)
        index += 1
        if index == e.power_ticks:
            index = 0


@step
def observe_green(s: State, o: Outcome, v: View, i: int, slot: int) -> None:
    """The `green` columns of a job: see columns.JOB_FEATURES."""
    row = v.slot_rows[i, slot]
    rows = s.used.shape[2]
    ticks = min(s.jobs[i, row].requested, rows)
    draw = 0.0
    for r in range(len(s.resources)):
        draw += s.demand[i, row, r] * v.busy_w[r]
    draw = draw / v.full_w if v.full_w > 0.0 else 0.0
    v.fed[0] = 0.0
    for k in range(rows):
        v.fed[k + 1] = v.fed[k] + (min(1.0, v.left_over[k] / draw) if draw > 0.0 else 1.0)
    x = v.vector[i, v.jobs_at + slot * v.job_columns :]
    first = min(max(0, o.first[i, slot]), rows - ticks)
    best = 0.0
    at = first
    for c in range(len(GREEN_WITHIN)):
        last = min(first + GREEN_WITHIN[c], rows - ticks)
        while at <= last:
            best = max(best, v.fed[at + ticks] - v.fed[at])
            at += 1
        x[place(JOB_GREEN, len(s.resources), c)] = min(1.0, best / ticks)
