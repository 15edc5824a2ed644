"""Playing episodes under a policy that chooses among the jobs of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.sim.simulator import VectorSimulator


class Policy(Protocol):
    """Chooses actions for a batch of states."""

    def act(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        """Legal actions (batch,) for observations (batch, size) and masks (batch, actions)."""


def play(
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[JobTable],
    policy: Policy,
    *,
    batch: int = 64,
    progress: Callable[[int], None] | None = None,
) -> list[IntArray]:
    """Play every episode to its end.

    Args:
        scenario: decision rules and observations that the policy was made for.
        units: (resource,) units of the cluster.
        episodes: jobs of each, in submit order.
        policy: who decides.
        batch: episodes that are played side by side.
        progress: called with 1 whenever an episode has ended.

    Returns:
        Start ticks (jobs,) of each episode.
    """
    sim = VectorSimulator(scenario, units, min(batch, len(episodes)), max(len(jobs) for jobs in episodes))
    playing = np.full(sim.num_envs, -1)
    results: list[IntArray] = [np.empty(0, np.int64)] * len(episodes)
    waiting = list(range(len(episodes)))[::-1]
    idle = sim.layout.num_actions - 1
    for env in range(sim.num_envs):
        playing[env] = waiting.pop()
        sim.load(env, episodes[playing[env]])
    while True:
        for env in np.flatnonzero((sim.terminated | sim.truncated) & (playing >= 0)).tolist():
            results[playing[env]] = sim.starts(env)
            if progress is not None:
                progress(1)
            playing[env] = waiting.pop() if waiting else -1
            if playing[env] >= 0:
                sim.load(env, episodes[playing[env]])
        asked = np.flatnonzero(~(sim.terminated | sim.truncated))
        if len(asked) == 0 and (playing < 0).all():
            return results
        actions = np.full(sim.num_envs, idle)
        if len(asked):
            actions[asked] = policy.act(sim.obs[asked], sim.mask[asked])
        sim.step(actions)
