"""The slow twin with a horizon against results worked out on paper.

One case for each rule of `docs/reference/green-rules.md`.

Unless a case says otherwise: hourly ticks, so that watts are Wh; a unit draws 100 W idle and 200 W at work
and is worth 0.5 per tick; the agent is asked at every tick.
"""

from __future__ import annotations

import random
from math import sqrt
from typing import Any, get_args

import numpy as np
import pytest

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario, Term
from rlsched.sim import noise
from rlsched.sim.compiled import kernel
from rlsched.sim.noise import QUANTILES
from tests.strategies import random_jobs
from tests.twin.green import TwinGreen
from tests.twin.jobs import Job
from tests.twin.power import Flow, Plant, quantile_number
from tests.twin.task import Task, least_worth, worth
from tests.twin.terms import EVENTS, RATES

BATTERY = {"capacity_kwh": 1.0, "charge_kw": 0.3, "discharge_kw": 0.2, "efficiency": 0.5, "initial": 0.5}


@kernel
def quantile_of(seed: int, tick: int, lead: int) -> int:
    return noise.quantile_of(seed, tick, lead)


def green(
    *,
    power: dict[str, Any] | None = None,
    resources: int = 1,
    workload: dict[str, Any] | None = None,
    objective: dict[str, Any] | None = None,
    max_ticks: int | None = None,
    end: str = "all_finished",
    tick_s: int = 3600,
    **decision: Any,
) -> Scenario:
    values = {
        "cluster": {"tick_s": tick_s, "resources": [{"name": f"r{r}"} for r in range(resources)]},
        "power": None if power is None else {"kind": "series", **power},
        "workload": workload or {"kind": "lublin"},
        "decision": {
            "action_rule": "fit",
            "time_rule": "tick",
            "skip_forced": False,
            "horizon": 4,
            "window": 2,
            **decision,
        },
        "objective": objective or {"reward": {"finished_value": 1.0}},
        "episode": {
            "jobs": None,
            "end": "max_ticks" if max_ticks else end,
            "max_ticks": max_ticks,
        },
    }
    return Scenario.model_validate(values)


def series(*supply_w: float, carbon: float = 400.0, seed: int = 0) -> PowerSeries:
    return PowerSeries(np.array(supply_w, float), np.full(len(supply_w), carbon), seed)


def jobs(**columns: Any) -> JobTable:
    """All submitted at 0 unless said otherwise."""
    return JobTable.build(**{"submit": [0] * len(columns["runtime"]), **columns})


def column(grid: list[list[int]]) -> list[int]:
    """A grid of one resource."""
    return [units for (units,) in grid]


def wait(twin: TwinGreen, until: int) -> None:
    while twin.now < until:
        twin.step(twin.window + 1)


def task(demand: int = 1, requested: int = 2, qos: float = 1.0, index: int = 0, begin: int = -1) -> Task:
    job = Job(index, index, index, 0, requested, requested, (demand,), qos)
    return Task(job, worth(job, [0.5], 1.0), begin=begin)


# what a job is worth


def test_value_and_due() -> None:
    job = Job(0, 0, 0, submit=10, runtime=5, requested=8, demand=(2, 3), qos=0.75)
    one = Task(job, worth(job, [0.5, 2.0], 3.0))
    assert one.rate == (2 * 0.5 + 3 * 2.0) * 3 * 0.75
    assert one.value == one.rate * 5
    assert one.per_unit_tick == (2 * 0.5 + 3 * 2.0) * 3 / 5 * 0.75
    assert one.due == 10 + 10  # 8 / 0.75 = 10.67


def test_due_is_not_a_tick_early_for_rounding() -> None:
    """33 / 0.55 is 60, and in floating point a little less."""
    assert 33 / 0.55 < 60
    assert task(requested=33, qos=0.55).due == 60


def test_value_scale_is_that_of_the_workload() -> None:
    poisson = {"kind": "poisson", "short": (1, 2), "long": (2, 3), "value_scale": 3.0}
    twin = TwinGreen(green(workload=poisson), [2], jobs(runtime=[2], demand=[2]), None, scale=0.5)
    twin.step(0)
    wait(twin, 2)
    assert twin.terms["finished_value"] == 2 * 0.5 * 3 * 2
    assert twin.reward == 0.5 * 6


def test_what_is_left_of_a_job() -> None:
    job = Job(0, 0, 0, submit=0, runtime=9, requested=4, demand=(1,), qos=0.5)
    left = Task(job, 0.5, ran=3, begin=20)
    assert (left.requested, left.runtime, left.end, left.due, left.value) == (1, 6, 26, 8, 2.25)
    left.ran = 7  # it takes longer than it asked for
    assert (left.requested, left.runtime) == (1, 2)
    assert [left.expected_end(now) for now in (20, 21, 25)] == [21, 22, 26]


def test_least_worth_then_the_last_to_begin_then_the_highest_row() -> None:
    cheap, early, late, later = (
        task(4, qos=0.25),
        task(begin=1),
        task(begin=2, index=1),
        task(begin=2, index=2),
    )
    assert least_worth([early, late, cheap, later]) is cheap
    assert least_worth([early, late, later]) is later
    assert least_worth([early, late]) is late


# where a job is placed

DIP = series(600, 600, 400, 600)  # three units, but two at tick 2, 6, ...
FOUR = jobs(runtime=[2, 3, 4, 5], demand=[3, 3, 2, 1])


