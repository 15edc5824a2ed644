"""What `rlsched bench core` measures: the compiled core, on one thread, beside its slow twin."""

from __future__ import annotations

import os
import platform
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlsched.cli import bench_twin
from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Episode, Scenario, SwfWorkload
from rlsched.scenario import load as load_scenario
from rlsched.sim.caching import cached
from rlsched.sim.replay import Replayer
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.source import Source, open_source

ENVS = 64
JOBS = 1024
SEQUENCES = 16
REPLAYS = (("fcfs", "none"), ("fcfs", "easy"), ("sjf", "greedy"), ("area", "easy"))
CROWDED_ENVS = 8
CROWDED_STEPS = 4_000
SMALL = "256 procs 1000 queued"
CROWDED = (("163840 procs", 163_840, 1_000), ("100000 queued", 256, 100_000))  # case, units, jobs waiting
TWIN = "slow twin"
GRIDS = (
    ("green-10", "jobs, image"),
    ("green-10", "jobs, profile"),
    ("green-1200", "jobs, image"),
    ("green-1200", "jobs, profile"),
)
"""Scenarios with a horizon, asked at every tick, and the observation blocks that are written."""


@dataclass(frozen=True)
class Figure:
    """One measured figure, in the shape of cli.md.

    Attributes:
        name: what was counted.
        case: on what.
        value: how much of it, in its unit.
        unit: of it.
        against: what ran beside it.
        ratio: how many times as fast as that it is; None where that could not run.
    """

    name: str
    case: str
    value: float
    unit: str = "1/s"
    against: str | None = None
    ratio: float | None = None


def measure(played: Scenario, replayed: Scenario, seconds: float, seed: int) -> Iterator[Figure]:
    """All figures, one after the other.

    Args:
        played: whose environments are stepped.
        replayed: whose sequences are replayed.
        seconds: for each figure.
        seed: of episodes and actions.

    Raises:
        BadInputError: a workload cannot be opened, or has no sequence of 1,024 jobs.
    """
    yield decisions(played, seconds, seed)
    yield memory(played, seed)
    for name, blocks in GRIDS:
        yield decisions(grid_scenario(name, blocks), seconds, seed)
    replays, replay_units = sequences(replayed, seed)
    for policy, backfill in REPLAYS:
        yield jobs_replayed(replayed, replays, replay_units, policy, backfill, seconds)
    small = crowded(256, 1_000, seconds, seed)
    yield Figure("decisions_per_s", SMALL, small)
    for case, procs, queued in CROWDED:
        value = crowded(procs, queued, seconds, seed)
        yield Figure("decisions_per_s", case, value, against=SMALL, ratio=value / small)


def sequences(scenario: Scenario, seed: int) -> tuple[list[JobTable], list[int]]:
    """Sequences of jobs of a scenario, and the units of its cluster."""
    rng = np.random.default_rng(seed)
    source = _opened(scenario.model_copy(update={"episode": Episode(jobs=JOBS)}))
    drawn = [source.training(rng).jobs for _ in range(SEQUENCES)]
    return drawn, [int(resource.units or 0) for resource in source.cluster.resources]


def _opened(scenario: Scenario) -> Source:
    """Where episodes come from.

    Raises:
        BadInputError: the workload cannot be opened, or is too short.
    """
    try:
        source = open_source(scenario)
        source.training(np.random.default_rng(0))
    except BadInputError as error:
        if "episode.jobs" not in error.remedy:
            raise
        raise BadInputError(error.where, error.problem, "measure on a longer trace") from None
    return source


def grid_scenario(name: str, blocks: str) -> Scenario:
    """A scenario with a horizon in which every tick is a step."""
    return load_scenario(
        name,
        [f"observation.blocks=[{blocks}]", "decision.time_rule=tick", "decision.skip_forced=false"],
    )


def _case(scenario: Scenario) -> str:
    rule, seen = scenario.decision, scenario.observation.blocks
    return f"{scenario.name} {' '.join(seen) if rule.horizon else rule.time_rule} w{rule.window}"


def _to_play(scenario: Scenario) -> Scenario:
    """With episodes of as many jobs as are measured, where no clock ends them."""
    if scenario.decision.horizon is not None:
        return scenario
    return scenario.model_copy(update={"episode": Episode(jobs=JOBS)})


def memory(scenario: Scenario, seed: int) -> Figure:
    """What an environment holds once an episode is loaded: state, jobs and observation, as allocated."""
    scenario = _to_play(scenario)
    source = _opened(scenario)
    episode = source.training(np.random.default_rng(seed))
    units = [int(resource.units or 0) for resource in source.cluster.resources]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sim = VectorSimulator(scenario, units, ENVS, source.max_jobs, draw_images=True)
        for env in range(ENVS):
            sim.load(env, episode.jobs, power=episode.power)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return Figure("bytes_per_environment", _case(scenario), held / ENVS, unit="B")


