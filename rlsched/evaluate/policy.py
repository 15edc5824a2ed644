"""The policy protocols: what can be compared, and what acts in the environments of a simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.sim.metrics import Played
from rlsched.workloads.episodes import Episode


class Policy(Protocol):
    """A policy that can be compared: it runs episodes from the first to the last job."""

    @property
    def name(self) -> str:
        """A priority rule, or the folder of a learned policy."""

    @property
    def backfill(self) -> str:
        """The backfilling rule that it follows."""

    @property
    def learned(self) -> bool:
        """Whether it was learned."""

    @property
    def members(self) -> Mapping[int | None, Policy]:
        """Training seed -> policy, where several seeds are compared as one; else {None: itself}."""

    def run(
        self, episodes: Sequence[Episode], units: Sequence[int], progress: Callable[[int], None]
    ) -> list[Played]:
        """Outcome of each episode."""


class Actor(Protocol):
    """A learned policy at work in several environments, with its memory of their episodes."""

    def begin(self, env: int) -> None:
        """Forget the last episode of an environment: a new one begins."""

    def act(self, envs: IntArray, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        """Legal actions (batch,) of some environments. Call it once per environment and decision.

        Args:
            envs: (batch,) indices of the environments.
            obs: (batch, size) observation vectors.
            mask: (batch, actions) 1 where legal.
        """

    def probabilities(
        self, envs: IntArray, obs: NDArray[np.float32], mask: NDArray[np.int8], *, sample: bool
    ) -> NDArray[np.float64]:
        """(batch, actions) probability of each action; one-hot unless `sample`."""


class LearnedPolicy(Protocol):
    """A trained policy with the scenario it was trained on; only the layers above know its network."""

    @property
    def scenario(self) -> Scenario:
        """Its decision rules and observations."""

    @property
    def num_resources(self) -> int:
        """Resource types of the cluster it was trained on."""

    @property
    def fingerprint(self) -> str:
        """A checksum that changes with its decisions."""

    @property
    def recurrent(self) -> bool:
        """Whether its actions depend on earlier observations of the episode."""

    def actor(self, num_envs: int) -> Actor:
        """An actor for `num_envs` environments."""
