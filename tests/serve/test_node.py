"""Processes of the node of Ray under a service."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import ray

from rlsched.serve.process.node import LocalNode, children_of, is_alive


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Ray tests before these have started."""
    monkeypatch.setattr(ray._private.worker, "_global_node", None)


def test_a_process_is_dead_before_its_parent_has_heard_of_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert is_alive(process.pid)
        assert process.pid in children_of(os.getpid())
        assert LocalNode((process.pid,)).dead() == []  # there is no Ray, and nothing of it has died
        process.kill()
        while is_alive(process.pid):
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()
    assert not is_alive(process.pid)


def test_without_ray_there_are_no_agents() -> None:
    node = LocalNode()
    node.find_agents()
    assert node.agents == ()
