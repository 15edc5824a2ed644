"""Pictures and texts of a cluster."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np
import pytest

from rlsched.envs.env import SchedulingEnv
from rlsched.envs.vector import SchedulingVectorEnv
from rlsched.scenario import Scenario
from rlsched.workloads.episodes import Episode
from tests.envs.examples import legal, one_job


def busy(scenario: Scenario, render_mode: str | None) -> SchedulingEnv:
    env = SchedulingEnv(scenario, render_mode=render_mode)
    _, info = env.reset(seed=0)
    for _ in range(40):
        _, _, done, _, info = env.step(int(info["action_mask"].argmax()))
        if done:
            _, info = env.reset()
    return env


def test_a_picture(small: Scenario) -> None:
    env = busy(small, "rgb_array")
    picture = env.render()
    assert picture.shape == (360, 640, 3)
    assert picture.dtype == np.uint8
    colours = np.unique(picture.reshape(-1, 3), axis=0)
    assert len(colours) >= 4  # paper, lines and jobs
    queue_panel, running_panel = picture[:, :160], picture[:, 164:]
    for panel, rows in ((queue_panel, env._vector.simulator.queue(0)), (running_panel, running(env))):
        assert (np.ptp(panel.reshape(-1, 3), axis=0) > 0).any() == bool(len(rows))
    env.step(int(env.action_masks().argmax()))
    assert not np.array_equal(env.render(), picture)


def running(env: SchedulingEnv) -> np.ndarray:
    jobs, starts = env._vector.episodes[0].jobs, env._vector.simulator.starts(0)
    return np.flatnonzero((starts >= 0) & (starts + jobs.runtime > env._vector.simulator.now[0]))


def test_a_text(small: Scenario) -> None:
    env = busy(small, "ansi")
    lines = env.render().split("\n")
    assert f"running {len(running(env))}, waiting {len(env._vector.simulator.queue(0))}" == lines[1]
    used = env._vector.simulator.units[0, 0] - env._vector.simulator.free[0, 0]
    assert f"{used} of {env._vector.simulator.units[0, 0]} in use" in lines[0]
    assert len(lines) == 4 + min(8, len(running(env))) + min(8, len(env._vector.simulator.queue(0)))


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_every_moment_can_be_rendered(small: Scenario, render_mode: str) -> None:
    """Also an empty cluster, an end, an episode without a decision."""
    env = SchedulingEnv(small, render_mode=render_mode)
    _, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(150):
        assert env.render() is not None
        _, _, done, _, info = env.step(int(legal(info["action_mask"][None], rng)[0]))
        if done:
            assert env.render() is not None
            _, info = env.reset()
    env.reset(options={"episodes": [Episode(one_job())]})
    assert env.render() is not None


def test_without_a_mode_nothing_is_rendered(model: Scenario) -> None:
    assert busy(model, None).render() is None


@pytest.mark.parametrize("method", [SchedulingVectorEnv.render, lambda envs: envs.step(np.zeros(2, int))])
def test_nothing_works_before_the_first_reset(model: Scenario, method: Callable[..., object]) -> None:
    envs = SchedulingVectorEnv(model, 2, render_mode="ansi")
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        method(envs)
