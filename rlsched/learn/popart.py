"""PopArt: values in units of what returns are like, which changes as they are learned [van Hasselt 2016]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEAST_SPREAD = 1e-2
"""Of targets, in units of reward: where all are alike, nothing is to be blown up."""


class PopArt(nn.Module):
    """Normalises targets by their running mean and spread.

    Args:
        mean: expected at first.
        rate: share of the way that both go per minibatch.
    """

    mean: Tensor
    square: Tensor

    def __init__(self, mean: float, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.register_buffer("mean", torch.tensor(float(mean)))
        self.register_buffer("square", torch.tensor(float(mean) ** 2 + 1.0))

    @property
    def spread(self) -> Tensor:
        """Standard deviation of the targets."""
        return (self.square - self.mean**2).clamp(min=LEAST_SPREAD**2).sqrt()

    def forward(self, targets: Tensor) -> Tensor:
        """Normalised, the same shape."""
        return (targets - self.mean) / self.spread

    def undo(self, values: Tensor) -> Tensor:
        """In units of reward, the same shape."""
        return values * self.spread + self.mean

    @torch.no_grad()
    def update(self, targets: Tensor) -> tuple[float, float]:
        """See more targets, of all learners together.

        Args:
            targets: (row,) in units of reward.

        Returns:
            Factor and offset that keep what normalised values mean.
        """
        mean, spread = self.mean.clone(), self.spread.clone()
        moments = torch.stack([targets.mean(), targets.square().mean()])
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(moments)
            moments /= torch.distributed.get_world_size()
        self.mean.lerp_(moments[0], self.rate)
        self.square.lerp_(moments[1], self.rate)
        return float(spread / self.spread), float((mean - self.mean) / self.spread)
