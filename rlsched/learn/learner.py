"""What our learners on RLlib's torch stack have in common: small operations and memory that cost nothing."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.torch.torch_learner import TorchLearner

from rlsched.learn.memory import keep_freed


class LeanLearner(TorchLearner):
    """A learner whose weights move in one operation, and which keeps the memory that it frees."""

    def build(self) -> None:
        """Build what learns."""
        keep_freed()
        super().build()

    def configure_optimizers_for_module(self, module_id: str, config: AlgorithmConfig) -> None:
        """RLlib's Adam, as one operation for all weights instead of several for each."""
        parameters = self.get_parameters(self.module[module_id])
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam(parameters, fused=True),
            params=parameters,
            lr_or_lr_schedule=config.lr,
        )

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        """Go on from a state, perhaps of a learner whose Adam was not one operation."""
        super()._set_optimizer_state(state)
        for optimizer in self._named_optimizers.values():
            for group in optimizer.param_groups:
                group["fused"] = True