def decisions(scenario: Scenario, seconds: float, seed: int) -> Figure:
    """Random legal decisions of a vector of environments, observations and episode loads included."""
    scenario = _to_play(scenario)
    source = _opened(scenario)
    rng = np.random.default_rng(seed)
    episodes = [source.training(rng) for _ in range(SEQUENCES)]
    units = [int(resource.units or 0) for resource in source.cluster.resources]
    sim = VectorSimulator(scenario, units, ENVS, source.max_jobs, draw_images=True)
    actions = np.zeros(ENVS, np.int64)
    loaded = 0

    def load(env: int) -> None:
        nonlocal loaded
        episode = episodes[loaded % len(episodes)]
        sim.load(env, episode.jobs, power=episode.power)
        loaded += 1

    def some() -> int:
        """A few hundred steps: so many that looking at the clock costs nothing."""
        taken = 0
        for _ in range(256):
            choose(sim.mask, actions)
            sim.step(actions)
            taken += ENVS
            ended = sim.terminated | sim.truncated
            if ended.any():
                for env in np.flatnonzero(ended).tolist():
                    load(env)
        return taken

    for env in range(ENVS):
        load(env)
    start_choosing(seed)
    some()  # compiles
    fast = rate(some, seconds)
    slow = bench_twin.decisions(scenario, episodes[0], units, seconds, seed)
    return Figure(
        "decisions_per_s",
        _case(scenario),
        fast,
        against=TWIN if slow else None,
        ratio=fast / slow if slow else None,
    )


def jobs_replayed(
    scenario: Scenario,
    episodes: Sequence[JobTable],
    units: Sequence[int],
    policy: str,
    backfill: str,
    seconds: float,
) -> Figure:
    """Jobs that a queue order gets through, loading included; the median of repeated runs."""
    replayer = Replayer(len(episodes), JOBS, units)
    jobs = sum(map(len, episodes))

    def once() -> int:
        replayer.run(episodes, policy, backfill)
        return jobs

    once()  # compiles
    fast = rate(once, seconds)
    slow = bench_twin.jobs_replayed(episodes[0], units, policy, backfill)
    return Figure(
        "jobs_per_s",
        f"{_source(scenario)} {policy} {backfill}",
        fast,
        against=TWIN if slow else None,
        ratio=fast / slow if slow else None,
    )


def _source(scenario: Scenario) -> str:
    workload = scenario.workload
    if isinstance(workload, SwfWorkload):
        return workload.file.name.removesuffix(".gz").removesuffix(".swf")
    return scenario.name


def crowded(procs: int, queued: int, seconds: float, seed: int) -> float:
    """Decisions per second on a machine that is full of small jobs, before a queue that keeps its length.

    Only the decisions count: the episodes are loaded, and the machine filled, beforehand.
    """
    rng = np.random.default_rng(seed)
    running = procs * 2 // 9  # of 4.5 units on average
    count = running + queued + CROWDED_STEPS
    interval = max(1, 50_500 // running)  # ticks; about as many arrive as end
    later = np.arange(CROWDED_STEPS) * interval
    jobs = JobTable.build(
        submit=np.concatenate([np.zeros(running + queued), later]),
        runtime=rng.integers(1_000, 100_000, count),
        demand=rng.integers(1, 9, count),
    )
    sim = VectorSimulator(_crowded_scenario(), [procs], CROWDED_ENVS, count)
    actions = np.zeros(CROWDED_ENVS, np.int64)
    start_choosing(seed)

    def steps(number: int) -> int:
        for _ in range(number):
            choose(sim.mask, actions)
            sim.step(actions)
        return number * CROWDED_ENVS

    rates: list[float] = []
    deadline = time.perf_counter() + seconds
    while not rates or time.perf_counter() < deadline:
        for env in range(CROWDED_ENVS):
            sim.load(env, jobs)
        steps(running)
        began = time.perf_counter()
        rates.append(steps(CROWDED_STEPS) / (time.perf_counter() - began))
    return median(rates)


def _crowded_scenario() -> Scenario:
    from rlsched.scenario import LublinWorkload

    return Scenario(workload=LublinWorkload(kind="lublin"))


def rate(work: Callable[[], int], seconds: float) -> float:
    """The median speed of repeated work, in what it counts per second; three times at least."""
    rates: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(rates) < 3 or time.perf_counter() < deadline:
        began = time.perf_counter()
        done = work()
        rates.append(done / (time.perf_counter() - began))
    return median(rates)


@cached
def start_choosing(seed: int) -> None:
    """Seed the compiled generator."""
    np.random.seed(seed)


@cached
def choose(mask: NDArray[np.int8], actions: IntArray) -> None:
    """A random legal action for every environment."""
    for i in range(len(mask)):
        left = np.random.randint(mask[i].sum())
        for action in range(mask.shape[1]):
            if mask[i, action]:
                if left == 0:
                    actions[i] = action
                    break
                left -= 1


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("rlsched", "numba", "numpy")},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def to_json(figures: Sequence[Figure]) -> dict[str, Any]:
    """The figures in the shape of cli.md."""
    return {"schema": 1, "machine": machine(), "figures": [asdict(figure) for figure in figures]}
