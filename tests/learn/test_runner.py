"""Fragments: whole, legal, played again step by step, and as RLlib's own runner and learners know them."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.connectors.common import AddStatesFromEpisodesToBatch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rlsched import scenario
from rlsched.learn.config.training import make_config
from rlsched.learn.rllib import runner as runner_of_learners
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.learn.rllib.sampling import REPORTED, TrainingVectorEnv
from rlsched.scenario import Scenario

from .conftest import TINY

ENVS, STEPS = 8, 32


@pytest.fixture(scope="module")
def brief() -> Scenario:
    """Episodes that end several times in a fragment, some terminated and some cut off by the clock."""
    return scenario.load("green-10", ["episode.max_ticks=14", "decision.time_rule=smdp"])


def config_of(simulated: Scenario, *settings: str) -> Any:
    units = len(simulated.cluster.resources)
    alone = "sampling.replicas=1"  # see test_replicas for others
    config = make_config({}, "test", [*TINY, alone, *settings]).resolve(simulated)
    return build_config(simulated, config, units)


def runner_of(simulated: Scenario, *settings: str) -> BatchedEnvRunner:
    config = config_of(simulated, *settings)
    assert config.env_runner_cls is BatchedEnvRunner
    return BatchedEnvRunner(config=config)


def by_id(fragments: list[list[SingleAgentEpisode]]) -> dict[str, list[SingleAgentEpisode]]:
    """The pieces of every episode, in order."""
    pieces: dict[str, list[SingleAgentEpisode]] = defaultdict(list)
    for fragment in fragments:
        for piece in fragment:
            pieces[piece.id_].append(piece)
    return pieces


def test_a_fragment_has_the_requested_decisions(brief: Scenario) -> None:
    runner = runner_of(brief)
    for _ in range(3):
        fragment = runner.sample()
        assert sum(map(len, fragment)) == ENVS * STEPS
        assert all(len(piece) > 0 for piece in fragment)
        assert all(piece.is_numpy for piece in fragment)
    assert sum(map(len, runner.sample(num_timesteps=ENVS * 5 - 3))) == ENVS * 5


def test_who_takes_the_place_of_another_plays_other_episodes_otherwise(
    brief: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, same = runner_of(brief).sample(), runner_of(brief).sample()
    monkeypatch.setattr(runner_of_learners, "is_restarted", lambda: True)
    second = runner_of(brief)
    replacement = second.sample()

    def begins(fragment: list[SingleAgentEpisode]) -> list[bytes]:
        return [item.get_observations(0).tobytes() for item in fragment]

    assert begins(first) == begins(same)
    assert not set(begins(first)) & set(begins(replacement))
    assert not np.isin(runner_of(brief).draws.random(100), second.draws.random(1000)).any()
    monkeypatch.undo()
    assert (runner_of(brief).draws.random(9) == runner_of(brief).draws.random(9)).all()


def test_pieces_fit_together(brief: Scenario) -> None:
    runner = runner_of(brief)
    episodes = by_id([runner.sample() for _ in range(4)])
    assert sum(len(pieces) > 1 for pieces in episodes.values()) >= ENVS  # some go on in the next fragment
    for pieces in episodes.values():
        assert pieces[0].t_started == 0
        for piece, following in pairwise(pieces):
            assert not piece.is_done
            assert following.t_started == piece.t_started + len(piece)
            assert (piece.get_observations(-1) == following.get_observations(0)).all()
    assert sum(pieces[-1].is_done for pieces in episodes.values()) > 2 * ENVS


def starting_with(obs: np.ndarray, episodes: dict[str, list[SingleAgentEpisode]]) -> str | None:
    """The first of the episodes that begins with an observation."""
    for key, pieces in episodes.items():
        if (pieces[0].get_observations(0) == obs).all():
            return key
    return None


@pytest.mark.parametrize("name", ["brief", "small"])
def test_played_again_step_by_step(name: str, request: pytest.FixtureRequest) -> None:
    """The same actions in fresh environments, of which Gymnasium's NEXT_STEP begins the episodes anew."""
    simulated: Scenario = request.getfixturevalue(name)
    runner = runner_of(simulated)
    episodes = by_id([runner.sample() for _ in range(6)])
    again = TrainingVectorEnv(runner.config.env_config | {"num_envs": ENVS, "worker_index": 0})
    obs, _ = again.reset(seed=0)
    first = np.asarray(obs)
    queue = {env: starting_with(first[env], episodes) for env in range(ENVS)}
    assert None not in queue.values()
    position = dict.fromkeys(episodes, 0)
    flat = {
        key: {
            "obs": np.concatenate([piece.get_observations()[:-1] for piece in pieces]),
            "actions": np.concatenate([piece.get_actions() for piece in pieces]),
            "rewards": np.concatenate([piece.get_rewards() for piece in pieces]),
        }
        for key, pieces in episodes.items()
    }
    compared = 0
    current = first
    starting = np.zeros(ENVS, np.bool_)
    while any(key is not None for key in queue.values()):
        actions = np.zeros(ENVS, np.int64)
        expected = {}
        for env, key in queue.items():
            actions[env] = current[env, -again.layout.num_actions - 1 : -1].argmax()
            if key is None or starting[env]:
                continue
            at = position[key]
            assert (flat[key]["obs"][at] == current[env]).all()
            actions[env], expected[env] = flat[key]["actions"][at], flat[key]["rewards"][at]
            position[key] += 1
        following, rewards, terminated, truncated, _ = again.step(actions)
        current = np.asarray(following)
        for env, reward in expected.items():
            assert np.float32(rewards[env]) == reward
            compared += 1
        for env in range(ENVS):
            key = queue[env]
            if key is None:
                continue
            if starting[env]:
                unplayed = {name: pieces for name, pieces in episodes.items() if position[name] == 0}
                queue[env] = starting_with(current[env], unplayed)
                starting[env] = False
            elif terminated[env] or truncated[env]:
                last = episodes[key][-1]
                assert (last.is_terminated, last.is_truncated) == (terminated[env], truncated[env])
                assert (last.get_observations(-1) == current[env]).all()
                assert position[key] == len(flat[key]["actions"])
                starting[env] = True
            elif position[key] == len(flat[key]["actions"]):
                assert (episodes[key][-1].get_observations(-1) == current[env]).all()
                queue[env] = None
    assert compared == sum(len(columns["actions"]) for columns in flat.values())


