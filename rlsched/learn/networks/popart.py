"""PopArt: normalised value targets while the scale of returns changes [van Hasselt et al. 2016, PopArt]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlsched.learn.networks.blocks import accept_former_names

LEAST_SPREAD = 1e-2
"""Smallest standard deviation of targets, in units of reward, so that equal targets are not scaled up."""


class PopArt(nn.Module):
    """Normalises targets by their running mean and spread.

    The first minibatches have equal weights: else the initial guess would last longer than many runs.

    Adam moves an output by about the same share of a unit at every step, however large the unit is. So a unit
    is many standard deviations: in units of one, critics follow their targets too slowly.

    Args:
        mean: initial mean.
        rate: step size of both running averages, after the first 1 / `rate` minibatches.
        scale: standard deviations in a unit; the first unit is 1 of reward.
    """

    mean: Tensor
    square: Tensor
    updates: Tensor

    def __init__(self, mean: float, rate: float, scale: float) -> None:
        super().__init__()
        accept_former_names(self)
        self.rate, self.scale = rate, scale
        self.register_buffer("mean", torch.tensor(float(mean)))
        self.register_buffer("square", torch.tensor(float(mean) ** 2 + 1.0 / scale**2))
        self.register_buffer("updates", torch.tensor(0))  # minibatches

    @property
    def spread(self) -> Tensor:
        """Standard deviation of the targets."""
        return (self.square - self.mean**2).clamp(min=LEAST_SPREAD**2).sqrt()

    @property
    def unit(self) -> Tensor:
        """Size of a normalised unit, in units of reward."""
        return self.scale * self.spread

    def forward(self, targets: Tensor) -> Tensor:
        """Normalise targets that are in units of reward."""
        return (targets - self.mean) / self.unit

    def undo(self, values: Tensor) -> Tensor:
        """Convert normalised values to units of reward."""
        return values * self.unit + self.mean

    @torch.no_grad()
    def update(self, targets: Tensor) -> tuple[float, float]:
        """Update the running mean and spread with the targets of all learners together.

        Args:
            targets: (row,) in units of reward.

        Returns:
            Factor and offset for normalised values that preserve them in units of reward.
        """
        mean, unit = self.mean.clone(), self.unit.clone()
        moments = torch.stack([targets.mean(), targets.square().mean()])
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(moments)
            moments /= torch.distributed.get_world_size()
        self.updates += 1
        rate = max(self.rate, 1.0 / int(self.updates))
        self.mean.lerp_(moments[0], rate)
        self.square.lerp_(moments[1], rate)
        return float(unit / self.unit), float((mean - self.mean) / self.unit)
