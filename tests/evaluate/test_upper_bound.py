"""The bound that nobody beats: by hand, against trying everything, and against every policy there is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.evaluate import upper_bound as module
from rlsched.evaluate.upper_bound import Bound, capacity_of, upper_bound
from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim.orders import PLACEMENTS, play_order
from rlsched.sim.priorities import PRIORITIES
from rlsched.sim.simulator import VectorSimulator, effective_prices
from tests.sim.drive import over, random_legal
from tests.sim.test_twin_green import random_scenario, random_series
from tests.sim.test_twin_green_by_hand import BATTERY, green, jobs, series
from tests.strategies import random_jobs
from tests.strategies import scenario as without_horizon
from tests.twin.green import TwinGreen
from tests.twin.power import Plant

Game = tuple[Scenario, tuple[int, ...], JobTable, PowerSeries | None]


def change(scenario: Scenario, part: str, **update: Any) -> Scenario:
    """The scenario with some settings of a part of it changed."""
    return scenario.model_copy(update={part: getattr(scenario, part).model_copy(update=update)})


def game(seed: int, most_jobs: int = 8, longest: int = 9, most_ticks: int = 60, most_units: int = 6) -> Game:
    """As in `test_twin_green`, with few jobs."""
    rng = random.Random(seed)
    units = tuple(rng.randint(1, most_units) for _ in range(rng.randint(1, 2)))
    scenario = random_scenario(rng, units, rng.choice([9, 12, 20]))
    scenario = change(
        scenario, "episode", end="max_ticks", max_ticks=rng.randint(most_ticks // 6, most_ticks)
    )
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


# by hand: a unit is worth 0.5 per tick, and draws 100 W idle and 200 W at work, hourly


@pytest.mark.slow
def test_waits_for_the_better_job() -> None:
    """Five ticks are too few for both; the one that comes later is worth more."""
    table = jobs(submit=[10, 11], runtime=[3, 4], demand=[3, 3])
    bound = upper_bound(green(max_ticks=5), [3], table)
    assert (bound.value, bound.exact, bound.runs) == (6.0, True, ((), ((11, 15),)))


def test_idles_to_be_in_step() -> None:
    """All end in six ticks if the first job, which could begin at once, waits for the third."""
    table = jobs(submit=[0, 1, 2], runtime=[3, 2, 3], demand=[1, 2, 1])
    bound = upper_bound(green(max_ticks=6), [2], table)
    assert (bound.value, bound.exact, bound.runs) == (5.0, True, (((3, 6),), ((1, 3),), ((3, 6),)))


@pytest.mark.parametrize(("suspend", "value"), [(False, 2.0), (True, 3.0)])
def test_three_jobs_share_two_units(suspend: bool, value: float) -> None:
    """Two ticks each in three ticks: only if one of them makes way for a tick."""
    table = jobs(runtime=[2, 2, 2], demand=[1, 1, 1])
    bound = upper_bound(green(max_ticks=3, suspend=suspend), [2], table)
    assert (bound.value, bound.exact) == (value, True)


def test_a_shortfall_stops_a_job() -> None:
    """Two units, one, two; without anybody who suspends, the shorter job makes way."""
    table = jobs(runtime=[2, 3], demand=[1, 1])
    bound = upper_bound(green(power={}, max_ticks=3), [2], table, series(400, 200, 400))
    assert (bound.value, bound.exact, bound.runs) == (2.5, True, (((0, 1), (2, 3)), ((0, 3),)))


@pytest.mark.parametrize(("holds", "value"), [(0, 2.0), (1, 6.0)])
def test_only_a_lack_of_what_it_holds_stops_a_job(holds: int, value: float) -> None:
    """Eight, seven and eight units of one resource, always two of the other, of which three jobs hold one."""
    table = jobs(runtime=[2, 2, 2], demand=[[holds, 1]] * 3)
    power = series(0.8 * 2600, 0.7 * 2600, 0.8 * 2600)
    assert upper_bound(green(power={}, resources=2, max_ticks=3), [10, 3], table, power).value == value


def test_the_battery_is_enclosed() -> None:
    """500 Wh last for two ticks of work for sure, and for longer if the unit had idled: not exact.

    At work: 500, 300, 100 Wh, which is half a unit. Idle: 500, 400, 300 Wh, and then the unit may be off, so
    it stays at 300.
    """
    scenario = green(power={"battery": BATTERY}, max_ticks=4)
    capacity = capacity_of(scenario, [1], series(0), 0, 4, 0)
    assert capacity.least.ravel().tolist() == [1, 1, 0, 0]
    assert capacity.most.ravel().tolist() == [1, 1, 1, 1]
    bound = upper_bound(scenario, [1], jobs(runtime=[3], demand=[1]), series(0))
    assert (bound.value, bound.exact, bound.runs) == (1.5, False, None)
    sure = upper_bound(
        change(scenario, "episode", max_ticks=2), [1], jobs(runtime=[2], demand=[1]), series(0)
    )
    assert (sure.value, sure.exact, sure.runs) == (1.0, True, (((0, 2),),))


@pytest.mark.parametrize(("requests", "value"), [(False, 1.0), (True, 0.0)])
def test_requests_count_if_asked_for(requests: bool, value: float) -> None:
    """There are never three ticks of power in a row."""
    table = jobs(runtime=[2], requested=[3], demand=[1])
    scenario = green(power={}, max_ticks=8)
    assert upper_bound(scenario, [1], table, series(200, 200, 0, 0), requests=requests).value == value


def test_ends() -> None:
    """All: one after the other. No new job: what ends when the last one comes. None comes later: nothing."""
    bound = upper_bound(green(), [1], jobs(submit=[1, 1], runtime=[2, 1], demand=[1, 1]))
    assert (bound.value, bound.exact, bound.runs) == (1.5, True, (((1, 3),), ((3, 4),)))
    table = jobs(submit=[0, 0, 2], runtime=[2, 1, 1], demand=[1, 1, 1])
    bound = upper_bound(green(end="no_new_job"), [1], table)
    assert (bound.value, bound.runs) == (1.0, (((0, 2),), (), ()))
    bound = upper_bound(green(end="no_new_job"), [1], jobs(runtime=[1], demand=[1]))
    assert (bound.value, bound.exact, bound.runs) == (0.0, True, ((),))


def test_many_jobs_are_taken_in_parts() -> None:
    """Nine jobs of two ticks on one unit in three ticks: one and a half."""
    bound = upper_bound(green(max_ticks=3), [1], jobs(runtime=[2] * 9, demand=[1] * 9))
    assert (bound.value, bound.exact, bound.runs) == (1.5, False, None)


def test_gives_up_with_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that takes too long leaves a bound that is not exact."""
    monkeypatch.setattr(module, "BUDGET", 0)
    bound = upper_bound(green(max_ticks=3), [2], jobs(runtime=[2, 2, 2], demand=[1, 1, 1]))
    assert (bound.value, bound.exact, bound.runs) == (3.0, False, None)


