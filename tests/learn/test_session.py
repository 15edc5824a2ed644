"""The Ray that a run starts for itself."""

from __future__ import annotations

import os
import time

import pytest
import ray

from rlsched.learn.session import ray_session

pytestmark = pytest.mark.slow


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_ray_keeps_nothing_for_a_dashboard_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its control process would remember every task of a run."""
    monkeypatch.delenv("RAY_task_events_report_interval_ms", raising=False)
    with ray_session(None):
        ray.get([ray.remote(niceness).remote() for _ in range(20)])
        time.sleep(3)  # tasks are told once a second
        assert not ray.timeline()


def test_what_plays_is_as_urgent_as_what_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_worker_niceness", raising=False)
    with ray_session(None):
        theirs = ray.get(ray.remote(niceness).remote())
    assert theirs == niceness()
    assert not ray.is_initialized()
