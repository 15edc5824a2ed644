"""Whether learned policies keep the limits that they were trained within."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlsched.evaluate.bootstrap import bootstrap_columns
from rlsched.scenario import Objective
from rlsched.sim.metrics import Played


@dataclass(frozen=True)
class Keeping:
    """What a policy paid of a cost that it had a limit of.

    Attributes:
        policy: as in the episodes.
        cost: its name.
        per: what the limit is of.
        limit: that was to be kept.
        paid: mean over the episodes.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    policy: str
    cost: str
    per: str
    limit: float
    paid: float
    low: float
    high: float

    @property
    def kept(self) -> bool:
        """On average of the episodes."""
        return self.paid <= self.limit


def keeping(policy: str, objective: Objective, runs: Sequence[Played], seed: int = 0) -> list[Keeping]:
    """What came of each limit.

    Args:
        policy: its name.
        objective: that it was trained for.
        runs: how each episode went.
        seed: of the bootstrap.
    """
    names = list(objective.limits)
    columns = [
        np.array([objective.limited(-run.totals[name], len(run.jobs)) for run in runs]) for name in names
    ]
    per = objective.limits_per
    return [
        Keeping(policy, name, per, objective.limits[name], paid.mean, paid.low, paid.high)
        for name, paid in zip(names, bootstrap_columns(columns, seed), strict=True)
    ]
