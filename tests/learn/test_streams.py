"""Which episodes a runner draws: its own and no neighbour's, as RLlib builds and seeds runners."""

from __future__ import annotations

import pytest
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from rlsched.learn.config.training import make_config
from rlsched.learn.rllib.build import build_config
from rlsched.scenario import Scenario

from .conftest import TINY


def first_jobs(scenario: Scenario, seed: int, iteration: int, worker: int, replicas: int = 1) -> list[bytes]:
    settings = [*TINY, f"sampling.replicas={replicas}"]
    written = make_config({"seed": seed}, "test", settings)
    config = build_config(scenario, written.resolve(scenario), 1, iteration)
    runner = SingleAgentEnvRunner(config=config, worker_index=worker)
    runner.sample(num_timesteps=1)
    return [episode.jobs.submit.tobytes() for episode in runner.env.unwrapped.episodes]


@pytest.mark.filterwarnings("ignore:.*already in registry")
def test_seeds_runners_and_resumed_runs_share_no_episode(small: Scenario) -> None:
    settings = [(0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 0, 2), (0, 30, 0), (1, 30, 1)]
    drawn = [jobs for setting in settings for jobs in first_jobs(small, *setting)]
    assert len(set(drawn)) == len(drawn) == 8 * len(settings)
    assert first_jobs(small, 0, 30, 0) == drawn[32:40]


@pytest.mark.filterwarnings("ignore:.*already in registry")
def test_nor_do_groups_of_replicas(small: Scenario) -> None:
    settings = [(0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 30, 0)]
    drawn = [jobs for setting in settings for jobs in first_jobs(small, *setting, replicas=4)]
    assert len(set(drawn)) == len(drawn) / 4 == 2 * len(settings)
