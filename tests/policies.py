"""What test policies have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray


class Forgetful:
    """A policy that remembers nothing: it is its own player.

    Attributes:
        decide: legal actions (batch,) for observations (batch, size) and masks (batch, actions).
    """

    decide: Callable[[NDArray[np.float32], NDArray[np.int8]], IntArray]

    def actor(self, num_envs: int) -> Self:
        return self

    def begin(self, env: int) -> None:
        pass

    def act(self, envs: IntArray, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        return self.decide(obs, mask)
