"""Episodes played to their end by a learned policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlsched.evaluate.policy import LearnedPolicy
from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.sim.metrics import Played
from rlsched.sim.play import play_all
from rlsched.sim.simulator import Playable, VectorSimulator


def play(
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[Playable],
    policy: LearnedPolicy,
    *,
    batch: int = 64,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Played]:
    """Play every episode to its end.

    Args:
        scenario: decision rules and observations of the policy.
        units: (resource,) units of the cluster.
        episodes: jobs and power of each.
        policy: chooses the actions.
        batch: episodes that are played side by side.
        progress: called with 1 whenever an episode has ended.

    Returns:
        Outcome of each episode.
    """
    longest = max(len(episode.jobs) for episode in episodes)
    sim = VectorSimulator(scenario, units, min(batch, len(episodes)), longest, every_term=True)
    actor, idle = policy.actor(sim.num_envs), sim.layout.num_actions - 1

    def act() -> IntArray:
        deciding = np.flatnonzero(~(sim.terminated | sim.truncated))
        actions = np.full(sim.num_envs, idle)
        if len(deciding):
            actions[deciding] = actor.act(deciding, sim.obs[deciding], sim.mask[deciding])
        return actions

    return play_all(sim, episodes, act, begin=lambda env, _: actor.begin(env), progress=progress)
