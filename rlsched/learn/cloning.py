"""BC and MARWIL on RLlib's new API stack: networks that learn from a dataset what to do.

RLlib reads datasets through Ray Data, row by row into episodes and back into batches, with actors of its own
for it. Here a reader deals out whole arrays (`offline.reader`), in the process that learns or drives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.bc import BC
from ray.rllib.algorithms.marwil import MARWIL
from ray.rllib.algorithms.marwil.torch.marwil_torch_learner import MARWILTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.offline.offline_data import OfflineData
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME
from torch import Tensor

from rlsched.learn.learner import LeanLearner
from rlsched.learn.minibatches import Minibatches
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import RETURN, Reader, Rows

AGREEMENT = "agreement"


class Dataset(OfflineData):
    """A dataset of ours, where RLlib wants one of its own.

    `input_` is its folder; `input_read_method_kwargs` hold the `columns` to read, `seed` of the order, rows
    that were `read_before`, `gamma` per tick, and `reward_scale`.
    """

    def __init__(self, config: Any) -> None:
        told = config.input_read_method_kwargs
        folder = Path(config.input_[0])
        self.reward_scale = told["reward_scale"]
        self.reader = Reader(
            folder,
            read_manifest(folder),
            told["columns"],
            seed=told["seed"],
            gamma=told["gamma"],
            read_before=told["read_before"],
        )

    def sample(self, num_samples: int, **_: Any) -> MultiAgentBatch:
        """So many decisions as modules and learners know them."""
        rows = self.reader.take(num_samples)
        obs = flat(rows["obs"], rows["action_mask"])
        columns = {Columns.OBS: obs, Columns.ACTIONS: rows["actions"]}
        if RETURN in rows:
            columns[Postprocessing.VALUE_TARGETS] = rows[RETURN] * np.float32(self.reward_scale)
        return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=num_samples)


def flat(obs: Any, mask: Any) -> Any:
    """(row, size + actions + 1) observations as learners see them; the clock stands still."""
    rows, size = obs.shape
    found = np.zeros((rows, size + mask.shape[1] + 1), np.float32)
    found[:, :size] = obs
    found[:, size:-1] = mask
    return found


class Reading(MARWIL):
    """Learns from what a dataset deals out, so much per iteration, with any number of learners."""

    offline_data: Dataset

    def training_step(self) -> None:
        """Read, and learn from every row once."""
        batch = self.offline_data.sample(self.config.total_train_batch_size)
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, batch.count, reduce="lifetime_sum")
        learned = self.learner_group.update(
            batch=batch,
            minibatch_size=self.config.minibatch_size,
            timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: self.metrics.peek(NUM_ENV_STEPS_SAMPLED_LIFETIME)},
        )
        self.metrics.aggregate(learned, key=LEARNER_RESULTS)

    def restore_from_path(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Go on from a checkpoint; RLlib's would also tell runners, and there are none."""
        Checkpointable.restore_from_path(self, path, *args, **kwargs)

    def cleanup(self) -> None:
        """Let go of files and processes."""
        self.offline_data.reader.close()
        super().cleanup()


class ReadingBC(Reading, BC):
    """Behavioural cloning."""


class ReadingMARWIL(Reading):
    """Monotonic advantage re-weighted imitation learning."""


class CloningLearner(LeanLearner, MARWILTorchLearner):
    """RLlib's loss of MARWIL, of which BC is the one without weights; tells how often it does the same."""

    def _create_iterator_if_necessary(
        self,
        *,
        training_data: Any,
        num_total_minibatches: int = 0,
        minibatch_size: int | None = None,
        **kwargs: Any,
    ) -> Minibatches:
        rows: Rows = training_data.batch.policy_batches[DEFAULT_MODULE_ID]
        columns = {name: torch.as_tensor(values).to(self.device) for name, values in rows.items()}
        size = minibatch_size or len(columns[Columns.OBS])
        return Minibatches(columns, size, 1, num_total_minibatches)

    def compute_loss_for_module(
        self, *, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor], **kwargs: Any
    ) -> Tensor:
        """RLlib's loss, and the share of decisions that the best action is the one of the dataset."""
        best = fwd_out[Columns.ACTION_DIST_INPUTS].argmax(dim=1)
        agreed = (best == batch[Columns.ACTIONS]).float().mean()
        minibatches = max(1, self.config.train_batch_size_per_learner // self.config.minibatch_size)
        self.metrics.log_value((module_id, AGREEMENT), agreed.detach(), window=minibatches)
        loss: Tensor = super().compute_loss_for_module(
            module_id=module_id, batch=batch, fwd_out=fwd_out, **kwargs
        )
        return loss
