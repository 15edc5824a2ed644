"""What our learners on RLlib's torch stack have in common: small operations and memory that cost nothing."""

from __future__ import annotations

import os
from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from rlsched.learn.rllib.memory import keep_freed
from rlsched.learn.rllib.ray_compat import optimizers, set_gradients


class LeanLearner(TorchLearner):
    """A learner whose weights move in one operation, and which keeps the memory that it frees.

    RLlib clips every gradient by itself and looks twice whether it is finite, which takes longer than small
    minibatches do; here all of them are one operation, and their common norm tells the same.
    """

    def build(self) -> None:
        """Build what learns."""
        keep_freed()
        leave_cores()
        super().build()

    def postprocess_gradients_for_module(
        self, *, module_id: str, config: AlgorithmConfig, module_gradients_dict: dict[Any, Tensor]
    ) -> dict[Any, Tensor]:
        """Gradients of a common norm of at most `grad_clip`, in place; by RLlib if one is not finite."""
        gradients = list(module_gradients_dict.values())
        norm = get_total_norm(gradients)
        self.finite = bool(norm.isfinite())
        self.metrics.log_value((module_id, "gradient_norm"), norm.detach(), window=1)
        if not self.finite:
            return super().postprocess_gradients_for_module(
                module_id=module_id, config=config, module_gradients_dict=module_gradients_dict
            )
        if norm > config.grad_clip:
            torch._foreach_mul_(gradients, config.grad_clip / (norm + 1e-6))
        return module_gradients_dict

    def apply_gradients(self, gradients_dict: dict[Any, Tensor]) -> None:
        """Move the weights; RLlib's way, which sets what is not finite to 0, where a gradient is not."""
        if not self.finite:
            super().apply_gradients(gradients_dict)
            return
        set_gradients(self, gradients_dict)
        for optimizer in optimizers(self):
            optimizer.step()

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
        for optimizer in optimizers(self):
            for group in optimizer.param_groups:
                group["fused"] = True


def leave_cores() -> None:
    """Compute in at most half as many threads as there are cores.

    Minibatches are small, and their threads meet after every operation: where one of two cores is busy with
    something else, each waits for the other's turn, and all is two to four times slower than in one thread.
    """
    torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 2) // 2)))


@torch.no_grad()
def follow(network: nn.Module, target: nn.Module, share: float) -> None:
    """Let the weights of one network go this share of the way to those of another, in one operation."""
    torch._foreach_lerp_(list(target.parameters()), list(network.parameters()), share)
