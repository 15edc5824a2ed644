"""Putting episodes into environments: jobs, what they are worth, and power."""

from __future__ import annotations

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import DemandArray, FloatArray, IntArray, JobTable
from rlsched.power.series import PowerSeries
from rlsched.sim.compiled import kernel
from rlsched.sim.metrics import BOUND_S
from rlsched.sim.state import JOB_VALUE, NEVER, State, reset


def load(
    state: State, env: int, jobs: JobTable, *, tick_s: int = 1, scale: float = 1.0, in_order: bool = True
) -> None:
    """Put an episode's jobs into one environment and set its clock to the first submit.

    Args:
        state: where to.
        env: which environment.
        jobs: demands within the cluster's units.
        tick_s: seconds per tick.
        scale: factor on the rewards of this episode.
        in_order: refuse jobs that are not in submit order.

    Raises:
        BadInputError: no jobs, too many, out of order, over the cluster, or times beyond clock or horizon.
    """
    n = len(jobs)
    if not 0 < n <= state.jobs.shape[1]:
        raise BadInputError("episode", f"{n} jobs", f"use 1 to {state.jobs.shape[1]}")
    bound = max(1.0, BOUND_S / tick_s)
    units = jobs.cluster(state.most)
    if units.shape != state.most.shape or (units > state.most).any() or (units < 1).any():
        raise BadInputError(
            "episode",
            f"a cluster of {units.tolist()} units, with room for {state.most.tolist()}",
            "set cluster.resources to the largest",
        )
    if state.grid and (units != state.most).any():
        raise BadInputError(
            "episode",
            f"a cluster of {units.tolist()} units under a horizon, where all have {state.most.tolist()}",
            "leave out decision.horizon, or the size of the cluster",
        )
    state.units[env] = units
    problem = _load(
        state, env, jobs.submit, jobs.runtime, jobs.requested, jobs.demand, bound, scale, in_order
    )
    if problem >= 0:
        horizon = f", {state.used.shape[2]} ticks of horizon" if state.used.shape[2] else ""
        raise BadInputError(
            f"episode job {jobs.id[problem]}",
            f"submit {jobs.submit[problem]}, runtime {jobs.runtime[problem]}, requested "
            f"{jobs.requested[problem]}, demand {jobs.demand[problem].tolist()}",
            f"give jobs in submit order, within {units.tolist()} units{horizon} and {NEVER // 4} ticks",
        )
    before = jobs.predecessors()
    waiting = before >= 0
    if waiting.any() and not state.links.shape[1]:
        raise BadInputError(
            "episode", "has jobs that wait for the end of others", "set workload.dependencies=ignore"
        )
    if np.maximum(jobs.think, 0)[waiting].sum(dtype=np.float64) > NEVER // 4:
        raise BadInputError("episode", f"has think times of more than {NEVER // 4} ticks", "shorten them")
    _link(state, env, before, jobs.think)


@kernel
def _load(
    s: State,
    i: int,
    submit: IntArray,
    runtime: IntArray,
    requested: IntArray,
    demand: DemandArray,
    bound: float,
    scale: float,
    in_order: bool,
) -> int:
    """Copy the columns; the first row that cannot be simulated, or -1."""
    e = s.episodes[i]
    n = len(submit)
    area = 0
    longest = s.used.shape[2] if len(s.grid) > 0 else NEVER
    for j in range(n):
        if (
            submit[j] + runtime[j] + requested[j] > NEVER // 4
            or requested[j] > longest
            or (in_order and j > 0 and submit[j] < submit[j - 1])
        ):
            return j
        for r in range(len(s.resources)):
            if demand[j, r] > s.units[i, r]:
                return j
            s.demand[i, j, r] = demand[j, r]
        job = s.jobs[i, j]
        job.submit = submit[j]
        job.runtime = runtime[j]
        job.requested = requested[j]
        job.start = -1
        job.expected_end = -1
        job.end = -1
        job.slowdown_rate = 1.0 / runtime[j]
        job.bounded_rate = 1.0 / max(float(runtime[j]), bound)
        area += demand[j, 0] * runtime[j]
    reset(s, i, n, submit[0])
    e.arriving_area = area
    e.scale = scale
    return -1


@kernel
def _link(s: State, i: int, before: IntArray, think: IntArray) -> None:
    """Let jobs wait for the end of those of these rows; -1: of none."""
    if s.links.shape[1] == 0:
        return
    e = s.episodes[i]
    e.num_dated = 0
    for j in range(len(before)):
        link = s.links[i, j]
        link.first = -1
        link.next = -1
        link.think = think[j]
        link.planned = s.jobs[i, j].submit
    for j in range(len(before)):
        if before[j] < 0:
            s.links[i, e.num_dated].row = j
            e.num_dated += 1
        else:
            s.links[i, j].next = s.links[i, before[j]].first
            s.links[i, before[j]].first = j


def load_job_values(state: State, env: int, jobs: JobTable, prices: FloatArray) -> None:
    """Work out what the jobs that were loaded are worth and when they are due.

    Args:
        state: where to.
        env: which environment.
        jobs: the same as for `load`.
        prices: (resource,) value of one unit for one tick.
    """
    worth = (jobs.demand * prices).sum(axis=1)
    rate = worth * jobs.qos
    job_values = state.job_values[env, : len(jobs)]
    job_values[:] = np.zeros((), JOB_VALUE)
    job_values["search_version"] = -1
    job_values["due"] = jobs.submit + np.floor(jobs.requested / jobs.qos + 1e-9).astype(np.int64)
    job_values["qos"] = jobs.qos
    job_values["value_rate"] = rate
    job_values["value"] = rate * jobs.runtime
    # In this order, jobs of one resource and equal qos are equal whatever their size.
    job_values["density"] = worth / jobs.demand.sum(axis=1) * jobs.qos
    sums = state.ahead[env, 1 : len(jobs) + 1]
    np.cumsum(job_values["value"], out=sums[:, 0])
    np.cumsum(jobs.demand.sum(axis=1, dtype=np.int64) * jobs.runtime, out=sums[:, 1])


def load_power(state: State, env: int, power: PowerSeries) -> None:
    """Put an episode's power into one environment.

    Args:
        state: where to, with room for as many ticks.
        env: which environment.
        power: tick 0 is the episode's first.
    """
    ticks = len(power.supply_w)
    state.supply_w[env, :ticks] = power.supply_w
    state.carbon[env, :ticks] = power.carbon_g_per_kwh
    state.episodes["power_ticks"][env] = ticks
    state.episodes["noise_seed"][env] = power.seed
