"""Our datasets in place of RLlib's offline data.

RLlib reads datasets through Ray Data, row by row into episodes and back into batches, with actors of its own
for it. Here a reader returns whole arrays (`offline.reader`), in the process of the learner or the driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.offline.offline_data import OfflineData
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import AHEAD, RETURN, Reader, Rows

CHOICES = ("obs", "action_mask", "actions")
"""Columns of states and actions."""

TRANSITIONS = (*CHOICES, *AHEAD)
"""Columns of whole transitions: states, actions, rewards and next states."""


class Dataset(OfflineData):
    """RLlib's `OfflineData` on a dataset of ours.

    `input_` is its folder; `input_read_method_kwargs` hold the `columns` to read, `seed` of the order, rows
    that were `read_before`, `gamma` per tick, `n_step`, and `reward_scale`.
    """

    def __init__(self, config: Any) -> None:
        settings, folder = dict(config.input_read_method_kwargs), Path(config.input_[0])
        self.reward_scale = settings.pop("reward_scale")
        self.reader = Reader(folder, read_manifest(folder), **settings)

    def sample(self, num_samples: int, **_: Any) -> MultiAgentBatch:
        """The next `num_samples` decisions, as a batch of RLlib's."""
        columns = learned_from(self.reader.take(num_samples), self.reward_scale)
        return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=num_samples)


def learned_from(rows: Rows, reward_scale: float) -> dict[str, NDArray[Any]]:
    """Rows of a dataset in the columns of RLlib."""
    columns = {Columns.OBS: flat(rows["obs"], rows["action_mask"]), Columns.ACTIONS: rows["actions"]}
    if "new_obs" in rows:
        columns |= {
            Columns.NEXT_OBS: flat(rows["new_obs"], rows["new_action_mask"], rows["elapsed"]),
            Columns.REWARDS: rows["rewards"].astype(np.float32) * np.float32(reward_scale),
            Columns.TERMINATEDS: rows["terminateds"],
        }
    if RETURN in rows:
        columns[Postprocessing.VALUE_TARGETS] = rows[RETURN] * np.float32(reward_scale)
    return columns


def flat(
    obs: NDArray[np.float32], mask: NDArray[Any], clock: NDArray[Any] | float = 0.0
) -> NDArray[np.float32]:
    """Flat observations (row, size + actions + 1): vector, mask and clock, 0 before a transition."""
    rows, size = obs.shape
    flattened = np.empty((rows, size + mask.shape[1] + 1), np.float32)
    flattened[:, :size] = obs
    flattened[:, size:-1] = mask
    flattened[:, -1] = clock
    return flattened


class Reading(Algorithm):
    """RLlib algorithm that learns from a dataset, one batch per iteration, with any number of learners."""

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
        """Restore a checkpoint; RLlib's method would also update runners, and there are none."""
        Checkpointable.restore_from_path(self, path, *args, **kwargs)

    def cleanup(self) -> None:
        """Close files and processes."""
        self.offline_data.reader.close()
        super().cleanup()
