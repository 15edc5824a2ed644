"""APPO and DQN: what their losses are made of, against formulas; RLlib's learners without a Ray session."""

from __future__ import annotations

from queue import Empty
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.algorithms.appo.torch import appo_torch_learner
from ray.rllib.algorithms.dqn.dqn_learner import QF_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rlsched import scenario
from rlsched.learn.algorithms.learners.appo import Results, ending
from rlsched.learn.config.training import make_config
from rlsched.learn.networks.module import QModule
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.replay import ReplayBuffer
from rlsched.scenario import Scenario

from .conftest import TINY

pytestmark = pytest.mark.slow
MODULE = "default_policy"
GAMMA = 0.9


@pytest.fixture(scope="module")
def green() -> Scenario:
    """Many decisions take no time, the others a tick each; episodes end within a sample."""
    return scenario.load("green-10", [f"objective.gamma={GAMMA}", "episode.max_ticks=12"])


class Setting:
    """A runner and a learner of an algorithm."""

    def __init__(self, simulated: Scenario, *settings: str) -> None:
        self.config = build_config(
            simulated, make_config({}, "test", [*TINY, *settings]).resolve(simulated), 2
        )
        self.runner = SingleAgentEnvRunner(config=self.config)
        self.learner: Learner = self.config.build_learner(env=None, spaces=self.runner.get_spaces())
        self.module: Any = self.learner.module[MODULE].unwrapped()

    def batch(self, episodes: list[Any]) -> dict[str, Any]:
        """What the learner makes of episodes."""
        made = self.learner._make_batch_if_necessary(training_data=TrainingData(episodes=episodes))
        return dict(made[MODULE])

    def piped(self, episodes: list[Any]) -> dict[str, Any]:
        """What RLlib's pipeline does; episodes are longer afterwards."""
        made = self.learner._learner_connector(
            rl_module=self.learner.module, batch={}, episodes=episodes, shared_data={}, metrics=None
        )
        return dict(made[MODULE])

    def loss(self, batch: dict[str, Any]) -> float:
        """Of a batch, with gradients for every parameter that is trained."""
        output = self.learner.module[MODULE].forward_train(batch)
        loss = self.learner.compute_loss_for_module(
            module_id=MODULE, config=self.config, batch=batch, fwd_out=output
        )
        loss.backward()
        for name, value in self.module.named_parameters():
            assert value.grad is None or torch.isfinite(value.grad).all(), name
            assert value.requires_grad != name.startswith("target_"), name
        return float(loss.detach())


@given(st.floats(0.01, 1) | st.floats(0.99999, 1), st.integers(0, 100_000), st.booleans())
def test_ending_discounts_as_time_does(gamma: float, ticks: int, terminated: bool) -> None:
    actual = ending(torch.tensor([terminated]), torch.tensor([float(ticks)]), gamma)
    expected = 0.0 if terminated else gamma**ticks
    assert float(1 - actual) == pytest.approx(expected, abs=1e-6)


