"""What hoarding costs the candidates of a search: a multiplier for each limit, under PID control.

A limit that is a cliff, as in validation, tells a search little: of a few episodes some are always beyond it.
So waits, spans and unfinished jobs have prices, whether they are beyond or not, and a price moves by how far
the middle candidate is from the limit: what is charged is right on average, however few episodes are played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.config.sections import Pid
from rlsched.learn.pid import Control, control
from rlsched.learn.selection import limit_shares

GOAL = 0.95
"""Share of what validation allows that a search aims at: validation sees the worst part of other episodes."""

FAR = 2.0
"""Share of the limit that counts as far beyond it: how far, in one generation, is no reason for a price."""

Multipliers = Mapping[str, Control]
"""State of the controller of each price, by part and measure."""


def hoarding_penalties(
    multipliers: Multipliers,
    candidates: Sequence[Mapping[str, FloatArray]],
    sjf: Mapping[str, FloatArray],
    parts: IntArray,
    pid: Pid,
) -> tuple[FloatArray, dict[str, Control]]:
    """What each candidate pays, and the prices after that.

    Parts of a mixture have their own prices, as validation looks at each: on one a policy could push jobs out
    of sight, and keep to the limits on the whole. What is seen for the first time costs nothing yet. Who
    starts no job has neither wait nor span, and pays for the worst of the others'.

    Args:
        multipliers: before.
        candidates: of each candidate metric -> (episode,).
        sjf: likewise, of greedy sjf.
        parts: (episode,) which part an episode is of.
        pid: how prices move.

    Returns:
        (candidate,) in shares of the usual return, and the prices.
    """
    penalties, moved = np.zeros(len(candidates)), dict(multipliers)
    for part in np.unique(parts):
        in_part = parts == part
        reference = {name: float(values[in_part].mean()) for name, values in sjf.items()}
        shares_by_candidate = [
            limit_shares(
                {name: float(values[in_part].mean()) for name, values in candidate.items()}, reference
            )
            for candidate in candidates
        ]
        for measure, usual in limit_shares(reference, reference).items():
            shares = np.array([candidate[measure] for candidate in shares_by_candidate])
            if np.isnan(shares).all():
                continue
            shares[np.isnan(shares)] = np.nanmax(shares)
            name = f"{part} {measure}"
            before = multipliers.get(name)
            if before is not None:
                penalties += in_part.mean() * before.multiplier * shares
            goal = max(GOAL, usual)  # what sjf has itself is never too much
            moved[name] = control(before, min(float(np.median(shares)), FAR), goal, pid)
    return penalties, moved
