"""BC and MARWIL on RLlib's new API stack: networks that learn from a dataset what to do."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.bc import BC
from ray.rllib.algorithms.marwil import MARWIL
from ray.rllib.algorithms.marwil.torch.marwil_torch_learner import MARWILTorchLearner
from ray.rllib.core.columns import Columns
from torch import Tensor

from rlsched.learn.algorithms.bc import AGREEMENT
from rlsched.learn.rllib.dataset import Reading, minibatches
from rlsched.learn.rllib.learner import LeanLearner
from rlsched.learn.rllib.minibatches import Minibatches

SQUARES = "mean_squared_advantages"


class ReadingBC(Reading, BC):
    """Behavioural cloning."""


class ReadingMARWIL(Reading, MARWIL):
    """Monotonic advantage re-weighted imitation learning."""


class ReadingLearner(LeanLearner):
    """A learner of what was read, that tells how often its policy would have done the same."""

    def _create_iterator_if_necessary(
        self,
        *,
        training_data: Any,
        num_total_minibatches: int = 0,
        minibatch_size: int | None = None,
        **kwargs: Any,
    ) -> Minibatches:
        return minibatches(training_data, minibatch_size, num_total_minibatches, self.device)

    def log_agreement(self, module_id: str, preferences: Tensor, actions: Tensor) -> None:
        """The share of decisions that the best action is the one of the dataset.

        Args:
            module_id: whose.
            preferences: (row, action), the best one the highest.
            actions: (row,) of the dataset.
        """
        agreed = (preferences.detach().argmax(dim=1) == actions).float().mean()
        minibatches_per_iteration = max(
            1, self.config.train_batch_size_per_learner // self.config.minibatch_size
        )
        self.metrics.log_value((module_id, AGREEMENT), agreed, window=minibatches_per_iteration)


class CloningLearner(ReadingLearner, MARWILTorchLearner):
    """RLlib's loss of MARWIL, of which BC is the one without weights.

    Its scale of advantages goes on with a run, which RLlib would begin anew.
    """

    def compute_loss_for_module(
        self, *, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor], **kwargs: Any
    ) -> Tensor:
        """RLlib's loss, reported."""
        self.log_agreement(module_id, fwd_out[Columns.ACTION_DIST_INPUTS], batch[Columns.ACTIONS])
        loss: Tensor = super().compute_loss_for_module(
            module_id=module_id, batch=batch, fwd_out=fwd_out, **kwargs
        )
        return loss

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's, and the mean square of advantages."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        norms = self.moving_avg_sqd_adv_norms_per_module
        return state | {SQUARES: {module_id: float(norm) for module_id, norm in norms.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from there; older checkpoints have no such mean."""
        super().set_state(state)
        for module_id, norm in state.get(SQUARES, {}).items():
            self.moving_avg_sqd_adv_norms_per_module[module_id] = self._get_tensor_variable(norm)
