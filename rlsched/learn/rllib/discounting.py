"""Discounting in simulated time: a transition of k ticks is discounted by gamma^k [Cunha 2022, 4.7.3].

RLlib's learners discount per decision: they multiply by their own gamma and by 1 - terminated. A discount is
the chance that later rewards count at all [Sutton and Barto 2018, 5.8]. So with RLlib's gamma at 1, a
transition that terminates with chance 1 - gamma^k is discounted correctly.
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor


def discounts(ticks: Tensor, gamma: float) -> Tensor:
    """Discount factor of each transition.

    Args:
        ticks: (row,) duration of the transition.
        gamma: discount per tick, above 0.

    Returns:
        (row,) in 0 to 1.
    """
    # As exp: float32 powers of a gamma near 1 have large errors over long transitions.
    return torch.exp(ticks * log(gamma))


def ending(terminated: Tensor, ticks: Tensor, gamma: float) -> Tensor:
    """Chance that each transition terminates, with the discount as a chance.

    Args:
        terminated: (row,) whether the episode ended with it.
        ticks: (row,) duration of the transition.
        gamma: discount per tick, above 0.

    Returns:
        (row,) in 0 to 1; 1 where the episode ended.
    """
    return 1.0 - discounts(ticks, gamma) * (1.0 - terminated.float())
