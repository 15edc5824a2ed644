"""What RLlib's PPO learner is fed with, from its own runner and from ours; without a Ray session."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME
from ray.rllib.utils.torch_utils import clip_gradients

from rlsched import scenario
from rlsched.learn.algorithms.learners.ppo import TimedPPOLearner
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.learn.networks.critic import centres
from rlsched.learn.networks.module import MaskedModule
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.learner import follow
from rlsched.learn.rllib.minibatches import Minibatches
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

from .conftest import TINY
from .test_gae import Chunk, powers, reference

pytestmark = pytest.mark.slow
MODULE = "default_policy"


@dataclass(frozen=True)
class Sampled:
    """An episode, or part of one, as the runner returned it."""

    states: NDArray[np.float32]  # (steps + 1, size)
    actions: NDArray[np.int64]  # (steps,)
    rewards: NDArray[np.float64]  # (steps,)
    terminated: bool


class Setting:
    """A runner's episodes, and what the learner makes of them."""

    def __init__(self, simulated: Scenario, config: TrainConfig, runner: type[SingleAgentEnvRunner]) -> None:
        self.config = build_config(simulated, config.resolve(simulated), 1)
        self.gamma: float = self.config.learner_config_dict["gamma"]
        self.runner = runner(config=self.config)
        self.episodes = self.runner.sample(num_timesteps=256, random_actions=False)
        self.sampled = [
            Sampled(
                np.stack(episode.get_observations()),
                np.array(episode.get_actions()),
                np.array(episode.get_rewards()),
                bool(episode.is_terminated),
            )
            for episode in self.episodes
        ]
        self.learner: Any = self.config.build_learner(env=None, spaces=self.runner.get_spaces())
        self.batch: dict[str, torch.Tensor] = self.learner.columns(self.episodes)

    def values(self, columns: dict[str, torch.Tensor]) -> NDArray[np.float32]:
        with torch.no_grad():
            return self.learner.module[MODULE].compute_values(columns).numpy()

    def stock(self) -> tuple[Any, dict[str, torch.Tensor]]:
        """RLlib's own learner with the same weights, and its own batch of the same episodes."""
        config = self.config.copy(copy_frozen=False).learners(learner_class=PPOTorchLearner)
        config = config.training(gamma=self.gamma, lambda_=self.gamma, use_kl_loss=False)
        learner = config.build_learner(env=None, spaces=self.runner.get_spaces())
        learner.module[MODULE].load_state_dict(self.learner.module[MODULE].state_dict())
        episodes = deepcopy(self.episodes)  # its pipeline lengthens them in place
        for episode in episodes:  # it asks for them, and looks at them only for a KL term
            if Columns.ACTION_DIST_INPUTS not in episode.extra_model_outputs:
                with torch.no_grad():
                    obs = torch.from_numpy(episode.get_observations()[:-1])
                    actual = learner.module[MODULE].forward_train({Columns.OBS: obs})
                logits = actual[Columns.ACTION_DIST_INPUTS].numpy()
                episode.extra_model_outputs[Columns.ACTION_DIST_INPUTS] = InfiniteLookbackBuffer(logits)
        batch = learner._learner_connector(
            rl_module=learner.module, batch={}, episodes=episodes, shared_data={}, metrics=None
        )
        return learner, batch[MODULE]


@pytest.fixture(
    scope="module", params=[(1.0, SingleAgentEnvRunner), (1.0, BatchedEnvRunner), (0.999, BatchedEnvRunner)]
)
def setting(request: pytest.FixtureRequest, small: Scenario) -> Setting:
    gamma, runner = request.param
    simulated = scenario.parse(
        small.model_dump(mode="json"), "test", [f"objective.gamma={gamma}", "episode.jobs=24"]
    )
    batched = str(runner is BatchedEnvRunner).lower()
    return Setting(
        simulated,
        make_config(
            {},
            "test",
            [*TINY, f"sampling.batched={batched}", "sampling.replicas=1", f"ppo.gae_lambda={gamma}"],
        ),
        runner,
    )


def test_runner_and_learner_use_our_module_and_mask(setting: Setting) -> None:
    assert isinstance(setting.learner, TimedPPOLearner)
    for module in (setting.learner.module[MODULE], setting.runner.module):
        assert isinstance(module.unwrapped(), MaskedModule)
    layout: Layout = setting.learner.module[MODULE].unwrapped().layout
    for episode in setting.sampled:
        masks = episode.states[:-1, layout.size : -1]
        assert masks[np.arange(len(masks)), episode.actions].all()


