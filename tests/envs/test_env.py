"""The Gymnasium face: names, checkers, spaces, seeds, masks and rewards."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import combinations
from typing import Any, get_args

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from rlsched import scenario
from rlsched.envs.env import SchedulingEnv
from rlsched.envs.episodes import EpisodeFeed
from rlsched.envs.vector import SchedulingVectorEnv
from rlsched.jobs import JobTable
from rlsched.scenario import PRIVILEGED, ObservationBlock, Scenario, names
from rlsched.workloads.episodes import Episode
from tests.envs.examples import changed, legal

OF_HORIZONS = {"image", "profile", "coming", "supply"}
BLOCKS = tuple(name for name in get_args(ObservationBlock) if name not in OF_HORIZONS)
COMBINATIONS = [
    chosen
    for size in range(1, 5)
    for chosen in combinations(BLOCKS, size)
    if not PRIVILEGED.issuperset(chosen)
]


# names


@pytest.mark.parametrize("name", names())
def test_every_scenario_has_a_name(name: str) -> None:
    assert f"rlsched/{name}" in gymnasium.registry


def test_make() -> None:
    env = gymnasium.make("rlsched/lublin-256", render_mode="ansi")
    obs, info = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert obs["jobs"].shape == (128, 13)
    assert env.action_space.n == 129
    obs, reward, terminated, truncated, info = env.step(int(info["action_mask"].argmax()))
    assert env.observation_space.contains(obs)
    assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]
    assert isinstance(env.render(), str)
    assert env.unwrapped.action_masks().dtype == np.bool_
    assert (env.unwrapped.action_masks() == obs["action_mask"]).all()
    env.close()


def test_make_takes_another_scenario(trace: Scenario) -> None:
    env = gymnasium.make("rlsched/lublin-256", scenario=trace, flat=True)
    obs, info = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert env.unwrapped.scenario == EpisodeFeed(trace).scenario.public
    assert info == {}


def test_make_vec() -> None:
    envs = gymnasium.make_vec("rlsched/lublin-256", num_envs=3, vectorization_mode="vector_entry_point")
    assert isinstance(envs.unwrapped, SchedulingVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    obs, info = envs.reset(seed=4)
    assert envs.observation_space.contains(obs)
    assert obs["jobs"].shape == (3, 128, 13)
    obs, reward, terminated, truncated, _ = envs.step(info["action_mask"].argmax(axis=1))
    assert envs.observation_space.contains(obs)
    assert reward.shape == terminated.shape == truncated.shape == (3,)
    envs.close()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("flat", [False, True])
def test_gymnasium_finds_nothing_to_complain_about(small: Scenario, flat: bool) -> None:
    check_env(gymnasium.make("rlsched/lublin-256", scenario=small, flat=flat).unwrapped)


# spaces


@pytest.mark.parametrize("blocks", COMBINATIONS, ids="+".join)
def test_observations_stay_in_their_spaces(small: Scenario, blocks: tuple[str, ...]) -> None:
    """2,000 random steps each, over several episodes; flat and in blocks."""
    settings = changed(small, f"observation.blocks={list(blocks)}")
    public = [name for name in blocks if name not in PRIVILEGED]
    envs, flat = (SchedulingVectorEnv(settings, 8, flat=flat, privileged=True) for flat in (False, True))
    obs, info = envs.reset(seed=5)
    vector, _ = flat.reset(seed=5)
    rng, ends = np.random.default_rng(0), 0
    clock, fresh, ended = np.zeros(8), np.zeros(8, np.bool_), np.zeros(8, np.bool_)
    for _ in range(250):
        clock = np.where(fresh, 0, clock + info["elapsed"])
        assert envs.observation_space.contains(obs)
        assert flat.observation_space.contains(vector)
        assert set(obs) == {*public, "action_mask"}
        assert set(info["privileged"]) == set(blocks) - set(public)
        assert all(((ahead >= 0) & (ahead <= 1)).all() for ahead in info["privileged"].values())
        assert (obs["action_mask"] == info["action_mask"]).all()
        assert info["action_mask"].any(axis=1).all()
        assert np.isfinite(vector).all()
        parts = [obs[name].reshape(8, -1) for name in public]
        expected = np.concatenate([*parts, obs["action_mask"], clock[:, None]], axis=1)
        assert np.array_equal(vector, expected.astype(np.float32))
        actions = legal(info["action_mask"], rng)
        obs, reward, terminated, truncated, info = envs.step(actions)
        vector, *_ = flat.step(actions)
        assert np.isfinite(reward).all()
        fresh, ended = ended, terminated | truncated
        ends += int(ended.sum())
    assert ends > 8


def test_what_is_returned_is_not_overwritten(model: Scenario) -> None:
    envs = SchedulingVectorEnv(model, 2)
    obs, info = envs.reset(seed=0)
    before = {key: value.copy() for key, value in obs.items()}
    mask = info["action_mask"].copy()
    for _ in range(5):
        envs.step(envs.simulator.mask.argmax(axis=1))
    assert all(np.array_equal(obs[key], before[key]) for key in obs)
    assert np.array_equal(info["action_mask"], mask)


# seeds and resets


def test_environment_k_of_a_vector_is_the_single_one_of_seed_plus_k(small: Scenario) -> None:
    """Over several episodes each: NEXT_STEP shows the end, then the next beginning."""
    vector = SchedulingVectorEnv(small, 3)
    singles = [SchedulingEnv(small) for _ in range(3)]
    obs, info = vector.reset(seed=11)
    single_resets = [env.reset(seed=11 + k) for k, env in enumerate(singles)]
    rngs = [np.random.default_rng(k) for k in range(3)]
    ended, ends = [False] * 3, [0] * 3
    for _ in range(400):
        for k, (observed, about) in enumerate(single_resets):
            assert all(np.array_equal(obs[name][k], observed[name]) for name in observed)
            assert np.array_equal(info["action_mask"][k], about["action_mask"])
            assert info["elapsed"][k] == about["elapsed"]
        actions = [int(legal(info["action_mask"][[k]], rngs[k])[0]) for k in range(3)]
        obs, rewards, terminated, truncated, info = vector.step(np.array(actions))
        for k, env in enumerate(singles):
            if ended[k]:
                single_resets[k] = env.reset()
                assert rewards[k] == 0
                assert not terminated[k]
                assert not truncated[k]
                ended[k] = False
                continue
            observed, reward, done, cut, about = env.step(actions[k])
            single_resets[k] = observed, about
            assert (rewards[k], terminated[k], truncated[k]) == (reward, done, cut)
            assert {n: v[k] for n, v in info["reward_terms"].items()} == about["reward_terms"]
            ended[k] = done or cut
            if ended[k]:
                ends[k] += 1
                assert info["_metrics"][k]
                assert info["metrics"][k] == about["metrics"]
            elif "metrics" in info:
                assert not info["_metrics"][k]
                assert info["metrics"][k] is None
    assert min(ends) >= 3


def test_a_seed_is_a_seed(small: Scenario) -> None:
    def play(env: SchedulingEnv, **reset: Any) -> list[bytes]:
        obs, info = env.reset(**reset)
        observed, rng = [obs["jobs"].tobytes()], np.random.default_rng(0)
        for _ in range(100):
            obs, reward, done, cut, info = env.step(int(legal(info["action_mask"][None], rng)[0]))
            observed += [obs["jobs"].tobytes(), obs["queue"].tobytes(), np.float64(reward).tobytes()]
            if done or cut:
                obs, info = env.reset()
        return observed

    env = SchedulingEnv(small)
    first = play(env, seed=3)
    assert play(env) != first  # goes on with the stream
    assert play(env, seed=3) == first
    assert play(SchedulingEnv(small), seed=3) == first
    assert play(SchedulingEnv(small), seed=4) != first


def test_seeds_may_be_listed(model: Scenario) -> None:
    vector = SchedulingVectorEnv(model, 2)
    listed, _ = vector.reset(seed=[8, 7])
    listed = listed["jobs"].copy()
    counted, _ = vector.reset(seed=7)
    assert np.array_equal(listed[::-1], counted["jobs"])
    first = vector.episodes[0]
    vector.reset(seed=[7, None])
    assert np.array_equal(vector.episodes[0].jobs.submit, first.jobs.submit)


# rewards


@pytest.mark.parametrize("gamma", [1.0, 0.999])
def test_rewards_are_scaled_weighted_terms(small: Scenario, gamma: float) -> None:
    weights = {"bounded_slowdown": 1.0, "wait_time": 0.3, "utilization": 2.0, "throughput": 0.1}
    envs = SchedulingVectorEnv(changed(small, f"objective.reward={weights}", f"objective.gamma={gamma}"), 4)
    _, info = envs.reset(seed=2)
    rng, some = np.random.default_rng(2), 0.0
    for _ in range(300):
        scales = np.array([episode.scale for episode in envs.episodes])
        _, reward, *_, info = envs.step(legal(info["action_mask"], rng))
        assert info["reward_terms"].keys() == weights.keys()
        total = sum(weight * info["reward_terms"][name] for name, weight in weights.items())
        assert reward == pytest.approx(scales * total, rel=1e-12)
        some += np.abs(reward).sum()
    assert some > 0


def test_the_return_of_bounded_slowdown_is_the_metric(model: Scenario) -> None:
    """Undiscounted, with scale 1 and long jobs only: -sum of wait / runtime."""
    settings = changed(model, "objective={reward: {bounded_slowdown: 1.0}}", "decision.skip_forced=false")
    env = SchedulingEnv(settings)
    _, info = env.reset(seed=3)
    rng, total, done = np.random.default_rng(3), 0.0, False
    while not done:
        _, reward, done, _, info = env.step(int(legal(info["action_mask"][None], rng)[0]))
        total += reward
    jobs = env._vector.episodes[0].jobs
    wait = env._vector.simulator.starts(0) - jobs.submit
    assert total == pytest.approx(-(wait / np.maximum(jobs.runtime, 10)).sum(), rel=1e-9)


# illegal actions


@pytest.mark.parametrize("action", [1, 12, 13, 1000, -1])
def test_illegal_actions(model: Scenario, action: int) -> None:
    """Two jobs come, one of them does not fit beside the first: slot 1 is then empty, and so on."""
    jobs = JobTable.build(submit=[0, 0, 0], runtime=[9, 9, 9], demand=[200, 30, 100])
    episode = Episode(jobs)
    hold = model.model_copy(update={"decision": model.decision.model_copy(update={"action_rule": "hold"})})

    def make_env(on_illegal: Any) -> SchedulingEnv:
        env = SchedulingEnv(hold, on_illegal=on_illegal)
        env.reset(options={"episodes": [episode]})
        env.step(0)  # 200 start; 30 fit, 100 may be reserved
        _, _, done, _, info = env.step(1)  # reserve the 100 for tick 9, with 126 to spare: 30 may start
        assert not done
        assert np.flatnonzero(info["action_mask"]).tolist() == [0, 12]
        return env

    if action == 12:
        assert not make_env("raise").step(action)[4]["illegal"]
        return
    with pytest.raises(ValueError, match="illegal"):
        make_env("raise").step(action)
    forgiving, same = make_env("replace"), make_env("replace")
    *expected, info = same.step(0)  # the legal action with the lowest number
    assert not info["illegal"]
    *result, info = forgiving.step(action)
    assert info["illegal"]
    assert result[1:] == expected[1:]
    assert all(np.array_equal(result[0][name], expected[0][name]) for name in result[0])


def test_only_the_illegal_actions_of_a_vector_are_replaced(model: Scenario) -> None:
    envs, same = (SchedulingVectorEnv(model, 2) for _ in range(2))
    envs.reset(seed=[4, 4])
    _, info = same.reset(seed=[4, 4])
    first, last = (int(slot) for slot in np.flatnonzero(info["action_mask"][0])[[0, -1]])
    assert first < last
    *_, info = envs.step(np.array([13, last]))
    assert info["illegal"].tolist() == [True, False]
    same.step(np.array([first, last]))
    assert np.array_equal(envs.simulator.obs, same.simulator.obs)
    assert not np.array_equal(envs.simulator.obs[0], envs.simulator.obs[1])


# copies, and the end


@pytest.mark.parametrize("name", ["lublin-256", "green-10"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copied_environment_goes_on_alike(
    copied: Callable[[SchedulingEnv], SchedulingEnv], name: str
) -> None:
    """Into the next episode, too: its random stream is copied."""
    settings = ["episode.jobs=6"] if name == "lublin-256" else ["episode.max_ticks=12"]
    env = SchedulingEnv(scenario.load(name, settings))
    _, info = env.reset(seed=5)
    env.step(int(info["action_mask"].argmax()))
    restored = copied(env)
    over = False
    while not over:
        steps = [member.step(int(member.action_masks().argmax())) for member in (restored, env)]
        for (obs, *values), (same, *_) in (steps, steps[::-1]):
            np.testing.assert_equal(obs, same)
            over = values[1] or values[2]
        assert steps[0][1:4] == steps[1][1:4]
    (obs, _), (same, _) = restored.reset(), env.reset()
    np.testing.assert_equal(obs, same)


def test_after_the_end_of_an_episode_comes_a_reset() -> None:
    env = SchedulingEnv(scenario.load("lublin-256", ["episode.jobs=4"]))
    env.reset(seed=0)
    over = False
    while not over:
        *_, terminated, truncated, _ = env.step(int(env.action_masks().argmax()))
        over = terminated or truncated
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(0)
    env.reset()
    env.step(int(env.action_masks().argmax()))
