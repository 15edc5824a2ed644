"""BC and MARWIL on RLlib's new API stack, from our datasets."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.bc import BC
from ray.rllib.algorithms.marwil import MARWIL
from ray.rllib.algorithms.marwil.torch.marwil_torch_learner import MARWILTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from torch import Tensor

from rlsched.learn.algorithms.bc import AGREEMENT
from rlsched.learn.rllib.dataset import Reading
from rlsched.learn.rllib.learner import LeanLearner
from rlsched.learn.rllib.minibatches import Minibatches

SQUARES = "mean_squared_advantages"


class ReadingBC(Reading, BC):
    """Behavioural cloning."""


class ReadingMARWIL(Reading, MARWIL):
    """Monotonic advantage re-weighted imitation learning."""


class ReadingLearner(LeanLearner):
    """Learner from a dataset, which reports how often its greedy policy agrees with the dataset."""

    def _create_iterator_if_necessary(
        self,
        *,
        training_data: Any,
        num_total_minibatches: int = 0,
        minibatch_size: int | None = None,
        **kwargs: Any,
    ) -> Minibatches:
        rows = training_data.batch.policy_batches[DEFAULT_MODULE_ID]
        columns = {name: torch.as_tensor(values).to(self.device) for name, values in rows.items()}
        size = minibatch_size or len(columns[Columns.OBS])
        return Minibatches(columns, size, 1, num_total_minibatches)

    def log_agreement(self, module_id: str, preferences: Tensor, actions: Tensor) -> None:
        """Log how often the best action, by logits or Q (row, action), is that of the dataset (row,)."""
        agreed = (preferences.detach().argmax(dim=1) == actions).float().mean()
        minibatches_per_iteration = max(
            1, self.config.train_batch_size_per_learner // self.config.minibatch_size
        )
        self.metrics.log_value((module_id, AGREEMENT), agreed, window=minibatches_per_iteration)


class CloningLearner(ReadingLearner, MARWILTorchLearner):
    """RLlib's learner of MARWIL, and of BC as MARWIL without weights.

    A resumed run keeps its scale of advantages, which RLlib would begin anew.
    """

    def compute_loss_for_module(
        self, *, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor], **kwargs: Any
    ) -> Tensor:
        """Compute RLlib's loss, and report the agreement."""
        self.log_agreement(module_id, fwd_out[Columns.ACTION_DIST_INPUTS], batch[Columns.ACTIONS])
        loss: Tensor = super().compute_loss_for_module(
            module_id=module_id, batch=batch, fwd_out=fwd_out, **kwargs
        )
        return loss

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state, and the moving mean of squared advantages."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        norms = self.moving_avg_sqd_adv_norms_per_module
        return state | {SQUARES: {module_id: float(norm) for module_id, norm in norms.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state; states of older versions have no such mean."""
        super().set_state(state)
        for module_id, norm in state.get(SQUARES, {}).items():
            self.moving_avg_sqd_adv_norms_per_module[module_id] = self._get_tensor_variable(norm)
