"""States by hand, and what answers say about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlsched.serve.api.schema import Answer, ClusterState, RunningJob, WaitingJob


def state(**changes: Any) -> ClusterState:
    """256 processors, 200 of which run a job until 1,600; one job that fits waits, and one that does not."""
    values: dict[str, Any] = {
        "now": 1000,
        "running": [RunningJob(id="r", demand=[200], start=500, expected_end=1600, submit=400)],
        "waiting": [
            WaitingJob(id="wide", submit=600, requested=3600, demand=[100]),
            WaitingJob(id="short", submit=700, requested=500, demand=[56]),
            WaitingJob(id="long", submit=800, requested=5000, demand=[56]),
        ],
    }
    return ClusterState(**(values | changes))


Ask = Callable[..., Answer]


def reasons(answer: Answer) -> dict[int | str, str]:
    return {reason.job: reason.reason for reason in answer.waiting or ()}


def started(answer: Answer) -> set[int | str]:
    return {decision.job for decision in answer.decisions if decision.action == "start"}


def green_state(**changes: Any) -> ClusterState:
    values: dict[str, Any] = {
        "now": 36_000,
        "waiting": [WaitingJob(1, 3600, 7200, [2, 1])],
        "supply_kw": [4.0],
    }
    return ClusterState(**(values | changes))