def test_the_batch_holds_every_transition_once(setting: Setting) -> None:
    states = np.concatenate([episode.states[:-1] for episode in setting.sampled])
    actions = np.concatenate([episode.actions for episode in setting.sampled])
    assert (setting.batch[Columns.OBS].numpy() == states).all()
    assert (setting.batch[Columns.ACTIONS].numpy() == actions).all()
    assert Columns.LOSS_MASK not in setting.batch


def test_targets_are_discounted_by_the_ticks_of_the_environment(setting: Setting) -> None:
    """Worked out anew from the episodes, whose observations tell the time."""
    expected: list[float] = []
    for episode in setting.sampled:
        values = setting.values({Columns.OBS: torch.from_numpy(episode.states)})
        ticks = np.diff(episode.states[:, -1]).astype(int).tolist()
        chunk = Chunk(values.tolist(), episode.rewards.tolist(), ticks, episode.terminated)
        gained = reference(chunk, powers(setting.gamma, ticks), powers(setting.gamma, ticks))
        expected += (np.array(gained) + values[:-1]).tolist()
    assert any(not episode.terminated for episode in setting.sampled)
    assert any(episode.terminated and len(episode.actions) > 2 for episode in setting.sampled)
    assert len(expected) >= 256
    targets = setting.batch[Postprocessing.VALUE_TARGETS].numpy()
    assert targets == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_where_time_does_not_count_batch_and_loss_are_rllibs(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the critic's loss, which is that of a distribution."""
    if setting.gamma != 1.0:
        pytest.skip("RLlib knows a discount per decision only")
    ours = setting.batch
    learner, stock = setting.stock()
    real = stock[Columns.LOSS_MASK]
    for name in (Columns.OBS, Columns.ACTIONS, Columns.ACTION_LOGP):
        torch.testing.assert_close(ours[name], stock[name][real])
    targets = stock[Postprocessing.VALUE_TARGETS][real]
    torch.testing.assert_close(ours[Postprocessing.VALUE_TARGETS], targets, atol=1e-4, rtol=1e-4)
    # RLlib standardises over the rows that it has added, too.
    plain = targets - torch.from_numpy(setting.values(ours))
    standard = (plain - plain.mean()) / plain.std(correction=0)
    torch.testing.assert_close(ours[Postprocessing.ADVANTAGES], standard, atol=1e-3, rtol=1e-3)
    stock[Postprocessing.ADVANTAGES][real] = standard
    shift = torch.randn(int(real.sum()), generator=torch.Generator().manual_seed(0)) * 0.4  # some are clipped
    shift += 0.1 * standard  # what is good has become less likely: the loss is well above 0
    actual: list[dict[str, float]] = []
    for item, batch in ((setting.learner, ours), (learner, stock)):
        captured: dict[str, Any] = {}
        monkeypatch.setattr(item.metrics, "log_dict", lambda values, into=captured, **_: into.update(values))
        if item is learner:
            schedules = item.entropy_coeff_schedulers_per_module
            monkeypatch.setattr(schedules[MODULE], "get_current_value", lambda: 0.3)
        else:
            monkeypatch.setattr(item, "schedule", lambda _: 0.3)
        shifted = {**batch, Columns.ACTION_LOGP: batch[Columns.ACTION_LOGP].clone()}
        shifted[Columns.ACTION_LOGP][real if item is learner else slice(None)] += shift
        output = item.module[MODULE].forward_train(shifted)
        loss = item.compute_loss_for_module(
            module_id=MODULE, config=item.config, batch=shifted, fwd_out=output
        )
        if item is learner:
            # Cross-entropy with the two bins next to each target, weighted so that their mean is the target.
            module, at = setting.learner.module[MODULE].unwrapped(), centres().double()
            chances = module.distributions(ours)[:, 0].detach().double().log_softmax(dim=1)
            error = 0.0
            for target, row in zip(targets.tolist(), chances, strict=True):
                low = int((at <= target).sum()) - 1
                share = (target - at[low]) / (at[low + 1] - at[low])
                error -= float((1 - share) * row[low] + share * row[low + 1]) / len(targets)
            loss = loss + item.config.vf_loss_coeff * (error - captured["vf_loss"])
            captured["vf_loss"] = error
        names = ("policy_loss", "vf_loss", "entropy")
        actual.append({name: float(captured[name]) for name in names} | {"total": loss.item()})
    assert all(abs(value) > 1e-2 for value in actual[0].values()), actual
    assert actual[0] == pytest.approx(actual[1], rel=1e-3)


def test_an_update_goes_through_every_row_in_every_epoch(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[torch.Tensor] = []
    learner = setting.learner
    learns = learner._update

    def update(batches: dict[str, Any]) -> Any:
        recorded.append(batches[MODULE][Columns.OBS])
        return learns(batches)

    monkeypatch.setattr(learner, "_update", update)
    before = {name: value.clone() for name, value in learner.module[MODULE].state_dict().items()}
    learner.update(
        training_data=TrainingData(episodes=setting.episodes),
        timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: 0},
        num_epochs=3,
        minibatch_size=64,
    )
    rows = torch.cat(recorded)
    counts = Counter(row.numpy().tobytes() for row in rows)
    expected = Counter(row.numpy().tobytes() for row in setting.batch[Columns.OBS])
    assert counts == Counter({row: 3 * count for row, count in expected.items()})
    after = learner.module[MODULE].state_dict()
    assert any((before[name] != after[name]).any() for name in before)
    learner.module[MODULE].load_state_dict(before)


def test_the_state_of_an_older_optimizer_does_not_make_it_slow(setting: Setting) -> None:
    learner = setting.learner
    state = deepcopy(learner.get_state())
    for optimizer in state["optimizer"].values():
        for group in optimizer["state"]["param_groups"]:
            group["fused"] = None
    learner.set_state(state)
    groups = [group for optimizer in learner._named_optimizers.values() for group in optimizer.param_groups]
    assert [group["fused"] for group in groups] == [True, True]


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_gradients_are_clipped_as_rllib_clips_them(setting: Setting, scale: float) -> None:
    learner, clip = setting.learner, setting.config.grad_clip
    generator = torch.Generator().manual_seed(1)
    drawn = {
        name: scale * torch.randn(value.shape, generator=generator) for name, value in learner._params.items()
    }
    wanted = {name: value.clone() for name, value in drawn.items()}
    norm = clip_gradients(wanted, grad_clip=clip, grad_clip_by="global_norm")
    assert (norm > clip) == (scale > 1)  # of 25,000 weights
    actual = learner.postprocess_gradients(drawn)
    assert actual.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(actual[name], value)


@pytest.mark.parametrize("broken", [nan, inf])
def test_a_gradient_that_is_not_finite_does_what_it_does_in_rllib(setting: Setting, broken: float) -> None:
    """The others are still clipped, weights stay finite, and Adam remembers no more of it."""
    spaces = setting.runner.get_spaces()
    ours, theirs = (setting.config.build_learner(env=None, spaces=spaces) for _ in range(2))
    theirs.set_state(deepcopy(ours.get_state()))
    generator = torch.Generator().manual_seed(1)
    drawn = [1e3 * torch.randn(value.shape, generator=generator) for value in ours._params.values()]
    drawn[0].view(-1)[0] = broken
    ours.apply_gradients(
        ours.postprocess_gradients(dict(zip(ours._params, (entry.clone() for entry in drawn), strict=True)))
    )
    clipped = TorchLearner.postprocess_gradients_for_module(
        theirs,
        module_id=MODULE,
        config=theirs.config,
        module_gradients_dict=dict(zip(theirs._params, drawn, strict=True)),
    )
    TorchLearner.apply_gradients(theirs, clipped)
    (actual,), (wanted,) = ours._named_optimizers.values(), theirs._named_optimizers.values()
    for item, second in zip(ours._params.values(), theirs._params.values(), strict=True):
        assert item.isfinite().all()
        torch.testing.assert_close(item, second)
        for moment_name in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(actual.state[item][moment_name], wanted.state[second][moment_name])


def test_a_network_follows_another_by_a_share() -> None:
    network, target = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    wanted = [0.75 * b + 0.25 * a for a, b in zip(network.parameters(), target.parameters(), strict=True)]
    follow(network, target, 0.25)
    for value, actual in zip(wanted, target.parameters(), strict=True):
        torch.testing.assert_close(actual, value)


@settings(max_examples=100)
@given(st.integers(1, 300), st.integers(1, 400), st.integers(1, 4), st.integers(0, 20))
def test_minibatches(rows: int, size: int, epochs: int, total: int) -> None:
    columns = {"n": torch.arange(rows), "twice": 2 * torch.arange(rows)}
    pieces = list(Minibatches(columns, size, epochs, total))
    picked = [piece.policy_batches[MODULE] for piece in pieces]
    lengths = {len(piece["n"]) for piece in picked}
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= min(size, rows)
    assert all((piece["twice"] == 2 * piece["n"]).all() for piece in picked)
    per_epoch = max(1, rows // size)
    assert len(pieces) == (total or epochs * per_epoch)
    for epoch in range(len(pieces) // per_epoch):
        of_epoch = torch.cat([piece["n"] for piece in picked[epoch * per_epoch : (epoch + 1) * per_epoch]])
        assert sorted(of_epoch.tolist()) == list(range(rows))
