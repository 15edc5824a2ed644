"""Scenarios, actions and jobs that several tests of the environments use."""

from __future__ import annotations

import numpy as np

from rlsched import scenario
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario


def changed(values: Scenario, *overrides: str) -> Scenario:
    return scenario.parse(values.model_dump(mode="json"), "test", overrides)


def legal(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random legal action per row."""
    return (rng.random(masks.shape) * masks).argmax(axis=1)


def one_job(jobs: int = 1) -> JobTable:
    """Jobs that come one after the other, when the last is gone: nothing is ever to be decided."""
    return JobTable.build(submit=10 * np.arange(jobs), runtime=[5] * jobs, demand=[1] * jobs)
