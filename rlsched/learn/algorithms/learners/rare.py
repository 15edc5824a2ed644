"""RARE: an actor and twin critics on one encoder, that learn from datasets and from play [Venkataswamy 2023].

From a dataset: the actor does what conservative critics [Kumar et al. 2020] think is best, or, which is
critic-regularised regression [Wang et al. 2020], imitates what was better than what it would do itself.
From play: it goes by what came of its newest decisions [Schulman et al. 2017], or by what critics think of
every action [Haarnoja et al. 2018; Christodoulou 2019]. Launchpad begins with the one and goes on with the
other, and keeps drawing from the dataset [Ball et al. 2023], which may be larger than any replay buffer.

While it reads, the critics' loss moves the encoder and the actor's does not, but for the first rows, which
are imitated as they are. Critics are normalised as targets are (`popart`).
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
from rlsched.learn.algorithms.learners.ppo import PlayedLearner
from rlsched.learn.algorithms.rare import Phases
from rlsched.learn.networks.actor_critic import ACTOR, CRITICS, NEXT_WORTHS, WORTHS, RareModule
from rlsched.learn.rllib.discounting import discounts
from rlsched.learn.rllib.learner import follow
from rlsched.learn.rllib.losses import log_ratio, surrogate
from rlsched.learn.rllib.minibatches import Minibatches

GREATEST_WEIGHT = 20.0
"""Of an action that is imitated by the exponential of its advantage [Wang et al. 2020]."""


class RareLearner(PlayedLearner, ReadingLearner):
    """The losses of the critics, the actor and the temperature.

    All at once but for an actor that goes by what was played: then it learns from that alone, and critics
    from what was remembered and read.
    """

    def build(self) -> None:
        """Build what learns, and what follows it."""
        super().build()
        self.networks.make_target_networks()

    @property
    def networks(self) -> RareModule:
        """What learns."""
        module: RareModule = self.module[DEFAULT_MODULE_ID].unwrapped()
        return module

    def before_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """See how far the run is."""
        super().before_gradient_based_update(timesteps=timesteps)
        decisions = timesteps[NUM_ENV_STEPS_SAMPLED_LIFETIME]
        phases: Phases = self.config.run_settings["phases"]
        self.reads = decisions <= phases.read
        self.imitates = self.reads and decisions <= phases.imitate
        self.apart = not self.reads and self.config.run_settings["actor"] == "played"
        self.networks.rollout_temperature = (
            1.0 if self.reads else float(self.networks.model_config["rollout_temperature"])
        )
        # Who errs less moves what both see by.
        every_loss = {ACTOR, CRITICS}
        self.networks.encoders = frozenset(
            every_loss if self.imitates else {ACTOR if self.apart else CRITICS}
        )

    def _create_iterator_if_necessary(self, *, training_data: Any, **kwargs: Any) -> Minibatches:
        kind = PlayedLearner if training_data.episodes is not None else ReadingLearner
        return kind._create_iterator_if_necessary(self, training_data=training_data, **kwargs)

    def compute_gradients(self, loss_per_module: Any, **kwargs: Any) -> Any:
        """Of what the loss depends on; the rest is left as it is."""
        gradients = super().compute_gradients(loss_per_module, **kwargs)
        return {name: gradient for name, gradient in gradients.items() if gradient is not None}

    def compute_loss_for_module(
        self, *, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor], **kwargs: Any
    ) -> Tensor:
        """All of them, reported."""
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
            # Of errors in units of reward, as cql has it, while errors here are in spreads, squared.
            critics = critics + settings["cql_alpha"] * figures[GAP] / networks.popart.spread**2
        entropy = entropies(every, legal)
        temperature = networks.log_temperature.exp()
        if self.reads:
            wanted = self._imitated(actions, legal, believed, advantages)
            actor = -(wanted * every.where(legal, 0.0)).sum(1).mean()
        else:
            actor = -((chances * believed).sum(1) + temperature.detach() * entropy).mean()
        # By which share of the greatest entropy that a choice can have, whatever the number of actions.
        excess = entropy.detach() - settings["entropy"] * legal.sum(1).clamp(min=1).log()
        cooling = (temperature * excess).mean() * float(not self.reads)
        self._tell(
            module_id,
            figures | {"policy_loss": actor, "entropy": entropy.mean(), "temperature": temperature},
        )
        return critics + actor + cooling

    def _loss_of_played(self, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor]) -> Tensor:
        """What came of decisions moves the policy, and what critics expect of it in these states."""
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
        """(row, action) how much each is to be imitated: what was shown, or what critics think is best."""
        settings = self.config.learner_config_dict["settings"]
        if settings["weights"] == "best" and not self.imitates:
            return believed.masked_fill(~legal, -torch.inf).div(settings["best_temperature"]).softmax(dim=1)
        recorded = one_hot(actions, legal.shape[1]).to(believed.dtype)
        if self.imitates:
            return recorded
        return regression_weights(advantages, settings["weights"], settings["beta"]).unsqueeze(1) * recorded

    def _overrated(self, worths: Tensor, actions: Tensor, legal: Tensor) -> Tensor:
        """By how much critics think more of other actions than of those shown, on average of the critics."""
        believed = self.networks.popart.undo(worths).masked_fill(~legal, -torch.inf).flatten(0, 1)
        temperature = self.config.learner_config_dict["settings"]["cql_temperature"]
        return conservative_gap(believed, actions.repeat(2), temperature)

    def _errors(self, worths: Tensor, targets: Tensor) -> Tensor:
        """Huber's loss of what (critic, row) say of (row,) targets, in spreads of these.

        In the critics' own units it would be so small beside the actor's that it did not move what both see
        by: Adam goes by what the gradients of a weight were like before.
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
        """(row,) what the critics should have said, in units of reward.

        Entropy is no part of it: over a thousand decisions it would be worth more than what is earned, and
        the policy would learn to be asked again and again, which is to wait.
        """
        chances = fwd_out[TARGET_NETWORK_ACTION_DIST_INPUTS].softmax(dim=1)
        following = (chances * fwd_out[NEXT_WORTHS]).sum(1)
        ticks = batch[Columns.NEXT_OBS][:, -1] - batch[Columns.OBS][:, -1]
        bootstrap = discounts(ticks, self.config.learner_config_dict["gamma"]) * following
        return batch[Columns.REWARDS] + bootstrap.masked_fill(batch[Columns.TERMINATEDS].bool(), 0.0)

    def apply_gradients(self, gradients_dict: Any) -> None:
        """Move the networks, those that follow them after them, and the scale that critics think in."""
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
    """(row,) of (row, action) log probabilities, of which those that are legal count."""
    return -(every.exp() * every.where(legal, 0.0)).sum(1)


def regression_weights(advantages: Tensor, kind: str, beta: float) -> Tensor:
    """How much each action is to be imitated [Wang et al. 2020, eq. 3 and 4].

    Args:
        advantages: (row,) of what was done over what the policy would do.
        kind: `binary`, whether it was better; `exp`, the more so the better it was.
        beta: of `exp`, in standard deviations of the advantages.
    """
    if kind == "binary":
        return (advantages > 0).float()
    spread = advantages.std(correction=0).clamp(min=1e-8)
    return (advantages / (beta * spread)).exp().clamp(max=GREATEST_WEIGHT)
