"""Jobs that are submitted when others end: by hand, and against the slow twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.sim.metrics import Played
from rlsched.sim.replay import replay
from rlsched.sim.simulator import VectorSimulator
from tests.strategies import ACTION_RULES, TIME_RULES, Instance, linked_instances, scenario, scenarios
from tests.twin.env import TwinEnv
from tests.twin.replay import POLICIES
from tests.twin.replay import replay as twin_replay

from .drive import check_state, check_transition, single

# On 4 units: 1 runs in [0, 10), 2 in [10, 20). 3 comes 7 ticks after the end of 1, 4 at the end of 2. Nobody
# is before 5.
BY_HAND = JobTable.build(
    submit=[0, 1, 2, 3, 30],
    runtime=[10, 10, 5, 5, 5],
    demand=[2, 4, 2, 4, 1],
    preceding=[-1, -1, 1, 2, 9],
    think=[-1, -1, 7, -1, 0],
)


@pytest.mark.parametrize("policy", ["fcfs", "sjf", "f1", "edf"])
@pytest.mark.parametrize("backfill", ["none", "greedy", "easy", "conservative"])
def test_by_hand(policy: str, backfill: str) -> None:
    starts = replay(BY_HAND, [4], policy, backfill)
    assert starts.tolist() == [0, 10, 20, 25, 30]
    assert Played.of_starts(BY_HAND, starts).jobs.submit.tolist() == [0, 1, 17, 20, 30]


def test_a_job_without_think_time_comes_at_its_submit_time_where_the_other_ended_before() -> None:
    table = JobTable.build(
        submit=[0, 50, 60], runtime=[10, 5, 5], demand=[1, 1, 1], preceding=[-1, 1, 1], think=[-1, -1, 3]
    )
    starts = replay(table, [4], "fcfs")
    assert starts.tolist() == [0, 50, 13]  # with a think time it comes earlier than in the trace, too
    assert Played.of_starts(table, starts).jobs.submit.tolist() == [0, 50, 13]


def test_who_waits_for_a_later_job_or_for_itself_waits_for_nobody() -> None:
    table = JobTable.build(
        id=[7, 8, 9], submit=[0, 1, 2], runtime=[5, 5, 5], demand=[1, 1, 1], preceding=[7, 9, 8]
    )
    assert table.predecessors().tolist() == [-1, -1, 1]
    assert replay(table, [1], "fcfs").tolist() == [0, 5, 10]


def test_who_waits_for_a_job_that_never_ends_is_not_submitted() -> None:
    cut = Played.of_starts(BY_HAND, np.array([0, -1, 17, -1, 30]))
    assert cut.jobs.submit.tolist() == [0, 1, 17, 35, 30]
    # Nor does anybody wait who would be submitted after the last end of what has started.
    assert Played.of_starts(BY_HAND, np.array([0, 10, -1, -1, -1])).jobs.submit.tolist() == [0, 1, 17, 20, 30]
    assert replace(BY_HAND, preceding=np.full(5, -1)).released(cut.start).submit.tolist() == [0, 1, 2, 3, 30]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40)
@given(data=st.data())
def test_replays_agree_with_the_twin(policy: str, data: st.DataObject) -> None:
    instance = data.draw(linked_instances())
    backfill = data.draw(st.sampled_from(["none", "greedy", "easy", "conservative"]))
    window, seed = data.draw(st.none() | st.integers(1, 4)), data.draw(st.integers(0, 3))
    starts = replay(instance.table, list(instance.units), policy, backfill, window=window, seed=seed)
    expected = twin_replay(instance.table, instance.units, policy, backfill, window=window, seed=seed)
    assert starts.tolist() == expected, (instance, policy, backfill, window)
    assert (starts >= Played.of_starts(instance.table, starts).jobs.submit).all()


@pytest.mark.parametrize("time_rule", TIME_RULES)
@pytest.mark.parametrize("action_rule", ACTION_RULES)
@settings(max_examples=60)
@given(data=st.data())
def test_environments_agree_with_the_twin(action_rule: str, time_rule: str, data: st.DataObject) -> None:
    instance = data.draw(linked_instances())
    fixed = {"action_rule": action_rule, "time_rule": time_rule, "follow": True}
    rules = data.draw(scenarios(num_resources=len(instance.units), **fixed))
    core, twin = single(rules, instance), TwinEnv(rules, instance.units, instance.table)
    check_state(core, 0, twin)
    while not twin.over:
        action = data.draw(st.sampled_from([k for k, allowed in enumerate(twin.mask) if allowed]))
        twin.step(action)
        core.step(np.array([action]))
        check_state(core, 0, twin)
        check_transition(core, 0, twin)
        assert np.isfinite(core.obs).all()
    played = core.played(0, instance.table)
    assert played.start.tolist() == twin.starts
    submitted = core.state.jobs["submit"][0][played.started]
    assert played.jobs.submit[played.started].tolist() == submitted.tolist()


def test_a_simulator_is_used_again_with_and_without_followers() -> None:
    rules = scenario(follow=True, window=5)
    core = VectorSimulator(rules, [4], 1, 5)
    alone = replace(BY_HAND, preceding=np.full(5, -1))
    for table in (BY_HAND, alone, BY_HAND):
        core.load(0, table)
        fresh = single(rules, Instance((4,), table))
        while not core.terminated[0]:
            action = np.array([int(np.flatnonzero(core.mask[0])[0])])
            core.step(action)
            fresh.step(action)
        assert core.starts(0).tolist() == fresh.starts(0).tolist()
    assert core.played(0, BY_HAND).jobs.submit.tolist() == [0, 1, 17, 20, 30]


@pytest.mark.parametrize("count", [2, 2000])
def test_think_times_without_end_are_refused(count: int) -> None:
    """Those of 1,025 jobs would come to more than 64 bits."""
    table = JobTable.build(
        submit=range(count),
        runtime=np.ones(count),
        demand=np.ones(count, int),
        preceding=[-1, *range(1, count)],
        think=np.full(count, 2**53),
    )
    with pytest.raises(BadInputError, match="has think times of more than"):
        replay(table, [4], "fcfs")


def test_jobs_that_follow_others_are_refused_where_there_is_no_room_for_them() -> None:
    core = VectorSimulator(scenario(), [4], 1, 5)
    with pytest.raises(BadInputError, match=r"set workload\.dependencies=ignore"):
        core.load(0, BY_HAND)
