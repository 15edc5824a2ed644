"""Warm start: demonstrations are what the teacher did, and a network learns them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network, WarmStart
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy
from rlsched.learn.warm_start import demonstrate, imitate
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout


@pytest.fixture(scope="module")
def short() -> Scenario:
    return scenario.load("green-10", ["episode.max_ticks=100"])


def layout_of(chosen: Scenario) -> Layout:
    return Layout.of(chosen.observation.public, chosen.decision, 2)


def test_an_order_is_shown_as_it_decides(short: Scenario) -> None:
    """Under `now` the order sjf takes the shortest legal job, wherever there is a choice."""
    demonstration = demonstrate(
        EpisodeFeed(short), WarmStart(teacher="sjf", decisions=3000), np.random.default_rng(0)
    )
    assert len(demonstration.obs) == len(demonstration.mask) == len(demonstration.action) >= 3000
    assert (demonstration.mask.sum(axis=1) > 1).all()
    layout = layout_of(short)
    duration = layout.view(demonstration.obs, "jobs")[..., layout.features("jobs").index("duration")]
    legal = demonstration.mask[:, : layout.window] == 1
    some = legal.any(axis=1)
    chosen = duration[np.flatnonzero(some), demonstration.action[some]]
    assert (chosen == np.where(legal, duration, np.inf).min(axis=1)[some]).all()
    assert (demonstration.action[~some] == layout.num_actions - 1).all()


def test_an_order_teaches_without_a_horizon_too(short: Scenario) -> None:
    queue = scenario.load("lublin-256", ["episode.jobs=64", "decision.window=32"])
    feed = EpisodeFeed(queue)
    demonstration = demonstrate(feed, WarmStart(teacher="sjf", decisions=500), np.random.default_rng(0))
    layout = Layout.of(queue.observation.public, queue.decision, 1)
    requested = layout.view(demonstration.obs, "jobs")[..., layout.features("jobs").index("requested")]
    legal = demonstration.mask[:, : layout.window] == 1
    assert legal.any(axis=1).all()  # under `commit` time passes without being asked
    chosen = requested[np.arange(len(requested)), demonstration.action]
    assert (chosen == np.where(legal, requested, np.inf).min(axis=1)).all()


def test_a_network_learns_its_teacher(short: Scenario) -> None:
    """From an order it does not know at all to agreeing nearly always, on decisions it never saw."""
    warm = WarmStart(teacher="sjf", decisions=20_000, epochs=5)
    feed = EpisodeFeed(short)
    recorded = demonstrate(feed, warm, np.random.default_rng(0))
    unseen = demonstrate(feed, WarmStart(teacher="sjf", decisions=3000), np.random.default_rng(1))
    torch.manual_seed(0)
    net = build_policy(layout_of(short), Network())
    agreement = []
    for epochs in (0, 1):
        if epochs:
            assert imitate(net, recorded, warm, seed=0) > 0.95
        logits = net(torch.from_numpy(unseen.obs), torch.from_numpy(unseen.mask).float())
        agreement.append(float((logits.argmax(1).numpy() == unseen.action).mean()))
    assert agreement[0] < 0.8  # random weights agree by chance
    assert agreement[1] > 0.95


def test_a_trained_policy_teaches(short: Scenario, tmp_path: Path) -> None:
    torch.manual_seed(1)
    network = Network(kind="priority", priority_units=2)
    net = build_policy(layout_of(short), network)
    NetworkPolicy(short, network, net, 2, {}).save(tmp_path / "teacher")
    warm = WarmStart(teacher=str(tmp_path / "teacher"), decisions=500)
    demonstration = demonstrate(EpisodeFeed(short), warm, np.random.default_rng(0))
    logits = net(torch.from_numpy(demonstration.obs), torch.from_numpy(demonstration.mask).float())
    assert (logits.argmax(1).numpy() == demonstration.action).all()


def test_teachers_that_cannot_teach(short: Scenario, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    second = scenario.load("green-10", ["decision.window=7"])
    network = Network(kind="priority")
    NetworkPolicy(second, network, build_policy(layout_of(second), network), 2, {}).save(tmp_path / "wide")
    wide = WarmStart(teacher=str(tmp_path / "wide"))
    with pytest.raises(BadInputError, match="sees or does something else"):
        demonstrate(EpisodeFeed(short), wide, rng)
    with pytest.raises(BadInputError, match="holds no trained policy"):
        demonstrate(EpisodeFeed(short), WarmStart(teacher="sjff"), rng)


@pytest.mark.slow
def test_training_goes_on_from_what_was_imitated(short: Scenario, ray_address: str) -> None:
    """The learner and the runners have the imitated weights, not only the policy that is kept."""
    from rlsched.learn.config.training import make_config
    from rlsched.learn.rllib.engine import RllibEngine

    config = make_config(
        {
            "warm_start": {"teacher": "sjf", "decisions": 2000, "epochs": 1},
            "sampling": {"envs_per_runner": 4, "fragment": 16},
            "ppo": {"minibatch": 16, "learning_rate": 1e-9, "final_learning_rate": 0.0},
        },
        "test",
    ).resolve(short)
    feed = EpisodeFeed(short)
    engine = RllibEngine(config, feed, 0)
    try:
        saved = {name: value.clone() for name, value in engine.net.state_dict().items()}
        fresh = build_policy(layout_of(short), config.network).state_dict()
        assert any(not torch.equal(saved[name], fresh[name]) for name in saved)
        runner = engine.algorithm.env_runner_group.local_env_runner.module.policy.state_dict()
        for name, value in saved.items():
            torch.testing.assert_close(engine.learned()[name], value)
            torch.testing.assert_close(runner[name], value)
        engine.iterate()
        for name, value in saved.items():
            torch.testing.assert_close(engine.learned()[name], value, atol=1e-5, rtol=1e-4)
    finally:
        engine.stop()
