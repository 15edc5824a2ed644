"""Policies with a memory: sequences as single steps, in play, in a learner's batch and in whole trainings."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.minibatch_utils import ShardEpisodesIterator

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.history import record
from rlsched.evaluate.play import play
from rlsched.evaluate.policies import LearnedPolicies
from rlsched.learn.acting import NetworkActor
from rlsched.learn.config.sections import Network, WarmStart
from rlsched.learn.config.training import make_config
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.networks.recurrent import RecurrentPolicy, Remembered, by_itself
from rlsched.learn.policy import NetworkPolicy
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.learn.warm_start import demonstrate
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

from .conftest import TINY
from .states import made_up, met

UNITS, TOGETHER = 12, 10
REMEMBERS = (f"network.lstm={UNITS}", f"network.lstm_steps={TOGETHER}", "network.hidden=[16]")
MODULE = "default_policy"


@pytest.fixture(scope="module")
def brief() -> Scenario:
    """Episodes that end several times in a fragment."""
    return scenario.load("green-10", ["episode.max_ticks=14", "decision.time_rule=smdp"])


def layout_of(simulated: Scenario) -> Layout:
    return Layout.of(simulated.observation.public, simulated.decision, len(simulated.cluster.resources))


@torch.no_grad()
def awake(net: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The same where what is remembered counts, with weights as of a policy that has learned for long."""
    assert isinstance(net, RecurrentPolicy)
    generator = torch.Generator().manual_seed(seed)
    for name, weights in net.named_parameters():
        if weights.dim() == 2 and "linear" not in name:
            scale = 6.0 if "recalled" in name else 2.0
            weights.normal_(0.0, scale / weights.shape[1] ** 0.5, generator=generator)
    net.lstm.bias_hh_l0[net.units : 2 * net.units] = 4.0  # forgets slowly
    return net


def recurrent(simulated: Scenario, kind: str = "job_scorer") -> RecurrentPolicy:
    torch.manual_seed(0)
    network = Network(kind=kind, hidden=(16,), lstm=UNITS)
    net = awake(build_policy(layout_of(simulated), network))
    assert isinstance(net, RecurrentPolicy)
    return net


def policy_of(simulated: Scenario) -> NetworkPolicy:
    network = Network(hidden=(16,), lstm=UNITS)
    return NetworkPolicy(simulated, network, recurrent(simulated), len(simulated.cluster.resources), {})


@pytest.mark.parametrize("kind", ["job_scorer", "mlp"])
def test_what_is_remembered_counts_in_these_tests(brief: Scenario, kind: str) -> None:
    """Or else they could not fail."""
    net = recurrent(brief, kind)
    vector, mask = met(brief)
    chosen = []
    for seed in range(2):
        torch.manual_seed(seed)
        before = Remembered(torch.randn(len(vector), UNITS).tanh(), torch.randn(len(vector), UNITS))
        logits, _ = net.step(vector, mask, before)
        chosen.append(logits.argmax(dim=1))
    several = mask.sum(dim=1) > 1
    assert (chosen[0] != chosen[1])[several].float().mean() > 0.1


@pytest.mark.parametrize("kind", ["job_scorer", "mlp"])
def test_sequences_are_steps_one_after_the_other(brief: Scenario, kind: str) -> None:
    net, lengths = recurrent(brief, kind), torch.tensor([5, 1, 9, 3])
    vector, mask = made_up(layout_of(brief), int(lengths.sum()))
    before = Remembered(torch.randn(4, UNITS), torch.randn(4, UNITS))
    with torch.no_grad():
        actual = net(vector, mask, before, lengths)
        row, wanted = 0, []
        for k, length in enumerate(lengths.tolist()):
            memory = Remembered(*(part[k : k + 1] for part in before))
            for _ in range(length):
                logits, memory = net.step(vector[row : row + 1], mask[row : row + 1], memory)
                wanted.append(logits)
                row += 1
    torch.testing.assert_close(actual, torch.cat(wanted), rtol=1e-4, atol=1e-3)
    assert ((actual > torch.finfo(torch.float32).min) == (mask > 0.5)).all()
    second = net(vector, mask, Remembered(before.hidden + 1, before.cell), lengths)
    assert not torch.equal(second, actual)


