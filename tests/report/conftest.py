from __future__ import annotations

import numpy as np
import pytest

from rlsched.evaluate.results import Result
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.report.gantt import Schedule
from rlsched.scenario import ResolvedScenario
from rlsched.sim.metrics import Played, job_metrics
from tests.report.examples import PROCESSORS, first_fit, make_jobs


@pytest.fixture(scope="session")
def schedules() -> list[Schedule]:
    jobs = make_jobs(1024)
    later = jobs.submit + 40_000
    return [
        Schedule("fcfs + none", jobs, first_fit(jobs, PROCESSORS, np.argsort(jobs.submit, kind="stable"))),
        Schedule(
            "later & <slower>", jobs, first_fit(jobs, PROCESSORS, np.argsort(later, kind="stable")) + 40_000
        ),
    ]


@pytest.fixture(scope="session")
def result() -> Result:
    """Two heuristics and two learned policies, one of which hoards and has a hostile name."""
    episodes = []
    for k in range(5):
        jobs = make_jobs(40, seed=k)
        start = first_fit(jobs, PROCESSORS, np.arange(40))
        plain = job_metrics(Played.of_starts(jobs, start), [PROCESSORS])
        wait = plain["wait"] + 60.0
        for policy, backfill, learned, change in (
            (
                "fcfs",
                "none",
                False,
                {"wait": wait + 900, "bounded_slowdown": 300.0 + k, "schedule_span": 1.2},
            ),
            ("sjf", "greedy", False, {"wait": wait, "bounded_slowdown": 30.0 + k, "schedule_span": 1.1}),
            ("runs/ppo", "commit", True, {"wait": wait, "bounded_slowdown": 20.0 + k, "schedule_span": 1.2}),
            (
                "<script>alert('x')</script>",
                "fit",
                True,
                {"wait": 3 * wait, "bounded_slowdown": 8.0, "schedule_span": 3.2},
            ),
        ):
            episodes.append(EpisodeResult(policy, backfill, k, 1, 100 * k, plain | change, learned))
    scenario = ResolvedScenario.model_validate(
        {
            "name": "a<b>",
            "description": '5 > 3 & "quotes"',
            "workload": {"kind": "lublin"},
            "cluster": {"resources": [{"units": 256}]},
        }
    )
    return Result.of(scenario, episodes, repairs={"zero_runtime_dropped": 1234, "nothing": 0})
