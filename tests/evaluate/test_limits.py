"""Whether limits are kept, by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.evaluate.limits import LimitCheck, check_limits
from rlsched.jobs import JobTable
from rlsched.learn.limits import with_limits
from rlsched.report.words import cost_of, within
from rlsched.scenario import Objective, Scenario
from rlsched.sim.metrics import Played


def costly(jobs: int, cost: float) -> Played:
    """An episode of so many jobs, in which so much was paid."""
    table = JobTable.build(submit=[0] * jobs, runtime=[1] * jobs, demand=[1] * jobs)
    run = Played.of_starts(table, np.zeros(jobs, np.int64))
    return dataclasses.replace(run, totals={**run.totals, "delayed_jobs": -cost, "energy": -7.0})


def simulated(objective: Objective) -> Scenario:
    """With a horizon, where these costs are counted."""
    return scenario.load("green-10").model_copy(update={"objective": objective})


@dataclasses.dataclass(frozen=True)
class Jobs:
    """An episode of which only the jobs matter."""

    jobs: JobTable
    power: None = None


def test_a_relative_limit_is_a_multiple_of_what_the_heuristic_costs_on_each_episode() -> None:
    """On one unit sjf starts the jobs of 2, 4 and 6 ticks at 0, 2 and 6: they wait for 8 ticks in all."""
    jobs = JobTable.build(submit=[0, 0, 0], runtime=[6, 4, 2], demand=[1, 1, 1])
    limit = {"wait_time": "1.5:sjf", "makespan": "1:sjf"}
    whole = scenario.load("lublin-256", ["cluster.resources.0.units=1", f"objective.costs={limit}"])
    runs = [
        Played.of_starts(jobs, np.array([0, 6, 10])),  # 16 ticks
        Played.of_starts(jobs, np.array([6, 2, 0])),  # 8
    ]
    waits, spans = check_limits("it", whole, [1], [Jobs(jobs), Jobs(jobs)], {None: runs})
    assert (waits.limit, waits.mean, waits.met) == (12.0, 12.0, True)
    assert (waits.low, waits.high) == (8.0, 16.0)
    assert (spans.limit, spans.mean, spans.low, spans.high) == (12.0, 12.0, 12.0, 12.0)
    unknown = scenario.load("lublin-256", ["objective.costs={wait_time: '2:best'}"])
    with pytest.raises(BadInputError, match=r"objective.costs.wait_time: value '2:best': no heuristic"):
        check_limits("it", unknown, [1], [Jobs(jobs)], {None: runs[:1]})


def test_limits_of_long_waits_and_unused_units_without_a_horizon() -> None:
    """On two units jobs of 6, 4 and 2 ticks and one unit each; none is to wait longer than 4 ticks."""
    jobs = JobTable.build(submit=[0, 0, 0], runtime=[6, 4, 2], demand=[1, 1, 1])
    limits = {"job_starvation": 0.0, "long_waits": 0.0, "unused_capacity": 3.0}
    patient = with_limits(
        scenario.load("lublin-256", ["objective.starvation_s=4", "objective.costs={}"]), limits
    )
    runs = [
        Played.of_starts(jobs, np.array([0, 0, 4])),  # nobody waits for longer; 12 of 12 unit-ticks are used
        Played.of_starts(jobs, np.array([0, 6, 10])),  # for 6 and 10 ticks; 12 of 24
    ]
    retained = check_limits("it", patient, [2], [Jobs(jobs)], {None: runs[:1]})
    assert [(item.cost, item.limit, item.mean, item.met) for item in retained] == [
        ("job_starvation", 0.0, 0.0, True),
        ("long_waits", 0.0, 0.0, True),
        ("unused_capacity", 3.0, 0.0, True),
    ]
    broken = check_limits("it", patient, [2], [Jobs(jobs)], {None: runs[1:]})
    assert [item.mean for item in broken] == [2 + 6, 2, 12 - 6]
    assert not any(item.met for item in broken)


def test_long_waits_of_a_job_are_the_share_of_jobs_and_may_be_relative() -> None:
    """On one unit sjf starts them at 6, 2 and 0, so that one of three waits longer than 4 ticks, by 2."""
    jobs = JobTable.build(submit=[0, 0, 0], runtime=[6, 4, 2], demand=[1, 1, 1])
    limits = {"job_starvation": "1.5:sjf", "long_waits": "3:sjf", "unused_capacity": "1:sjf"}
    settings = ["cluster.resources.0.units=1", "objective.limits_per=job", "objective.starvation_s=4"]
    whole = scenario.load("lublin-256", [*settings, f"objective.costs={limits}"])
    (starved, late, unused) = check_limits(
        "it", whole, [1], [Jobs(jobs)], {None: [Played.of_starts(jobs, np.array([0, 6, 10]))]}
    )
    assert (starved.limit, starved.mean) == pytest.approx((3 / 3, 8 / 3))
    assert (late.limit, late.mean, late.met) == pytest.approx((3 / 3, 2 / 3, True))
    assert (unused.limit, unused.mean) == pytest.approx((0.0, 0.0))


@pytest.mark.parametrize(("per", "mean"), [("episode", 30.0), ("job", 5.0)])
def test_mean_cost_is_compared_with_the_limit(per: str, mean: float) -> None:
    runs = [costly(10, 40.0), costly(2, 20.0), costly(10, 30.0), costly(10, 30.0)]  # of a job 4, 10, 3, 3
    costs = {"delayed_jobs": 25.0, "energy": None}
    (result,) = check_limits("it", simulated(Objective(costs=costs, limits_per=per)), [8], runs, {None: runs})
    assert result.mean == pytest.approx(mean)
    assert result.low < result.mean < result.high
    assert (result.policy, result.cost, result.per, result.limit) == ("it", "delayed_jobs", per, 25.0)
    assert result.met == (per == "job")
    assert check_limits("it", simulated(Objective()), [8], runs, {None: runs}) == []


@pytest.mark.parametrize(
    ("limit", "interval", "message"),
    [
        (10.0, (9.0, 8.0, 9.5), "kept"),
        (10.0, (9.0, 8.0, 11.0), "kept on average"),
        (10.0, (12.0, 9.0, 14.0), "broken by 20.0 %, within the interval"),
        (10.0, (12.0, 11.0, 14.0), "broken by 20.0 %"),
        (0.0, (3.0, 2.0, 4.0), "broken"),
        (0.0, (0.0, 0.0, 0.0), "kept"),
    ],
)
def test_it_is_said_in_words(limit: float, interval: tuple[float, float, float], message: str) -> None:
    result = LimitCheck("it", "delayed_jobs", "job", limit, *interval)
    assert within(result) == message
    assert cost_of(result) == "delayed jobs of a job"
