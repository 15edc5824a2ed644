"""Policies that are known to be good or bad on a site's trace, without training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlsched import scenario
from rlsched.jobs import JobTable
from rlsched.serve.artefact import export_policy
from rlsched.workloads import swf

from .priorities import priority_policy

PROCESSORS, JOBS, EPISODE = 4, 120, 20
SETTINGS = (f"episode.jobs={EPISODE}", "decision.window=16", "decision.action_rule=fit", "objective.costs={}")


def write_site(path: Path) -> Path:
    """A trace of a site whose jobs take a processor each, so that shortest first is best under any rule."""
    rng = np.random.default_rng(1)
    jobs = JobTable.build(
        submit=np.sort(rng.integers(0, 40_000, JOBS)),
        runtime=rng.integers(30, 3_000, JOBS),
        demand=np.ones(JOBS, np.int64),
    )
    swf.write(path, jobs, processors=PROCESSORS)
    return path


def export_by_length(folder: Path, *, longest: bool, settings: tuple[str, ...] = SETTINGS) -> Path:
    """The artefact of a policy that starts the longest job first, or the shortest."""
    made = scenario.load("lublin-256", settings)
    weights = {"requested": 5.0 if longest else -5.0}
    run = folder.with_name(f"{folder.name}-run")
    priority_policy(made, weights, noop=-100.0).save(run)
    export_policy(run, folder)
    return folder
