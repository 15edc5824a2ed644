"""Replaying jobs under a heuristic: a priority rule and backfilling, at every event."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.sim.backfill import BACKFILLS, EASY, QueueHeuristic, serve
from rlsched.sim.compiled import kernel
from rlsched.sim.events import happen, next_event
from rlsched.sim.load import load
from rlsched.sim.priorities import priority, static_keys
from rlsched.sim.state import NEVER, State, allocate, keys_for, starts


def replay(
    jobs: JobTable,
    units: Sequence[int],
    policy: str,
    backfill: str = "none",
    *,
    window: int | None = None,
    seed: int = 0,
) -> IntArray:
    """Start ticks of jobs under a heuristic.

    Args:
        jobs: in submit order.
        units: (resource,) units of the cluster.
        policy: a name in `PRIORITIES`.
        backfill: a name in `BACKFILLS`.
        window: number of the oldest waiting jobs that are looked at; None: the whole queue.
        seed: for the random order.

    Returns:
        (jobs,) ticks.

    Raises:
        BadInputError: an unknown name, or jobs that the cluster cannot run.
    """
    linked = bool((jobs.preceding >= 0).any())
    replayer = Replayer(1, len(jobs), units, linked=linked)
    return replayer.run([jobs], policy, backfill, window=window, seeds=[seed])[0]


class Replayer:
    """Room for replaying several episodes in one compiled call, again and again."""

    def __init__(self, num_envs: int, max_jobs: int, units: Sequence[int], *, linked: bool = False) -> None:
        self._units = units
        self._state = allocate(num_envs, max_jobs, units, linked=linked)
        self._keys = np.zeros((num_envs, max_jobs))
        self._envs = np.arange(num_envs, dtype=np.uint64)

    def run(
        self,
        episodes: Sequence[JobTable],
        policy: str,
        backfill: str = "none",
        *,
        window: int | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[IntArray]:
        """Start ticks of each episode's jobs; at most `num_envs` episodes, arguments as in `replay`."""
        heuristic = make_heuristic(self._keys, policy, backfill, window)
        rule = priority(policy)
        for i, jobs in enumerate(episodes):
            load(self._state, i, jobs)
            seed = seeds[i] if seeds is not None else i
            keys_for(self._state, i, self._keys, static_keys(rule, jobs, self._units, seed))
        run_all(self._state, heuristic, self._envs[: len(episodes)])
        return [starts(self._state, i) for i in range(len(episodes))]


def make_heuristic(keys: FloatArray, policy: str, backfill: str, window: int | None) -> QueueHeuristic:
    """Queue heuristic for the compiled core from the names of its rules.

    Raises:
        BadInputError: an unknown name.
    """
    rule = priority(policy)
    if backfill not in BACKFILLS:
        raise BadInputError("--backfill", f"unknown rule {backfill!r}", f"use one of {', '.join(BACKFILLS)}")
    return QueueHeuristic(
        keys,
        rule.moving,
        rule.by_submit,
        rule.in_queue_order,
        BACKFILLS[backfill],
        window or int(NEVER),
    )


@kernel
def run_all(s: State, heuristic: QueueHeuristic, envs: NDArray[np.uint64]) -> None:
    """Serve the queue of these environments at every event, until every job has started.

    They are listed for the same reasons as those of `step_all`.
    """
    keep_releases = heuristic.backfill >= EASY
    for i in envs:
        e = s.episodes[i]
        tick, waiting = e.now, True
        while waiting:  # one call of `happen`, as each would be compiled in full
            happen(s, i, tick, keep_releases)
            serve(s, i, heuristic)
            waiting = e.queue_lo != e.queue_hi or e.next_arrival != e.num_jobs
            if waiting:
                tick = next_event(s, i)
