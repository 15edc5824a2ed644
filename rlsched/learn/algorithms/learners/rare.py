"""RARE: an actor and twin critics on one encoder, trained offline and online [Venkataswamy 2023].

Offline, the actor imitates the best action of conservative critics [Kumar et al. 2020]. Or it imitates
recorded actions that are better than its own, which is critic-regularised regression [Wang et al. 2020].

Online, the actor learns from its newest decisions [Schulman et al. 2017], or from the critics' values of all
actions [Haarnoja et al. 2018; Christodoulou 2019]. Launchpad trains offline first and then online, and keeps
sampling from the dataset [Ball et al. 2023], which may be larger than any replay buffer.

Offline, only the critics' loss moves the encoder, except for the first rows, which are imitated unweighted.
Critics estimate returns in the normalised units of their targets (`popart`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics import (
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)
from torch import Tensor
from torch.nn.functional import huber_loss, one_hot

from rlsched.learn.algorithms.cql import GAP
from rlsched.learn.algorithms.learners.cloning import ReadingLearner
from rlsched.learn.algorithms.learners.cql import conservative_gap
from rlsched.learn.algorithms.learners.ppo import PlayedLearner, log_ratio, surrogate
from rlsched.learn.algorithms.rare import Phases
from rlsched.learn.networks.actor_critic import ACTOR, CRITICS, NEXT_WORTHS, WORTHS, RareModule
from rlsched.learn.rllib.learner import discounts, follow
from rlsched.learn.rllib.minibatches import Minibatches

GREATEST_WEIGHT = 20.0
"""Largest weight of an action with `weights=exp`, the exponential of its advantage [Wang et al. 2020]."""


class RareLearner(PlayedLearner, ReadingLearner):
    """Learner with losses of the critics, the actor and the temperature.

    One update has all three losses, except online with `actor=played`. Then the actor learns from its newest
    decisions alone, and the critics from the replay buffer and the dataset.
    """

    def build(self) -> None:
        """Build the networks and the target networks."""
        super().build()
        self.networks.make_target_networks()

    @property
    def networks(self) -> RareModule:
        """The module with all networks."""
        module: RareModule = self.module[DEFAULT_MODULE_ID].unwrapped()
        return module

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Set the phase of the run, the rollout temperature, and the losses that move the encoder."""
        super().before_gradient_based_update(timesteps=timesteps)
        decisions = timesteps[NUM_ENV_STEPS_SAMPLED_LIFETIME]
        phases: Phases = self.config.run_settings["phases"]
        self.reads = decisions <= phases.read
        self.imitates = self.reads and decisions <= phases.imitate
        self.apart = not self.reads and self.config.learner_config_dict["settings"]["actor"] == "played"
        self.networks.rollout_temperature = (
            1.0 if self.reads else float(self.networks.model_config["rollout_temperature"])
        )
        # The loss with smaller errors moves the shared encoder.
        every_loss = {ACTOR, CRITICS}
        self.networks.encoders = frozenset(
            every_loss if self.imitates else {ACTOR if self.apart else CRITICS}
        )

    def _create_iterator_if_necessary(self, *, training_data: Any, **kwargs: Any) -> Minibatches:
        kind = PlayedLearner if training_data.episodes is not None else ReadingLearner
        return kind._create_iterator_if_necessary(self, training_data=training_data, **kwargs)

    def compute_gradients(self, loss_per_module: Any, **kwargs: Any) -> Any:
        """Gradients of the parameters that the loss depends on; others do not move."""
        gradients = super().compute_gradients(loss_per_module, **kwargs)
        return {name: gradient for name, gradient in gradients.items() if gradient is not None}

    def compute_loss_for_module(
        self, *, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor], **kwargs: Any
    ) -> Tensor:
        """Compute and report the losses of a minibatch."""
        self.targets: Tensor | None = None
        if Columns.NEXT_OBS not in batch:
            return self._loss_of_played(module_id, batch, fwd_out)
        settings, networks = self.config.learner_config_dict["settings"], self.networks
        actions = batch[Columns.ACTIONS].long()
        logits, worths = fwd_out[Columns.ACTION_DIST_INPUTS], fwd_out[WORTHS]
        self.targets = self._targets(batch, fwd_out)
        legal = batch[Columns.OBS][:, networks.layout.size : -1] > 0.5
        action_values = worths.gather(2, actions.expand(2, -1).unsqueeze(2)).squeeze(2)
        critics = self._errors(action_values, self.targets)
        every = logits.log_softmax(dim=1)
        chances = every.exp()
        believed = networks.popart.undo(worths.detach().min(0).values)
        expected = (chances.detach() * believed).sum(1)
        advantages = believed.gather(1, actions.unsqueeze(1)).squeeze(1) - expected
        figures = {
            "critic_loss": critics,
            "value_mean": expected.mean(),
            "better_share": (advantages > 0).float().mean(),
        }
        self.log_agreement(module_id, logits, actions)
        if self.apart:
            self._tell(module_id, figures)
            return critics
        if self.reads and settings["weights"] == "best":
            figures[GAP] = self._overrated(worths, actions, legal)
            # The weight is for errors in units of reward, as in cql; errors here are in spreads, squared.
            critics = critics + settings["cql_alpha"] * figures[GAP] / networks.popart.spread**2
        entropy = entropies(every, legal)
        temperature = networks.log_temperature.exp()
        if self.reads:
            wanted = self._imitated(actions, legal, believed, advantages)
            actor = -(wanted * every.where(legal, 0.0)).sum(1).mean()
        else:
            actor = -((chances * believed).sum(1) + temperature.detach() * entropy).mean()
        # The goal is a share of the largest possible entropy, which depends on the number of legal actions.
        excess = entropy.detach() - settings["entropy"] * legal.sum(1).clamp(min=1).log()
        cooling = (temperature * excess).mean() * float(not self.reads)
        self._tell(
            module_id,
            figures | {"policy_loss": actor, "entropy": entropy.mean(), "temperature": temperature},
        )
        return critics + actor + cooling

    def _loss_of_played(self, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor]) -> Tensor:
        """Losses on newly sampled decisions: PPO's surrogate, and the critics' error in V of the policy."""
        networks = self.networks
        every = fwd_out[Columns.ACTION_DIST_INPUTS].log_softmax(dim=1)
        expected = (every.detach().exp() * fwd_out[WORTHS]).sum(2)
        critics = self._errors(expected, batch[Postprocessing.VALUE_TARGETS])
        actor = surrogate(log_ratio(every, batch), batch, self.config.learner_config_dict["settings"]["clip"])
        legal = batch[Columns.OBS][:, networks.layout.size : -1] > 0.5
        figures = {"policy_loss": actor, "entropy": entropies(every, legal).mean()}
        self._tell(module_id, figures | {"vf_explained_var": torch.tensor(self.explained_variance)})
        return actor + critics

    def _imitated(self, actions: Tensor, legal: Tensor, believed: Tensor, advantages: Tensor) -> Tensor:
        """Imitation weights (row, action), of recorded actions or of the critics' best ones."""
        settings = self.config.learner_config_dict["settings"]
        if settings["weights"] == "best" and not self.imitates:
            return believed.masked_fill(~legal, -torch.inf).div(settings["best_temperature"]).softmax(dim=1)
        recorded = one_hot(actions, legal.shape[1]).to(believed.dtype)
        if self.imitates:
            return recorded
        return regression_weights(advantages, settings["weights"], settings["beta"]).unsqueeze(1) * recorded

    def _overrated(self, worths: Tensor, actions: Tensor, legal: Tensor) -> Tensor:
        """Conservative gap of Q between all actions and the recorded ones, averaged over the critics."""
        believed = self.networks.popart.undo(worths).masked_fill(~legal, -torch.inf).flatten(0, 1)
        temperature = self.config.learner_config_dict["settings"]["cql_temperature"]
        return conservative_gap(believed, actions.repeat(2), temperature)

    def _errors(self, worths: Tensor, targets: Tensor) -> Tensor:
        """Huber loss of values (critic, row) against targets (row,), in spreads of the targets.

        In the critics' own units it would be so much smaller than the actor's loss that it would not move the
        shared encoder: Adam scales steps by earlier gradients of a weight.
        """
        popart = self.networks.popart
        return huber_loss(worths * popart.scale, (popart(targets) * popart.scale).expand(2, -1))

    def _tell(self, module_id: str, values: Mapping[str, Tensor]) -> None:
        """Report means of a minibatch."""
        self.metrics.log_dict(
            {name: value.detach() for name, value in values.items()}, key=module_id, window=1
        )

    @torch.no_grad()
    def _targets(self, batch: dict[str, Any], fwd_out: dict[str, Tensor]) -> Tensor:
        """Targets (row,) of the critics, in units of reward.

        They contain no entropy bonus: over a thousand decisions it would exceed the reward. The policy would
        learn to take as many decisions as possible, which is to wait.
        """
        chances = fwd_out[TARGET_NETWORK_ACTION_DIST_INPUTS].softmax(dim=1)
        following = (chances * fwd_out[NEXT_WORTHS]).sum(1)
        ticks = batch[Columns.NEXT_OBS][:, -1] - batch[Columns.OBS][:, -1]
        bootstrap = discounts(ticks, self.config.learner_config_dict["gamma"]) * following
        return batch[Columns.REWARDS] + bootstrap.masked_fill(batch[Columns.TERMINATEDS].bool(), 0.0)

    def apply_gradients(self, gradients_dict: Any) -> None:
        """Update the networks, then the target networks and the critics' normalisation."""
        super().apply_gradients(gradients_dict)
        networks = self.networks
        if self.targets is None:
            return
        for network, target in networks.get_target_network_pairs():
            follow(network, target, self.config.learner_config_dict["settings"]["tau"])
        factor, offset = networks.popart.update(self.targets)
        for critic in networks.every_critic():
            critic.rescale(factor, offset)


def entropies(every: Tensor, legal: Tensor) -> Tensor:
    """Entropies (row,) of log probabilities (row, action), over legal actions."""
    return -(every.exp() * every.where(legal, 0.0)).sum(1)


def regression_weights(advantages: Tensor, kind: str, beta: float) -> Tensor:
    """Imitation weights (row,) of critic-regularised regression [Wang et al. 2020, eq. 3 and 4].

    Args:
        advantages: (row,) Q of the recorded action less the policy's expected Q.
        kind: `binary`, 1 for positive advantages and else 0; `exp`, the exponential of advantage over `beta`.
        beta: of `exp`, in standard deviations of the advantages.
    """
    if kind == "binary":
        return (advantages > 0).float()
    spread = advantages.std(correction=0).clamp(min=1e-8)
    return (advantages / (beta * spread)).exp().clamp(max=GREATEST_WEIGHT)
