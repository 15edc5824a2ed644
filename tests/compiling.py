"""Compiles what tests use of the simulator beside what `make setup` has compiled, two processes at a time.

numba keeps it on disk. Without this, workers that need the same code at the same time both compile it.
Run: `python -m tests.compiling`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from rlsched import scenario
from rlsched.envs.env import SchedulingEnv
from rlsched.sim.compat import replay_rlscheduler
from rlsched.sim.replay import replay
from rlsched.sim.simulator import VectorSimulator
from tests.strategies import random_jobs
from tests.strategies import scenario as without_horizon

ONE_RESOURCE = "cluster.resources=[{name: processors, units: 7}]"


def shipped() -> None:
    """What `make setup` has compiled, unless the core was changed since."""
    for name, resource in (("lublin-256", "processors"), ("green-10", "cpu")):
        env = SchedulingEnv(name)
        _, info = env.reset(seed=0)
        env.step(int(info["action_mask"].argmax()))
        assert env.scenario.cluster.resources[0].name == resource
    replay(random_jobs(random.Random(0), (4,), 6), (4,), "sjf", "easy")


def one_resource_with_a_horizon() -> None:
    """A step of a green datacenter."""
    env = SchedulingEnv(scenario.load("green-10", [ONE_RESOURCE, "episode.max_ticks=20"]))
    _, info = env.reset(seed=0)
    env.step(int(info["action_mask"].argmax()))


def several_resources() -> None:
    """A step and a replay of clusters with two and with three."""
    for units in ((4, 2), (4, 2, 3)):
        table = random_jobs(random.Random(0), units, 6)
        sim = VectorSimulator(without_horizon(num_resources=len(units)), units, 1, len(table))
        sim.load(0, table)
        sim.step(np.array([int(sim.mask[0].argmax())]))
        replay(table, units, "sjf", "easy")
    replay_rlscheduler(random_jobs(random.Random(0), (4,), 6), 4, "fcfs", True)


def decisions() -> None:
    """What a service decides about clusters with one resource and with two."""
    from rlsched.serve.api.requests import batch_of_one
    from rlsched.serve.artefact import example_request
    from rlsched.serve.decide.fallback import FallbackHeuristic
    from rlsched.serve.decide.inference import BatchInference
    from tests.serve.conftest import feed_of, untrained

    two_resources = "cluster.resources=[{name: cpu, units: 96}, {name: gpu, units: 4}]"
    for changes in ((), (two_resources, "workload={kind: mao}")):
        feed = feed_of("lublin-256", "decision.window=32", *changes)
        policy = untrained(feed.scenario)
        inference = BatchInference(policy, feed.units, FallbackHeuristic.named(None, policy.scenario), 4096)
        for batch in inference.batches([batch_of_one(example_request(policy))]):
            inference.by_policy(batch)
            inference.by_heuristic(batch)


TASKS: tuple[Callable[[], None], ...] = (shipped, one_resource_with_a_horizon, several_resources, decisions)


def main() -> None:
    """Compile all of it."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(task) for task in TASKS]:
            done.result()


if __name__ == "__main__":
    main()