@pytest.mark.parametrize("kind", ["job_scorer", "mlp"])
def test_gradients_are_those_of_steps_one_after_the_other(brief: Scenario, kind: str) -> None:
    """Through the whole sequence, into what encodes the state."""
    net, lengths = recurrent(brief, kind), torch.tensor([4, 1, 7])
    vector, mask = made_up(layout_of(brief), int(lengths.sum()))
    actual, wanted = [], []
    for gradients, unrolled in ((actual, False), (wanted, True)):
        net.zero_grad()
        if unrolled:
            value = []
            for k, rows in enumerate(torch.arange(len(vector)).split(lengths.tolist())):
                memory = Remembered(*(part[k : k + 1] for part in net.begin(3)))
                for row in rows.tolist():
                    logits, memory = net.step(vector[row : row + 1], mask[row : row + 1], memory)
                    value.append(logits)
            logits = torch.cat(value)
        else:
            logits = net(vector, mask, net.begin(3), lengths)
        torch.autograd.backward(logits.log_softmax(1).where(mask > 0.5, 0.0).square().sum())
        gradients += [weights.grad.clone() for weights in net.parameters() if weights.grad is not None]
    assert len(actual) == len(wanted) > 4
    largest = max(float(second.abs().max()) for second in wanted)
    for item, second in zip(actual, wanted, strict=True):
        torch.testing.assert_close(item, second, rtol=1e-3, atol=1e-5 * largest)


@pytest.mark.parametrize("kind", ["job_scorer", "mlp"])
def test_at_first_nothing_of_it_counts(brief: Scenario, kind: str) -> None:
    net = build_policy(layout_of(brief), Network(kind=kind, hidden=(16,), lstm=UNITS))
    assert isinstance(net, RecurrentPolicy)
    vector, mask = made_up(layout_of(brief), 6)
    memory = Remembered(torch.randn(6, UNITS), torch.randn(6, UNITS))
    logits, then = net.step(vector, mask, memory)
    assert torch.equal(logits, by_itself(net)(vector, mask))
    assert not torch.equal(then.cell, memory.cell)
    loss = logits.where(mask > 0.5, 0.0).square().sum()
    torch.autograd.backward(loss)
    assert net.recalled.weight.grad is not None
    assert net.recalled.weight.grad.abs().sum() > 0, "and never will"


def test_a_player_remembers_each_episode_by_itself(brief: Scenario) -> None:
    policy = policy_of(brief)
    net: Any = policy.net
    vector, mask = made_up(layout_of(brief), 12)
    obs, legal = vector.numpy(), mask.numpy().astype(np.int8)
    player = policy.actor(3)
    words: dict[int, list[int]] = defaultdict(list)
    row = 0
    for envs in ([0, 1, 2], [2, 0], [1], [2, 1, 0], [0, 2]):
        if len(envs) == 3 and row:
            player.begin(1)
            words[1] = []
        rows = np.arange(row, row + len(envs))
        actual = player.probabilities(np.array(envs), obs[rows], legal[rows], sample=True)
        for k, env in enumerate(envs):
            words[env].append(row + k)
            recorded = words[env]
            lengths = torch.tensor([len(recorded)])
            with torch.no_grad():
                logits = net(vector[recorded], mask[recorded], net.begin(1), lengths)[-1]
            np.testing.assert_allclose(actual[k], logits.double().softmax(0).numpy(), atol=1e-5)
        row += len(envs)
    fresh = policy.actor(1)
    only = np.zeros(1, np.int64)
    assert fresh.act(only, obs[:1], legal[:1])[0] == policy.actor(5).act(only + 4, obs[:1], legal[:1])[0]


def test_episodes_go_the_same_alone_and_side_by_side(brief: Scenario) -> None:
    longer = brief.model_copy(update={"episode": brief.episode.model_copy(update={"max_ticks": 40})})
    policy, feed = policy_of(longer), EpisodeFeed(longer)
    episodes = [feed.evaluation(k, seed=0) for k in range(24)]
    together = play(longer.public, feed.units, episodes, policy, batch=5)
    for item, episode in zip(together, episodes, strict=True):
        (alone,) = play(longer.public, feed.units, [episode], policy)
        assert (item.start == alone.start).all()


@pytest.mark.parametrize(
    "rules",
    [
        ["decision.time_rule=smdp"],
        ["decision.time_rule=smdp", "decision.skip_forced=false"],
        ["decision.time_rule=tick", "decision.skip_forced=false"],
    ],
)
def test_what_is_drawn_is_what_was_played(rules: list[str]) -> None:
    """Who remembers is asked in the same states, forced ones included, or else decides otherwise later."""
    simulated = scenario.load("green-10", ["episode.max_ticks=40", *rules])
    policy, feed = policy_of(simulated), EpisodeFeed(simulated)
    compared = LearnedPolicies("it", policy, policy.scenario)
    for k in range(12):
        episode = feed.evaluation(k, seed=0)
        (plain,) = compared.run([episode], feed.units, lambda _: None)
        np.testing.assert_array_equal(record(compared, episode, feed.units).played.start, plain.start)