def test_refuses_what_it_cannot_bound() -> None:
    table = jobs(runtime=[1], demand=[2])
    with pytest.raises(BadInputError, match=r"decision\.horizon"):
        upper_bound(without_horizon(), [2], table)
    with pytest.raises(BadInputError, match="job 1: demand"):
        upper_bound(green(), [1], table)
    with pytest.raises(BadInputError, match="none"):
        upper_bound(green(), [2], table.take(slice(0, 0)))
    with pytest.raises(ValueError, match="power series"):
        upper_bound(green(power={}, max_ticks=3), [2], table)


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
        present = [j for j in chosen if max(1, self.asked(remaining, j)) > row]
        return self.table.demand[present].sum(axis=0)

    def asked(self, remaining: tuple[int, ...], j: int) -> int:
        return int(self.table.requested[j] - (self.table.runtime[j] - remaining[j]))

    def may_run(
        self, t: int, remaining: tuple[int, ...], chosen: set[int], before: set[int], requests: bool
    ) -> bool:
        if (self.held(remaining, chosen, 0) > self.forecast[t][0]).any():
            return False
        for j in chosen - before if requests else ():
            for row in range(max(1, self.asked(remaining, j))):
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


@pytest.mark.parametrize("requests", [False, True])
def test_agrees_with_trying_everything(requests: bool) -> None:
    """The bound is what the best of all schedules earns, and names one that does."""
    unfinished = 0
    for seed in range(200):
        scenario, units, table, power = game(seed, most_jobs=4, longest=4, most_ticks=9, most_units=4)
        if scenario.power is not None:
            scenario = change(scenario, "power", battery=None)
        tiny = Tiny(scenario, units, table, power)
        bound = upper_bound(scenario, units, table, power, requests=requests)
        assert bound.exact
        assert bound.runs is not None
        assert equal(bound.value, tiny.best(requests)), seed
        assert equal(bound.value, tiny.earned(bound.runs, requests)), seed
        unfinished += not equal(bound.value, float(tiny.values.sum()))
    assert unfinished > 80