def test_placement_now_needs_the_whole_requested_time_from_now_on() -> None:
    """A is gone before the dip, B is not, C does with two; D would go beyond the horizon."""
    twin = TwinGreen(green(power={}, max_ticks=9, window=4), [3], FOUR, DIP)
    assert column(twin.on) == [3, 3, 2, 3]
    assert twin.mask == [1, 0, 1, 0, 0, 0]  # nothing runs and nothing comes: no waiting
    twin.step(2)
    assert (column(twin.used), twin.running, twin.ready) == ([2, 2, 2, 2], [2], [0, 1, 3])
    assert twin.mask == [0, 0, 0, 0, 0, 1]
    twin.step(5)
    assert (column(twin.on), column(twin.used)) == ([3, 2, 3, 3], [2, 2, 2, 0])
    wait(twin, 3)
    assert twin.mask == [0, 0, 0, 0, 0, 1]  # C still runs and the next dip is at 6
    wait(twin, 4)
    assert (twin.ends, twin.mask) == ([-1, -1, 4, -1], [1, 0, 0, 0, 0, 0])


def test_placement_horizon_takes_the_first_row_from_which_the_job_fits() -> None:
    twin = TwinGreen(green(power={}, max_ticks=9, window=4, horizon=6, placement="horizon"), [3], FOUR, DIP)
    assert column(twin.on) == [3, 3, 2, 3, 3, 3]
    assert twin.mask == [1, 1, 1, 1, 0, 0]
    twin.step(1)
    assert (twin.planned, column(twin.used), twin.starts[1]) == ([1], [0, 0, 0, 3, 3, 3], -1)
    assert twin.ready == [0, 2, 3]
    assert twin.mask == [1, 0, 0, 0, 0, 1]  # only A goes before it; B is planned, so there is waiting
    twin.step(0)
    assert (twin.running, column(twin.used), twin.starts[0]) == ([0], [3, 3, 0, 3, 3, 3], 0)
    wait(twin, 1)
    # row 5 is tick 6, the next dip: C would need four rows before or after, D five
    assert (column(twin.on), column(twin.used)) == ([3, 2, 3, 3, 3, 2], [3, 0, 3, 3, 3, 0])
    wait(twin, 3)
    assert (twin.planned, twin.running, twin.starts) == ([], [1], [0, 3, -1, -1])


def test_a_job_fits_with_all_resources() -> None:
    """B asks for nothing of the second resource, C for what A has of it."""
    table = jobs(runtime=[2, 1, 1], demand=[[1, 2], [1, 0], [1, 1]])
    twin = TwinGreen(green(resources=2, window=3), [2, 2], table, None)
    twin.step(0)
    assert twin.mask == [1, 0, 0, 0, 1]
    assert twin.used == [[1, 2], [1, 2], [0, 0], [0, 0]]


def test_a_job_that_ends_early_frees_its_rows_and_an_overdue_one_holds_the_present() -> None:
    """A asked for 3 and takes 1; B asked for 1 and takes 3; C is planned behind B again and again."""
    table = jobs(runtime=[1, 3, 1], requested=[3, 1, 1], demand=[2, 1, 2])
    twin = TwinGreen(green(placement="horizon", window=3), [2], table, None)
    twin.step(0)
    assert column(twin.used) == [2, 2, 2, 0]
    wait(twin, 1)
    assert (column(twin.used), twin.ends) == ([0, 0, 0, 0], [1, -1, -1])
    twin.step(0)  # B
    twin.step(0)  # C: the first row beside nobody is the next
    assert (twin.planned, column(twin.used)) == ([2], [1, 2, 0, 0])
    wait(twin, 2)
    assert (twin.planned, twin.ready, column(twin.used)) == ([], [2], [1, 0, 0, 0])
    twin.step(0)
    wait(twin, 3)
    assert (twin.planned, twin.ready) == ([], [2])
    twin.step(0)
    wait(twin, 4)
    assert (twin.running, twin.starts, twin.ends) == ([2], [0, 1, 4], [1, 4, -1])


# suspending


def test_a_suspended_job_keeps_its_work_and_its_value() -> None:
    """A asked for 4 and takes 5; after two ticks it makes way for B, and goes on for three."""
    table = JobTable.build(submit=[0, 2], runtime=[5, 1], requested=[4, 1], demand=[2, 2])
    twin = TwinGreen(green(suspend=True), [2], table, None)
    twin.step(0)
    assert twin.mask == [0, 0, 0, 1]  # nobody is suspended in the tick of its start
    wait(twin, 2)
    assert twin.mask == [0, 0, 1, 1]
    twin.step(2)
    assert (twin.terms["suspension"], twin.elapsed, twin.suspensions) == (-1, 0, [1, 0])
    assert (twin.suspended, twin.ready, twin.running) == (
        [],
        [1, 0],
        [],
    )  # straight to the end of the ready pool
    assert twin.mask == [1, 1, 0, 0]
    twin.step(0)
    wait(twin, 3)
    twin.step(0)
    assert column(twin.used) == [2, 2, 0, 0]  # two of four requested ticks are left
    assert twin.mask == [0, 0, 0, 1]
    wait(twin, 5)
    assert (column(twin.used), twin.running) == ([2, 0, 0, 0], [0])
    wait(twin, 6)
    assert (twin.starts, twin.ends, twin.terminated) == ([0, 2], [6, 3], True)
    assert twin.terms["finished_value"] == 5
    assert twin.terms["terminal_bsld"] == pytest.approx(-(6 / 5 + 1) / 2)


def test_a_job_may_be_suspended_again() -> None:
    table = jobs(runtime=[5], demand=[1])
    twin = TwinGreen(green(suspend=True, horizon=5), [1], table, None)
    twin.step(0)
    for now in (1, 3):
        wait(twin, now)
        twin.step(2)
        twin.step(0)
    assert column(twin.used) == [1, 1, 0, 0, 0]
    wait(twin, 5)
    assert (twin.starts, twin.ends, twin.suspensions) == ([0], [5], [2])