def test_a_teacher_remembers_nothing_of_other_episodes(
    brief: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy_of(brief).save(tmp_path / "teacher")
    started: list[int] = []
    begin = NetworkActor.begin

    def counted(self: NetworkActor, env: int) -> None:
        started.append(env)
        begin(self, env)

    monkeypatch.setattr(NetworkActor, "begin", counted)
    warm = WarmStart(teacher=str(tmp_path / "teacher"), decisions=2000)
    demonstrate(EpisodeFeed(brief), warm, np.random.default_rng(0))
    assert len(started) > 2 * len(set(started)) > 100


def test_decisions_by_themselves_are_refused(brief: Scenario) -> None:
    vector, mask = made_up(layout_of(brief), 2)
    with pytest.raises(TypeError, match="use an actor"):
        policy_of(brief).act(vector.numpy(), mask.numpy().astype(np.int8))


def played(simulated: Scenario, *reported: str) -> tuple[BatchedEnvRunner, Any]:
    """A runner, and a learner with the same weights of which the memory counts."""
    words = [*TINY, *REMEMBERS, *reported]
    config = build_config(
        simulated, make_config({}, "test", words).resolve(simulated), len(simulated.cluster.resources)
    )
    runner = BatchedEnvRunner(config=config)
    learner = config.build_learner(env=None, spaces=runner.get_spaces())
    module: Any = learner.module[MODULE]
    awake(module.policy)
    runner.module.load_state_dict(module.state_dict())
    return runner, learner


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_learner_finds_the_chances_that_were_played(brief: Scenario, shards: int) -> None:
    """Over fragments, ends of episodes and cuts between learners; only gradients end with a sequence."""
    runner, learner = played(brief)
    module: Any = learner.module[MODULE]
    for _ in range(3):
        episodes = runner.sample()
        for shard in ShardEpisodesIterator(list(episodes), shards, len_lookback_buffer=1):
            batches = learner._create_iterator_if_necessary(
                training_data=TrainingData(episodes=shard), num_epochs=1, minibatch_size=64
            )
            rows = 0
            for batch in batches:
                item = batch.policy_batches[MODULE]
                with torch.no_grad():
                    logits = module.forward_train(item)[Columns.ACTION_DIST_INPUTS]
                logp = logits.log_softmax(1).gather(1, item[Columns.ACTIONS].unsqueeze(1)).squeeze(1)
                torch.testing.assert_close(logp, item[Columns.ACTION_LOGP], atol=2e-4, rtol=1e-4)
                assert item[Columns.SEQ_LENS].max() <= TOGETHER
                rows += len(logp)
            assert rows == sum(map(len, shard))


@pytest.mark.slow
def test_what_is_remembered_is_learned(brief: Scenario) -> None:
    runner, learner = played(brief)
    before = {name: value.clone() for name, value in learner.module[MODULE].policy.named_parameters()}
    episodes = runner.sample()
    learner.update(
        training_data=TrainingData(episodes=episodes), timesteps={}, num_epochs=2, minibatch_size=64
    )
    after = dict(learner.module[MODULE].policy.named_parameters())
    assert all(not torch.equal(after[name], value) for name, value in before.items() if "lstm" in name)


def test_without_a_memory_there_are_no_sequences(brief: Scenario) -> None:
    config = build_config(brief, make_config({}, "test", TINY).resolve(brief), 2)
    runner = BatchedEnvRunner(config=config)
    learner: Any = config.build_learner(env=None, spaces=runner.get_spaces())
    batches = learner._create_iterator_if_necessary(training_data=TrainingData(episodes=runner.sample()))
    assert batches.sequences is None


def test_a_priority_function_cannot_remember(brief: Scenario) -> None:
    with pytest.raises(BadInputError, match="not supported by network\\.kind=priority"):
        build_policy(layout_of(brief), Network(kind="priority", lstm=4))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("ray_address")
def test_others_play_and_learn(brief: Scenario) -> None:
    """A remote runner and two learners: they stay alike, and what is remembered is learned."""
    words = [*TINY, *REMEMBERS, "sampling.runners=1", "learners=2"]
    engine = RllibEngine(make_config({}, "test", words).resolve(brief), EpisodeFeed(brief), 0)
    try:
        before = engine.learned()["lstm.weight_hh_l0"].clone()
        for _ in range(2):
            engine.iterate()
        assert not torch.equal(engine.learned()["lstm.weight_hh_l0"], before)

        def weights(learner: Any) -> Any:
            state = learner.module[MODULE].unwrapped().state_dict()
            return {name: value.cpu().numpy() for name, value in state.items()}

        algorithm: Any = engine.algorithm
        item, second = (reported.get() for reported in algorithm.learner_group.foreach_learner(weights))
        for name, value in item.items():
            np.testing.assert_array_equal(value, second[name])
    finally:
        engine.stop()
