"""What test policies have in common."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray


class Forgetful:
    """A policy that remembers nothing: it is its own player, and others fill in `decide`."""

    def player(self, num_envs: int) -> Self:
        return self

    def begin(self, env: int) -> None:
        pass

    def act(self, envs: IntArray, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        return self.decide(obs, mask)

    def decide(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        raise NotImplementedError
