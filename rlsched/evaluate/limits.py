"""Whether learned policies meet the cost limits that they were trained with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlsched.evaluate.bootstrap import bootstrap_columns
from rlsched.evaluate.costs import allowed, limited_costs
from rlsched.scenario import Scenario
from rlsched.sim.metrics import Played
from rlsched.sim.simulator import Playable


@dataclass(frozen=True)
class LimitCheck:
    """The mean cost of a policy against its limit, with a 95 % interval.

    Where the limit is relative to a heuristic, the interval is that of the difference, plus the limit.
    """

    policy: str
    cost: str
    per: str  # `episode` or `job`, the scope of the limit
    limit: float  # mean over the episodes where it is relative to a heuristic
    mean: float  # of the cost over the episodes (`paid` in JSON)
    low: float
    high: float
    seeds_above: tuple[int, ...] = ()  # training seeds, of several, whose mean cost is above the limit

    @property
    def met(self) -> bool:
        """Whether the mean over episodes and seeds is within the limit (`kept` in JSON)."""
        return self.mean <= self.limit


def check_limits(
    policy: str,
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[Playable],
    runs: Mapping[int | None, Sequence[Played]],
    seed: int = 0,
) -> list[LimitCheck]:
    """Compare each cost that has a limit with it.

    Args:
        policy: its name.
        scenario: with the limits that it was trained with.
        units: (resource,) units of the cluster.
        episodes: of the evaluation.
        runs: training seed (None: a single policy) -> outcome of each episode.
        seed: of the bootstrap.
    """
    objective = scenario.objective
    limits = allowed(scenario, units, episodes)
    beyond = [
        np.array([limited_costs(scenario, units, name, outcomes) for outcomes in runs.values()]) - limit
        for name, limit in limits.items()
    ]  # (training seeds, episodes) of each cost
    checks = []
    for (name, limit), over, ends in zip(
        limits.items(), beyond, bootstrap_columns(beyond, seed), strict=True
    ):
        mean = float(limit.mean())
        above = zip(runs, over.mean(axis=1) > 0, strict=True)
        checks.append(
            LimitCheck(
                policy,
                name,
                objective.limits_per,
                mean,
                ends.mean + mean,
                ends.low + mean,
                ends.high + mean,
                tuple(member for member, broken in above if broken and member is not None),
            )
        )
    return checks
