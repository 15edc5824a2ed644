"""Whether learned policies keep the limits that they were trained within."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlsched.evaluate.bootstrap import bootstrap_columns
from rlsched.evaluate.costs import allowed, paid
from rlsched.scenario import Scenario
from rlsched.sim.metrics import Played
from rlsched.sim.simulator import Playable


@dataclass(frozen=True)
class Keeping:
    """What a policy paid of a cost that it had a limit of.

    Attributes:
        policy: as in the episodes.
        cost: its name.
        per: what the limit is of.
        limit: that was to be kept; mean over the episodes where it is relative to a heuristic.
        paid: mean over the episodes.
        low: lower end of its 95 % interval; of its difference to a relative limit, plus that.
        high: upper end, likewise.
        seeds_above: seeds of its training, of several, that pay more than the limit on average.
    """

    policy: str
    cost: str
    per: str
    limit: float
    paid: float
    low: float
    high: float
    seeds_above: tuple[int, ...] = ()

    @property
    def kept(self) -> bool:
        """On average of the episodes, and of the seeds where there are several."""
        return self.paid <= self.limit


def keeping(
    policy: str,
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[Playable],
    runs: Mapping[int | None, Sequence[Played]],
    seed: int = 0,
) -> list[Keeping]:
    """What came of each limit.

    Args:
        policy: its name.
        scenario: whose limits it was trained within.
        units: (resource,) units of the cluster.
        episodes: that were played.
        runs: seed of the training (None: one policy) -> how each episode went.
        seed: of the bootstrap.
    """
    objective = scenario.objective
    limits = allowed(scenario, units, episodes)
    beyond = [
        np.array([paid(scenario, units, name, each) for each in runs.values()]) - limit
        for name, limit in limits.items()
    ]  # (training seeds, episodes) of each cost
    found = []
    for (name, limit), over, ends in zip(
        limits.items(), beyond, bootstrap_columns(beyond, seed), strict=True
    ):
        mean = float(limit.mean())
        above = zip(runs, over.mean(axis=1) > 0, strict=True)
        found.append(
            Keeping(
                policy,
                name,
                objective.limits_per,
                mean,
                ends.mean + mean,
                ends.low + mean,
                ends.high + mean,
                tuple(each for each, broken in above if broken and each is not None),
            )
        )
    return found
