"""The losses of PPO as functions of logits and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Losses:
    """Terms of PPO's loss, as means over rows.

    Attributes:
        policy: the clipped surrogate, negated.
        value: the critic's loss.
        entropy: of the policy; without a gradient where it has no weight.
        total: their weighted sum.
        kl: of the old policy from the new one, approximately [Schulman 2020].
        clipped: share of rows whose ratio of probabilities is beyond the clip.
    """

    policy: Tensor
    value: Tensor
    entropy: Tensor
    total: Tensor
    kl: Tensor
    clipped: Tensor

    @classmethod
    def of(
        cls, logits: Tensor, value: Tensor, batch: Mapping[str, Tensor], config: PPOConfig, entropy: float
    ) -> Losses:
        """Compute the losses of rows [Schulman et al. 2017, eq. 9].

        Args:
            logits: (row, action), masked.
            value: the critic's loss.
            batch: columns of the rows.
            config: with `clip_param` and `vf_loss_coeff`.
            entropy: its weight.
        """
        every = logits.log_softmax(dim=1)
        difference = log_ratio(every, batch)
        policy = surrogate(difference, batch, config.clip_param)
        with torch.set_grad_enabled(bool(entropy != 0.0) and torch.is_grad_enabled()):
            uncertainty = -(every.exp() * every).sum(dim=1).mean()
        total = policy + config.vf_loss_coeff * value - entropy * uncertainty
        with torch.no_grad():
            ratio = difference.exp()
            kl = (ratio - 1.0 - difference).mean()
            clipped = ((ratio - 1.0).abs() > config.clip_param).float().mean()
        return cls(policy, value, uncertainty, total, kl, clipped)


def log_ratio(every: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Log ratios (row,) of the actions' present probabilities to those when they were sampled.

    Args:
        every: (row, action) log probabilities.
        batch: columns of the rows.
    """
    logp = every.gather(1, batch[Columns.ACTIONS].unsqueeze(1)).squeeze(1)
    return logp - batch[Columns.ACTION_LOGP]


def surrogate(difference: Tensor, batch: Mapping[str, Tensor], clip: float) -> Tensor:
    """The clipped surrogate, negated; a mean over rows [Schulman et al. 2017, eq. 7].

    Args:
        difference: (row,) log ratios of probabilities.
        batch: columns of the rows.
        clip: largest distance of a ratio from 1.
    """
    ratio, gained = difference.exp(), batch[Postprocessing.ADVANTAGES]
    return -torch.min(ratio * gained, ratio.clamp(1 - clip, 1 + clip) * gained).mean()
