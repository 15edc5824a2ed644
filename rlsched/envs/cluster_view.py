"""The view of a simulated cluster with a planning horizon: jobs as rows of the job table, units and power.

Pictures, texts and records of such a cluster read its state here. No other file outside the core knows the
layout of the core's arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.simulator import VectorSimulator

PLACES = ("ready", "wait", "planned", "running", "suspended", "finished", "rejected")
"""Places of a job that has arrived."""


@dataclass(frozen=True, eq=False)
class ClusterView:
    """Jobs by place, and the units of the grid. Row k of the grid is tick now + k."""

    now: int  # tick
    ready: IntArray  # (ready,) rows of the job table, in the order of the slots
    planned: IntArray  # (planned,) rows, by planned start
    running: IntArray  # (running,) rows, by expected end, the last first
    starts: IntArray  # (planned,) rows of the grid at which planned jobs start
    remaining: IntArray  # (running,) rows of the grid that running jobs hold, at least one
    requested: IntArray  # (job,) requested ticks; the remaining ones of suspended jobs
    used: IntArray  # (resource, row) units held
    on: IntArray  # (resource, row) units on, as forecast
    units: IntArray  # (resource,) units of the cluster

    @classmethod
    def of(cls, sim: VectorSimulator, env: int) -> ClusterView:
        """The view of one environment now."""
        state, e = sim.state, sim.state.episodes[env]
        now, n = int(e["now"]), int(e["num_jobs"])
        records, lots = state.jobs[env, :n], state.job_values[env, :n]
        running = np.flatnonzero(records["end"] > now)
        remaining = np.maximum(1, records["expected_end"][running] - now)
        by_end = np.lexsort((running, -remaining))
        planned = state.planned[env, : e["num_planned"]].astype(np.int64)
        starts = lots["planned"][planned] - now
        by_start = np.lexsort((planned, starts))
        first = int(e["queue_lo"])
        return cls(
            now=now,
            ready=state.queue[env, first : first + e["num_ready"]].astype(np.int64),
            planned=planned[by_start],
            running=running[by_end],
            starts=starts[by_start],
            remaining=remaining[by_end],
            requested=records["requested"].copy(),
            used=state.used[env].astype(np.int64),
            on=state.on[env].astype(np.int64),
            units=state.units[env].copy(),
        )


def places(sim: VectorSimulator, env: int) -> dict[str, int]:
    """Number of jobs by place (`PLACES`)."""
    e = sim.state.episodes[env]
    ready = int(e["num_ready"])
    return {
        "ready": ready,
        "wait": int(e["queue_hi"] - e["queue_lo"]) - ready,
        "planned": int(e["num_planned"]),
        "running": int(e["num_running"]),
        "suspended": int(e["num_suspended"]),
        "finished": int(e["num_finished"]),
        "rejected": int(e["num_rejected"]),
    }


def units_now(sim: VectorSimulator, env: int) -> tuple[IntArray, IntArray]:
    """(resource,) units that run jobs, and (resource,) units that are on."""
    on = sim.state.on[env, :, 0].astype(np.int64)
    return on - sim.free[env], on


def battery_kwh(sim: VectorSimulator, env: int) -> float:
    """Level of the battery, in kWh."""
    return float(sim.state.episodes["battery_wh"][env]) / 1000.0


def power_now(sim: VectorSimulator, env: int, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Renewable supply and consumption of the first `rows` rows of the grid, in watts.

    Returns:
        (known,) supply as far as it is known now, and (rows,) consumption.
    """
    state, plant = sim.state, sim.rules.plant
    e = state.episodes[env]
    first = int(e["now"] - e["first_submit"])
    known = rows if plant.forecast_error == 0 else 1
    ticks = int(e["power_ticks"])
    supply = state.supply_w[env, (first + np.arange(known)) % ticks] if ticks else np.zeros(0)
    used, on = state.used[env, :, :rows].copy(), state.on[env, :, :rows]
    used[:, 0] = units_now(sim, env)[0]
    draw = plant.unit_w @ used + plant.idle_w @ np.maximum(0, on - used)
    return supply, draw
