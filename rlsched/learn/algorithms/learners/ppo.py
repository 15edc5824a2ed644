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

from collections.abc import Mapping
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
from ray.rllib.evaluation.postprocessing import Postprocessing
from torch import Tensor

from rlsched.learn.networks.critic import two_hot
from rlsched.learn.rllib.baseline import replica_baseline, standardised, standardised_by_episode
from rlsched.learn.rllib.gae import advantages
from rlsched.learn.rllib.learner import LeanLearner
from rlsched.learn.rllib.losses import Losses
from rlsched.learn.rllib.memory import Memory
from rlsched.learn.rllib.minibatches import Minibatches, Sequences
from rlsched.learn.rllib.ray_compat import optimizers
from rlsched.learn.rllib.transitions import Timing, Transitions

ANNEALED = 0.5
"""Share of a run after which the temperature stays at its final value."""

VALUED_AT_ONCE = 512
"""Rows of one call of the critic, so that its intermediates fit into a core's cache."""


def replica_advantages(
    advantages: NDArray[np.float32], played: Transitions
) -> tuple[NDArray[np.float32], float]:
    """Standardise advantages; with replicas, subtract the replicas baseline.

    Advantages are standardised by episode before the baseline, too: an outlier of one replica would otherwise
    be the baseline of the others.

    Returns:
        Advantages (row,), and the share of their variance that the baseline leaves.
    """
    if not len(played.shared):
        return standardised(advantages), 1.0
    scaled = standardised_by_episode(advantages, played.shared)
    residual = scaled - replica_baseline(scaled, played.shared, played.obs[:, -1], played.ends)
    variance = float(residual.var() / (scaled.var() + 1e-12))
    return standardised_by_episode(residual, played.shared), variance