def test_the_agent_suspends_the_least_worthy_of_those_that_did_not_just_start() -> None:
    """A, B start at 0, C at 1, D fills the ready pool; B and C are worth less than A."""
    table = JobTable.build(
        submit=[0, 0, 1, 1], runtime=[4, 4, 3, 1], demand=[1, 1, 2, 5], qos=[1, 0.5, 0.5, 1]
    )
    twin = TwinGreen(green(suspend=True, suspend_pool=2, window=1), [5], table, None)
    twin.step(0)
    twin.step(0)
    wait(twin, 1)
    twin.step(0)
    assert (twin.running, twin.ready, twin.mask) == ([0, 1, 2], [3], [0, 1, 1])
    twin.step(1)
    assert (twin.suspended, twin.mask) == ([1], [0, 1, 1])  # A may still be, C not
    wait(twin, 2)
    twin.step(1)
    assert (twin.suspended, twin.running) == ([1, 2], [0])
    assert twin.mask == [0, 0, 1]  # the pool is full


def test_suspended_jobs_enter_the_ready_pool_in_their_order_and_before_the_wait_pool() -> None:
    table = JobTable.build(submit=[0, 0, 1, 1], runtime=[4, 4, 1, 4], demand=[1, 1, 2, 1], qos=[0.5, 1, 1, 1])
    twin = TwinGreen(green(suspend=True, window=1), [2], table, None)
    twin.step(0)
    twin.step(0)
    wait(twin, 1)
    twin.step(1)
    twin.step(1)
    assert (twin.suspended, twin.ready, twin.wait, twin.mask) == ([0, 1], [2], [3], [1, 0, 0])
    twin.step(0)
    assert (twin.suspended, twin.ready, twin.wait) == ([1], [0], [3])


# shortfall


def test_shortfall_takes_the_least_worthy_then_the_last_started_then_the_highest_row() -> None:
    """All ask for one tick and take five. At 2 one unit is on: A is worth least, C and D started last."""
    table = jobs(runtime=[5] * 4, requested=[1] * 4, demand=[1] * 4, qos=[0.5, 1, 1, 1])
    rules = green(
        power={}, max_ticks=9, suspend_pool=1, objective={"reward": {"suspension": 1}, "gamma": 0.5}
    )
    twin = TwinGreen(rules, [4], table, series(800, 800, 200, 800))
    twin.step(0)
    twin.step(0)
    wait(twin, 1)
    twin.step(0)
    twin.step(0)
    wait(twin, 2)
    assert (column(twin.on)[0], twin.running) == (1, [1])
    # all three are taken though the pool has one place; the first two fill the ready pool
    assert (twin.ready, twin.suspended, twin.suspensions) == ([0, 3], [2], [1, 0, 1, 1])
    assert twin.terms["suspension"] == 0.5 * -3  # the clock had moved
    assert twin.mask == [0, 0, 0, 1]


def test_shortfall_looks_at_those_who_hold_what_is_short() -> None:
    """One unit of each is on. A holds two of the first resource; B, worth less, only one of the second."""
    table = jobs(runtime=[3, 3], requested=[1, 1], demand=[[2, 0], [0, 1]], qos=[1, 0.25])
    twin = TwinGreen(green(power={}, max_ticks=9, resources=2), [2, 2], table, series(800, 400))
    twin.step(0)
    twin.step(0)
    wait(twin, 1)
    assert (twin.on[0], twin.running, twin.ready) == ([1, 1], [1], [0])


def test_who_ends_in_time_is_not_suspended() -> None:
    twin = TwinGreen(green(power={}, max_ticks=9), [2], jobs(runtime=[1], demand=[2]), series(400, 0))
    twin.step(0)
    wait(twin, 1)
    assert (twin.ends, twin.suspensions) == ([1], [0])


def test_a_job_that_is_suspended_past_its_time_is_given_up_at_once() -> None:
    """A was due at 1; it enters the ready pool before expiry is looked at."""
    rules = green(power={}, max_ticks=9, expiry=0)
    twin = TwinGreen(rules, [1], jobs(runtime=[5], requested=[1], demand=[1]), series(200, 200, 0))
    twin.step(0)
    wait(twin, 2)
    assert (twin.suspensions, twin.rejected, twin.terminated) == ([1], [0], True)
    assert twin.totals["lost_value"] == -0.5 * 5


# undoing plans


def test_what_a_suspended_job_leaves_is_there_for_a_planned_one() -> None:
    """Four units, at 1 two. A overruns with three of them and has to go, B is planned for two."""
    table = jobs(runtime=[9, 1], requested=[1, 1], demand=[3, 2])
    twin = TwinGreen(green(power={}, max_ticks=9, placement="horizon"), [4], table, series(800, 400))
    twin.step(0)
    twin.step(0)
    assert twin.planned == [1]
    wait(twin, 1)
    assert (twin.starts, twin.running, twin.ready) == ([0, 1], [1], [0])


def test_plans_that_hold_nothing_of_what_is_overfull_stay() -> None:
    """A overruns on all of the first resource: D, worth less than C, is planned for the second."""
    table = jobs(
        runtime=[9, 1, 1, 1],
        requested=[1] * 4,
        demand=[[2, 0], [0, 2], [1, 0], [0, 1]],
        qos=[1, 1, 1, 0.25],
    )
    twin = TwinGreen(green(placement="horizon", resources=2, window=4), [2, 2], table, None)
    for _ in range(4):
        twin.step(0)
    assert twin.planned == [2, 3]
    wait(twin, 1)
    assert (twin.running, twin.ready) == ([0, 3], [2])


