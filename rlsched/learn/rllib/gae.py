"""Generalised advantage estimation over transitions that take time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
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


class Pieces(NamedTuple):
    """Rows of transitions that hold one piece of an episode after the other."""

    ends: IntArray  # (piece,) row of the last transition of each
    last: NDArray[np.bool_]  # (row,) whether its piece ends with the transition
    ticks: NDArray[np.float64]  # (row,) duration of the transition

    @classmethod
    def of(cls, ends: IntArray, clock: FloatArray, after: FloatArray) -> Pieces:
        """The pieces that end in these rows.

        Args:
            ends: (piece,)
            clock: (row,) ticks since the episode began, before the transition.
            after: (piece,) ticks after its last transition.
        """
        last = np.zeros(len(clock), np.bool_)
        last[ends] = True
        before = clock.astype(np.float64)
        return cls(ends, last, _following(before, after, ends) - before)

    def advantages(
        self, earned: FloatArray, values: FloatArray, after: FloatArray, gamma: float, gae_lambda: float
    ) -> FloatArray:
        """Advantages (row,) of rewards or of a cost, with gamma^k and lambda^k for a transition of k ticks.

        Args:
            earned: (row,) rewards or costs.
            values: (row,) the critic's estimates.
            after: (piece,) its estimates after the last transitions.
            gamma: discount per tick.
            gae_lambda: lambda per tick.
        """
        values, earned = np.ascontiguousarray(values), np.ascontiguousarray(earned)
        discounts, lambdas = ((rate**self.ticks).astype(np.float32) for rate in (gamma, gae_lambda))
        following = _following(values, after, self.ends)
        return advantages(values, following, earned, self.last, discounts, lambdas)


def _following(of_rows: NDArray[Any], of_ends: NDArray[Any], ends: IntArray) -> NDArray[Any]:
    """Values (row,) after each transition: those of the next row, or of the piece that ends (piece,)."""
    shifted = np.roll(of_rows, -1)
    shifted[ends] = of_ends
    return shifted