def lambda_of(learner_settings: Mapping[str, Any]) -> float:
    """Lambda of GAE per tick from a learner's settings; by default the discount."""
    gae_lambda: float | None = learner_settings["settings"].get("gae_lambda")
    return float(learner_settings["gamma"]) if gae_lambda is None else gae_lambda


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
        together = self.module[DEFAULT_MODULE_ID].unwrapped().together
        played = Transitions.of(training_data.episodes, self.memory, together)
        columns = self.columns(played)
        rows = len(columns[Columns.OBS])
        sequences = self.sequences(played) if together else None
        return Minibatches(columns, minibatch_size or rows, num_epochs, num_total_minibatches, sequences)

    def sequences(self, played: Transitions) -> Sequences:
        """Training sequences of a recurrent module, on the learner's device."""
        states = {name: torch.from_numpy(of).to(self.device) for name, of in played.states.items()}
        return Sequences(torch.from_numpy(played.lengths).to(self.device), states)

    def columns(self, played: Transitions) -> dict[str, Tensor]:
        """Columns of the batch on the learner's device, with standardised advantages and value targets."""
        device = self.device
        obs = torch.from_numpy(played.obs).to(device)
        after = torch.from_numpy(played.after).to(device)
        arrays = {Columns.ACTIONS: played.actions, Columns.ACTION_LOGP: played.logp}
        arrays |= self.advantages_and_targets(played, obs, after, Timing.of(played))
        return {Columns.OBS: obs} | {name: torch.from_numpy(of).to(device) for name, of in arrays.items()}

    def advantages_and_targets(
        self, played: Transitions, obs: Tensor, after: Tensor, timing: Timing
    ) -> dict[str, NDArray[Any]]:
        """Compute standardised advantages and value targets.

        Args:
            played: the transitions.
            obs: (row, size) observations, on the learner's device.
            after: (piece, size) observations after the last transitions, likewise.
            timing: of the transitions.
        """
        values, following = self.expected(played, obs, after)
        lam = lambda_of(self.config.learner_config_dict)
        advantages = self.beyond_expected(
            played, played.rewards, values[:, 0], following[:, 0], timing.share(lam), timing
        )
        targets = advantages + values[:, 0]
        self.explained_variance = float(1.0 - advantages.var() / targets.var())
        if played.costs.shape[1]:
            advantages, targets = self.within_limits(played, advantages, targets, values, following, timing)
        gained, self.noise_left = replica_advantages(advantages, played)
        return {Postprocessing.VALUE_TARGETS: targets, Postprocessing.ADVANTAGES: gained}

    def within_limits(
        self,
        played: Transitions,
        gained: NDArray[np.float32],
        targets: NDArray[np.float32],
        values: NDArray[np.float32],
        following: NDArray[np.float32],
        timing: Timing,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Subtract the advantages of costs, times their multipliers; and compute all value targets.

        The effect of a multiplier does not depend on the unit of its cost (`Constraint.weight`). With
        advantages that are standardised separately, it would depend on the noise of each.

        Args:
            played: the transitions.
            gained: (row,) advantages of rewards.
            targets: (row,) value targets of rewards.
            values: (row, 1 + cost) the critic's estimates.
            following: (piece, 1 + cost) its estimates after the last transitions.
            timing: of the transitions.
        """
        settings = self.config.learner_config_dict
        cost_lambda = settings["settings"]["cost_lambda"]
        lambdas = timing.share(lambda_of(settings) if cost_lambda is None else cost_lambda)
        every = [targets]
        for number, multiplier in enumerate(self.multipliers, 1):
            costs = np.ascontiguousarray(played.costs[:, number - 1])
            beyond = self.beyond_expected(
                played, costs, values[:, number], following[:, number], lambdas, timing
            )
            every.append(beyond + values[:, number])
            gained = gained - multiplier * settings["constraints"][number - 1].weight * beyond
        return gained, np.stack(every, axis=1)

    @torch.no_grad()
    def expected(
        self, played: Transitions, obs: Tensor, after: Tensor
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The critic's estimates before transitions (row, 1 + cost), and after the last (piece, 1 + cost)."""
        compute = self.module[DEFAULT_MODULE_ID].unwrapped().expected
        at_once = VALUED_AT_ONCE if self.device.type == "cpu" else len(obs)
        values = [compute({Columns.OBS: rows}) for rows in torch.split(obs, at_once)]
        following = compute({Columns.OBS: after}).cpu().numpy()
        following[played.terminated] = 0.0
        return torch.cat(values).cpu().numpy(), following

    def beyond_expected(
        self,
        played: Transitions,
        earned: NDArray[np.float32],
        values: NDArray[np.float32],
        following: NDArray[np.float32],
        lambdas: NDArray[np.float32],
        timing: Timing,
    ) -> NDArray[np.float32]:
        """Advantages (row,) by GAE, of rewards or of a cost.

        Args:
            played: the transitions.
            earned: (row,) rewards or costs.
            values: (row,) the critic's estimates.
            following: (piece,) its estimates after the last transitions.
            lambdas: (row,) lambda of each transition.
            timing: of the transitions.
        """
        values = np.ascontiguousarray(values)
        discounts = timing.share(self.config.learner_config_dict["gamma"])
        return advantages(
            values, played.following(values, following), earned, timing.last, discounts, lambdas
        )


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
        """Compute and report the loss of a minibatch."""
        entropy = self.schedule("entropy")
        module = self.module[module_id].unwrapped()
        targets = batch[Postprocessing.VALUE_TARGETS]
        targets = two_hot(targets.unsqueeze(1) if targets.dim() == 1 else targets, module.centres)
        errors = -(targets * module.distributions(batch).log_softmax(dim=-1)).sum(dim=-1).mean(dim=0)
        losses = Losses.of(fwd_out[Columns.ACTION_DIST_INPUTS], errors[0], batch, config, entropy)
        figures = {
            POLICY_LOSS_KEY: losses.policy,
            VF_LOSS_KEY: losses.value,
            LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: self.explained_variance,
            ENTROPY_KEY: losses.entropy,
            "approximate_kl": losses.kl,
            "clip_fraction": losses.clipped,
            "noise_left": self.noise_left,
            "cost_loss": errors[1:].sum(),
        }
        plain = {
            name: value.detach() if isinstance(value, Tensor) else value for name, value in figures.items()
        }
        self.metrics.log_dict(plain, key=module_id, window=1)
        return losses.total + config.vf_loss_coeff * errors[1:].sum()