def test_plans_are_undone_the_least_worthy_first_to_the_head_of_the_wait_pool() -> None:
    """A holds all until 3, and then for longer. B, C, E are planned for 3; F and G wait in full pools."""
    table = JobTable.build(
        submit=[0, 0, 1, 2, 2, 2],
        runtime=[9, 1, 1, 1, 1, 1],
        requested=[3, 1, 1, 1, 1, 1],
        demand=[4, 1, 1, 1, 4, 4],
        qos=[1, 1, 0.5, 0.75, 1, 1],
    )
    # rows:    A  B  C    E     F  G
    twin = TwinGreen(green(placement="horizon", window=1, wait_pool=3, horizon=5), [4], table, None)
    twin.step(0)
    twin.step(0)
    wait(twin, 1)
    twin.step(0)
    wait(twin, 2)
    twin.step(0)
    assert (twin.planned, column(twin.used), twin.ready, twin.wait) == ([1, 2, 3], [4, 3, 0, 0, 0], [4], [5])
    wait(twin, 3)
    assert (twin.planned, twin.ready, twin.wait) == ([], [4], [1, 3, 2, 5])  # C, E, B: one more than its size
    assert column(twin.used) == [4, 0, 0, 0, 0]


@pytest.mark.parametrize(("qos", "back"), [((1, 0.5), 3), ((0.5, 1), 2), ((1, 1), 3)])
def test_only_as_many_plans_are_undone_as_must_be(qos: tuple[float, float], back: int) -> None:
    """A and B hold two units each; C and D are planned for 1. A overruns: there is room for one of them."""
    table = jobs(runtime=[9, 1, 1, 1], requested=[1] * 4, demand=[2] * 4, qos=[1, 1, *qos])
    twin = TwinGreen(green(placement="horizon", window=4), [4], table, None)
    for _ in range(4):
        twin.step(0)
    assert (twin.running, twin.planned, column(twin.used)) == ([0, 1], [2, 3], [4, 4, 0, 0])
    wait(twin, 1)
    assert (twin.ready, twin.planned) == ([back], [])
    assert (twin.running, twin.ends) == ([0, 5 - back], [-1, 1, -1, -1])


# pools


def test_a_full_wait_pool_rejects() -> None:
    """B waits behind A, C finds no place; D comes when B has moved up."""
    table = JobTable.build(submit=[0, 0, 0, 1], runtime=[2, 2, 2, 2], demand=[2, 2, 1, 2])
    twin = TwinGreen(green(window=1, wait_pool=1), [2], table, None)
    assert (twin.ready, twin.wait, twin.rejected) == ([0], [1], [2])
    assert not any(twin.terms.values())  # before the first question
    assert (twin.totals["rejected"], twin.totals["lost_value"]) == (-1, -1)
    twin.step(0)
    wait(twin, 1)
    assert (twin.ready, twin.wait, twin.rejected) == ([1], [3], [2])


def test_no_wait_pool() -> None:
    table = JobTable.build(submit=[0, 1], runtime=[2, 2], demand=[2, 2])
    twin = TwinGreen(
        green(window=1, wait_pool=0, objective={"reward": {"rejected": 1}, "gamma": 0.5}), [2], table, None
    )
    wait(twin, 1)
    assert (twin.ready, twin.wait, twin.rejected) == ([0], [], [1])
    assert (twin.terms["rejected"], twin.terms["lost_value"], twin.reward) == (-0.5, -1, -0.5)


ADMITTED = jobs(
    runtime=[1, 3, 1, 2, 2, 2, 1],
    requested=[1, 3, 1, 2, 2, 2, 1],
    demand=[1, 1, 1, 1, 3, 3, 3],
    qos=[1, 0.25, 0.5, 1, 0.75, 0.75, 1],
)  # rate x requested: -, 0.375, 0.25, 1, 2.25, 2.25, 1.5 (the highest rate)


@pytest.mark.parametrize(("admission", "second"), [("fcfs", 1), ("sjf", 2), ("qos", 3), ("hvf", 4)])
def test_admission(admission: str, second: int) -> None:
    """Of equals the one that is nearer to the head: C before G, D before G, E before F."""
    twin = TwinGreen(green(window=1, admission=admission), [3], ADMITTED, None)
    twin.step(0)
    assert twin.ready == [second]
    assert twin.wait == [row for row in range(1, 7) if row != second]


def test_expiry() -> None:
    """Due at 2, 1 and 4, with a tick of grace. A runs, C and the wait pool's head are given up."""
    table = jobs(runtime=[9, 2, 1, 2], requested=[4, 2, 1, 2], demand=[2, 2, 2, 2], qos=[1, 1, 1, 0.5])
    rules = green(window=1, expiry=1, objective={"reward": {"rejected": 1}, "gamma": 0.5})
    twin = TwinGreen(rules, [2], table, None)
    twin.step(0)
    wait(twin, 2)
    assert (twin.ready, twin.wait, twin.rejected) == ([1], [2, 3], [])  # 2 is not after 1 + 1
    wait(twin, 3)
    assert (twin.ready, twin.wait, twin.rejected) == ([1], [3], [2])
    assert (twin.terms["rejected"], twin.terms["lost_value"]) == (-0.5, -0.5)
    wait(twin, 4)
    assert (twin.ready, twin.wait, twin.rejected) == ([3], [], [1, 2])  # refilled
    wait(twin, 6)
    assert (twin.ready, twin.rejected, twin.running) == ([], [1, 2, 3], [0])
    wait(twin, 9)
    assert (twin.terminated, twin.terms["terminal_bsld"]) == (True, -0.5 * 1)  # of those that finished
    assert twin.totals["rejected"] == -3
    assert twin.totals["lost_value"] == -(2 + 1 + 1)


# power


def plant(tick_s: int = 3600, units: int = 4, **power: Any) -> Plant:
    return Plant(green(power=power, max_ticks=9, tick_s=tick_s), [units], series(400), first=0)