def test_v_trace_uses_the_discounts_of_time(green: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(green, "algo=appo", "appo.fragment=32")
    reported: dict[str, torch.Tensor] = {}
    v_trace = appo_torch_learner.vtrace_torch

    def listen(**keywords: Any) -> Any:
        reported.update(keywords)
        reported["targets"], reported["advantages"] = v_trace(**keywords)
        return reported["targets"], reported["advantages"]

    monkeypatch.setattr(appo_torch_learner, "vtrace_torch", listen)
    try:
        episodes = setting.runner.sample(num_timesteps=8 * 32, random_actions=False)
        expected: list[float] = []
        rows: list[tuple[float, float, float, float] | None] = []
        ended = 0
        for episode in episodes:
            clock = np.stack(episode.get_observations())[:, -1]
            discounts = GAMMA ** np.diff(clock)
            if episode.is_terminated:
                discounts[-1] = 0.0
            ended += episode.is_terminated or episode.is_truncated
            expected += [*discounts, 0.0]  # the row of the bootstrap value
            observed = {Columns.OBS: torch.from_numpy(np.stack(episode.get_observations()))}
            with torch.no_grad():
                values = setting.module.compute_values(observed).tolist()
            rows += [*zip(values[:-1], episode.get_rewards(), discounts, values[1:], strict=True), None]
        setting.loss(setting.batch(episodes))
        discounts = reported["discounts"].T.flatten().numpy()
        assert discounts[: len(expected)] == pytest.approx(np.array(expected), rel=1e-5)
        assert (discounts[len(expected) :] == 0).all()  # padding
        actual = reported["targets"].T.flatten().numpy()
        for at, target in on_policy(rows, 32).items():
            assert actual[at] == pytest.approx(target, rel=1e-4, abs=1e-3), at
        assert ended > 2
        assert len(set(np.round(expected, 6))) >= 3  # no time, a tick, nothing follows
    finally:
        setting.learner.shutdown()


def test_a_batch_of_appo_is_what_rllib_would_make(green: Scenario) -> None:
    """But for what no loss reads; and it stays as it is while others are made."""
    setting = Setting(green, "algo=appo", "appo.fragment=32")
    try:
        first = setting.runner.sample(num_timesteps=8 * 32, random_actions=False)
        second = setting.runner.sample(num_timesteps=8 * 32, random_actions=False)
        decisions = sum(map(len, first))
        made = [setting.batch(episodes) for episodes in (first, second)]
        before = [{name: of.clone() for name, of in batch.items()} for batch in made]
        expected = [setting.piped(episodes) for episodes in (first, second)]
        setting.batch(first)
        for batch, as_made, piped in zip(made, before, expected, strict=True):
            unread = {Columns.TRUNCATEDS, Columns.ACTION_DIST_INPUTS, WEIGHTS_SEQ_NO}
            assert set(piped) - set(batch) == unread
            for name, values in batch.items():
                assert values.dtype == piped[name].dtype, name
                torch.testing.assert_close(values, piped[name], rtol=0, atol=0, msg=name)
                torch.testing.assert_close(values, as_made[name], rtol=0, atol=0, msg=name)
        ended = [episode.is_terminated or episode.is_truncated for episode in (*first, *second)]
        assert sum(ended) > 2
        assert made[0][Columns.LOSS_MASK].sum() == decisions
    finally:
        setting.learner.shutdown()


def test_results_that_wait_are_taken_at_once_and_nothing_is_lost() -> None:
    """Two updates for every result that is taken, as RLlib takes them."""
    updates, settings, results = MetricsLogger(), MetricsLogger(root=True), Results()
    for batch in range(5):
        for again in range(2):
            updates.log_value((MODULE, "rows"), 100, reduce="lifetime_sum", with_throughput=True)
            updates.log_value((MODULE, "updates"), 1, reduce="sum")
            updates.log_value((MODULE, "loss"), 2 * batch + again, window=1)
            results.put(updates.reduce())
        settings.aggregate([results.get(timeout=1)], key="learners")
        assert results.empty()
        reported = settings.reduce(compile=True)["learners"][MODULE]
        assert reported["loss"] == 2 * batch + 0.5  # of these two
        assert reported["updates"] == 2
        assert reported["rows"] == 200 * (batch + 1)
    results.put(updates.reduce())
    assert set(results.get(timeout=1)) == {MODULE}
    with pytest.raises(Empty):
        results.get(timeout=0.001)


def on_policy(rows: list[tuple[float, float, float, float] | None], column: int) -> dict[int, float]:
    """V-trace where the policy that learns has played: discounted sums, bootstrapped where they are cut.

    Args:
        rows: value, reward, discount and the value that follows; None where only a bootstrap state is held.
        column: rows after which RLlib cuts, wherever chunks end.
    """
    targets: dict[int, float] = {}
    for at in reversed(range(len(rows))):
        row = rows[at]
        if row is not None:
            _, reward, discount, following = row
            cut = (at + 1) % column == 0 or at + 1 not in targets
            targets[at] = reward + discount * (following if cut else targets[at + 1])
    return targets


@pytest.fixture(scope="module")
def dqn(green: Scenario) -> Setting:
    return Setting(green, "algo=dqn")


def replayed(setting: Setting, number: int) -> dict[str, torch.Tensor]:
    """Transitions as they are learned from."""
    buffer = ReplayBuffer(10_000, np.random.default_rng(1))
    for _ in range(4):
        buffer.add(setting.runner.sample(num_timesteps=256, random_actions=False))
    return {name: torch.from_numpy(values) for name, values in buffer.sample(number).items()}


def test_bellman_targets_by_their_formula(dqn: Setting) -> None:
    """Double Q: the online network chooses the next action, the target network says what it is worth."""
    batch = replayed(dqn, 64)
    batch[Columns.TERMINATEDS][::3] = True  # few end by themselves: the clock cuts most of them off
    with torch.no_grad():
        for value in dqn.module.policy.parameters():
            value.add_(0.1 * torch.randn_like(value))  # the networks that follow differ
        chosen = dqn.module.compute_q_values({Columns.OBS: batch[Columns.OBS]})[QF_PREDS]
        following = {Columns.OBS: batch[Columns.NEXT_OBS]}
        best = dqn.module.compute_q_values(following)[QF_PREDS].argmax(1)
        worth = dqn.module.forward_target(following)[QF_PREDS].gather(1, best[:, None])[:, 0]
    ticks = (batch[Columns.NEXT_OBS] - batch[Columns.OBS])[:, -1]
    assert (ticks >= 0).all()
    assert len(set(ticks.tolist())) > 1
    remaining = torch.where(batch[Columns.TERMINATEDS], 0.0, GAMMA**ticks * worth)
    error = (
        chosen.gather(1, batch[Columns.ACTIONS].long()[:, None])[:, 0] - batch[Columns.REWARDS] - remaining
    )
    huber = torch.where(error.abs() < 1, 0.5 * error**2, error.abs() - 0.5)
    assert dqn.loss(batch) == pytest.approx(float(huber.mean()), rel=1e-4)


def test_q_is_the_critics_value_and_the_policys_preference(dqn: Setting) -> None:
    batch = replayed(dqn, 64)
    module: QModule = dqn.module
    vector, mask = module._split(batch)
    with torch.no_grad():
        q = module.compute_q_values(batch)[QF_PREDS]
        values = module.critic(vector)
        logits = module.policy(vector, mask)
    legal = mask > 0.5
    assert (q[~legal] == -torch.inf).all()
    for row in range(len(q)):
        if legal[row].any():
            assert q[row][legal[row]].mean() == pytest.approx(float(values[row]), abs=1e-4)
            assert q[row].argmax() == logits[row].argmax()


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_exploring_takes_any_legal_action_and_no_other(green: Scenario, epsilon: float) -> None:
    """RLlib's own takes none whose value is exactly 0; here all are."""
    setting = Setting(green, "algo=dqn", f"dqn.epsilon={epsilon}", f"dqn.final_epsilon={epsilon}")
    module: QModule = setting.module
    with torch.no_grad():
        for value in module.parameters():
            value.zero_()
    size, actions = module.layout.size, module.layout.num_actions
    rng = np.random.default_rng(0)
    mask = (rng.random((2000, actions)) < 0.4).astype(np.float32)
    mask[:, -1] = 1
    obs = np.concatenate([rng.random((2000, size), np.float32), mask, np.zeros((2000, 1))], axis=1)
    chosen = module.forward_exploration({Columns.OBS: torch.from_numpy(obs.astype(np.float32))}, t=10)
    actions_taken = chosen[Columns.ACTIONS].numpy()
    assert mask[np.arange(2000), actions_taken].all()
    if epsilon == 0:
        assert (actions_taken == mask.argmax(axis=1)).all()
    else:
        shares = np.bincount(actions_taken, minlength=actions) / 2000
        expected = (mask / mask.sum(1, keepdims=True)).mean(0)
        assert shares == pytest.approx(expected, abs=0.04)


def test_runners_hold_no_more_than_choosing_needs(dqn: Setting) -> None:
    names = {name.split(".")[0] for name, _ in dqn.runner.module.unwrapped().named_parameters()}
    assert names == {"policy"}
    whole = {name.split(".")[0] for name, _ in dqn.module.named_parameters()}
    assert whole == {"policy", "critic", "worth", "target_policy", "target_critic", "target_worth"}
