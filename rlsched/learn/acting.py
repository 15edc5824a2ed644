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
    from rlsched.learn.policy import TrainedPolicy


class Player:
    """A policy at play in several environments, with what it remembers of their episodes, if it does.

    Args:
        policy: who decides.
        num_envs: environments.
    """

    def __init__(self, policy: TrainedPolicy, num_envs: int) -> None:
        self.policy = policy
        net = policy.net
        self.recurrent = net if isinstance(net, RecurrentPolicy) else None
        self.memory = None if self.recurrent is None else self.recurrent.begin(num_envs)

    def begin(self, env: int) -> None:
        """Another episode begins in an environment: nothing of it was seen yet."""
        for part in self.memory or ():
            part[env] = 0.0

    def act(self, envs: NDArray[np.integer], obs: NDArray[np.float32], mask: NDArray[np.int8]) -> IntArray:
        """Legal actions of some environments, each of which is asked once at each of its decisions.

        Args:
            envs: (batch,) that are asked.
            obs: (batch, size) observation vectors.
            mask: (batch, actions) 1 where legal.
        """
        return self.policy.actions(self.logits(envs, obs, mask))

    def probabilities(
        self, envs: NDArray[np.integer], obs: NDArray[np.float32], mask: NDArray[np.int8], *, sample: bool
    ) -> NDArray[np.float64]:
        """(batch, actions) the same as chances, see `TrainedPolicy.probabilities`."""
        return chances(self.logits(envs, obs, mask), sample=sample)

    @torch.no_grad()
    def logits(self, envs: NDArray[np.integer], obs: NDArray[np.float32], mask: NDArray[np.int8]) -> Tensor:
        """(batch, actions) the same masked logits, before anything is chosen."""
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


def chances(logits: Tensor, *, sample: bool) -> NDArray[np.float64]:
    """(batch, actions) chances by masked logits: those that are sampled from, or all for the best."""
    if sample:
        probabilities = torch.softmax(logits.double(), dim=1)
    else:
        probabilities = nn.functional.one_hot(logits.argmax(dim=1), logits.shape[1]).double()
    return np.asarray(probabilities.numpy())


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in this thread alone: a batch of decisions is too small to be worth waking others for."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
