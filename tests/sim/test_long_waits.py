"""Costs of long waits and of unused units without a horizon: by hand, and from start times."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlsched.evaluate.costs import episode_cost
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.scenario.terms import TERM_SPECS, TERMS
from tests.strategies import Instance, instances, scenario, scenarios
from tests.twin.env import TwinEnv

from .drive import check_transition, over, random_legal, single

THREE_JOBS = JobTable.build(submit=[0, 1, 2], runtime=[10, 4, 3], demand=[2, 2, 1])
"""On two units A runs until 10, B until 14, C until 17: they wait for 0, 9 and 12 ticks."""

NEW = ("job_starvation", "long_waits", "unused_capacity")
Terms = dict[str, float]


def transitions(rules: Scenario, actions: list[int]) -> list[Terms]:
    """The new terms of each transition, the same in core and twin."""
    core, twin = single(rules, Instance((2,), THREE_JOBS)), TwinEnv(rules, [2], THREE_JOBS)
    terms_of_steps = []
    for action in actions:
        core.step(np.array([action]))
        twin.step(action)
        check_transition(core, 0, twin)
        terms_of_steps.append({name: float(core.terms[0, TERMS.index(name)]) for name in NEW})
    return terms_of_steps


def powers(first: int, end: int) -> float:
    """Sum of 0.5 ** t over the ticks from first to before end."""
    return sum(0.5**tick for tick in range(first, end))


def check(terms_of_steps: Terms, starvation: float, long_waits: float, unused: float) -> None:
    assert terms_of_steps == pytest.approx(dict(zip(NEW, (-starvation, -long_waits, -unused), strict=True)))


def test_a_job_passes_the_threshold_within_a_transition() -> None:
    """Of the ten ticks of A, B has waited for more than 5 in the last four, C in the last three."""
    first, second, third = transitions(scenario(skip_forced=False, starvation_s=5), [0, 0, 0])
    check(first, 4 + 3, 2, 0)
    check(second, 4, 0, 0)  # C waits for B
    check(third, 0, 0, 3 / 2)  # C runs on one of two units


def test_what_is_past_the_threshold_is_discounted_from_there_on() -> None:
    rules = scenario(skip_forced=False, starvation_s=5, gamma=0.5)
    first, second, third = transitions(rules, [0, 0, 0])
    check(first, powers(6, 10) + powers(7, 10), 0.5**6 + 0.5**7, 0)
    check(second, powers(0, 4), 0, 0)
    check(third, 0, 0, powers(0, 3) / 2)


def test_a_threshold_between_ticks_counts_a_part_of_the_first() -> None:
    """After 5.5 ticks: B at 6.5, C at 7.5."""
    rules = scenario(skip_forced=False, starvation_s=55, tick_s=10, gamma=0.5)
    first = transitions(rules, [0])[0]
    starvation = 0.5 * 0.5**6 + powers(7, 10) + 0.5 * 0.5**7 + powers(8, 10)
    check(first, starvation, 0.5**6 + 0.5**7, 0)


def test_only_visible_jobs_starve_under_scope_window() -> None:
    """Every job has its long wait, visible or not."""
    rules = scenario(skip_forced=False, starvation_s=5, window=1, scope="window")
    check(transitions(rules, [0])[0], 4, 2, 0)


def test_sparse_drops_rates_after_the_first_tick_and_no_long_wait() -> None:
    rules = scenario(skip_forced=False, starvation_s=5, time_rule="sparse", gamma=0.5)
    first, second = transitions(rules, [0, 0])
    check(first, 0, 0.5**6 + 0.5**7, 0)
    check(second, 1, 0, 0)


def test_each_tick_is_a_transition_under_the_tick_rule() -> None:
    rules = scenario(skip_forced=False, starvation_s=5, time_rule="tick")
    terms_of_steps = transitions(rules, [0, *[4] * 10])
    assert [terms["job_starvation"] for terms in terms_of_steps] == [0] * 7 + [-1] + [-2] * 3
    assert [terms["long_waits"] for terms in terms_of_steps] == [0] * 7 + [-1, -1, 0, 0]


@settings(max_examples=150)
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_totals_follow_from_start_times(data: st.DataObject, seed: int) -> None:
    """Nothing is discounted or dropped, and the first question comes with the first job."""
    instance = data.draw(instances())
    rules = data.draw(
        scenarios(
            num_resources=len(instance.units),
            time_rule=data.draw(st.sampled_from(["smdp", "tick"])),
            skip_forced=False,
            gamma=1.0,
            scope="all",
            max_ticks=None,
            no_new_job=False,
        )
    )
    core, rng = single(rules, instance), random.Random(seed)
    totals = np.zeros(len(TERMS))
    while not over(core, 0):
        core.step(np.array([random_legal(core.mask[0], rng)]))
        totals += core.terms[0]
    table, played = instance.table, core.played(0, instance.table)
    wait = played.start - table.submit
    longest = rules.objective.starvation_s / rules.cluster.tick_s
    span = played.end.max() - table.submit.min()
    expected = {
        "wait_time": wait.sum(),
        "makespan": span,
        "job_starvation": sum(max(0.0, ticks - longest) for ticks in wait.tolist()),
        "long_waits": sum(ticks > longest for ticks in wait.tolist()),
        "unused_capacity": span - totals[TERMS.index("utilization")],
    }
    for name, cost in expected.items():
        assert totals[TERMS.index(name)] == pytest.approx(-float(cost), abs=1e-9), name
    for index, spec in enumerate(TERM_SPECS.values()):
        if "horizon" not in spec.needs and (spec.cost or spec.rate is not None):
            cost = episode_cost(rules, instance.units, spec.name, played)
            assert cost == pytest.approx(-totals[index], rel=1e-9, abs=1e-9), spec.name


@pytest.mark.parametrize(("costs", "counted"), [({}, False), ({"long_waits": None}, True)])
def test_long_waits_are_counted_only_where_a_term_needs_them(costs: dict[str, None], counted: bool) -> None:
    plain = scenario(starvation_s=5, skip_forced=False).model_dump(mode="json")
    plain["objective"] |= {"reward": {"bounded_slowdown": 1.0}, "costs": costs}
    core = single(Scenario.model_validate(plain), Instance((2,), THREE_JOBS))
    assert core.rules.count_late == counted
    core.step(np.array([0]))
    assert (core.terms[0, TERMS.index("long_waits")] == -2) == counted
