"""The compiled core beside its slow twin: the same jobs, the same actions, everything compared."""

from __future__ import annotations

import random
from math import log2

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.scenario.terms import TERMS
from rlsched.sim.simulator import VectorSimulator
from tests.strategies import Instance
from tests.twin.env import TwinEnv
from tests.twin.rules import reserve


def check_state(core: VectorSimulator, env: int, twin: TwinEnv) -> None:
    """The environment stands where the twin stands, and the same actions are legal."""
    assert int(core.now[env]) == twin.now
    assert bool(core.terminated[env]) == twin.terminated
    assert bool(core.truncated[env]) == twin.truncated
    assert tuple(core.free[env].tolist()) == twin.machine.free
    if not twin.over:
        assert core.mask[env].tolist() == twin.mask
        check_delays(core, env, twin)


def check_delays(core: VectorSimulator, env: int, twin: TwinEnv) -> None:
    """Each job shows how long its units are expected to take to become free."""
    observation = core.scenario.observation
    if "jobs" not in observation.blocks or "delay" not in core.layout.features("jobs"):
        return
    longest = observation.time_scale_s / core.scenario.cluster.tick_s
    column = core.layout.features("jobs").index("delay")
    delays = core.layout.view(core.obs, "jobs")[env, :, column].tolist()
    for slot, job in enumerate(twin.visible):
        fits = twin.machine.fits(job)
        delay = 0 if fits else reserve(job, twin.now, twin.machine).shadow - twin.now
        expected = min(1.0, log2(1 + delay) / log2(1 + longest))
        assert abs(delays[slot] - expected) < 1e-6, (job, delay)


def check_transition(core: VectorSimulator, env: int, twin: TwinEnv) -> None:
    """The last transition took as long and was rewarded for the same."""
    assert int(core.elapsed[env]) == twin.elapsed
    terms = dict(zip(TERMS, core.terms[env].tolist(), strict=True))
    assert twin.terms.keys() <= terms.keys()
    for name, expected in twin.terms.items():
        assert close(terms[name], expected), (name, terms[name], expected)
    assert close(float(core.reward[env]), twin.reward), (core.reward[env], twin.reward)


def close(value: float, expected: float) -> bool:
    return abs(value - expected) <= 1e-9 * max(1.0, abs(expected))


def single(scenario: Scenario, instance: Instance, scale: float = 1.0) -> VectorSimulator:
    """A vector of a single environment, standing at its first decision."""
    core = VectorSimulator(scenario, units=list(instance.units), num_envs=1, max_jobs=len(instance.table))
    core.load(0, instance.table, scale=scale)
    return core


def over(core: VectorSimulator, env: int) -> bool:
    return bool(core.terminated[env] or core.truncated[env])


def random_legal(mask: NDArray[np.int8], rng: random.Random) -> int:
    return rng.choice(np.flatnonzero(mask).tolist())


def usage(
    table: JobTable, starts: NDArray[np.int64], ends: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Units in use at every tick from 0 on, (ticks, resources), of the jobs that have started."""
    ends = starts + table.runtime if ends is None else ends
    used = np.zeros((int(ends.max(initial=0)) + 1, table.num_resources), dtype=np.int64)
    for demand, start, end in zip(table.demand, starts, ends, strict=True):
        if start >= 0:
            used[start:end] += demand
    return used
