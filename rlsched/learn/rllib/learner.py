"""Base of our learners on RLlib's torch stack: fused operations and reuse of freed memory."""

from __future__ import annotations

import os
from math import log
from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from rlsched.learn.rllib.memory import keep_freed
from rlsched.learn.rllib.ray_compat import optimizers, set_gradients


class LeanLearner(TorchLearner):
    """Torch learner with a fused optimizer step, which keeps the memory that it frees.

    RLlib clips gradients one by one and checks twice that they are finite, which takes longer than a small
    minibatch. Here clipping is one operation for all gradients, and their common norm shows whether they are
    finite.
    """

    def build(self) -> None:
        """Build the module and the optimizers, and set up memory and threads.

        At most half of the cores compute. Minibatches are small, and threads synchronise after every
        operation. Where one of two cores is busy with other work, both threads wait for each other, and
        learning is two to four times slower than in one thread.
        """
        keep_freed()
        torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 2) // 2)))
        super().build()

    def postprocess_gradients_for_module(
        self, *, module_id: str, config: AlgorithmConfig, module_gradients_dict: dict[Any, Tensor]
    ) -> dict[Any, Tensor]:
        """Clip gradients in place to a global norm of `grad_clip`; RLlib does it if one is not finite."""
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
        """Update the weights; RLlib does it, with non-finite gradients as 0, if one is not finite."""
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
        """Restore a state, and fuse Adam, which was not fused in states of older versions."""
        super()._set_optimizer_state(state)
        for optimizer in optimizers(self):
            for group in optimizer.param_groups:
                group["fused"] = True


@torch.no_grad()
def follow(network: nn.Module, target: nn.Module, share: float) -> None:
    """Move the target network's weights this share of the way to those of the network, in one operation."""
    torch._foreach_lerp_(list(target.parameters()), list(network.parameters()), share)


def discounts(ticks: Tensor, gamma: float) -> Tensor:
    """Discount factor gamma^k (row,) of transitions that take k ticks [Cunha 2022, 4.7.3]."""
    # As exp: float32 powers of a gamma near 1 have large errors over long transitions.
    return torch.exp(ticks * log(gamma))
