"""The RLlib face of our networks: the one place that knows RLModule's shapes.

RLlib sees one flat Box observation: the vector, the mask, and the ticks since the last decision
(`envs.vector`, flat=True). It is split once per call, without touching the batch that others still read.
"""

from __future__ import annotations

from typing import Any

from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from rlsched.learn.config import Network
from rlsched.learn.networks import Critic, build_policy
from rlsched.scenario import Decision, Observation
from rlsched.sim.layout import Layout


def module_config(
    scenario_parts: tuple[Observation, Decision], resources: int, network: Network
) -> dict[str, Any]:
    """What `MaskedModule` is built from, as plain values that RLlib can store in a checkpoint."""
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
    """Policy and critic with one mask path, for on-policy algorithms."""

    def setup(self) -> None:
        """Build the networks from `model_config`, see `module_config`."""
        super().setup()
        self.layout = layout_of(self.model_config)
        network = Network.model_validate(self.model_config["network"])
        self.policy = build_policy(self.layout, network)
        self.critic = Critic(self.layout, network.critic_hidden)

    def _split(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
        flat = batch[Columns.OBS]
        return flat[:, : self.layout.size], flat[:, self.layout.size : -1]

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        vector, mask = self._split(batch)
        return {Columns.ACTION_DIST_INPUTS: self.policy(vector, mask)}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """(batch,) values."""
        return self.critic(self._split(batch)[0])
