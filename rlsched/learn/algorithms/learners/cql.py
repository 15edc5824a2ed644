"""CQL(H): conservative Q-learning from a dataset, for discrete actions [Kumar et al. 2020, eq. 4].

Double Q-learning (`dqn`) bootstraps from the highest Q value. Where the dataset holds no data about an
action, nothing corrects a wrong value. So Q of the dataset's actions is pushed up against the soft maximum
over all actions.

RLlib's CQL is for continuous actions only. RLlib moves targets after sampled decisions, of which there are
none. Here they move after every gradient step.
"""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.dqn.dqn_learner import QF_PREDS
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from torch import Tensor

from rlsched.learn.algorithms.cql import GAP
from rlsched.learn.algorithms.learners.cloning import ReadingLearner
from rlsched.learn.algorithms.learners.dqn import TimedDQNLearner
from rlsched.learn.rllib.dataset import Reading
from rlsched.learn.rllib.learner import follow
from rlsched.learn.rllib.ray_compat import set_offline


class ReadingCQL(Reading, DQN):
    """Conservative Q-learning."""


class ReadingCQLConfig(DQNConfig):
    """RLlib's configuration of DQN, without runners."""

    def __init__(self) -> None:
        super().__init__(algo_class=ReadingCQL)
        set_offline(self)


class CQLLearner(ReadingLearner, TimedDQNLearner):
    """Learner with the Huber loss of double Q-learning plus the conservative gap.

    `learner_config_dict` holds `gamma`, per tick, and in `settings` the weight `alpha` of the gap and the
    `temperature` of the soft maximum, in units of reward. Differences between actions are far smaller than
    returns: at a temperature of 1 all actions would look alike.
    """

    def compute_loss_for_module(
        self, *, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor], **kwargs: Any
    ) -> Tensor:
        """Compute and report the sum of both losses."""
        settings = self.config.learner_config_dict["settings"]
        error: Tensor = super().compute_loss_for_module(
            module_id=module_id, batch=batch, fwd_out=fwd_out, **kwargs
        )
        worth, actions = fwd_out[QF_PREDS], batch[Columns.ACTIONS].long()
        self.log_agreement(module_id, worth, actions)
        gap = conservative_gap(worth, actions, settings["temperature"])
        self.metrics.log_value((module_id, GAP), gap.detach(), window=1)
        return error + settings["alpha"] * gap

    def apply_gradients(self, gradients_dict: Any) -> None:
        """Update the networks, then the target networks."""
        super().apply_gradients(gradients_dict)
        for network, target in self.module[DEFAULT_MODULE_ID].unwrapped().get_target_network_pairs():
            follow(network, target, self.config.tau)


def conservative_gap(worth: Tensor, actions: Tensor, temperature: float) -> Tensor:
    """Mean difference of the soft maximum of Q over all actions from Q of the taken action; at least 0.

    Args:
        worth: (row, action) Q values, -inf where illegal.
        actions: (row,) taken actions.
        temperature: of the soft maximum, in units of reward; towards 0 it becomes the maximum.
    """
    soft = temperature * torch.logsumexp(worth / temperature, dim=1)
    return (soft - worth.gather(1, actions.unsqueeze(1)).squeeze(1)).mean()