@pytest.mark.parametrize(
    ("supply", "used", "level", "discharged", "brown", "charged", "curtailed", "after"),
    [
        (100, 150, 500, 50, 0, 0, 0, 450),  # what is lacking
        (100, 500, 500, 200, 200, 0, 0, 300),  # the rate; the grid gives the rest
        (100, 500, 50, 50, 350, 0, 0, 0),  # the level
        (400, 0, 500, 0, 0, 300, 100, 650),  # the rate; half of it is lost
        (400, 300, 500, 0, 0, 100, 0, 550),  # what is left over
        (400, 0, 950, 0, 0, 100, 300, 1000),  # the room for 50 takes 100
        (400, 400, 500, 0, 0, 0, 0, 500),
    ],
)
def test_battery(
    supply: float,
    used: float,
    level: float,
    discharged: float,
    brown: float,
    charged: float,
    curtailed: float,
    after: float,
) -> None:
    site = plant(battery=BATTERY)
    assert site.level == 500
    flow = site.flow(supply, used, level)
    assert flow == Flow(used, supply, discharged, brown, charged, curtailed)
    assert site.level_after(level, flow) == after


def test_battery_with_half_hour_ticks() -> None:
    site = plant(tick_s=1800, battery=BATTERY)
    assert site.discharge_limit(50) == 100  # W for half an hour
    assert site.level_after(500, site.flow(100, 250, 500)) == 425
    assert site.flow(400, 0, 960).charged == pytest.approx(40 / 0.5 / 0.5)
    assert site.kwh(500) == 0.25


def test_without_a_battery_its_terms_are_zero() -> None:
    site = plant()
    assert site.flow(100, 150, 0) == Flow(150, 100, 0, 50, 0, 0)
    assert site.flow(100, 50, 0) == Flow(50, 100, 0, 0, 0, 50)


def test_availability_and_draw() -> None:
    """At half load a unit at work draws 150 W, four of them 600."""
    site = plant(utilization=0.5, grid_kw=0.025, battery=BATTERY)
    assert site.full == 600
    assert site.availability(0, 0) == 425 / 600
    assert site.availability(0, 1) == (400 + 1 + 25) / 600
    assert site.availability(0, 500) == 1
    assert site.units_on(0.75) == [3]
    assert site.units_on(0.74) == [2]
    assert site.draw([3], [1]) == 150 + 2 * 100
    fifteen_of_22 = 15 * 200 / (22 * 200)
    assert 22 * fifteen_of_22 < 15
    assert plant(units=22).units_on(fifteen_of_22) == [15]


def test_the_series_repeats_and_begins_at_the_first_submit() -> None:
    table = JobTable.build(submit=[5], runtime=[1], demand=[1])
    twin = TwinGreen(green(power={}, max_ticks=9), [4], table, series(800, 600, 200))
    assert column(twin.on) == [4, 3, 1, 4]


def test_forecast_drains_the_battery_by_full_draw() -> None:
    """400 W and 500 Wh, of which 300 W may come: 700, 600, 400, 400 W of 800; the grid may add 100 W."""
    battery = {**BATTERY, "discharge_kw": 0.3}
    table = jobs(runtime=[1, 1], demand=[1, 3])
    twin = TwinGreen(green(power={"battery": battery}, max_ticks=9), [4], table, series(400))
    assert column(twin.on) == [3, 3, 2, 2]
    twin.step(0)
    twin.step(3)
    # one at work and two idle took 400 W, the battery is as it was
    assert (twin.battery_wh, column(twin.on)) == (500, [3, 3, 2, 2])
    twin.step(0)
    wait(twin, 2)
    assert (twin.battery_wh, column(twin.on)) == (300, [3, 2, 2, 2])  # 200 W were lacking
    fed = TwinGreen(green(power={"battery": battery, "grid_kw": 0.1}, max_ticks=9), [4], table, series(400))
    assert column(fed.on) == [4, 3, 2, 2]


def test_forecast_charges_the_battery_in_surplus() -> None:
    """1000 W feed 800 and store half of 200; then 300 W and 600 Wh, 200 W at a time."""
    twin = TwinGreen(
        green(power={"battery": BATTERY}, max_ticks=9, horizon=6),
        [4],
        jobs(runtime=[1], demand=[1]),
        series(1000, 300, 300, 300, 300, 300),
    )
    assert twin.plant is not None
    assert twin.plant.forecast(0, 6) == [1, 500 / 800, 500 / 800, 500 / 800, 300 / 800, 300 / 800]
    assert column(twin.on) == [4, 2, 2, 2, 1, 1]


def test_noise_is_the_finaliser_of_splitmix() -> None:
    assert quantile_number(0, 0, 0) == 0
    for numbers in [(0, 0, 1), (7, 3, 2), (2**31, 10**6, 47), (2**63 - 1, 8760, 1)]:
        assert quantile_number(*numbers) == quantile_of(*numbers)


def test_forecast_errors_grow_with_the_lead_and_are_drawn_at_every_tick() -> None:
    table = jobs(runtime=[4], requested=[1], demand=[1])
    rules = green(power={"forecast_error": 0.2}, max_ticks=9, horizon=6)
    twin = TwinGreen(rules, [100], table, series(10_000, seed=7))
    twin.step(0)
    seen = []
    for now in range(3):
        wait(twin, now)
        shares = [0.5] + [0.5 + 0.2 * sqrt(k) * QUANTILES[quantile_of(7, now, k)] for k in range(1, 6)]
        assert column(twin.on) == [int(100 * min(1, max(0, share)) + 1e-9) for share in shares]
        seen.append(tuple(column(twin.on)))
    assert len(set(seen)) == 3
    perfect = TwinGreen(green(power={}, max_ticks=9, horizon=6), [100], table, series(10_000, seed=7))
    assert column(perfect.on) == [50] * 6