def test_more_jobs_are_bounded_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick bound of many jobs is never below the exact one, and mostly not far off."""
    games = [game(seed) for seed in range(200)]
    exact = [upper_bound(*item).value for item in games]
    monkeypatch.setattr(module, "MOST_JOBS", 0)
    quick = [upper_bound(*item) for item in games]
    assert not any(bound.exact for bound in quick)
    assert all(value <= bound.value + 1e-9 for value, bound in zip(exact, quick, strict=True))
    assert sum(exact) > 0.85 * sum(bound.value for bound in quick)


# against policies


def played_at_random(scenario: Scenario, item: Game, placement: str, rng: random.Random) -> float:
    """What random legal actions earn."""
    _, units, table, power = item
    core = VectorSimulator(change(scenario, "decision", placement=placement), units, 1, len(table))
    core.load(0, table, power=power)
    while not over(core, 0):
        core.step(np.array([random_legal(core.mask[0], rng)]))
    return float(core.played(0, table).totals["finished_value"])


def best_policy(item: Game, seed: int) -> float:
    """The most that any queue order under any rule earns, or random actions."""
    scenario, units, table, power = item
    episode = SimpleNamespace(jobs=table, power=power)
    earned = [
        play_order(scenario, units, [episode], name, rule, [seed])[0].totals["finished_value"]
        for name in PRIORITIES
        for rule in PLACEMENTS
    ]
    rng = random.Random(seed)
    return max(*earned, *(played_at_random(scenario, item, place, rng) for place in ("now", "horizon")))


@pytest.mark.slow
@pytest.mark.parametrize(
    "first_seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (100, 200, 300, 400))]
)
def test_nobody_beats_it(first_seed: int) -> None:
    """No order and no random play earns more, and in most cases one of them earns as much."""
    reached = {"bound": 0, "requests": 0}
    for seed in range(first_seed, first_seed + 100):
        item = game(seed)
        earned = best_policy(item, seed)
        bound, closer = upper_bound(*item), upper_bound(*item, requests=True)
        assert bound.exact or (item[0].power is not None and item[0].power.battery is not None), seed
        assert earned <= closer.value + 1e-9, seed
        assert closer.value <= bound.value, seed
        reached["bound"] += equal(earned, bound.value)
        reached["requests"] += equal(earned, closer.value)
    print(f"reached by some policy in 100 cases: {reached}")
    assert reached["bound"] > 45
    assert reached["requests"] > 60


def test_nobody_beats_the_bound_of_many_jobs() -> None:
    for seed in range(40):
        item = game(seed, most_jobs=30)
        assert best_policy(item, seed) <= upper_bound(*item).value + 1e-9


def play_schedule(item: Game, bound: Bound) -> float | None:
    """What the bound's schedule earns in the core; None where a start of another job is forced."""
    scenario, units, table, power = item
    assert bound.runs is not None
    core = VectorSimulator(scenario, units, 1, len(table))
    core.load(0, table, power=power)
    begins = {row: runs[0][0] for row, runs in enumerate(bound.runs) if runs}
    while not over(core, 0):
        queue = core.queue(0).tolist()
        due = [row for row in queue if begins.get(row) == int(core.now[0])]
        action = queue.index(due[0]) if due else core.layout.num_actions - 1
        if not core.mask[0, action]:
            assert not due
            return None
        core.step(np.array([action]))
    return float(core.played(0, table).totals["finished_value"])


def test_its_schedule_can_be_played() -> None:
    """With room in the pools and a true forecast, starting jobs as the bound does earns as much."""
    played, count = 0, 0
    for seed in range(300):
        scenario, units, table, power = game(seed)
        scenario = change(
            scenario,
            "decision",
            window=8,
            wait_pool=None,
            expiry=None,
            suspend=False,
            placement="now",
            time_rule="tick",
            skip_forced=False,
        )
        if scenario.power is not None:
            scenario = change(scenario, "power", battery=None, forecast_error=0.0)
        longer = np.maximum(table.requested, table.runtime)
        table = JobTable.build(
            id=table.id,
            submit=table.submit,
            runtime=table.runtime,
            requested=longer,
            demand=table.demand,
            qos=table.qos,
        )
        scenario = change(scenario, "decision", horizon=20)
        bound = upper_bound(scenario, units, table, power, requests=True)
        assert bound.runs is not None
        if any(len(runs) > 1 for runs in bound.runs):
            continue
        earned = play_schedule((scenario, units, table, power), bound)
        if earned is not None:
            assert equal(earned, bound.value), seed
            played += 1
        count += 1
    assert played > 250, (played, count)


def test_the_battery_stays_within() -> None:
    """Whatever is done, what is on lies between the least and the most."""
    differed = 0
    for seed in range(150):
        scenario, units, table, power = game(seed, most_ticks=30)
        if scenario.power is None or scenario.power.battery is None:
            continue
        twin = TwinGreen(scenario, units, table, power)
        rng, first = random.Random(seed), int(table.submit[0])
        capacity = capacity_of(scenario, units, power, first, scenario.episode.max_ticks or 0, 0)
        differed += not capacity.certain
        while not twin.over:
            t = twin.now - first
            assert (capacity.least[t] <= twin.on[0]).all()
            assert (twin.on[0] <= capacity.most[t]).all()
            twin.step(random_legal(np.array(twin.mask), rng))
    assert differed > 10
