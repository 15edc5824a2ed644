"""Pools, plans that are undone, and ends, in the slow twin, against results worked out on paper."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.jobs import JobTable
from tests.twin.green import TwinGreen

from .green_by_hand import column, green, jobs, series, wait

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


def test_expiry_at_the_latest_start() -> None:
    """A runs until 2. B, due at 4, could still end then; C, due at 3, could not; D, due at 5, is too late."""
    table = jobs(runtime=[2, 2, 2, 2], demand=[2, 2, 2, 2], qos=[1, 0.5, 0.6, 0.4])
    last = {"expiry": 0, "expiry_rule": "latest_start"}
    twin = TwinGreen(green(window=4, **last), [2], table, None)
    assert twin.mask == [1, 1, 1, 1, 0, 0]
    twin.step(0)
    wait(twin, 2)
    assert (twin.ready, twin.rejected) == ([1, 3], [2])
    twin.step(0)  # B ends at 4, and D, which could start then, would end at 6
    wait(twin, 4)
    assert (twin.ready, twin.rejected) == ([], [2, 3])

    twin = TwinGreen(green(window=4, placement="horizon", horizon=9, **last), [2], table, None)
    twin.step(0)  # A now, until 2
    assert twin.mask[:4] == [1, 0, 1, 0]  # B and D may be planned at 2, C may not
    twin.step(0)
    assert (twin.planned, twin.mask[:4]) == ([1], [0, 0, 0, 0])  # D would end at 6


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
def test_ticks_at_which_the_agent_decides(time_rule: str, skip_forced: bool) -> None:
    twin = TwinGreen(green(time_rule=time_rule, skip_forced=skip_forced, window=1), [2], TRIO, None)
    decision_ticks = []
    while not twin.over:
        decision_ticks.append(twin.now)
        twin.step(twin.mask.index(1))
    assert decision_ticks == (
        [2] if skip_forced else [0, 0, 1, 2, 2, 2, 3] if time_rule == "tick" else [0, 2, 2]
    )
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
