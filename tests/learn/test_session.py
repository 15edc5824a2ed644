"""The Ray that a run starts for itself."""

from __future__ import annotations

import os

import pytest
import ray

from rlsched.learn.session import ray_session

pytestmark = pytest.mark.slow


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_what_plays_is_as_urgent_as_what_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_worker_niceness", raising=False)
    with ray_session(None):
        theirs = ray.get(ray.remote(niceness).remote())
    assert theirs == niceness()
    assert not ray.is_initialized()
