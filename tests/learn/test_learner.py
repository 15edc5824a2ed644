"""What RLlib really runs: its learner pipeline, fed by its own runner, without a Ray session."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.postprocessing.value_predictions import compute_value_targets

from rlsched import scenario
from rlsched.learn.algorithms import build_config
from rlsched.learn.config import TrainConfig, make_config
from rlsched.learn.gae import TimedAdvantages, TimedPPOLearner
from rlsched.learn.module import MaskedModule
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
    """A runner's episodes, and what the learner's pipeline makes of them."""

    def __init__(self, simulated: Scenario, config: TrainConfig) -> None:
        self.config = build_config(simulated, config, 1)
        self.gamma: float = self.config.learner_config_dict["gamma"]
        self.runner = SingleAgentEnvRunner(config=self.config)
        episodes = self.runner.sample(num_timesteps=256, random_actions=False)
        self.sampled = [
            Sampled(
                np.stack(episode.get_observations()),
                np.array(episode.get_actions()),
                np.array(episode.get_rewards()),
                bool(episode.is_terminated),
            )
            for episode in episodes  # copied: the pipeline lengthens them in place
        ]
        self.learner: Learner = self.config.build_learner(env=None, spaces=self.runner.get_spaces())
        self.batch: dict[str, torch.Tensor] = self.learner._learner_connector(
            rl_module=self.learner.module, batch={}, episodes=episodes, shared_data={}, metrics=None
        )[MODULE]

    def values(self, columns: dict[str, torch.Tensor]) -> NDArray[np.float32]:
        with torch.no_grad():
            return self.learner.module[MODULE].compute_values(columns).numpy()


@pytest.fixture(scope="module", params=[1.0, 0.999])
def setting(request: pytest.FixtureRequest, small: Scenario) -> Setting:
    simulated = scenario.parse(
        small.model_dump(mode="json"), "test", [f"objective.gamma={request.param}", "episode.jobs=24"]
    )
    return Setting(simulated, make_config({}, "test", TINY))


def test_rllibs_estimation_is_replaced_in_place(setting: Setting) -> None:
    assert isinstance(setting.learner, TimedPPOLearner)
    pieces = setting.learner._learner_connector.connectors
    assert not any(isinstance(piece, GeneralAdvantageEstimation) for piece in pieces)
    ours = [piece for piece in pieces if isinstance(piece, TimedAdvantages)]
    assert len(ours) == 1
    assert (ours[0].gamma, ours[0].gae_lambda) == (setting.gamma, setting.gamma)


def test_runner_and_learner_use_our_module_and_mask(setting: Setting) -> None:
    for module in (setting.learner.module[MODULE], setting.runner.module):
        assert isinstance(module.unwrapped(), MaskedModule)
    layout: Layout = setting.learner.module[MODULE].unwrapped().layout
    for episode in setting.sampled:
        masks = episode.states[:-1, layout.size : -1]
        assert masks[np.arange(len(masks)), episode.actions].all()


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
    real = setting.batch[Columns.LOSS_MASK].numpy()
    assert real.sum() == len(expected) >= 256
    targets = setting.batch[Postprocessing.VALUE_TARGETS].numpy()[real]
    assert targets == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_where_time_does_not_count_the_targets_are_rllibs(setting: Setting) -> None:
    if setting.gamma != 1.0:
        pytest.skip("RLlib knows a discount per decision only")
    batch = setting.batch
    values = setting.values(batch)
    targets = compute_value_targets(
        values,
        batch[Columns.REWARDS].numpy(),
        batch[Columns.TERMINATEDS].numpy().astype(np.float32),
        batch[Columns.TRUNCATEDS].numpy().astype(np.float32),
        1.0,
        1.0,
    )
    real = batch[Columns.LOSS_MASK].numpy()
    assert batch[Postprocessing.VALUE_TARGETS].numpy()[real] == pytest.approx(targets[real], abs=1e-4)
    plain = (targets - values)[real]
    expected = (plain - plain.mean()) / plain.std(ddof=1)
    assert batch[Postprocessing.ADVANTAGES].numpy()[real] == pytest.approx(expected, abs=1e-3)
