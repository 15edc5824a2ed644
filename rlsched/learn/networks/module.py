"""RLModules around our networks; no other module depends on the batch layout of RLModule.

RLlib sees one flat Box observation: the vector, the mask, and the clock of its episode
(`envs.vector`, flat=True). Each call splits it, and leaves the batch unchanged for later readers.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.dqn.dqn_learner import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    InferenceOnlyAPI,
    QNetAPI,
    TargetNetworkAPI,
)
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.schedules.scheduler import Scheduler
from torch import Tensor, nn

from rlsched.learn.config.sections import Network
from rlsched.learn.networks.blocks import ILLEGAL
from rlsched.learn.networks.critic import BINS, Critic, centres, initial_logits
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.networks.recurrent import RecurrentPolicy, Remembered
from rlsched.scenario import Decision, Observation
from rlsched.sim.layout import Layout


def module_config(
    scenario_parts: tuple[Observation, Decision], resources: int, network: Network
) -> dict[str, Any]:
    """Entries of `model_config` for `MaskedModule`, as plain values that RLlib can store in a checkpoint."""
    observation, decision = scenario_parts
    return {
        "observation": observation.model_dump(mode="json"),
        "decision": decision.model_dump(mode="json"),
        "num_resources": resources,
        "network": network.model_dump(mode="json"),
    }


def layout_of(config: dict[str, Any]) -> Layout:
    """The layout that a `module_config` describes."""
    return Layout.of(
        Observation.model_validate(config["observation"]),
        Decision.model_validate(config["decision"]),
        config["num_resources"],
    )


class MaskedModule(TorchRLModule, ValueFunctionAPI):
    """Masked policy and a separate critic, for on-policy algorithms.

    Only the policy may have a memory: the critic sees privileged blocks.

    Attributes:
        together: decisions per training sequence of a recurrent policy; 0: the policy has no memory.
    """

    def setup(self) -> None:
        """Build the networks from `model_config`, see `module_config`."""
        super().setup()
        self.layout = layout_of(self.model_config)
        network = Network.model_validate(self.model_config["network"])
        self.policy = build_policy(self.layout, network)
        self.together = network.lstm_steps if network.lstm else 0
        self.critic = Critic(self.layout, network.critic_hidden, self.model_config["coming"])
        self.critic.begin_with(self.model_config["mean_return"])

    def _split(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
        flat = batch[Columns.OBS]
        return flat[:, : self.layout.size], flat[:, self.layout.size : -1]

    def get_initial_state(self) -> dict[str, NDArray[np.float32]]:
        """Initial recurrent state."""
        if not isinstance(self.policy, RecurrentPolicy):
            return {}
        return {name: of[0].cpu().numpy() for name, of in self.policy.begin(1)._asdict().items()}

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if isinstance(self.policy, RecurrentPolicy):
            return self._recall(self.policy, batch)
        vector, mask = self._split(batch)
        return {Columns.ACTION_DIST_INPUTS: self.policy(vector, mask)}

    def _recall(self, policy: RecurrentPolicy, batch: dict[str, Any]) -> dict[str, Any]:
        """Forward pass of a recurrent policy.

        In rollouts RLlib gives one decision of each episode, (episode, 1, size). Our learners give sequences
        one after the other.
        """
        memory = Remembered(**batch[Columns.STATE_IN])
        if Columns.SEQ_LENS in batch:
            logits = policy(*self._split(batch), memory, batch[Columns.SEQ_LENS])
            return {Columns.ACTION_DIST_INPUTS: logits}
        vector, mask = self._split({Columns.OBS: batch[Columns.OBS].squeeze(1)})
        logits, then = policy.step(vector, mask, memory)
        return {Columns.ACTION_DIST_INPUTS: logits.unsqueeze(1), Columns.STATE_OUT: then._asdict()}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """State values (batch,)."""
        return self.critic(self._split(batch)[0])

    def expected(self, batch: dict[str, Any]) -> Tensor:
        """Expected returns (batch, 1), of rewards alone."""
        return self.compute_values(batch).unsqueeze(1)


class ConstrainedModule(MaskedModule):
    """`MaskedModule` with a temperature, whose critic also estimates each cost that has a limit.

    The critic learns distributions over bins. Their mean is unbiased where few states have a hundred times
    the value of the others. A squared error would fit little but those states, and on a logarithmic scale it
    would neglect them.

    `model_config` also holds `mean_costs`, the initial estimate of each cost.
    """

    centres: Tensor  # (bin,) return at the centre of each bin
    temperature: Tensor  # divisor of logits in rollouts and updates; the greedy action does not change

    def setup(self) -> None:
        """Build the networks."""
        super().setup()
        hidden = Network.model_validate(self.model_config["network"]).critic_hidden
        means = torch.tensor([self.model_config["mean_return"], *self.model_config["mean_costs"]])
        self.register_buffer("centres", centres(), persistent=False)
        self.critic = Critic(self.layout, hidden, self.model_config["coming"], len(means) * BINS)
        self.critic.begin_with(*initial_logits(means, self.centres).flatten().tolist())
        self.register_buffer("temperature", torch.ones(()))

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        outputs = super()._forward(batch, **kwargs)
        logits = outputs[Columns.ACTION_DIST_INPUTS] / self.temperature
        # Illegal ones stay finite: their product with a probability of 0 is to be 0.
        return outputs | {Columns.ACTION_DIST_INPUTS: logits.clamp(min=ILLEGAL)}

    @property
    def persistence(self) -> float:
        """Chance that a draw of the no-op holds for the next decision; it grows as the temperature falls.

        A no-op that is slightly more likely than a job and is drawn anew at every event costs one event or
        two, while the greedy policy keeps waiting. A draw that holds makes rollouts wait as the greedy
        policy does.
        """
        return 1.0 - float(self.temperature)

    def distributions(self, batch: dict[str, Any]) -> Tensor:
        """Logits (batch, 1 + cost, bin) of the distributions of returns, of rewards and of each cost."""
        logits: Tensor = self.critic(self._split(batch)[0])
        return logits.view(len(logits), -1, BINS)

    def expected(self, batch: dict[str, Any]) -> Tensor:
        """Means (batch, 1 + cost) of these distributions."""
        return self.distributions(batch).softmax(dim=-1) @ self.centres

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """State values (batch,), of rewards alone."""
        return self.expected(batch)[:, 0]


class ClonedModule(MaskedModule):
    """`MaskedModule` with a frozen critic, for behavioral cloning.

    Learners in other processes wait for a gradient of every parameter, so unused ones must be frozen.
    """

    def setup(self) -> None:
        """Build the networks; only the policy learns."""
        super().setup()
        self.critic.requires_grad_(False)


class TargetedModule(MaskedModule, TargetNetworkAPI):
    """`MaskedModule` with target networks: of the policy alone, for APPO.

    The target network of `policy` is `target_policy`, and so on.
    """

    targeted: ClassVar[tuple[str, ...]] = ("policy",)  # networks that have a target network

    def make_target_networks(self) -> None:
        """Copy the networks."""
        for name in self.targeted:
            setattr(self, f"target_{name}", make_target_network(getattr(self, name)))

    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """(network, target network) pairs."""
        return [(getattr(self, name), getattr(self, f"target_{name}")) for name in self.targeted]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Masked logits (batch, actions) of the target policy."""
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.target_policy(*self._split(batch))}


