"""A learned policy in several environments: recurrent state, probabilities and actions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlsched.jobs import IntArray
from rlsched.learn.networks.recurrent import RecurrentPolicy, Remembered

if TYPE_CHECKING:
    from rlsched.learn.policy import NetworkPolicy


class NetworkActor:
    """Policy that acts in several environments, with its recurrent state of their episodes, if it has one."""

    def __init__(self, policy: NetworkPolicy, num_envs: int) -> None:
        self.policy = policy
        net = policy.net
        self.recurrent = net if isinstance(net, RecurrentPolicy) else None
        self.memory = None if self.recurrent is None else self.recurrent.begin(num_envs)

    def begin(self, env: int) -> None:
        """Reset an environment's recurrent state for a new episode."""
        for part in self.memory or ():
            part[env] = 0.0

    def act(self, envs: NDArray[np.integer], obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        """Legal actions (batch,) of some environments, to be called once for each of their decisions.

        Args:
            envs: (batch,) indices of the environments.
            obs: (batch, size) observation vectors.
            mask: (batch, actions) 1 where legal.
        """
        return self.policy.actions(self.logits(envs, obs, mask))

    def probabilities(
        self, envs: NDArray[np.integer], obs: NDArray[np.float32], mask: NDArray[np.int8], *, sample: bool
    ) -> NDArray[np.float64]:
        """Action probabilities (batch, actions): 0 where illegal, with a sum of 1; arguments as of `act`.

        With `sample` they are those that actions are drawn from; else the best action has 1.
        """
        logits = self.logits(envs, obs, mask)
        if sample:
            probabilities = torch.softmax(logits.double(), dim=1)
        else:
            probabilities = nn.functional.one_hot(logits.argmax(dim=1), logits.shape[1]).double()
        return np.asarray(probabilities.numpy())

    @torch.no_grad()
    def logits(self, envs: NDArray[np.integer], obs: NDArray[np.float32], mask: NDArray[np.int8]) -> Tensor:
        """Masked logits (batch, actions); arguments as of `act`."""
        if self.recurrent is None or self.memory is None:
            return self.policy.logits(obs, mask)
        self.policy.check_width(obs)
        rows = torch.from_numpy(envs.astype(np.int64))
        before = Remembered(*(part[rows] for part in self.memory))
        with one_thread():
            vector, legal = torch.from_numpy(obs), torch.from_numpy(mask).float()
            logits, then = self.recurrent.step(vector, legal, before)
        for part, now in zip(self.memory, then, strict=True):
            part[rows] = now
        return logits


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in this thread alone: a batch of decisions is too small to be worth waking other threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
