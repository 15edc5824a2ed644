"""Simulated clusters told of in domain terms, as a real one is: to measure, to check, for closed loops."""

from __future__ import annotations

from rlsched.jobs import IntArray, JobTable
from rlsched.serve.api.schema import ClusterState, History, PlannedJob, RunningJob, WaitingJob
from rlsched.sim.energy import foreseen
from rlsched.sim.simulator import VectorSimulator
from rlsched.sim.state import JOB_MASK


def describe(sim: VectorSimulator, env: int, jobs: JobTable) -> ClusterState:
    """What an environment stands at, in seconds and units; jobs are named by their ids.

    Args:
        sim: at a question.
        env: which environment.
        jobs: that were loaded into it.
    """
    state, e, tick_s = sim.state, sim.state.episodes[env], sim.scenario.cluster.tick_s
    records = state.jobs[env]
    horizon = sim.layout.horizon
    now = int(e["now"])

    def requested(row: int) -> int:
        """What it asked for in all, whatever of that it ran before it was suspended."""
        return int(jobs.requested[row]) * tick_s

    def waiting(row: int, *, ready: bool) -> WaitingJob:
        job = records[row]
        left = int(job["requested"])
        return WaitingJob(
            id=int(jobs.id[row]),
            submit=int(job["submit"]) * tick_s,
            requested=requested(row),
            demand=jobs.demand[row].tolist(),
            qos=float(jobs.qos[row]),
            ran=(int(jobs.requested[row]) - left) * tick_s,
            ready=ready,
            queue_at_submit=int(job["queue_at_submit"]),
            work_at_submit=int(job["work_at_submit"]) * tick_s,
            free_at_submit=int(job["free_at_submit"]),
        )

    def running(row: int) -> RunningJob:
        job = records[row]
        began = int(state.lots[env, row]["resumed"]) if horizon else int(job["start"])
        return RunningJob(
            id=int(jobs.id[row]),
            demand=jobs.demand[row].tolist(),
            start=began * tick_s,
            expected_end=int(job["expected_end"]) * tick_s,
            submit=int(job["submit"]) * tick_s,
            requested=requested(row),
            qos=float(jobs.qos[row]),
            queue_at_submit=int(job["queue_at_submit"]),
            work_at_submit=int(job["work_at_submit"]) * tick_s,
            free_at_submit=int(job["free_at_submit"]),
        )

    def planned(row: int) -> PlannedJob:
        told = waiting(row, ready=False)
        return PlannedJob(
            id=told.id,
            submit=told.submit,
            requested=told.requested,
            demand=told.demand,
            at=int(state.lots[env, row]["planned"]) * tick_s,
            qos=told.qos,
            ran=told.ran,
        )

    queue = sim.queue(env).tolist()
    ready = int(e["num_ready"]) if horizon else 0
    reserved = int(e["reserved"])
    powered = sim.rules.plant.powered
    rows = range(horizon if powered else 0)
    return ClusterState(
        now=now * tick_s,
        running=[running(row) for row in sorted(_running(sim, env).tolist())],
        waiting=[waiting(row, ready=k < ready) for k, row in enumerate(queue)],
        planned=[planned(int(row)) for row in state.planned[env, : e["num_planned"]]],
        suspended=[waiting(int(row), ready=False) for row in state.suspended[env, : e["num_suspended"]]],
        units=sim.units[env].tolist(),
        reserved=int(jobs.id[reserved]) if reserved >= 0 else None,
        arriving=bool(e["next_arrival"] < e["num_jobs"]),
        units_on=state.on[env].tolist() if horizon else None,
        supply_kw=[_supply_w(sim, env, k) / 1000.0 for k in rows] if powered else None,
        carbon_g_per_kwh=[float(state.carbon[env, _tick(sim, env, k)]) for k in rows] if powered else None,
        battery_kwh=float(e["battery_wh"]) / 1000.0 if powered else None,
        history=_history(sim, env) if sim.layout.block("history") is not None else None,
    )


def _history(sim: VectorSimulator, env: int) -> History:
    """What happened so far in its episode."""
    e, tick_s = sim.state.episodes[env], sim.scenario.cluster.tick_s
    return History(
        seconds=int(e["now"] - e["began"]) * tick_s,
        arrived=int(e["next_arrival"] + e["arrived_before"]),
        work=int(e["arrived_work"]) * tick_s,
        finished=int(e["num_finished"] + e["finished_before"]),
        used_requests=float(e["used_requests"]),
    )


def _running(sim: VectorSimulator, env: int) -> IntArray:
    """(running,) rows."""
    e = sim.state.episodes[env]
    numbers = sim.state.ends[env, : e["num_running"]] & JOB_MASK
    return sim.state.started[env, numbers]


def _tick(sim: VectorSimulator, env: int, lead: int) -> int:
    """Where a tick ahead stands in the power series, which repeats."""
    e = sim.state.episodes[env]
    return int((e["now"] + lead - e["first_submit"]) % e["power_ticks"])


def _supply_w(sim: VectorSimulator, env: int, lead: int) -> float:
    """Wind and sun of a tick ahead, as it is forecast."""
    plant, e = sim.rules.plant, sim.state.episodes[env]
    exact = float(sim.state.supply_w[env, _tick(sim, env, lead)])
    if plant.forecast_error == 0 or lead == 0 or plant.full_w == 0:
        return exact
    share = min(1.0, exact / plant.full_w)
    return foreseen(share, plant.forecast_error, int(e["noise_seed"]), int(e["now"]), lead) * plant.full_w
