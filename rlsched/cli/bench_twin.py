"""The slow twin of the core as a yardstick: plain Python, in the repository (tests/twin), not in here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from rlsched.cli import repository
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.workloads.source import EpisodeJobs


def module(name: str) -> ModuleType | None:
    """A module of the slow twin, from the repository, if it is there."""
    return repository.module(f"tests.twin.{name}")


def decisions(
    scenario: Scenario, episode: EpisodeJobs, units: Sequence[int], seconds: float, seed: int
) -> float | None:
    """Random legal decisions per second of the slow twin."""
    horizon = scenario.decision.horizon is not None
    found = module("green" if horizon else "env")
    if found is None:
        return None
    rng = np.random.default_rng(seed)
    taken, began = 0, time.perf_counter()
    while True:
        if horizon:
            env = found.TwinGreen(scenario, units, episode.jobs, episode.power)
        else:
            env = found.TwinEnv(scenario, units, episode.jobs)
        while not env.over:
            env.step(int(rng.choice(np.flatnonzero(env.mask))))
            taken += 1
            if time.perf_counter() - began > seconds:
                return taken / (time.perf_counter() - began)


def jobs_replayed(jobs: JobTable, units: Sequence[int], policy: str, backfill: str) -> float | None:
    """Jobs per second of the slow twin, on one sequence."""
    found = module("replay")
    if found is None:
        return None
    began = time.perf_counter()
    found.replay(jobs, units, policy, backfill)
    return len(jobs) / (time.perf_counter() - began)
