"""Networks of RARE: an actor and twin critics on one encoder, and target networks of all of them.

Critics estimate returns in normalised units (`popart`).
"""

from __future__ import annotations

from math import log
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    InferenceOnlyAPI,
)
from ray.rllib.utils.schedules.scheduler import Scheduler
from torch import Tensor, nn

from rlsched.learn.config.sections import Network
from rlsched.learn.networks.blocks import EncodedPolicy
from rlsched.learn.networks.critic import Critic, CriticView
from rlsched.learn.networks.module import LogitScale, TargetedModule
from rlsched.learn.networks.policies import SCORE_SCALE
from rlsched.learn.networks.popart import PopArt
from rlsched.sim.layout import Layout

WORTHS, NEXT_WORTHS = "worths", "next_worths"
ACTOR, CRITICS = "actor", "critics"


class TwinCritic(nn.Module):
    """One dueling critic: V(s) plus an advantage of each action, computed from the policy's encoding.

    Outputs are in units of the normalised returns.
    """

    def __init__(
        self, layout: Layout, network: Network, advantage: nn.Module, logit_scale: float, coming: Any
    ) -> None:
        super().__init__()
        self.value = Critic(layout, network.critic_hidden, coming)
        self.advantage = advantage
        self.worth = LogitScale(logit_scale * SCORE_SCALE)

    def forward(self, view: CriticView, mask: Tensor, encoded: Any) -> Tensor:
        """Q values (batch, actions); an illegal action gets the value of the state."""
        legal = mask > 0.5
        scores = self.advantage(encoded).where(legal, 0.0)
        mean = scores.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        return self.value.judge(view).unsqueeze(1) + self.worth((scores - mean).where(legal, 0.0))

    @torch.no_grad()
    def rescale(self, factor: float, offset: float) -> None:
        """Change the weights so that outputs are multiplied by `factor` and moved by `offset`."""
        self.value.rescale(factor, offset)
        self.worth.log.add_(log(factor))


class RareModule(TargetedModule, InferenceOnlyAPI):
    """The policy, its twin critics, and target networks of all of them.

    `model_config` also holds the `settings` of the algorithm and the `rollout_temperature`.

    Attributes:
        encoders: losses whose gradients reach the encoder, of `ACTOR` and `CRITICS`.
        rollout_temperature: divides the logits of the policy; 1 while a dataset is read.
    """

    targeted = ("policy", "critics")
    encoders = frozenset({CRITICS})

    def setup(self) -> None:
        """Build the networks and the schedule of exploration."""
        super().setup()
        del self.critic
        settings, network = (
            self.model_config["settings"],
            Network.model_validate(self.model_config["network"]),
        )
        policy = encoded(self.policy)
        self.critics = nn.ModuleList(
            TwinCritic(
                self.layout, network, policy.judge(), settings["logit_scale"], self.model_config["coming"]
            )
            for _ in range(2)
        )
        self.popart = PopArt(self.model_config["mean_return"], settings["norm_rate"], settings["value_scale"])
        self.log_temperature = nn.Parameter(torch.tensor(log(settings["temperature"])))
        ends = [[0, settings["epsilon"]], [settings["epsilon_steps"], settings["final_epsilon"]]]
        self.epsilon_schedule = Scheduler(ends, framework=self.framework)
        self.rollout_temperature = float(self.model_config["rollout_temperature"])

    def get_non_inference_attributes(self) -> list[str]:
        """Names of attributes that inference does not need."""
        return ["critics", "popart", "log_temperature", "target_policy", "target_critics"]

    def every_critic(self) -> list[TwinCritic]:
        """Both online critics and both target critics."""
        critics = [*self.critics, *self.target_critics]
        return [critic for critic in critics if isinstance(critic, TwinCritic)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Logits (batch, actions) of the target policy, and the lower Q of the two target critics.

        Q values are in units of reward, (batch, actions).
        """
        vector, mask = self._split(batch)
        policy = encoded(self.target_policy)
        means = policy.encode(vector, mask)
        worths = critic_values(self.target_critics, vector, mask, means)
        return {
            TARGET_NETWORK_ACTION_DIST_INPUTS: policy.choose(means, mask) / self.rollout_temperature,
            NEXT_WORTHS: self.popart.undo(worths.min(0).values),
        }

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """State values (batch,) under the policy, averaged over the critics, in units of reward."""
        vector, mask = self._split(batch)
        policy = encoded(self.policy)
        means = policy.encode(vector, mask)
        worths = critic_values(self.critics, vector, mask, means).mean(0)
        chances = (policy.choose(means, mask) / self.rollout_temperature).softmax(dim=1)
        return self.popart.undo((chances * worths).sum(1))

    def _forward_exploration(
        self, batch: dict[str, Any], t: int | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Logits (batch, actions) over the temperature, mixed with random legal actions by epsilon."""
        _, mask = self._split(batch)
        logits = self._forward(batch)[Columns.ACTION_DIST_INPUTS] / self.rollout_temperature
        chance = float(self.epsilon_schedule.update(t or 0))
        if chance > 0.0:
            anything = mask / mask.sum(1, keepdim=True).clamp(min=1)
            mixed = ((1 - chance) * torch.softmax(logits, dim=1) + chance * anything).log()
            logits = torch.where(mask > 0.5, mixed, logits)
        return {Columns.ACTION_DIST_INPUTS: logits}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Logits and Q values of the states with gradients, and of next states by the target networks."""
        vector, mask = self._split(batch)
        policy = encoded(self.policy)
        means = policy.encode(vector, mask)
        chosen, weighed = (means if loss in self.encoders else means.detach() for loss in (ACTOR, CRITICS))
        outputs = {
            Columns.ACTION_DIST_INPUTS: policy.choose(chosen, mask) / self.rollout_temperature,
            WORTHS: critic_values(self.critics, vector, mask, weighed),
        }
        if Columns.NEXT_OBS in batch:
            with torch.no_grad():
                outputs |= self.forward_target({Columns.OBS: batch[Columns.NEXT_OBS]})
        return outputs


def encoded(policy: nn.Module) -> EncodedPolicy:
    """Return the policy as an `EncodedPolicy`, the only kind that settings allow."""
    if not isinstance(policy, EncodedPolicy):
        raise TypeError(f"a {type(policy).__name__} encodes nothing")
    return policy


def critic_values(critics: nn.Module, vector: Tensor, mask: Tensor, means: Any) -> Tensor:
    """Q values (critic, batch, actions) of critics that share one view of the states."""
    judges = [critic for critic in critics.children() if isinstance(critic, TwinCritic)]
    view = judges[0].value.look(vector)
    return torch.stack([judge(view, mask, means) for judge in judges])
