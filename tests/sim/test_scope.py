"""Which jobs count in rewards of waiting, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.jobs import JobTable
from rlsched.scenario.terms import TERMS
from rlsched.sim.simulator import VectorSimulator
from tests.strategies import scenario


@pytest.mark.parametrize(("scope", "running"), [("all", 1 / 4), ("window", 0.0)])
def test_running_jobs_count_only_where_all_jobs_do(scope: str, running: float) -> None:
    """A runs from 0 on, B does not fit beside it, and C may start at 1."""
    jobs = JobTable.build(submit=[0, 1, 1, 2], runtime=[4, 2, 3, 1], demand=[2, 2, 1, 1])
    core = VectorSimulator(scenario(window=2, scope=scope), units=[3], num_envs=1, max_jobs=4)
    core.load(0, jobs)
    for action in (0, 2):  # B is promised 4, and then the clock goes from 1 to 2
        core.step(np.array([action]))
    terms = dict(zip(TERMS, core.terms[0].tolist(), strict=True))
    assert terms["slowdown"] == pytest.approx(-(running + 1 / 2 + 1 / 3))
