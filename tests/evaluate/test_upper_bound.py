"""The bound that nobody beats: by hand, against trying everything, and against every policy there is."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.evaluate import upper_bound as module
from rlsched.evaluate.upper_bound import Bound, capacity_of, upper_bound
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.sim.heuristics import PLACEMENTS, run_heuristic
from rlsched.sim.priorities import PRIORITIES
from rlsched.sim.simulator import VectorSimulator
from tests.evaluate.bound_games import Game, Tiny, change, equal, game
from tests.sim.drive import over, random_legal
from tests.sim.green_by_hand import BATTERY, green, jobs, series
from tests.strategies import scenario as without_horizon
from tests.twin.green import TwinGreen

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
def test_requested_times_bound_jobs_if_chosen(requests: bool, value: float) -> None:
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
        run_heuristic(scenario, units, [episode], name, rule, [seed])[0].totals["finished_value"]
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
