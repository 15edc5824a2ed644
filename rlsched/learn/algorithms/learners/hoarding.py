"""Penalties of hoarding for the candidates of a search: a multiplier for each limit, under PID control.

A hard limit, as in validation, gives a search little information: of a few episodes some are always beyond
it. So waits, spans and unfinished jobs are penalised on both sides of a limit. A multiplier moves by the
median candidate's distance from the limit, so penalties are right on average, however few episodes are
played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.config.sections import Pid
from rlsched.learn.pid import Control, control
from rlsched.learn.selection import limit_shares

GOAL = 0.95
"""Share of validation's limits that a search aims at: validation takes the worst part of other episodes."""

FAR = 2.0
"""Share of the limit at which a violation is clipped for the controller: one generation is too noisy."""

Multipliers = Mapping[str, Control]
"""State of the controller of each multiplier, by part and measure."""


def hoarding_penalties(
    multipliers: Multipliers,
    candidates: Sequence[Mapping[str, FloatArray]],
    sjf: Mapping[str, FloatArray],
    parts: IntArray,
    pid: Pid,
) -> tuple[FloatArray, dict[str, Control]]:
    """Compute the penalty of each candidate, and update the multipliers.

    Parts of a mixture have their own multipliers, as validation checks each part: a policy could hoard on one
    part, and keep the limits on the whole. A new measure has no penalty yet. A candidate that starts no job
    has neither wait nor span, and gets the worst ones of the others.

    Args:
        multipliers: states before the update.
        candidates: of each candidate metric -> (episode,).
        sjf: metric -> (episode,) of greedy sjf.
        parts: (episode,) part of the mixture that each episode is from.
        pid: settings of the controllers.

    Returns:
        Penalties (candidate,) in shares of the usual return, and the updated multipliers.
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
            goal = max(GOAL, usual)  # sjf's own share is always allowed
            moved[name] = control(before, min(float(np.median(shares)), FAR), goal, pid)
    return penalties, moved