class LogitScale(nn.Module):
    """Learned positive scale from logits to Q values."""

    def __init__(self, first: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(first).log())

    def forward(self, logits: Tensor) -> Tensor:
        """Scaled logits, in the same shape."""
        return self.log.exp() * logits


class QModule(TargetedModule, QNetAPI, InferenceOnlyAPI):
    """Dueling Q function on the networks of `MaskedModule` [Wang et al. 2016], for DQN.

    Q(s, a) = V(s) + c (logit(s, a) - mean of the legal logits), -inf for illegal actions. The critic alone
    gives V(s), and the policy alone gives the best action. The scale c, in units of reward per logit, is
    learned, too.

    `model_config` also holds `epsilon`, a schedule over decisions (RLlib adds it), and among the algorithm's
    `settings` the initial c, `logit_scale`.
    """

    targeted = ("policy", "critic", "worth")

    def setup(self) -> None:
        """Build the networks and the schedule."""
        super().setup()
        self.worth = LogitScale(self.model_config["settings"]["logit_scale"])
        self.epsilon_schedule = Scheduler(self.model_config["epsilon"], framework=self.framework)

    def get_non_inference_attributes(self) -> list[str]:
        """Names of attributes that inference does not need."""
        return ["critic", "worth", "target_policy", "target_critic", "target_worth"]

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTIONS: self.policy(*self._split(batch)).argmax(dim=1)}

    def _forward_exploration(
        self, batch: dict[str, Any], t: int | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Epsilon-greedy actions (batch,) among the legal ones."""
        _, mask = self._split(batch)
        best = self._forward(batch)[Columns.ACTIONS]
        chance = self.epsilon_schedule.update(t or 0)
        anything = torch.multinomial(mask, 1).squeeze(1)
        return {Columns.ACTIONS: torch.where(torch.rand_like(mask[:, 0]) < chance, anything, best)}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Q values of states and next states for double Q-learning [van Hasselt et al. 2016].

        Only those of the states take gradients. For next states, the policy's logits replace the online Q:
        only the best action is needed, and Q rises with the logit.
        """
        following = {Columns.OBS: batch[Columns.NEXT_OBS]}
        with torch.no_grad():
            logits, target = self.policy(*self._split(following)), self.forward_target(following)
        return {
            QF_PREDS: self.compute_q_values(batch)[QF_PREDS],
            QF_NEXT_PREDS: logits,
            QF_TARGET_NEXT_PREDS: target[QF_PREDS],
        }

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Q values (batch, actions) of the online networks."""
        return {QF_PREDS: self._q(batch, self.policy, self.critic, self.worth)}

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Q values (batch, actions) of the target networks."""
        return {QF_PREDS: self._q(batch, self.target_policy, self.target_critic, self.target_worth)}

    def _q(self, batch: dict[str, Any], policy: nn.Module, critic: nn.Module, worth: nn.Module) -> Tensor:
        vector, mask = self._split(batch)
        logits, legal = policy(vector, mask), mask > 0.5
        mean = logits.where(legal, 0.0).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        advantages = (logits - mean).where(legal, 0.0)
        return (critic(vector).unsqueeze(1) + worth(advantages)).where(legal, -torch.inf)