def test_energy_of_an_episode() -> None:
    """Two units, A on one of them for three ticks.

    tick   supply  on  used  charged  curtailed  battery  brown  level after
    0      500     2   300   100      100        0        0      150
    1      100     1   200   0        0          50       50     100
    2      300     2   300   0        0          0        0      100
    """
    battery = {"capacity_kwh": 1, "charge_kw": 0.1, "discharge_kw": 0.05, "efficiency": 0.5, "initial": 0.1}
    terms = ("energy", "brown_energy", "carbon", "curtailment")
    objective = {"reward": dict.fromkeys(terms, 1.0), "gamma": 0.5}
    rules = green(
        power={"battery": battery, "grid_kw": 0.1}, max_ticks=5, objective=objective, time_rule="smdp"
    )
    supply = PowerSeries(np.array([500.0, 100, 300]), np.array([100.0, 500, 200]))
    twin = TwinGreen(rules, [2], jobs(runtime=[3], demand=[1]), supply)
    assert column(twin.on) == [2, 1, 2, 2]
    twin.step(0)
    assert (twin.now, twin.terminated) == (3, True)
    assert twin.battery_wh == pytest.approx(100)
    assert twin.energies == pytest.approx(
        {
            "used": 0.8,
            "renewable": 0.9,
            "battery": 0.05,
            "brown": 0.05,
            "charged": 0.1,
            "curtailed": 0.1,
            "carbon_kg": 0.05 * 500 / 1000,
        }
    )
    assert [twin.totals[term] for term in terms] == pytest.approx([-0.8, -0.05, -0.025, -0.1])
    discounted = [-(0.3 + 0.5 * 0.2 + 0.25 * 0.3), -0.5 * 0.05, -0.5 * 0.025, -0.1]
    assert [twin.terms[term] for term in terms] == pytest.approx(discounted)
    assert twin.reward == pytest.approx(sum(discounted))


def test_without_power_all_is_on_and_nothing_is_counted() -> None:
    twin = TwinGreen(green(), [3], jobs(runtime=[2], demand=[1]), None)
    assert column(twin.on) == [3] * 4
    twin.step(0)
    wait(twin, 2)
    assert not any(twin.energies.values())
    assert (twin.totals["energy"], twin.battery_wh) == (0, 0)


# terms

THREE = jobs(runtime=[2, 1, 4], demand=[2, 1, 2], qos=[1, 0.5, 0.25])
# rate 1, 0.25, 0.25; value 2, 0.25, 1; due 2, 2, 16


def with_terms(time_rule: str = "smdp", scope: str = "all") -> TwinGreen:
    """A runs for two ticks beside nobody; B is ready, C waits."""
    objective = {"reward": {"wait_time": 1}, "gamma": 0.5, "starvation_s": 3600, "scope": scope}
    twin = TwinGreen(green(window=1, time_rule=time_rule, objective=objective), [2], THREE, None)
    assert (twin.ready, twin.wait, twin.mask) == ([0], [1, 2], [1, 0, 0])
    twin.step(0)
    assert (twin.now, twin.elapsed, twin.ready, twin.wait) == (2, 2, [1], [2])
    return twin


def test_all_terms_are_there() -> None:
    assert {*RATES, *EVENTS} == {*get_args(Term)}


def test_terms_by_hand() -> None:
    twin = with_terms()
    twice = {  # 1 + 1/2 of
        "slowdown": -(1 / 2 + 1 + 1 / 4),
        "bounded_slowdown": -(1 + 1 / 4),
        "wait_time": -2,
        "utilization": 1,
        "makespan": -1,
        "running_value": 1,
        "ready_waiting": -1,
        "wait_waiting": -1,
        "long_running": -1,
        "delayed_jobs": -2,
        "waiting_value": -(0.25 + 1),
    }
    none = dict.fromkeys(get_args(Term), 0.0)
    events = {"throughput": 1 / 4, "finished_value": 2 / 4, "started_value": 2 / 4, "on_time_value": 2 / 4}
    events |= {"job_starvation": -2 / 2, "long_waits": -2 / 2}  # B and C, in the second tick
    assert twin.terms == pytest.approx(
        {**none, **{name: 1.5 * rate for name, rate in twice.items()}, **events}
    )

    # B runs from 2 to 3, too late; C, now ready, has waited for longer than a tick before
    twin.step(0)
    assert (twin.now, twin.elapsed) == (3, 1)
    assert twin.terms == pytest.approx(
        {
            **none,
            "slowdown": -(1 + 1 / 4),
            "bounded_slowdown": -1 / 4,
            "wait_time": -1,
            "utilization": 1 / 2,
            "makespan": -1,
            "running_value": 0.25,
            "ready_waiting": -1,
            "long_running": -1,
            "delayed_jobs": -1,
            "waiting_value": -1,
            "job_starvation": -1,
            "unused_capacity": -1 / 2,
            "throughput": 1 / 2,
            "finished_value": 0.25 / 2,
            "started_value": 0.25 / 2,
        }
    )

    # C runs from 3 to 7
    twin.step(0)
    assert (twin.now, twin.elapsed, twin.terminated) == (7, 4, True)
    four = 1 + 1 / 2 + 1 / 4 + 1 / 8
    assert twin.terms == pytest.approx(
        {
            **none,
            "slowdown": -four / 4,
            "utilization": four,
            "makespan": -four,
            "running_value": four * 0.25,
            "long_running": -four,
            "throughput": 1 / 16,
            "finished_value": 1 / 16,
            "started_value": 1 / 16,
            "on_time_value": 1 / 16,
            "terminal_bsld": -(1 + 3 + 7 / 4) / 3 / 16,
        }
    )
    assert twin.totals == pytest.approx(
        {
            **none,
            "slowdown": -(2 * 1.75 + 1.25 + 4 / 4),
            "bounded_slowdown": -(2 * 1.25 + 0.25),
            "wait_time": -5,
            "utilization": 2 + 0.5 + 4,
            "makespan": -7,
            "running_value": 2 + 0.25 + 1,
            "ready_waiting": -3,
            "wait_waiting": -2,
            "long_running": -7,
            "delayed_jobs": -5,
            "waiting_value": -(2 * 1.25 + 1),
            "job_starvation": -(1 + 2),
            "long_waits": -2,
            "unused_capacity": -0.5,
            "throughput": 3,
            "finished_value": 3.25,
            "started_value": 2 / 4 + 0.25 / 2 + 1 / 16,
            "on_time_value": 3,
            "terminal_bsld": -(1 + 3 + 7 / 4) / 3,
        }
    )


