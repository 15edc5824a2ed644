"""The recorded schedule of a trace as a behavior policy, replayed in the simulator.

A trace says when each job started. Every decision takes the job with the next recorded start, if that is
before the simulator's next decision; else time passes. Deviations are counted. Jobs start later if they are
too far back in the queue or their units are not free, and earlier where an action rule has no waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.sim.simulator import VectorSimulator
from rlsched.sim.state import JOB_BITS, NEVER

RECORDED = "recorded"
"""The behaviour's name."""

FOLLOWED = (
    "recorded_jobs",
    "unrecorded_jobs",
    "started_as_recorded",
    "started_by_event",
    "started_earlier",
    "started_later",
    "later_unseen",
    "not_started",
    "later_s",
)
"""Figures of a replay besides its metrics: counts of jobs, and the sum of their delays in seconds."""

SAME_S = 60
"""Seconds that a start may be off and still be the one of the trace: schedulers look around that often."""


@dataclass(eq=False)
class Record:
    """An episode, as far as it has been replayed.

    Attributes:
        starts: (jobs,) ticks; a job of which none is known is to start as soon as it can.
        due: (jobs,) whether it was taken because its start came before the next question.
    """

    jobs: JobTable
    starts: IntArray
    due: NDArray[np.bool_]


class RecordedActor:
    """Follows the starts that the trace records."""

    def __init__(self, sim: VectorSimulator) -> None:
        self._sim = sim
        self._records: dict[int, Record] = {}

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Look up the starts."""
        starts = np.where(jobs.start < 0, jobs.submit, jobs.start)
        none = np.zeros(len(jobs), np.bool_)
        self._records[env] = Record(jobs, starts, none)

    def probabilities(self, envs: NDArray[np.uint64]) -> FloatArray:
        """(envs, action) 1 for what it does."""
        probabilities = np.zeros((len(envs), self._sim.layout.num_actions))
        for k, env in enumerate(envs):
            probabilities[k, self._choice(int(env))] = 1.0
        return probabilities

    def followed(self, env: int) -> dict[str, float]:
        """Deviations of the replay from the recorded schedule, by the names in `FOLLOWED`.

        A job that starts earlier may have done so at the last decision before its start (`by_event`).
        """
        record, tick_s = self._records[env], self._sim.scenario.cluster.tick_s
        began = self._sim.starts(env)
        known = record.jobs.start >= 0
        ran = known & (began >= 0)
        late = np.where(ran, began - record.starts, 0) * tick_s
        within = max(SAME_S, tick_s)
        later, earlier = late > within, late < -within
        counts = (
            known.sum(),
            (~known).sum(),
            (ran & ~earlier & ~later).sum(),
            (earlier & record.due).sum(),
            (earlier & ~record.due).sum(),
            later.sum(),
            self._unseen(record, began, np.flatnonzero(later), within // tick_s),
            (known & ~ran).sum(),
            late[later].sum(),
        )
        return dict(zip(FOLLOWED, map(float, counts), strict=True))

    def _choice(self, env: int) -> int:
        sim, record = self._sim, self._records[env]
        e = sim.state.episodes[env]
        mask = sim.mask[env]
        idle = len(mask) - 1
        visible = int(e["num_ready"]) if sim.layout.horizon else sim.layout.window
        rows = sim.state.queue[env, e["queue_lo"] : min(e["queue_lo"] + visible, e["queue_hi"])]
        legal = mask[: len(rows)] > 0
        if not legal.any():
            return idle
        if not mask[idle]:
            return int(np.where(legal, record.starts[rows], NEVER).argmin())
        # A job with a later recorded start must not take the units of an earlier one, and cannot yet.
        counts = legal | (record.jobs.start[rows] >= 0)
        starts = np.where(counts, record.starts[rows], NEVER)
        first = int(starts.argmin())
        if not legal[first] or starts[first] >= self._next_decision(env):
            return idle
        record.due[rows[first]] = True
        return first

    def _unseen(self, record: Record, began: IntArray, late: IntArray, within: int) -> int:
        """Number of these jobs whose window was full of other jobs when they were to start."""
        dequeued = np.where(began < 0, NEVER, began)  # the queue
        unseen = 0
        for job in late:
            until = record.starts[job] + within
            unseen += int((dequeued[:job] > until).sum()) >= self._sim.layout.window
        return unseen

    def _next_decision(self, env: int) -> int:
        """The tick at which something can be decided next, if nothing is done now."""
        sim = self._sim
        e = sim.state.episodes[env]
        if sim.layout.horizon or sim.rules.tick_rule:
            return int(e["now"]) + 1
        tick = int(NEVER)
        if e["num_running"] > 0:
            tick = int(sim.state.ends[env, 0]) >> JOB_BITS
        if e["next_arrival"] < e["num_jobs"]:
            tick = min(tick, int(sim.state.jobs[env]["submit"][e["next_arrival"]]))
        return tick
