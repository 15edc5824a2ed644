"""What the scheduler of a trace really did, replayed in the simulator.

A trace says when each job started. At every decision the job whose start is next takes it, if it came before
the simulator would ask again; else time passes. What the simulator cannot follow is counted: jobs start
later that stand too far back in the queue, or whose units are not free, and earlier where an action rule
knows no waiting.
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

SAME_S = 60
"""Seconds that a start may be off and still be the one of the trace: schedulers look around that often."""


@dataclass(eq=False)
class Record:
    """An episode, as far as it has been replayed.

    Attributes:
        jobs: of it.
        starts: (jobs,) ticks; a job of which none is known is to start as soon as it can.
        due: (jobs,) whether it was taken because its start was next.
        seen: (jobs,) ticks at which it was first among those that may be chosen, -1 never.
    """

    jobs: JobTable
    starts: IntArray
    due: NDArray[np.bool_]
    seen: IntArray


class RecordedChooser:
    """Who decided when the trace was recorded."""

    def __init__(self, sim: VectorSimulator) -> None:
        self._sim = sim
        self._records: dict[int, Record] = {}

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Look up the starts."""
        starts = np.where(jobs.start < 0, jobs.submit, jobs.start)
        none = np.zeros(len(jobs), np.bool_)
        self._records[env] = Record(jobs, starts, none, np.full(len(jobs), -1))

    def chances(self, envs: NDArray[np.uint64]) -> FloatArray:
        """(envs, action) 1 for what it does."""
        chances = np.zeros((len(envs), self._sim.layout.num_actions))
        for k, env in enumerate(envs):
            chances[k, self._choice(int(env))] = 1.0
        return chances

    def followed(self, env: int) -> dict[str, float]:
        """How far the replay kept to the record: counts of jobs, and how late they were.

        A start that is taken at the last question before it is the one of the trace.
        """
        record, tick_s = self._records[env], self._sim.scenario.cluster.tick_s
        began = self._sim.starts(env)
        known = record.jobs.start >= 0
        ran = known & (began >= 0)
        late = np.where(ran, began - record.starts, 0) * tick_s
        within = max(SAME_S, tick_s)
        later = late > within
        earlier = (late < -within) & ~record.due
        unseen = later & ((record.seen < 0) | ((record.seen - record.starts) * tick_s > within))
        return {
            "recorded_jobs": float(known.sum()),
            "unrecorded_jobs": float((~known).sum()),
            "started_as_recorded": float((ran & ~earlier & ~later).sum()),
            "started_earlier": float(earlier.sum()),
            "started_later": float(later.sum()),
            "later_unseen": float(unseen.sum()),
            "not_started": float((known & ~ran).sum()),
            "later_s": float(late[later].mean()) if later.any() else 0.0,
        }

    def _choice(self, env: int) -> int:
        sim, record = self._sim, self._records[env]
        e = sim.state.episodes[env]
        mask = sim.mask[env]
        idle = len(mask) - 1
        visible = int(e["num_ready"]) if sim.layout.horizon else sim.layout.window
        rows = sim.state.queue[env, e["queue_lo"] : min(e["queue_lo"] + visible, e["queue_hi"])]
        record.seen[rows[record.seen[rows] < 0]] = e["now"]
        starts = record.starts[rows]
        legal = mask[: len(rows)] > 0
        if not legal.any():
            return idle
        # Whoever started later must not take the units of who did before, and cannot yet.
        first = int(starts.argmin() if mask[idle] else np.where(legal, starts, NEVER).argmin())
        is_due = starts[first] < self._asked_again(env)
        if mask[idle] and not (legal[first] and is_due):
            return idle
        record.due[rows[first]] |= is_due
        return first

    def _asked_again(self, env: int) -> int:
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
