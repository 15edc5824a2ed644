"""What is seen of wind and sun: their forecast, and what they leave over for each job that waits."""

from __future__ import annotations

from rlsched.sim.compiled import step
from rlsched.sim.energy import power_index, with_error
from rlsched.sim.layout import GREEN_WITHIN
from rlsched.sim.outcome import Outcome
from rlsched.sim.state import State
from rlsched.sim.view import View


@step
def observe_supply(s: State, v: View, i: int) -> None:
    """The `supply` block: see layout.SUPPLY; and what of it is left over, for the jobs."""
    e = s.episodes[i]
    rows = s.used.shape[2]
    x = v.vector[i, v.supply_at : v.supply_at + 2 * rows]
    index = power_index(s, i, e.now)
    for k in range(rows):
        share = min(1.0, s.supply_w[i, index] / v.full_w) if v.full_w > 0.0 else 1.0
        share = with_error(share, v.forecast_error, e.noise_seed, e.now, k)
        drawn = 0.0
        for r in range(len(s.resources)):
            drawn += s.on[i, r, k] * v.idle_w[r] + s.used[i, r, k] * v.busy_w[r]
        v.left_over[k] = max(0.0, share - drawn / v.full_w) if v.full_w > 0.0 else 1.0
        x[k] = share
        x[rows + k] = min(1.0, s.carbon[i, index] / 1000.0)
        index += 1
        if index == e.power_ticks:
            index = 0


@step
def observe_green(s: State, o: Outcome, v: View, i: int, slot: int) -> None:
    """The `green` columns of a job: see layout.job_features."""
    row = v.shown[i, slot]
    rows = s.used.shape[2]
    ticks = min(s.jobs[i, row].requested, rows)
    own = 0.0
    for r in range(len(s.resources)):
        own += s.demand[i, row, r] * v.busy_w[r]
    own = own / v.full_w if v.full_w > 0.0 else 0.0
    v.fed[0] = 0.0
    for k in range(rows):
        v.fed[k + 1] = v.fed[k] + (min(1.0, v.left_over[k] / own) if own > 0.0 else 1.0)
    x = v.vector[i, v.jobs_at + (slot + 1) * v.job_columns - len(GREEN_WITHIN) :]
    first = min(max(0, o.first[i, slot]), rows - ticks)
    best = 0.0
    at = first
    for c in range(len(GREEN_WITHIN)):
        last = min(first + GREEN_WITHIN[c], rows - ticks)
        while at <= last:
            best = max(best, v.fed[at + ticks] - v.fed[at])
            at += 1
        x[c] = min(1.0, best / ticks)
