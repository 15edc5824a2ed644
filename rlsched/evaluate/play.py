"""Playing episodes under a policy that chooses among the jobs of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.sim.metrics import Played
from rlsched.sim.playing import play_all
from rlsched.sim.simulator import Playable, VectorSimulator


class Player(Protocol):
    """A policy at play in several environments, with whatever it remembers of their episodes."""

    def begin(self, env: int) -> None:
        """Another episode begins in an environment."""

    def act(self, envs: IntArray, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        """Legal actions (batch,) of some environments, each of which is asked once at each of its decisions.

        Args:
            envs: (batch,) that are asked.
            obs: (batch, size) observation vectors.
            mask: (batch, actions) 1 where legal.
        """


class Policy(Protocol):
    """Decides, in as many environments as is asked for."""

    def player(self, num_envs: int) -> Player:
        """It at play in so many environments."""


def play(
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[Playable],
    policy: Policy,
    *,
    batch: int = 64,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Played]:
    """Play every episode to its end.

    Args:
        scenario: decision rules and observations that the policy was made for.
        units: (resource,) units of the cluster.
        episodes: jobs and power of each.
        policy: who decides.
        batch: episodes that are played side by side.
        progress: called with 1 whenever an episode has ended.

    Returns:
        How each episode went.
    """
    longest = max(len(episode.jobs) for episode in episodes)
    sim = VectorSimulator(scenario, units, min(batch, len(episodes)), longest, every_term=True)
    player, idle = policy.player(sim.num_envs), sim.layout.num_actions - 1

    def act() -> IntArray:
        asked = np.flatnonzero(~(sim.terminated | sim.truncated))
        actions = np.full(sim.num_envs, idle)
        if len(asked):
            actions[asked] = player.act(asked, sim.obs[asked], sim.mask[asked])
        return actions

    return play_all(sim, episodes, act, begin=lambda env, _: player.begin(env), progress=progress)
