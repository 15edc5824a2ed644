"""Snapshots of clusters at one moment, and decisions about them, as arrays.

`snapshot_load` puts a snapshot into environments, `snapshot_decide` decides about it while no time passes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import DemandArray, FloatArray, IntArray

RUNNING, READY, WAITING, PLANNED, SUSPENDED = range(5)
"""Places of a job in a snapshot. Event-driven scenarios have one queue: READY and WAITING are the same."""

START, RESERVE, PLAN, SUSPEND = range(4)
"""Effects of a decision on a job."""

(
    MAY_START,
    BEYOND_WINDOW,
    NOT_ENOUGH_FREE,
    DELAYS_RESERVATION,
    HOLDS_RESERVATION,
    NOT_LONG_ENOUGH,
    ENOUGH_DECIDED,
) = range(7)
"""Why a job that waits cannot start, once all is decided; the first: it could."""

UNKNOWN = -1
"""The reason of jobs that are not in the queue."""

BY_POLICY = -1
"""Stands in the place of a moving key: no heuristic decides."""


class Snapshot(NamedTuple):
    """Clusters at one moment, the jobs of all of them one after the other, those of a place in its order."""

    first: IntArray  # (cluster + 1,) where the jobs of each begin
    now: IntArray  # (cluster,) tick
    arriving: NDArray[np.bool_]  # (cluster,) whether jobs are still to arrive
    reserved: IntArray  # (cluster,) which of its jobs holds the reservation, -1 none
    history_start: IntArray  # (cluster,) tick from which on it is known what happened, as the next four
    arrived: IntArray  # (cluster,) jobs
    finished: IntArray  # (cluster,) jobs
    used_requests: FloatArray  # (cluster,) of those: sum of runtime / requested, at most 1 each
    arrived_work: IntArray  # (cluster,) demand x requested, first resource, unit-ticks
    battery_wh: FloatArray  # (cluster,) level
    forecast: NDArray[np.bool_]  # (cluster,) units that are on follow from supply and battery, not from `on`
    on: DemandArray  # (cluster, resource, tick) units on, from now on; tick-driven scenarios only
    supply_w: FloatArray  # (cluster, tick) renewable watts, likewise
    carbon: FloatArray  # (cluster, tick) gCO2 per kWh of the grid, likewise
    place: NDArray[np.int8]  # (job,) RUNNING, ...
    rank: IntArray  # (job,) its place among the jobs of its cluster by submit
    submit: IntArray  # (job,) ticks
    requested: IntArray  # (job,) ticks that it asks for, of one that was suspended what is left of them
    begin: IntArray  # (job,) tick at which its run began (RUNNING), or is to begin (PLANNED)
    expected_end: IntArray  # (job,) tick (RUNNING)
    due: IntArray  # (job,) qos violation tick
    demand: DemandArray  # (job, resource) units
    qos: FloatArray  # (job,)
    value_rate: FloatArray  # (job,) value per tick of running
    density: FloatArray  # (job,) value per unit-tick
    key: FloatArray  # (job,) of the heuristic that decides, smallest first
    queue_at_submit: IntArray  # (job,) jobs that waited when it arrived; -1 not known, as the next two
    work_at_submit: IntArray  # (job,) their demand x requested, first resource
    free_at_submit: IntArray  # (job,) free units of the first resource then


class Decisions(NamedTuple):
    """Decisions about a snapshot, and why the jobs that wait do."""

    pending: NDArray[np.bool_]  # (env,) a decision is to be made, among the actions of the mask
    num_decided: IntArray  # (env,) decisions so far
    row: NDArray[np.int32]  # (env, decision) of the job, by submit
    kind: NDArray[np.int8]  # (env, decision) START, ...
    tick: IntArray  # (env, decision) of a start, or from which a reservation holds
    forced: NDArray[np.bool_]  # (env, decision) nothing else was legal
    reason: NDArray[np.int8]  # (env, job) of jobs that wait: MAY_START, ...

    @classmethod
    def room(cls, num_envs: int, max_jobs: int, window: int) -> Decisions:
        """Arrays for `num_envs` environments: after W + 2 actions in a tick only the no-op is legal."""
        shape = (num_envs, window + 3)
        return cls(
            pending=np.zeros(num_envs, np.bool_),
            num_decided=np.zeros(num_envs, np.int64),
            row=np.zeros(shape, np.int32),
            kind=np.zeros(shape, np.int8),
            tick=np.zeros(shape, np.int64),
            forced=np.zeros(shape, np.bool_),
            reason=np.zeros((num_envs, max_jobs), np.int8),
        )
