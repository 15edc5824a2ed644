"""Generalised advantage estimation over transitions that take time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.sim.compiled import allocating

FloatArray = NDArray[np.float32]


@allocating
def advantages(
    values: FloatArray,
    following: FloatArray,
    rewards: FloatArray,
    last: NDArray[np.bool_],
    discounts: FloatArray,
    lambdas: FloatArray,
) -> FloatArray:
    """Advantages of rows that hold one piece of an episode after the other [Schulman et al. 2016, eq. 16].

    Args:
        values: (row,) V(s_t).
        following: (row,) V(s_t+1); 0 after a terminal state.
        rewards: (row,) of the transition from s_t.
        last: (row,) its piece ends with that transition.
        discounts: (row,) of the transition from s_t.
        lambdas: (row,) lambda of the transition from s_t.

    Returns:
        (row,) advantages.
    """
    result = np.empty_like(values)
    running = np.float32(0.0)
    for t in range(len(values) - 1, -1, -1):
        if last[t]:
            running = np.float32(0.0)
        running = rewards[t] + discounts[t] * following[t] - values[t] + discounts[t] * lambdas[t] * running
        result[t] = running
    return result
