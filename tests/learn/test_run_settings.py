"""What a run settles before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched import scenario
from rlsched.learn.run import placed
from rlsched.scenario import Scenario, SwfWorkload


def test_a_trace_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a run goes on, and is told from what it was trained on, in any folder."""
    monkeypatch.chdir(tmp_path)
    found = placed(scenario.load("hpc-trace", ["workload.file=jobs.swf"])).workload
    assert isinstance(found, SwfWorkload)
    assert found.file == tmp_path / "jobs.swf"


def test_a_model_stays_as_it_is(small: Scenario) -> None:
    assert placed(small) == small
