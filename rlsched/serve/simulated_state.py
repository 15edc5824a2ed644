"""States of simulated clusters as clients send them: for benchmarks, tests and closed loops."""

from __future__ import annotations

from typing import Any

from rlsched.jobs import JobTable
from rlsched.serve.api.schema import ClusterState, History, PlannedJob, RunningJob, WaitingJob
from rlsched.sim.energy import forecast_share
from rlsched.sim.simulator import VectorSimulator
from rlsched.sim.state import JOB_MASK


def simulated_state(sim: VectorSimulator, env: int, jobs: JobTable) -> ClusterState:
    """The state of an environment that waits for an action, in seconds and units; job names are their ids."""
    return _Environment(sim, env, jobs).state()


class _Environment:
    """An environment of a simulator, with its jobs."""

    def __init__(self, sim: VectorSimulator, env: int, jobs: JobTable) -> None:
        self.sim, self.env, self.jobs = sim, env, jobs
        self.episode, self.records = sim.state.episodes[env], sim.state.jobs[env]
        self.tick_s, self.horizon = sim.scenario.cluster.tick_s, sim.layout.horizon

    def state(self) -> ClusterState:
        sim, env, e = self.sim, self.env, self.episode
        state, horizon = sim.state, self.horizon
        num_ready = int(e["num_ready"]) if horizon else 0
        reserved = int(e["reserved"])
        powered = sim.rules.plant.powered
        ticks = range(horizon if powered else 0)
        carbon = [float(state.carbon[env, self._power_tick(k)]) for k in ticks]
        suspended = state.suspended[env, : e["num_suspended"]].tolist()
        running = state.started[env, state.ends[env, : e["num_running"]] & JOB_MASK]
        return ClusterState(
            now=int(e["now"]) * self.tick_s,
            running=[self._running(row) for row in sorted(running.tolist())],
            waiting=[self._waiting(row, k < num_ready) for k, row in enumerate(sim.queue(env).tolist())],
            planned=[self._planned(row) for row in state.planned[env, : e["num_planned"]].tolist()],
            suspended=[self._waiting(row, False) for row in suspended],
            units=sim.units[env].tolist(),
            reserved=int(self.jobs.id[reserved]) if reserved >= 0 else None,
            arriving=bool(e["next_arrival"] < e["num_jobs"]),
            units_on=state.on[env].tolist() if horizon else None,
            supply_kw=[self._supply_w(k) / 1000.0 for k in ticks] if powered else None,
            carbon_g_per_kwh=carbon if powered else None,
            battery_kwh=float(e["battery_wh"]) / 1000.0 if powered else None,
            history=self._history() if sim.layout.block("history") is not None else None,
        )

    def _job(self, row: int) -> dict[str, Any]:
        """Fields of every job; the requested time includes that before a suspension."""
        return {
            "id": int(self.jobs.id[row]),
            "submit": int(self.records[row]["submit"]) * self.tick_s,
            "requested": int(self.jobs.requested[row]) * self.tick_s,
            "demand": self.jobs.demand[row].tolist(),
            "qos": float(self.jobs.qos[row]),
        }

    def _at_submit(self, row: int) -> dict[str, Any]:
        """The queue at the submission of a job."""
        job = self.records[row]
        return {
            "queue_at_submit": int(job["queue_at_submit"]),
            "work_at_submit": int(job["work_at_submit"]) * self.tick_s,
            "free_at_submit": int(job["free_at_submit"]),
        }

    def _ran(self, row: int) -> int:
        """Seconds that a job ran before a suspension."""
        return int(self.jobs.requested[row] - self.records[row]["requested"]) * self.tick_s

    def _waiting(self, row: int, ready: bool) -> WaitingJob:
        return WaitingJob(**self._job(row), ran=self._ran(row), ready=ready, **self._at_submit(row))

    def _running(self, row: int) -> RunningJob:
        job = self.records[row]
        start = self.sim.state.job_values[self.env, row]["resumed"] if self.horizon else job["start"]
        return RunningJob(
            **self._job(row),
            start=int(start) * self.tick_s,
            expected_end=int(job["expected_end"]) * self.tick_s,
            **self._at_submit(row),
        )

    def _planned(self, row: int) -> PlannedJob:
        at = int(self.sim.state.job_values[self.env, row]["planned"]) * self.tick_s
        return PlannedJob(**self._job(row), at=at, ran=self._ran(row))

    def _history(self) -> History:
        """The episode so far."""
        e = self.episode
        return History(
            seconds=int(e["now"] - e["history_start"]) * self.tick_s,
            arrived=int(e["next_arrival"] + e["earlier_arrivals"]),
            work=int(e["arrived_work"]) * self.tick_s,
            finished=int(e["num_finished"] + e["earlier_finished"]),
            used_requests=float(e["used_requests"]),
        )

    def _power_tick(self, lead: int) -> int:
        """Index in the power series, which repeats, of a tick ahead."""
        e = self.episode
        return int((e["now"] + lead - e["first_submit"]) % e["power_ticks"])

    def _supply_w(self, lead: int) -> float:
        """Wind and sun of a tick ahead, as forecast."""
        plant, e = self.sim.rules.plant, self.episode
        exact = float(self.sim.state.supply_w[self.env, self._power_tick(lead)])
        if plant.forecast_error == 0 or lead == 0 or plant.full_w == 0:
            return exact
        share = min(1.0, exact / plant.full_w)
        forecast = forecast_share(share, plant.forecast_error, int(e["noise_seed"]), int(e["now"]), lead)
        return forecast * plant.full_w
