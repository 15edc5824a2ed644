"""Terms of the slow twin in tick-driven scenarios against results worked out on paper."""

from __future__ import annotations

import random
from typing import get_args

import pytest

from rlsched.scenario import Term
from tests.strategies import random_jobs
from tests.twin.green import TwinGreen
from tests.twin.terms import EVENTS, RATES

from .green_by_hand import green, jobs, series, wait

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


NONE = dict.fromkeys(get_args(Term), 0.0)
TWO_TICKS = {  # 1 + 1/2 of these rates, while A runs, and events at 2
    **NONE,
    **{
        name: 1.5 * rate
        for name, rate in {
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
        }.items()
    },
    "throughput": 1 / 4,
    "finished_value": 2 / 4,
    "started_value": 2 / 4,
    "on_time_value": 2 / 4,
    "job_starvation": -2 / 2,  # B and C, in the second tick
    "long_waits": -2 / 2,
}
LATE_TICK = {  # B runs from 2 to 3, too late; C, now ready, has waited for longer than a tick before
    **NONE,
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
FOUR_TICKS = 1 + 1 / 2 + 1 / 4 + 1 / 8
LAST_TICKS = {  # C runs from 3 to 7
    **NONE,
    "slowdown": -FOUR_TICKS / 4,
    "utilization": FOUR_TICKS,
    "makespan": -FOUR_TICKS,
    "running_value": FOUR_TICKS * 0.25,
    "long_running": -FOUR_TICKS,
    "throughput": 1 / 16,
    "finished_value": 1 / 16,
    "started_value": 1 / 16,
    "on_time_value": 1 / 16,
    "terminal_bsld": -(1 + 3 + 7 / 4) / 3 / 16,
}
TOTALS = {
    **NONE,
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


def test_terms_by_hand() -> None:
    twin = with_terms()
    assert twin.terms == pytest.approx(TWO_TICKS)
    twin.step(0)
    assert (twin.now, twin.elapsed) == (3, 1)
    assert twin.terms == pytest.approx(LATE_TICK)
    twin.step(0)
    assert (twin.now, twin.elapsed, twin.terminated) == (7, 4, True)
    assert twin.terms == pytest.approx(LAST_TICKS)
    assert twin.totals == pytest.approx(TOTALS)


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
    table = jobs(runtime=[1, 3], requested=[3, 1], demand=[1, 1])
    twin = TwinGreen(green(objective=HALF), [2], table, None)
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
