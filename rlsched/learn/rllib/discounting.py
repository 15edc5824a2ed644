"""Discounting in simulated time: a transition of k ticks is discounted by gamma^k [Cunha 2022, 4.7.3].

What learners of RLlib's that discount by decisions multiply by is their own gamma and 1 - terminated: a
discount is the chance that what follows counts at all [Sutton and Barto 2018, 5.8]. So with their gamma at 1,
transitions that end with chance 1 - gamma^k are discounted as they must be.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor


def discounts(ticks: Tensor, gamma: float) -> Tensor:
    """What is left of a value after each transition.

    Args:
        ticks: (row,) that it took.
        gamma: discount per tick, above 0.

    Returns:
        (row,) in 0 to 1.
    """
    # As exp: float32 powers of a gamma near 1 are off by far over long transitions.
    return torch.exp(ticks * log(gamma))


def ending(terminated: Tensor, ticks: Tensor, gamma: float) -> Tensor:
    """Chance that nothing counts after each transition.

    Args:
        terminated: (row,) whether the episode ended with it.
        ticks: (row,) that it took.
        gamma: discount per tick, above 0.

    Returns:
        (row,) in 0 to 1; 1 where the episode ended.
    """
    return 1.0 - discounts(ticks, gamma) * (1.0 - terminated.float())
