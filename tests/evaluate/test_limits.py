"""Whether limits are kept, by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rlsched.evaluate.limits import Keeping, keeping
from rlsched.jobs import JobTable
from rlsched.report.words import cost_of, within
from rlsched.scenario import Objective
from rlsched.sim.metrics import Played


def paid(jobs: int, cost: float) -> Played:
    """An episode of so many jobs, in which so much was paid."""
    table = JobTable.build(submit=[0] * jobs, runtime=[1] * jobs, demand=[1] * jobs)
    run = Played.of_starts(table, np.zeros(jobs, np.int64))
    return dataclasses.replace(run, totals={**run.totals, "delayed_jobs": -cost, "energy": -7.0})


@pytest.mark.parametrize(("per", "mean"), [("episode", 30.0), ("job", 5.0)])
def test_what_was_paid_is_held_against_the_limit(per: str, mean: float) -> None:
    runs = [paid(10, 40.0), paid(2, 20.0), paid(10, 30.0), paid(10, 30.0)]  # of a job 4, 10, 3, 3
    costs = {"delayed_jobs": 25.0, "energy": None}
    (found,) = keeping("it", Objective(costs=costs, limits_per=per), runs)
    assert found.paid == pytest.approx(mean)
    assert found.low < found.paid < found.high
    assert (found.policy, found.cost, found.per, found.limit) == ("it", "delayed_jobs", per, 25.0)
    assert found.kept == (per == "job")
    assert keeping("it", Objective(), runs) == []


@pytest.mark.parametrize(
    ("limit", "interval", "said"),
    [
        (10.0, (9.0, 8.0, 9.5), "kept"),
        (10.0, (9.0, 8.0, 11.0), "kept on average"),
        (10.0, (12.0, 9.0, 14.0), "broken by 20.0 %, within the interval"),
        (10.0, (12.0, 11.0, 14.0), "broken by 20.0 %"),
        (0.0, (3.0, 2.0, 4.0), "broken"),
        (0.0, (0.0, 0.0, 0.0), "kept"),
    ],
)
def test_it_is_said_in_words(limit: float, interval: tuple[float, float, float], said: str) -> None:
    found = Keeping("it", "delayed_jobs", "job", limit, *interval)
    assert within(found) == said
    assert cost_of(found) == "delayed jobs of a job"