def test_sparse_books_the_first_tick_and_every_event_but_totals_are_of_all_ticks() -> None:
    twin = with_terms("sparse")
    assert (twin.terms["wait_time"], twin.terms["running_value"], twin.terms["throughput"]) == (-2, 1, 1 / 4)
    assert (twin.totals["wait_time"], twin.totals["running_value"]) == (-4, 2)


def started(twin: TwinGreen) -> float:
    """What the last transition, all in one tick or into the next, booked."""
    return twin.terms["started_value"]


HALF = {"reward": {"started_value": 1}, "gamma": 0.5}


def test_value_at_the_start_is_put_right_where_a_job_ends_early_or_late() -> None:
    """A is worth 0.5 and asks for 3 ticks, of which it takes 1; B is worth 1.5, asks for 1 and takes 3."""
    both = jobs(runtime=[1, 3], requested=[3, 1], demand=[1, 1])
    twin = TwinGreen(green(objective=HALF), [2], both, None)
    twin.step(0)
    assert started(twin) == 0.5 / 8
    twin.step(0)
    assert started(twin) == 1.5 / 2
    wait(twin, 1)  # A ends two ticks early, B is expected to end at 2 instead of 1
    assert started(twin) == 0.5 * (0.5 * (1 - 1 / 4) + 1.5 * (1 / 2 - 1))
    wait(twin, 2)
    assert started(twin) == 0.5 * 1.5 * (1 / 2 - 1)
    wait(twin, 3)
    assert (twin.terminated, started(twin)) == (True, 0)


def test_value_at_the_start_is_taken_back_where_a_job_is_suspended_or_its_plan_undone() -> None:
    """A, worth 1, is suspended after one of its two ticks; what is left is worth as much and comes sooner."""
    twin = TwinGreen(green(objective=HALF, suspend=True), [1], jobs(runtime=[2], demand=[1]), None)
    twin.step(0)
    assert started(twin) == 1 / 4
    wait(twin, 1)
    assert started(twin) == 0
    twin.step(2)
    assert started(twin) == -1 / 2
    twin.step(0)
    assert started(twin) == 1 / 2

    # B, worth 0.5, is planned behind A, worth 1, which then runs for longer than it asked for
    two = jobs(runtime=[2, 1], requested=[1, 1], demand=[1, 1])
    twin = TwinGreen(green(objective=HALF, placement="horizon"), [1], two, None)
    twin.step(0)
    twin.step(0)
    assert (twin.planned, started(twin)) == ([1], 0.5 / 4)
    wait(twin, 1)
    assert (twin.planned, started(twin)) == ([], 0.5 * (1 * (1 / 2 - 1) - 0.5 / 2))


def test_value_at_the_start_is_taken_back_where_an_episode_ends_before_a_job() -> None:
    """A runs and B is planned when the last job has come: neither will ever end."""
    three = jobs(submit=[0, 0, 1], runtime=[2, 1, 1], demand=[1, 1, 1])
    twin = TwinGreen(green(objective=HALF, placement="horizon", end="no_new_job"), [1], three, None)
    twin.step(0)
    twin.step(0)
    assert (twin.planned, started(twin)) == ([1], 0.5 / 8)
    wait(twin, 1)
    assert (twin.terminated, started(twin)) == (True, -0.5 * (1 / 2 + 0.5 / 4))


@pytest.mark.parametrize("seed", range(20))
def test_value_at_the_start_is_the_finished_value_and_what_is_to_come(seed: int) -> None:
    """Discounted from the beginning of an episode, whatever is decided."""
    rng = random.Random(seed)
    many = random_jobs(rng, (3,), 12, span=10, longest=4)
    objective = {"reward": {"started_value": 1, "finished_value": 1}, "gamma": 0.9}
    scenario = green(
        objective=objective,
        placement=rng.choice(["now", "horizon"]),
        suspend=True,
        max_ticks=60,
        power={"forecast_error": 0.2},
    )
    twin = TwinGreen(scenario, [3], many, series(*[rng.choice([300.0, 600.0, 600.0]) for _ in range(10)]))
    sums, began = {"started_value": 0.0, "finished_value": 0.0}, twin.now
    while not twin.over:
        at = twin.now
        twin.step(rng.choice([k for k, legal in enumerate(twin.mask) if legal]))
        for name in sums:
            sums[name] += 0.9 ** (at - began) * twin.terms[name]
    to_come = 0.9 ** (twin.now - began) * twin.expected_value
    assert max(twin.starts) >= 0
    assert sums["started_value"] == pytest.approx(sums["finished_value"] + to_come)


