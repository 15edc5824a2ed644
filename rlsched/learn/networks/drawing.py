"""Drawing actions from the logits of a policy, for a whole vector of environments at once."""

from __future__ import annotations

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray
from rlsched.sim.compiled import allocating

Float32Array = NDArray[np.float32]


@allocating
def draw_actions(
    logits: Float32Array, chances: FloatArray, second_chances: FloatArray | None = None
) -> tuple[IntArray, Float32Array]:
    """Draw an action per row, with the probabilities that the logits give.

    torch draws a random number per action, legal or not, and takes several passes.

    Args:
        logits: (row, action); the least float, or less, for illegal actions.
        chances: (row,) uniform in [0, 1).
        second_chances: (row,) likewise; with them, `chances` decide on the last action only, and these choose
            among the others.

    Returns:
        (row,) actions and their log probabilities. Where logits are not numbers, action -1.
    """
    rows, number = logits.shape
    actions = np.full(rows, -1)
    logp = np.zeros(rows, np.float32)
    for i in range(rows):
        top = logits[i].max()
        total = 0.0
        for k in range(number):
            total += exp(np.float64(logits[i, k]) - top)
        remaining = chances[i] * total
        if second_chances is not None:
            rest = total - exp(np.float64(logits[i, number - 1]) - top)
            if remaining < rest:
                remaining = second_chances[i] * rest
        for k in range(number):
            weight = exp(np.float64(logits[i, k]) - top)
            if weight > 0.0:
                actions[i] = k  # the last one with any weight, where rounding leaves something over
                remaining -= weight
                if remaining < 0.0:
                    break
        if actions[i] >= 0:
            logp[i] = logits[i, actions[i]] - top - log(total)
    return actions, logp
