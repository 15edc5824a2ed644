"""Speed and memory of the compiled simulator core, on one thread."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from rlsched.cli.bench import Figure
from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import EpisodeSettings, LublinWorkload, Scenario, SwfWorkload
from rlsched.scenario import load as load_scenario
from rlsched.sim.caching import cached
from rlsched.sim.replay import Replayer
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode, Source
from rlsched.workloads.source import open_source

ENVS = 64
JOBS = 1024
SEQUENCES = 16
REPLAYS = (("fcfs", "none"), ("fcfs", "easy"), ("sjf", "greedy"), ("area", "easy"))
CROWDED_ENVS = 8
CROWDED_STEPS = 4_000
SMALL = "256 procs 1000 queued"
CROWDED = (("163840 procs", 163_840, 1_000), ("100000 queued", 256, 100_000))  # case, units, waiting jobs
GRIDS = (
    ("green-10", "jobs, image"),
    ("green-10", "jobs, profile"),
    ("green-1200", "jobs, image"),
    ("green-1200", "jobs, profile"),
)
"""Green datacenters with a decision at every tick, and their observation blocks."""


def measure_core(
    env_scenario: Scenario, replay_scenario: Scenario, seconds: float, seed: int
) -> Iterator[Figure]:
    """Measure all figures, one after the other.

    Args:
        env_scenario: scenario of the environments.
        replay_scenario: scenario whose job sequences heuristics schedule.
        seconds: time for each figure.
        seed: of episodes and actions.

    Raises:
        BadInputError: a workload cannot be opened, or has no sequence of 1,024 jobs.
    """
    yield decisions(env_scenario, seconds, seed)
    yield memory(env_scenario, seed)
    for name, blocks in GRIDS:
        yield decisions(grid_scenario(name, blocks), seconds, seed)
    replays, units = sequences(replay_scenario, seed)
    name = _workload_name(replay_scenario)
    for policy, backfill in REPLAYS:
        yield jobs_replayed(name, replays, units, policy, backfill, seconds)
    small = crowded(256, 1_000, seconds, seed)
    yield Figure("decisions_per_s", SMALL, small)
    for case, procs, queued in CROWDED:
        value = crowded(procs, queued, seconds, seed)
        yield Figure("decisions_per_s", case, value, against=SMALL, ratio=value / small)


def sequences(scenario: Scenario, seed: int) -> tuple[list[JobTable], list[int]]:
    """Draw sequences of jobs of a scenario; these, and the units of its cluster by resource."""
    rng = np.random.default_rng(seed)
    source = _opened(scenario.model_copy(update={"episode": EpisodeSettings(jobs=JOBS)}))
    drawn = [source.training(rng).jobs for _ in range(SEQUENCES)]
    return drawn, source.cluster.units


def _opened(scenario: Scenario) -> Source:
    """The source of episodes, which must be long enough."""
    try:
        source = open_source(scenario)
        source.training(np.random.default_rng(0))
    except BadInputError as error:
        if "episode.jobs" not in error.remedy:
            raise
        raise BadInputError(error.where, error.problem, "measure on a longer trace") from None
    return source


def grid_scenario(name: str, blocks: str) -> Scenario:
    """A green datacenter in which every tick is a step."""
    return load_scenario(
        name,
        [f"observation.blocks=[{blocks}]", "decision.time_rule=tick", "decision.skip_forced=false"],
    )


def case_of(scenario: Scenario) -> str:
    """Name of a scenario in figures of decisions."""
    rule, observed = scenario.decision, scenario.observation.blocks
    return f"{scenario.name} {' '.join(observed) if rule.horizon else rule.time_rule} w{rule.window}"


def _with_episodes(scenario: Scenario) -> Scenario:
    """Set the episode length to `JOBS`, unless ticks end the episodes."""
    if scenario.decision.tick_driven:
        return scenario
    return scenario.model_copy(update={"episode": EpisodeSettings(jobs=JOBS)})


def memory(scenario: Scenario, seed: int) -> Figure:
    """Bytes of an environment with a loaded episode: state, jobs and observation, as allocated."""
    scenario = _with_episodes(scenario)
    source = _opened(scenario)
    episode = source.training(np.random.default_rng(seed))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sim = VectorSimulator(scenario, source.cluster.units, ENVS, source.max_jobs, draw_images=True)
        for env in range(ENVS):
            sim.load(env, episode.jobs, power=episode.power)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return Figure("bytes_per_environment", case_of(scenario), held / ENVS, unit="B")


def drawn_episodes(scenario: Scenario, seed: int) -> tuple[Scenario, Source, list[Episode]]:
    """The scenario with episodes of a length to measure, their source, and some of them."""
    scenario = _with_episodes(scenario)
    source, rng = _opened(scenario), np.random.default_rng(seed)
    return scenario, source, [source.training(rng) for _ in range(SEQUENCES)]


def decisions(scenario: Scenario, seconds: float, seed: int) -> Figure:
    """Random legal decisions of a vector of environments, observations and episode loads included."""
    scenario, source, episodes = drawn_episodes(scenario, seed)
    sim = VectorSimulator(scenario, source.cluster.units, ENVS, source.max_jobs, draw_images=True)
    actions = np.zeros(ENVS, np.int64)
    loaded = 0

    def load(env: int) -> None:
        nonlocal loaded
        episode = episodes[loaded % len(episodes)]
        sim.load(env, episode.jobs, power=episode.power)
        loaded += 1

    def steps() -> int:
        """Take 256 steps: reading the clock costs nothing beside them."""
        decisions_made = 0
        for _ in range(256):
            choose(sim.mask, actions)
            sim.step(actions)
            decisions_made += ENVS
            ended = sim.terminated | sim.truncated
            if ended.any():
                for env in np.flatnonzero(ended).tolist():
                    load(env)
        return decisions_made

    for env in range(ENVS):
        load(env)
    start_choosing(seed)
    steps()  # compiles
    return Figure("decisions_per_s", case_of(scenario), rate(steps, seconds))


def jobs_replayed(
    name: str,
    episodes: Sequence[JobTable],
    units: Sequence[int],
    policy: str,
    backfill: str,
    seconds: float,
) -> Figure:
    """Jobs per second that a heuristic schedules, loading included; the median of repeated runs."""
    replayer = Replayer(len(episodes), JOBS, units)
    jobs = sum(map(len, episodes))

    def replay() -> int:
        replayer.run(episodes, policy, backfill)
        return jobs

    replay()  # compiles
    return Figure("jobs_per_s", f"{name} {policy} {backfill}", rate(replay, seconds))


def _workload_name(scenario: Scenario) -> str:
    workload = scenario.workload
    if isinstance(workload, SwfWorkload):
        return workload.file.name.removesuffix(".gz").removesuffix(".swf")
    return scenario.name


def crowded(procs: int, queued: int, seconds: float, seed: int) -> float:
    """Decisions per second on a machine full of small jobs, with a queue of constant length.

    Loading the episodes and filling the machine is not measured.

    Args:
        procs: processors of the machine.
        queued: waiting jobs.
        seconds: time to measure, at least.
        seed: of jobs and actions.
    """
    rng = np.random.default_rng(seed)
    running = procs * 2 // 9  # of 4.5 units on average
    count = running + queued + CROWDED_STEPS
    interval = max(1, 50_500 // running)  # ticks; about as many jobs arrive as end
    later = np.arange(CROWDED_STEPS) * interval
    jobs = JobTable.build(
        submit=np.concatenate([np.zeros(running + queued), later]),
        runtime=rng.integers(1_000, 100_000, count),
        demand=rng.integers(1, 9, count),
    )
    scenario = Scenario(workload=LublinWorkload(kind="lublin"))
    sim = VectorSimulator(scenario, [procs], CROWDED_ENVS, count)
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


def rate(work: Callable[[], int], seconds: float) -> float:
    """Median speed of repeated work, per second; it runs at least three times.

    Args:
        work: returns how much it did.
        seconds: time to measure.
    """
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
        remaining = np.random.randint(mask[i].sum())
        for action in range(mask.shape[1]):
            if mask[i, action]:
                if remaining == 0:
                    actions[i] = action
                    break
                remaining -= 1
