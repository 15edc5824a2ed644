"""Calibration of a policy: a search in validation for a better bias of its no-op, within the limits.

Multipliers follow episodes that have ended, tens of thousands of decisions late, and policies that explored.
The bias of the no-op's logit is one number that affects limits and slowdown alike: it sets how readily a
policy waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Metrics = dict[str, float]

FIRST_STEP, GROWTH = 0.1, 3.0
"""First change of the bias, in logits, and the factor by which following ones are larger."""

LARGEST_STEP = 1.0
"""Largest change; beyond it the no-op is taken always or never, and training cannot correct it."""

PLAYS = 4
"""Largest number of biases that are tried on the validation episodes, in addition to the present one."""

TOLERANCE = 0.04
"""Share of the limits that may be left unused."""


def calibrate(
    play: Callable[[float], Metrics], score: Callable[[Metrics], Any]
) -> list[tuple[float, Metrics]]:
    """Search for a better bias in growing steps, then by bisection between both sides of the limits.

    Where waiting pays, the best bias is the largest that keeps the limits. So steps go up within the limits,
    and down beyond them. Where the first step up is within the limits and no better, waiting does not pay:
    steps go down, as far as limits are kept. A policy that just keeps them is not changed.

    Args:
        play: amount to add to the bias -> metrics of the policy with it. `excess` is the share by which
            limits are exceeded, negative within them; it usually grows with the bias.
        score: metrics -> score; the smallest is the best.

    Returns:
        All amounts that were tried, with their metrics; 0 is the first.
    """
    highest_within: float | None = None
    lowest_beyond: float | None = None
    amount, step, direction, pays = 0.0, FIRST_STEP, 1.0, True
    tried = [(amount, play(amount))]
    while len(tried) <= PLAYS:
        metrics = tried[-1][1]
        excess = metrics["excess"]
        if -TOLERANCE <= excess <= 0.0 or (excess > 0.0 and not pays):
            break
        if excess > 0.0:
            lowest_beyond, direction = amount, -1.0
        else:
            highest_within = amount
        if highest_within is not None and lowest_beyond is not None:
            amount = (highest_within + lowest_beyond) / 2
        elif amount == FIRST_STEP and not score(metrics) < score(tried[0][1]):
            amount, step, direction, pays = -FIRST_STEP, FIRST_STEP * GROWTH, -1.0, False
        elif step > LARGEST_STEP:
            break
        else:
            amount += direction * step
            step *= GROWTH
        tried.append((amount, play(amount)))
    return tried
