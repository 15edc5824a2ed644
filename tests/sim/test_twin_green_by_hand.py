"""The slow twin of tick-driven scenarios against results worked out on paper.

One case for each rule of `docs/reference/green-rules.md`; see the tests of its pools, power and terms, too.
"""

from __future__ import annotations

import pytest

from rlsched.jobs import JobTable
from tests.twin.green import TwinGreen
from tests.twin.jobs import Job
from tests.twin.task import Task, least_worth, worth

from .green_by_hand import column, green, jobs, series, task, wait

# what a job is worth


def test_value_and_due() -> None:
    job = Job(0, 0, 0, submit=10, runtime=5, requested=8, demand=(2, 3), qos=0.75)
    waiting = Task(job, worth(job, [0.5, 2.0], 3.0))
    assert waiting.rate == (2 * 0.5 + 3 * 2.0) * 3 * 0.75
    assert waiting.value == waiting.rate * 5
    assert waiting.per_unit_tick == (2 * 0.5 + 3 * 2.0) * 3 / 5 * 0.75
    assert waiting.due == 10 + 10  # 8 / 0.75 = 10.67


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


def test_rest_of_a_suspended_job() -> None:
    job = Job(0, 0, 0, submit=0, runtime=9, requested=4, demand=(1,), qos=0.5)
    suspended = Task(job, 0.5, ran=3, begin=20)
    assert (suspended.requested, suspended.runtime, suspended.end, suspended.due, suspended.value) == (
        1,
        6,
        26,
        8,
        2.25,
    )
    suspended.ran = 7  # it takes longer than it asked for
    assert (suspended.requested, suspended.runtime) == (1, 2)
    assert [suspended.expected_end(now) for now in (20, 21, 25)] == [21, 22, 26]


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