def test_actions_are_drawn_from_the_module(brief: Scenario) -> None:
    runner = runner_of(brief)
    for piece in runner.sample():
        obs = torch.from_numpy(piece.get_observations()[:-1])
        with torch.no_grad():
            logits = runner.module.forward_exploration({Columns.OBS: obs})[Columns.ACTION_DIST_INPUTS]
        actions = torch.from_numpy(piece.get_actions())
        logp = logits.log_softmax(1).gather(1, actions.unsqueeze(1)).squeeze(1)
        assert torch.isfinite(logp).all()  # legal, that is
        actual = torch.from_numpy(piece.get_extra_model_outputs(Columns.ACTION_LOGP))
        torch.testing.assert_close(actual, logp, atol=1e-4, rtol=1e-4)


def test_fragments_go_into_the_same_memory_unless_somebody_keeps_them(brief: Scenario) -> None:
    runner = runner_of(brief)
    saved = runner.sample()[0].get_observations()
    before = saved.copy()
    first = runner.sample()[0].get_observations().base
    assert first is not saved.base
    second = id(first)
    del first
    again = runner.sample()[0].get_observations()
    assert id(again.base) == second
    assert (saved == before).all()


def test_greedy_and_random_actions_are_legal_too(brief: Scenario) -> None:
    """The environment raises on an illegal one."""
    runner = runner_of(brief)
    greedy = runner.sample(explore=False)
    for piece in greedy:
        logits = runner.module.forward_inference(
            {Columns.OBS: torch.from_numpy(piece.get_observations()[:-1])}
        )[Columns.ACTION_DIST_INPUTS]
        assert (logits.argmax(1).numpy() == piece.get_actions()).all()
    assert sum(map(len, runner.sample(random_actions=True))) == ENVS * STEPS


def test_metrics_are_those_of_the_episodes_that_ended(brief: Scenario) -> None:
    runner = runner_of(brief)
    episodes = by_id([runner.sample() for _ in range(2)])
    metrics = runner.get_metrics()
    ended = [pieces for pieces in episodes.values() if pieces[-1].is_done]
    returns = [sum(piece.get_return() for piece in pieces) for pieces in ended]
    lengths = [sum(len(piece) for piece in pieces) for pieces in ended]
    assert len(ended) < 100  # which is how many are averaged over
    assert metrics["episode_return_mean"].peek() == pytest.approx(np.mean(returns), rel=1e-5)
    assert metrics["episode_len_mean"].peek() == pytest.approx(np.mean(lengths))
    assert metrics["num_episodes"].peek() == len(ended)
    assert metrics["num_env_steps_sampled"].peek() == 2 * ENVS * STEPS
    for name in REPORTED:
        assert np.isfinite(metrics[name].peek())


