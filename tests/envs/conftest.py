"""Small scenarios of both kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlsched import scenario
from rlsched.scenario import Scenario
from rlsched.workloads import swf
from rlsched.workloads.lublin import LublinModel


@pytest.fixture(scope="session")
def small_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 jobs on 64 processors."""
    path = tmp_path_factory.mktemp("traces") / "small.swf"
    swf.write(path, LublinModel(load=1.2).draw(np.random.default_rng(3), 300, 64), processors=64)
    return path


@pytest.fixture(scope="session")
def model() -> Scenario:
    """A model with 40 jobs an episode; the window is overfull at times."""
    return scenario.load("lublin-256", ["episode.jobs=40", "decision.window=12"])


@pytest.fixture(scope="session")
def trace(small_trace: Path) -> Scenario:
    """A trace with 40 jobs an episode."""
    return scenario.load(
        "hpc-trace", [f"workload.file={small_trace}", "episode.jobs=40", "decision.window=12"]
    )


@pytest.fixture(params=["model", "trace"])
def small(request: pytest.FixtureRequest) -> Scenario:
    """Both of them."""
    scenario_value: Scenario = request.getfixturevalue(request.param)
    return scenario_value
