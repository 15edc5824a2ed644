"""DQN on RLlib's new API stack: Bellman targets in simulated time."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core.columns import Columns
from torch import Tensor

from rlsched.learn.discounting import ending


class TimedDQNLearner(DQNTorchLearner):
    """RLlib's DQN with transitions discounted by the ticks they took.

    One step at a time: over several, RLlib's replay buffer would add rewards up without a discount for the
    time between them, and what lets time pass would look best.

    `learner_config_dict` holds `gamma`, per tick; RLlib's own must be 1.
    """

    def compute_loss_for_module(self, *, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        """RLlib's loss; the last number of an observation is the clock of its episode."""
        gamma = self.config.learner_config_dict["gamma"]
        ticks = batch[Columns.NEXT_OBS][:, -1] - batch[Columns.OBS][:, -1]
        ended = ending(batch[Columns.TERMINATEDS], ticks, gamma)
        loss: Tensor = super().compute_loss_for_module(batch={**batch, Columns.TERMINATEDS: ended}, **kwargs)
        return loss
