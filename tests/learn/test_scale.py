"""Rewards of a sensible size, whatever an objective counts in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.evaluate.costs import episode_cost
from rlsched.learn.config.training import make_config
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.sampling import TrainingVectorEnv
from rlsched.learn.rllib.scale import (
    EPISODES,
    LEAST_SPREAD,
    REFERENCES,
    STREAM,
    UNKNOWN,
    Returns,
    expected_returns,
    training_costs,
)
from rlsched.scenario import Scenario
from rlsched.scenario.terms import TERMS
from rlsched.sim.simulator import VectorSimulator

from .conftest import TINY


def feed_of(name: str, *settings: str) -> EpisodeFeed:
    return EpisodeFeed(scenario.load(name, settings))


def returns(feed: EpisodeFeed, seed: int) -> list[float]:
    """Of every decision of the same episodes, one episode after the other, summed up one by one."""
    rng = np.random.default_rng([seed, STREAM])
    episodes = [feed.training(rng) for _ in range(EPISODES)]
    sim = VectorSimulator(feed.scenario, feed.units, 1, feed.max_jobs)
    actual = []
    for episode in episodes:
        sim.load(0, episode.jobs, episode.scale, episode.power)
        steps = []
        while not (sim.terminated[0] or sim.truncated[0]):
            legal = np.flatnonzero(sim.mask[0])
            job = legal[0] < sim.layout.window
            sim.step(np.array([legal[0] if job else sim.layout.num_actions - 1]))
            steps.append((float(sim.reward[0]), int(sim.elapsed[0])))
        for k in range(len(steps)):
            total, weight = 0.0, 1.0
            for reward, ticks in steps[k:]:
                total += weight * reward
                weight *= feed.scenario.objective.gamma**ticks
            actual.append(total)
    return actual


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_returns_are_of_size_one(gamma: float) -> None:
    feed = feed_of("deeprm", f"objective.gamma={gamma}", "episode.jobs=12")
    expected = expected_returns(feed, 3)
    actual = np.array(returns(feed, 3)) * expected.scale
    assert np.sqrt((actual**2).mean()) == pytest.approx(1.0, rel=1e-6)
    assert actual.mean() == pytest.approx(expected.mean, rel=1e-6)
    assert expected_returns(feed, 3) == expected
    assert expected_returns(feed, 4) != expected


def test_the_unit_of_an_objective_does_not_matter() -> None:
    sizes = []
    for weight in (1.0, 1000.0):
        feed = feed_of("green-10", f"objective.reward={{running_value: {weight}}}", "episode.max_ticks=50")
        sizes.append(weight * expected_returns(feed, 0).scale)
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-6)


def test_what_a_baseline_has_scaled_stays() -> None:
    scaled = ("episode.jobs=64", "objective.baseline_exponent=1")
    assert expected_returns(feed_of("lublin-256", *scaled, "objective.costs={}"), 0) == UNKNOWN
    limited = feed_of("lublin-256", *scaled, "objective.costs={wait_time: '1.5:sjf'}")
    actual = expected_returns(limited, 0)
    assert replace(actual, constraints=()) == UNKNOWN
    (item,) = actual.constraints
    assert item.unit == item.limit, "what first come, first served costs is many times that of sjf"
    feed = feed_of("lublin-256", "episode.jobs=64", "objective.baseline=[]")
    assert expected_returns(feed, 0).scale < 1.0


@pytest.mark.parametrize("costs", ["{}", "{wait_time: '1.5:sjf'}"])
def test_a_baseline_that_is_not_taken_out_whole_has_a_mean_return_of_minus_one(costs: str) -> None:
    feed = feed_of("lublin-256", "episode.jobs=64", f"objective.costs={costs}")
    assert feed.scenario.objective.baseline_exponent == 0.5
    scale = expected_returns(feed, 7).scale
    rng = np.random.default_rng([7, STREAM])
    drawn = [feed.training(rng) for _ in range(REFERENCES)]
    lost = [
        scale * episode.scale * len(episode.jobs) * feed.baseline_slowdown(episode.jobs) for episode in drawn
    ]
    assert np.mean(lost) == pytest.approx(1.0, rel=1e-9)
    assert np.std(lost) > 0.2, "episodes with a large slowdown count for more"


def test_the_makespan_is_trained_on_as_idle_time() -> None:
    """Its sum over an episode is the makespan less the work of all jobs over the units."""
    feed = feed_of("lublin-256", "episode.jobs=64", "objective.gamma=1")
    episode = feed.training(np.random.default_rng(0))
    sim = VectorSimulator(feed.scenario, feed.units, 1, feed.max_jobs)
    sim.load(0, episode.jobs, episode.scale, episode.power)
    costs = [TERMS.index("makespan"), TERMS.index("wait_time")]
    total = np.zeros((1, 2))
    while not (sim.terminated | sim.truncated).all():
        sim.step(sim.mask.argmax(axis=1))
        total += training_costs(sim.terms, costs)
    played = sim.played(0, episode.jobs)
    work = float((episode.jobs.runtime * episode.jobs.demand[:, 0]).sum()) / feed.units[0]
    assert work > 0
    assert total[0, 0] == pytest.approx(episode_cost(feed.scenario, feed.units, "makespan", played) - work)
    assert total[0, 1] == pytest.approx(episode_cost(feed.scenario, feed.units, "wait_time", played))


def test_nothing_rewarded_is_nothing_scaled() -> None:
    feed = feed_of("green-10", "objective.reward={slowdown: 0}", "episode.max_ticks=20")
    assert expected_returns(feed, 0) == UNKNOWN


def test_the_environment_of_trainers_applies_it(small: Scenario) -> None:
    def rewards(scale: float) -> list[Any]:
        context = {
            "scenario": small.model_dump(mode="json"),
            "stream": [0],
            "reward_scale": scale,
            "num_envs": 4,
        }
        envs = TrainingVectorEnv(context)
        envs.reset(seed=0)
        return [envs.step(envs.simulator.mask.argmax(axis=1))[1] for _ in range(50)]

    plain = np.array(rewards(1.0))
    assert plain.any()
    assert np.array(rewards(0.25)) == pytest.approx(0.25 * plain)


def test_critics_begin_with_the_mean_return(small: Scenario) -> None:
    expected = Returns(1.0, -0.7)
    config = build_config(small, make_config({}, "test", TINY).resolve(small), 1, returns=expected)
    runner = SingleAgentEnvRunner(config=config)
    obs = torch.from_numpy(runner.env.reset(seed=0)[0])
    values = runner.module.unwrapped().compute_values({Columns.OBS: obs})
    assert ((values < -0.3) & (values > -1.6)).all(), "on a logarithmic scale"


def test_the_coming_block_has_its_mean_and_spread() -> None:
    """Its mean and spread over all decisions of the same episodes, met one by one."""
    feed = feed_of("green-10", "episode.max_ticks=200")
    reported = expected_returns(feed, 3).coming
    rng = np.random.default_rng([3, STREAM])
    episodes = [feed.training(rng) for _ in range(EPISODES)]
    sim = VectorSimulator(feed.scenario, feed.units, 1, feed.max_jobs)
    recorded = []
    for episode in episodes:
        sim.load(0, episode.jobs, episode.scale, episode.power)
        while not (sim.terminated[0] or sim.truncated[0]):
            recorded.append(sim.layout.view(sim.obs, "coming")[0].copy())
            legal = np.flatnonzero(sim.mask[0])
            job = legal[0] < sim.layout.window
            sim.step(np.array([legal[0] if job else sim.layout.num_actions - 1]))
    np.testing.assert_allclose(reported[0], np.mean(recorded, axis=0), rtol=1e-4)
    np.testing.assert_allclose(reported[1], np.std(recorded, axis=0) + LEAST_SPREAD, rtol=1e-4)
    assert expected_returns(feed_of("deeprm", "episode.jobs=12"), 3).coming == ((), ())