def test_scope_window_is_the_ready_pool() -> None:
    twin = with_terms(scope="window")
    assert twin.terms["wait_time"] == -1.5
    assert twin.terms["bounded_slowdown"] == -1.5
    assert twin.terms["slowdown"] == -1.5  # the running job, which adds 1 / 2 a tick, is not in it
    assert twin.terms["delayed_jobs"] == -3


def test_a_job_is_violated_after_its_due_tick_wherever_it_is() -> None:
    """Both are due at 1. A runs until 3, B waits."""
    twin = TwinGreen(green(), [1], jobs(runtime=[3, 1], requested=[1, 1], demand=[1, 1]), None)
    twin.step(0)
    wait(twin, 2)
    assert twin.totals["qos_violation"] == 0
    wait(twin, 3)
    assert twin.totals["qos_violation"] == -2
    twin.step(0)
    wait(twin, 4)
    assert (twin.totals["qos_violation"], twin.totals["on_time_value"]) == (-3, 0)
    on_time = TwinGreen(green(), [1], jobs(runtime=[2], requested=[1], demand=[1], qos=[0.5]), None)
    on_time.step(0)
    wait(on_time, 2)
    assert (on_time.totals["qos_violation"], on_time.totals["on_time_value"]) == (0, 0.5)


def test_planned_and_suspended_jobs_wait() -> None:
    """A runs, C is suspended behind a full ready pool, B is planned for 4, when A is gone."""
    table = jobs(runtime=[4, 1, 4, 1, 1], demand=[1, 2, 1, 2, 2], qos=[1, 1, 0.5, 1, 1])
    rules = green(
        placement="horizon", suspend=True, window=1, horizon=6, objective={"reward": {"wait_time": 1}}
    )
    twin = TwinGreen(rules, [2], table, None)
    for _ in range(3):
        twin.step(0)
    assert (twin.running, twin.planned, twin.ready, twin.wait) == ([0, 2], [1], [3], [4])
    wait(twin, 1)
    twin.step(1)
    assert twin.suspended == [2]
    twin.step(2)
    assert twin.terms["wait_time"] == twin.terms["delayed_jobs"] == -4  # B, C, D, E
    assert twin.terms["waiting_value"] == -(1 + 1 + 1 + 1)
    assert (twin.terms["ready_waiting"], twin.terms["wait_waiting"]) == (-1, -1)
    assert twin.terms["utilization"] == 0.5


# the agent, the clock and the ends


def test_no_more_than_window_and_two_actions_before_the_clock_moves() -> None:
    twin = TwinGreen(green(window=1), [5], jobs(runtime=[1] * 5, demand=[1] * 5), None)
    for noop in (0, 1, 1):
        assert twin.mask == [1, 0, noop]
        twin.step(0)
    assert twin.mask == [0, 0, 1]
    twin.step(2)
    assert (twin.now, twin.mask) == (1, [1, 0, 0])


def test_waiting_is_legal_where_nothing_else_is() -> None:
    """No power at first, and nothing is under way."""
    twin = TwinGreen(
        green(power={}, max_ticks=9, horizon=1), [2], jobs(runtime=[1], demand=[2]), series(0, 0, 400)
    )
    assert twin.mask == [0, 0, 0, 1]
    wait(twin, 2)
    assert twin.mask == [1, 0, 0, 0]


TRIO = jobs(runtime=[2, 2, 1], demand=[2, 1, 1])
# With one slot: at 0 A has to start, at 2 B has to; C need not, since B is then worth waiting for.


@pytest.mark.parametrize("time_rule", ["tick", "smdp", "sparse"])
@pytest.mark.parametrize("skip_forced", [False, True])
def test_when_the_agent_is_asked(time_rule: str, skip_forced: bool) -> None:
    twin = TwinGreen(green(time_rule=time_rule, skip_forced=skip_forced, window=1), [2], TRIO, None)
    asked = []
    while not twin.over:
        asked.append(twin.now)
        twin.step(twin.mask.index(1))
    assert asked == ([2] if skip_forced else [0, 0, 1, 2, 2, 2, 3] if time_rule == "tick" else [0, 2, 2])
    assert (twin.now, twin.starts) == (4, [0, 2, 2])


def test_what_passed_before_the_first_question_counts_in_the_totals_only() -> None:
    twin = TwinGreen(green(skip_forced=True, time_rule="smdp", window=1), [2], TRIO, None)
    assert (twin.now, twin.starts, twin.elapsed) == (2, [0, 2, -1], 0)
    assert not any(twin.terms.values())
    assert (twin.totals["throughput"], twin.totals["running_value"]) == (1, 2)


def test_ends() -> None:
    table = JobTable.build(submit=[0, 2], runtime=[3, 3], demand=[1, 1])
    last_arrival = TwinGreen(green(end="no_new_job"), [2], table, None)
    wait(last_arrival, 2)
    assert (last_arrival.terminated, last_arrival.truncated) == (True, False)
    assert last_arrival.terms["terminal_bsld"] == 0

    too_large = JobTable.build(submit=[2], runtime=[3], demand=[3])
    cut = TwinGreen(green(max_ticks=2), [2], too_large, None)
    wait(cut, 4)
    assert (cut.terminated, cut.truncated, cut.ready) == (False, True, [0])

    done = TwinGreen(green(max_ticks=3), [2], table.take(np.array([0])), None)
    done.step(0)
    wait(done, 3)
    assert (done.terminated, done.truncated) == (True, False)


def test_an_episode_without_a_finished_job_has_no_slowdown() -> None:
    """Due at 1, given up at 2: nothing was ever on."""
    twin = TwinGreen(green(power={}, max_ticks=9, expiry=0), [1], jobs(runtime=[1], demand=[1]), series(0))
    wait(twin, 2)
    assert (twin.terminated, twin.rejected, twin.totals["terminal_bsld"]) == (True, [0], 0)
