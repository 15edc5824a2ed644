"""PPO on RLlib's new API stack: whole episodes to one batch, advantages in simulated time, minibatches.

A discount per decision would be wrong where decisions take no time. Starting or reserving a job would delay
all later costs by one step, and be rewarded for that alone. So a transition of k ticks is discounted by
gamma^k, as rewards are inside it [Cunha 2022, 4.7.3].

Lambda counts ticks, too. With a lambda per decision, the advantage of a reservation would depend mostly on
the value of the next state, and the critic's error there is far larger than the advantage. So k ticks weigh
lambda^k, and a transition without duration does not use the critic's estimate.

RLlib's own pipeline lengthens every episode by a row for the state after it. It copies the batch once per
connector, and again to shuffle it. Here it is copied once, and minibatches are gathered by index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.ppo import LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import ENTROPY_KEY, POLICY_LOSS_KEY, VF_LOSS_KEY
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.evaluation.postprocessing import Postprocessing
from torch import Tensor

from rlsched.learn.networks.critic import two_hot
from rlsched.learn.rllib.baseline import without_shared_noise
from rlsched.learn.rllib.gae import Pieces
from rlsched.learn.rllib.learner import LeanLearner
from rlsched.learn.rllib.memory import Memory
from rlsched.learn.rllib.minibatches import Minibatches, Sequences
from rlsched.learn.rllib.ray_compat import optimizers
from rlsched.learn.rllib.sampling import COSTS, SHARED

ANNEALED = 0.5
"""Share of a run after which the temperature stays at its final value."""

VALUED_AT_ONCE = 512
"""Rows of one call of the critic, so that its intermediates fit into a core's cache."""


def lambda_of(learner_settings: Mapping[str, Any]) -> float:
    """Lambda of GAE per tick from a learner's settings; by default the discount."""
    gae_lambda: float | None = learner_settings["settings"].get("gae_lambda")
    return float(learner_settings["gamma"]) if gae_lambda is None else gae_lambda


