"""How episodes end and the next ones begin."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.envs.env import SchedulingEnv
from rlsched.envs.vector import SchedulingVectorEnv
from rlsched.scenario import Scenario
from rlsched.sim.metrics import Played, job_metrics
from rlsched.workloads.episodes import Episode
from tests.envs.examples import changed, legal, one_job


def test_the_step_after_an_end_begins_the_next_episode_whatever_the_action(model: Scenario) -> None:
    envs = SchedulingVectorEnv(model, 1, on_illegal="raise")
    _, info = envs.reset(seed=0)
    rng = np.random.default_rng(1)
    ended = np.array([False])
    for _ in range(500):
        begins = ended
        before = envs.episodes[0]
        action = np.array([0]) if begins[0] else legal(info["action_mask"], rng)  # 0 is illegal at an end
        _, reward, terminated, truncated, info = envs.step(action)
        ended = terminated | truncated
        assert (envs.episodes[0] is not before) == begins[0]
        if begins[0]:
            assert reward[0] == info["elapsed"][0] == 0
            assert not any(terms.any() for terms in info["reward_terms"].values())
            assert not info["illegal"].any()
        if ended[0]:
            assert info["action_mask"][0].tolist() == [0] * 12 + [1]
            played = Played.of_starts(before.jobs, envs.simulator.starts(0))
            expected = job_metrics(played, envs.feed.units, 1)
            assert info["metrics"][0] == expected
        else:
            assert "metrics" not in info


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("jobs", [1, 5])
def test_an_episode_without_a_decision_ends_with_its_first_step(
    model: Scenario, jobs: int, flat: bool
) -> None:
    commit = model.model_copy(
        update={"decision": model.decision.model_copy(update={"action_rule": "commit"})}
    )
    env = SchedulingEnv(commit, flat=flat, on_illegal="raise")
    obs, _ = env.reset(seed=0, options={"episodes": [Episode(one_job(jobs))]})
    assert env.observation_space.contains(obs)
    assert env.action_masks().tolist() == [False] * 12 + [True]
    obs, reward, terminated, truncated, info = env.step(12)
    assert env.observation_space.contains(obs)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["metrics"]["completion_ratio"] == 1.0
    assert info["metrics"]["wait"] == 0.0
    _, info = env.reset()
    assert len(env._vector.episodes[0].jobs) == 40


def test_episodes_without_a_decision_within_a_vector(model: Scenario) -> None:
    """One of two is over at once: its end is told once, and the other does not notice."""
    envs = SchedulingVectorEnv(model, 2)
    usual = envs.feed.training(np.random.default_rng(0))
    envs.reset(seed=0, options={"episodes": [usual, Episode(one_job())]})
    records = []
    for _ in range(4):
        _, _, terminated, _, info = envs.step(envs.simulator.mask.argmax(axis=1))
        records.append(bool(terminated[1]))
        assert bool(info.get("_metrics", np.zeros(2))[1]) == bool(terminated[1])
        assert not terminated[0]
    assert records[:2] == [True, False]


def test_given_episodes_are_played(small: Scenario) -> None:
    env = SchedulingEnv(small)
    episode = env._vector.feed.evaluation(3, seed=9)
    env.reset(seed=1, options={"episodes": [episode]})
    assert env._vector.episodes == [episode]


@pytest.mark.parametrize("max_ticks", [1, 500])
def test_an_end_by_ticks_is_a_truncation(model: Scenario, max_ticks: int) -> None:
    cut = changed(model, f"episode={{jobs: 40, end: max_ticks, max_ticks: {max_ticks}}}")
    envs = SchedulingVectorEnv(cut, 4)
    _, info = envs.reset(seed=0)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(50):
        _, _, terminated, truncated, info = envs.step(legal(info["action_mask"], rng))
        assert not terminated.any()
        ends += int(truncated.sum())
    assert ends >= 4