def test_other_runners_and_parts_of_a_run_draw_otherwise(brief: Scenario) -> None:
    config = config_of(brief)
    runners = [BatchedEnvRunner(config=config, worker_index=index) for index in (0, 0, 1)]
    first, same, second = ([piece.get_actions().tolist() for piece in runner.sample()] for runner in runners)
    assert first == same
    assert first != second


def test_weights_are_taken_over(brief: Scenario) -> None:
    runner, second = runner_of(brief), runner_of(brief)
    with torch.no_grad():
        for weights in second.module.parameters():
            weights.add_(torch.randn_like(weights))
    state = second.get_state(components="rl_module")
    runner.set_state({"rl_module": state["rl_module"], "weights_seq_no": 7})
    obs = torch.from_numpy(np.asarray(runner.clusters.reset(seed=0)[0]))
    for item, two in zip(runner.module.parameters(), second.module.parameters(), strict=True):
        assert (item == two).all()
    assert runner.get_state()["weights_seq_no"] == 7
    assert torch.isfinite(
        runner.module.forward_inference({Columns.OBS: obs})[Columns.ACTION_DIST_INPUTS]
    ).any()


def test_dqn_explores_as_its_schedule_says(brief: Scenario) -> None:
    runner = runner_of(brief, "algo=dqn", "dqn.epsilon=0.5", "dqn.final_epsilon=0.5")
    second, chosen = 0, 0
    for _ in range(8):
        for piece in runner.sample():
            obs = piece.get_observations()[:-1]
            batch = {Columns.OBS: torch.from_numpy(obs)}
            best = runner.module.forward_inference(batch)[Columns.ACTIONS].numpy()
            legal = obs[:, -runner.clusters.layout.num_actions - 1 : -1].sum(1)
            second += int((best != piece.get_actions()).sum())
            chosen += (0.5 * (1 - 1 / legal)).sum()
            assert Columns.ACTION_LOGP not in piece.extra_model_outputs
    assert second == pytest.approx(chosen, rel=0.15)


def test_whole_episodes_are_refused(brief: Scenario) -> None:
    with pytest.raises(ValueError, match="set batch_mode='truncate_episodes'"):
        runner_of(brief).sample(num_episodes=3)


def test_rllibs_runner_stays_selectable(brief: Scenario) -> None:
    config = config_of(brief, "sampling.batched=false")
    runner = SingleAgentEnvRunner(config=config)
    assert sum(map(len, runner.sample())) >= ENVS * STEPS
    assert config.env_runner_cls is not BatchedEnvRunner


class Counter(TorchRLModule):  # type: ignore[misc]
    """Remembers how many decisions an episode has had."""

    def setup(self) -> None:
        """Nothing to learn."""
        self.actions = self.action_space.n
        self.model_config = {"max_seq_len": 4}

    def get_initial_state(self) -> dict[str, np.ndarray]:
        """None so far."""
        return {"count": np.zeros(1, np.float32)}

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        mask = batch[Columns.OBS][..., -self.actions - 1 : -1]
        return {
            Columns.ACTION_DIST_INPUTS: torch.where(mask > 0.5, 0.0, -torch.inf),
            Columns.STATE_OUT: {"count": batch[Columns.STATE_IN]["count"] + 1},
        }


def test_states_of_recurrent_modules_go_with_their_episodes(brief: Scenario) -> None:
    runner = runner_of(brief)
    runner.module = Counter(
        observation_space=runner.clusters.single_observation_space,
        action_space=runner.clusters.single_action_space,
    )
    assert runner.module.is_stateful()
    fragments = [runner.sample() for _ in range(3)]
    for fragment in fragments:
        for piece in fragment:
            counted = piece.get_extra_model_outputs(Columns.STATE_OUT)["count"][:, 0]
            expected = piece.t_started + 1 + np.arange(len(piece))
            if piece.is_done:
                counted, expected = counted[:-1], expected[:-1]  # nobody needs the state after the end
            assert counted.tolist() == expected.tolist()
    batch = AddStatesFromEpisodesToBatch(as_learner_connector=True)(
        rl_module=runner.module, batch={}, episodes=fragments[-1], shared_data={}
    )
    for piece in fragments[-1]:
        (actual,) = batch[Columns.STATE_IN][(piece.id_,)]
        assert np.asarray(actual["count"])[:, 0].tolist() == [
            piece.t_started + t for t in range(0, len(piece), 4)
        ]
