"""Replicas: which episodes they play, how they go on from one state, and what a runner says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.learn.config.training import make_config
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.learn.rllib.sampling import SHARED, TrainingVectorEnv
from rlsched.scenario import Scenario

from .conftest import TINY

ENVS, REPLICAS = 8, 4


@pytest.fixture(params=["lublin-256", "green-10"])
def simulated(request: pytest.FixtureRequest) -> Scenario:
    """Short episodes, without a horizon and with one."""
    short = {"lublin-256": ["episode.jobs=40"], "green-10": ["episode.max_ticks=60"]}
    return scenario.load(request.param, short[request.param])


def clusters(simulated: Scenario, replicas: int = REPLICAS) -> TrainingVectorEnv:
    context = {
        "scenario": simulated.model_dump(mode="json"),
        "num_envs": ENVS,
        "stream": (0, 0),
        "reward_scale": 1.0,
        "replicas": replicas,
    }
    made = TrainingVectorEnv(context)
    made.reset(seed=3)
    return made


def legal(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.array([rng.choice(np.flatnonzero(row)) for row in mask])


def play(envs: TrainingVectorEnv, steps: int, rng: np.random.Generator) -> None:
    """Any legal actions; what has ended begins again at once, as a runner does it."""
    for _ in range(steps):
        _, _, terminated, truncated, _ = envs.step(legal(envs.simulator.mask, rng))
        if (terminated | truncated).any():
            envs.reset(options={"reset_mask": terminated | truncated})


def test_a_group_plays_the_same_episodes_in_the_same_order(simulated: Scenario) -> None:
    envs = clusters(simulated)
    rng = np.random.default_rng(0)
    played: dict[int, bytes] = {}
    for _ in range(300):
        for k in range(ENVS):
            jobs = envs.episodes[k].jobs.submit.tobytes() + envs.episodes[k].jobs.runtime.tobytes()
            assert played.setdefault(int(envs.shared[k]), jobs) == jobs
        play(envs, 1, rng)
    assert len(set(played.values())) == len(played) > 4, "groups have episodes of their own"


def test_first_episodes_are_of_different_lengths_where_jobs_end_them() -> None:
    envs = clusters(scenario.load("lublin-256", ["episode.jobs=40"]))
    assert [len(episode.jobs) for episode in envs.episodes] == [20] * REPLICAS + [40] * REPLICAS
    play(envs, 200, np.random.default_rng(1))
    assert {len(episode.jobs) for episode in envs.episodes} == {40}


def test_replicas_go_on_from_one_state_as_that_would(simulated: Scenario) -> None:
    """What is copied goes on, action by action, as what it was copied from."""
    envs = clusters(simulated)
    rng = np.random.default_rng(2)
    play(envs, 25, rng)
    before = envs.simulator.obs.copy()
    source = envs.synchronise()
    assert ((source // REPLICAS) == np.arange(ENVS) // REPLICAS).all()
    np.testing.assert_array_equal(envs.simulator.obs, before[source])
    assert (source[:REPLICAS] == source[0]).all()
    for _ in range(60):
        mask = envs.simulator.mask
        np.testing.assert_array_equal(mask, mask[source])
        actions = legal(mask, rng)[source]
        obs, reward, terminated, truncated, _ = envs.step(actions)
        for column in (obs, reward, terminated, truncated, envs.shared):
            np.testing.assert_array_equal(np.asarray(column), np.asarray(column)[source])
        if (terminated | truncated).any():
            envs.reset(options={"reset_mask": terminated | truncated})
    assert [episode.jobs.submit.tobytes() for episode in envs.episodes] == [
        envs.episodes[k].jobs.submit.tobytes() for k in source
    ]


def test_they_differ_by_their_actions_alone(simulated: Scenario) -> None:
    envs = clusters(simulated)
    play(envs, 25, np.random.default_rng(4))
    envs.synchronise()
    play(envs, 10, np.random.default_rng(5))
    group = envs.simulator.obs[:REPLICAS]
    assert any((group[0] != second).any() for second in group[1:])


def runner_of(simulated: Scenario, *settings: str) -> BatchedEnvRunner:
    units = len(simulated.cluster.resources)
    config = make_config({}, "test", [*TINY, *settings])
    return BatchedEnvRunner(config=build_config(simulated, config.resolve(simulated), units))


def test_pieces_say_which_episode_they_share(simulated: Scenario) -> None:
    runner = runner_of(simulated)
    for _ in range(3):
        first: dict[int, set[bytes]] = {}
        for piece in runner.sample(num_timesteps=8 * 32):
            shared = piece.get_extra_model_outputs(SHARED)
            assert (shared == shared[0]).all()
            first.setdefault(int(shared[0]), set()).add(piece.get_observations(0).tobytes())
        counts = [len(states) for states in first.values()]
        assert min(counts) == 1, "all replicas begin a fragment in one state"


def test_a_runner_reports_every_episode_that_ends(
    simulated: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each; pieces that end have ids of their own, though replicas take over each other's state."""
    runner = runner_of(simulated, "sampling.fragment=64", "ppo.fragment=64")
    reported: list[int] = []
    finish: Any = runner._finish

    def listen(ongoing: Any, env: int, metrics: Any, limited: Any) -> None:
        reported.append(int(ongoing.steps[env]))
        finish(ongoing, env, metrics, limited)

    monkeypatch.setattr(runner, "_finish", listen)
    ids: list[str] = []
    for _ in range(6):
        ids += [piece.id_ for piece in runner.sample(num_timesteps=8 * 64) if piece.is_done]
    assert len(ids) == len(set(ids)) == len(reported) > 8


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (["sampling.replicas=3"], "sampling.replicas: value 3 does not divide envs_per_runner 8"),
        (["sampling.replicas=2", "algo=dqn"], "sampling.replicas: value 2: not supported by algo=dqn"),
        (
            ["sampling.replicas=2", "sampling.batched=false"],
            "sampling.replicas: value 2: not supported by sampling.batched=false",
        ),
    ],
)
def test_replicas_that_cannot_be(settings: list[str], line: str) -> None:
    with pytest.raises(BadInputError) as caught:
        make_config({}, "test", [*TINY, *settings])
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "replicas"),
    [([], 8), (["sampling.envs_per_runner=4"], 1), (["algo=dqn"], 1), (["sampling.batched=false"], 1)],
)
def test_how_many_there_are_where_nothing_is_said(settings: list[str], replicas: int) -> None:
    config = make_config({}, "test", [*TINY, *settings]).resolve(scenario.load("lublin-256"))
    assert config.sampling.replicas == replicas