def log_ratio(logps: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Log ratios (row,) of the actions' present probabilities, logps (row, action), to the sampled ones."""
    logp = logps.gather(1, batch[Columns.ACTIONS].unsqueeze(1)).squeeze(1)
    return logp - batch[Columns.ACTION_LOGP]


def surrogate(difference: Tensor, batch: Mapping[str, Tensor], clip: float) -> Tensor:
    """The clipped surrogate of log ratios (row,), negated; a mean over rows [Schulman et al. 2017, eq. 7]."""
    ratio, gained = difference.exp(), batch[Postprocessing.ADVANTAGES]
    return -torch.min(ratio * gained, ratio.clamp(1 - clip, 1 + clip) * gained).mean()


class PlayedLearner(LeanLearner):
    """On-policy learner, which makes a batch of pieces of episodes.

    `learner_config_dict` holds `gamma`, per tick, and the `settings` of the algorithm.

    Attributes:
        explained_variance: share of the variance of the last batch's returns that the critic predicts.
        noise_left: share of the variance of the batch's advantages that replicas do not explain.
        multipliers: (cost,) penalty multiplier of each cost with a limit.
    """

    explained_variance = 0.0
    noise_left = 1.0

    def build(self) -> None:
        """Build the learner; the algorithm sets the multipliers."""
        super().build()
        self.memory = Memory()
        constraints = self.config.learner_config_dict.get("constraints", ())
        self.multipliers = np.zeros(len(constraints), np.float32)

    def _create_iterator_if_necessary(
        self,
        *,
        training_data: Any,
        num_total_minibatches: int = 0,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        **kwargs: Any,
    ) -> Minibatches:
        episodes, together = training_data.episodes, self.module[DEFAULT_MODULE_ID].unwrapped().together
        columns = self.columns(episodes)
        size = minibatch_size or len(columns[Columns.OBS])
        sequences = Sequences.of(episodes, together, self.device) if together else None
        return Minibatches(columns, size, num_epochs, num_total_minibatches, sequences)

    def columns(self, episodes: Sequence[SingleAgentEpisode]) -> dict[str, Tensor]:
        """Columns of the batch on the learner's device, with standardised advantages and value targets.

        The advantages of costs, times their multipliers, are subtracted from those of rewards. The effect of
        a multiplier does not depend on the unit of its cost (`Constraint.weight`). With advantages that are
        standardised separately, it would depend on the noise of each.

        Args:
            episodes: finalised pieces of episodes, whose transitions are the rows, piece by piece.
        """
        settings = self.config.learner_config_dict
        observed = [episode.get_observations() for episode in episodes]
        ends = np.cumsum([len(episode) for episode in episodes]) - 1
        shape = (int(ends[-1]) + 1, *observed[0].shape[1:])
        obs = np.concatenate([of[:-1] for of in observed], out=self.memory.empty("obs", shape, np.float32))
        after = np.stack([of[-1] for of in observed])  # (piece, size)
        pieces = Pieces.of(ends, obs[:, -1], after[:, -1])

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([episode.get_extra_model_outputs(name) for episode in episodes])

        outputs = episodes[0].extra_model_outputs
        rewards = np.concatenate([episode.get_rewards() for episode in episodes]).astype(np.float32)
        earned = [rewards, *(joined(COSTS).T if COSTS in outputs else ())]
        tensors = {Columns.OBS: torch.from_numpy(obs).to(self.device)}
        values, following = self.expected(tensors[Columns.OBS], torch.from_numpy(after).to(self.device))
        following[[episode.is_terminated for episode in episodes]] = 0.0
        lambdas = [lambda_of(settings)]
        if len(earned) > 1:
            cost_lambda = settings["settings"]["cost_lambda"]
            lambdas += (len(earned) - 1) * [lambdas[0] if cost_lambda is None else cost_lambda]
        gained = [  # (row,) of rewards and of each cost
            pieces.advantages(amounts, values[:, k], following[:, k], settings["gamma"], lambdas[k])
            for k, amounts in enumerate(earned)
        ]
        targets = [advantage + values[:, k] for k, advantage in enumerate(gained)]
        self.explained_variance = float(1.0 - gained[0].var() / targets[0].var())
        total = gained[0]
        for k, advantage in enumerate(gained[1:]):
            total = total - self.multipliers[k] * settings["constraints"][k].weight * advantage
        shared = joined(SHARED) if SHARED in outputs else None
        total, self.noise_left = without_shared_noise(total, shared, obs[:, -1], ends)
        arrays = {
            Columns.ACTIONS: np.concatenate([episode.get_actions() for episode in episodes]),
            Columns.ACTION_LOGP: joined(Columns.ACTION_LOGP),
            Postprocessing.VALUE_TARGETS: targets[0] if len(targets) == 1 else np.stack(targets, axis=1),
            Postprocessing.ADVANTAGES: total,
        }
        return tensors | {name: torch.from_numpy(of).to(self.device) for name, of in arrays.items()}

    @torch.no_grad()
    def expected(self, obs: Tensor, after: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The critic's estimates before transitions (row, 1 + cost), and after the last (piece, 1 + cost)."""
        compute = self.module[DEFAULT_MODULE_ID].unwrapped().expected
        at_once = VALUED_AT_ONCE if self.device.type == "cpu" else len(obs)
        values = [compute({Columns.OBS: rows}) for rows in torch.split(obs, at_once)]
        return torch.cat(values).cpu().numpy(), compute({Columns.OBS: after}).cpu().numpy()


class TimedPPOLearner(PlayedLearner, PPOTorchLearner):
    """RLlib's PPO learner with batches made from whole episodes, GAE in simulated time, and no KL term.

    Attributes:
        run_fraction: share of the run that is over; learning rate and entropy weight fall with it.
    """

    run_fraction = 0.0

    def configure_optimizers_for_module(self, module_id: str, config: Any) -> None:
        """Adam with one parameter group for the policy and one for the critic."""
        super().configure_optimizers_for_module(module_id, config)
        policy = {id(weights) for weights in self.module[module_id].unwrapped().policy.parameters()}
        for _, optimizer in self.get_optimizers_for_module(module_id):
            (group,) = optimizer.param_groups
            critic = [weights for weights in group["params"] if id(weights) not in policy]
            group["params"] = [weights for weights in group["params"] if id(weights) in policy]
            optimizer.add_param_group({"params": critic})

    def set_run_fraction(self, fraction: float) -> None:
        """Set the learning rates for this share of the run.

        At a lower temperature the same step of the weights changes probabilities more, so the policy's rate
        falls with the square root of the temperature.
        """
        self.run_fraction = fraction
        rate = self.schedule("learning_rate")
        temperature = float(self.module[DEFAULT_MODULE_ID].unwrapped().temperature)
        for optimizer in optimizers(self):
            policy, critic = optimizer.param_groups
            policy["lr"], critic["lr"] = rate * temperature**0.5, rate

    def schedule(self, name: str) -> float:
        """The current value of a setting that falls linearly to its final value."""
        settings = self.config.learner_config_dict["settings"]
        first, last = settings[name], settings[f"final_{name}"]
        return float(first + (last - first) * self.run_fraction)

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Set the temperature of the next batch, which runners receive with the weights."""
        super().after_gradient_based_update(timesteps=timesteps)
        final = self.config.learner_config_dict["settings"]["final_temperature"]
        share = min(1.0, self.run_fraction / ANNEALED)
        self.module[DEFAULT_MODULE_ID].unwrapped().temperature.fill_(final**share)

    def compute_loss_for_module(
        self, *, module_id: str, config: PPOConfig, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        """Compute and report the loss of a minibatch [Schulman et al. 2017, eq. 9].

        The divergence of the old policy from the new one is approximate [Schulman 2020].
        """
        module = self.module[module_id].unwrapped()
        targets = batch[Postprocessing.VALUE_TARGETS]
        targets = two_hot(targets.unsqueeze(1) if targets.dim() == 1 else targets, module.centres)
        errors = -(targets * module.distributions(batch).log_softmax(dim=-1)).sum(dim=-1).mean(dim=0)
        logps = fwd_out[Columns.ACTION_DIST_INPUTS].log_softmax(dim=1)
        difference, weight = log_ratio(logps, batch), self.schedule("entropy")
        policy = surrogate(difference, batch, config.clip_param)
        with torch.set_grad_enabled(weight != 0.0 and torch.is_grad_enabled()):
            entropy = -(logps.exp() * logps).sum(dim=1).mean()
        with torch.no_grad():
            ratio = difference.exp()
            figures = {
                POLICY_LOSS_KEY: policy,
                VF_LOSS_KEY: errors[0],
                LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: self.explained_variance,
                ENTROPY_KEY: entropy,
                "approximate_kl": (ratio - 1.0 - difference).mean(),
                "clip_fraction": ((ratio - 1.0).abs() > config.clip_param).float().mean(),
                "noise_left": self.noise_left,
                "cost_loss": errors[1:].sum(),
            }
        plain = {
            name: value.detach() if isinstance(value, Tensor) else value for name, value in figures.items()
        }
        self.metrics.log_dict(plain, key=module_id, window=1)
        total = policy + config.vf_loss_coeff * errors[0] - weight * entropy
        return total + config.vf_loss_coeff * errors[1:].sum()
