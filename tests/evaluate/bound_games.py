"""Small random episodes, and the best value of each by trying every schedule."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlsched.evaluate import upper_bound as module
from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim.simulator import effective_prices
from tests.sim.test_twin_green import random_scenario, random_series
from tests.strategies import random_jobs
from tests.twin.power import Plant

Game = tuple[Scenario, tuple[int, ...], JobTable, PowerSeries | None]


def change(scenario: Scenario, part: str, **update: Any) -> Scenario:
    """The scenario with some settings of a part of it changed."""
    return scenario.model_copy(update={part: getattr(scenario, part).model_copy(update=update)})


def game(seed: int, most_jobs: int = 8, longest: int = 9, most_ticks: int = 60, most_units: int = 6) -> Game:
    """As in `test_twin_green`, with few jobs, which may run late: the bound knows no deadlines."""
    rng = random.Random(seed)
    units = tuple(rng.randint(1, most_units) for _ in range(rng.randint(1, 2)))
    scenario = random_scenario(rng, units, rng.choice([9, 12, 20]))
    scenario = change(
        scenario, "episode", end="max_ticks", max_ticks=rng.randint(most_ticks // 6, most_ticks)
    )
    scenario = change(scenario, "decision", expiry_rule="violation")
    span = rng.choice([0, most_ticks // 5, most_ticks * 2 // 3])
    table = random_jobs(rng, units, rng.randint(1, most_jobs), span, longest)
    power = None
    if scenario.power is not None:
        watts = [
            r.idle_w + (r.full_w - r.idle_w) * scenario.power.utilization for r in scenario.cluster.resources
        ]
        power = random_series(rng, sum(n * w for n, w in zip(units, watts, strict=True)))
    return scenario, units, table, power


def values_of(scenario: Scenario, table: JobTable) -> NDArray[np.float64]:
    return (table.demand * effective_prices(scenario)).sum(axis=1) * table.qos * table.runtime


def equal(value: float, expected: float) -> bool:
    return abs(value - expected) <= 1e-9 * max(1.0, expected)


# against trying everything


class Tiny:
    """A game without a battery, small enough to try all schedules, from the twin's rules of power."""

    def __init__(
        self, scenario: Scenario, units: tuple[int, ...], table: JobTable, power: PowerSeries | None
    ):
        assert scenario.episode.max_ticks
        self.ticks, self.first = scenario.episode.max_ticks, int(table.submit[0])
        self.suspend, self.table = scenario.decision.suspend, table
        rows = int(table.requested.max())
        self.forecast = [[list(units)] * rows] * self.ticks
        if power is not None:
            plant = Plant(scenario, units, power, self.first)
            self.forecast = [
                [plant.units_on(share) for share in plant.forecast(self.first + t, rows)]
                for t in range(self.ticks)
            ]
        self.values = values_of(scenario, table)

    def must_go_on(self, t: int, j: int) -> bool:
        """Whether a job that ran before t can not be stopped then."""
        now, before = self.forecast[t][0], self.forecast[t - 1][0]
        less = any(need and a < b for need, a, b in zip(self.table.demand[j], now, before, strict=True))
        return not self.suspend and not less

    def held(self, remaining: tuple[int, ...], chosen: set[int], row: int) -> NDArray[np.int32]:
        """Units that are expected to be held so many rows from now."""
        present = [j for j in chosen if max(1, self.claimed(remaining, j)) > row]
        return self.table.demand[present].sum(axis=0)

    def claimed(self, remaining: tuple[int, ...], j: int) -> int:
        return int(self.table.requested[j] - (self.table.runtime[j] - remaining[j]))

    def may_run(
        self, t: int, remaining: tuple[int, ...], chosen: set[int], before: set[int], requests: bool
    ) -> bool:
        if (self.held(remaining, chosen, 0) > self.forecast[t][0]).any():
            return False
        for j in chosen - before if requests else ():
            for row in range(max(1, self.claimed(remaining, j))):
                too_much = self.held(remaining, chosen, row) > self.forecast[t][row]
                if (too_much & (self.table.demand[j] > 0)).any():
                    return False
        return True

    def sets(
        self, t: int, remaining: tuple[int, ...], before: frozenset[int], requests: bool
    ) -> Iterator[frozenset[int]]:
        """All sets of jobs that may run at tick t."""
        n = len(self.table)
        present = {j for j in range(n) if remaining[j] and self.table.submit[j] - self.first <= t}
        must = {j for j in before if self.must_go_on(t, j)}
        for bits in range(1 << n):
            chosen = {j for j in range(n) if bits >> j & 1}
            if must <= chosen <= present and self.may_run(t, remaining, chosen, set(before), requests):
                yield frozenset(chosen)

    def best(self, requests: bool) -> float:
        @cache
        def best(t: int, remaining: tuple[int, ...], before: frozenset[int]) -> float:
            if t == self.ticks or not any(remaining):
                return 0.0
            result = 0.0
            for chosen in self.sets(t, remaining, before, requests):
                after = tuple(ticks - (j in chosen) for j, ticks in enumerate(remaining))
                earned = sum(float(self.values[j]) for j in chosen if after[j] == 0)
                result = max(result, earned + best(t + 1, after, frozenset(j for j in chosen if after[j])))
            return result

        return best(0, tuple(self.table.runtime.tolist()), frozenset())

    def earned(self, runs: module.Runs, requests: bool) -> float:
        """What a schedule earns, which must be one of all."""
        remaining, before = tuple(self.table.runtime.tolist()), frozenset[int]()
        for t in range(self.ticks):
            chosen = frozenset(j for j, of in enumerate(runs) if any(a <= self.first + t < b for a, b in of))
            assert chosen in set(self.sets(t, remaining, before, requests))
            remaining = tuple(ticks - (j in chosen) for j, ticks in enumerate(remaining))
            before = frozenset(j for j in chosen if remaining[j])
        assert all(a < b for of in runs for a, b in of)
        assert all(b < c for of in runs for (_, b), (c, _) in pairwise(of))
        return sum(float(value) for value, ticks in zip(self.values, remaining, strict=True) if ticks == 0)
