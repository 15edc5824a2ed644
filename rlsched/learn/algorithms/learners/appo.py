"""APPO on RLlib's new API stack: V-trace in simulated time, and a learner whose death is heard of."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Sequence
from queue import Queue
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from ray.rllib.algorithms.appo import APPO
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from torch import Tensor

from rlsched.learn.rllib.discounting import ending
from rlsched.learn.rllib.learner import LeanLearner
from rlsched.learn.rllib.memory import HELD, Memory
from rlsched.learn.rllib.ray_compat import LearnerThread
from rlsched.learn.supervisor import Supervised

NEVER_CHOSEN = 1e4
"""As a log probability of the behaviour: importance weights against it are 0."""


class LearnerDiedError(RuntimeError):
    """The thread that learns has ended; the message says of what, and a note where."""


class Results(Queue[dict[str, Any]]):
    """What updates came to, until somebody takes it: all at once, as of one update.

    RLlib takes one result for every batch that it hands over, but every batch is learned from several times
    (`appo.epochs`). So results would pile up for as long as a run lasts, and be told ever later.
    """

    def _get(self) -> dict[str, Any]:
        waiting = list(self.queue)
        self.queue.clear()
        if len(waiting) == 1:
            return waiting[0]
        together = MetricsLogger(root=True)  # no other takes throughputs
        together.aggregate(waiting)
        result: dict[str, Any] = together.reduce()
        return result


def with_last_states(episodes: Sequence[SingleAgentEpisode], memory: Memory) -> dict[str, NDArray[Any]]:
    """Columns of pieces of episodes, one after the other, each with a row for the state after its last.

    What RLlib's pipeline makes of them, which lengthens the episodes themselves and copies them once for each
    of its parts: the arrays of a batch, made anew each time beside a thread that learns, broke up the heap.

    Args:
        episodes: finalised.
        memory: for the arrays. They stay as long as their batch does: between what the thread takes and frees
            meanwhile, small ones keep a heap from closing up, too.

    Returns:
        Arrays (row, ...). In rows of a last state nothing was done: the loss mask is False, the reward 0, and
        action and log probability are those before.
    """
    observed = [episode.get_observations() for episode in episodes]
    last = np.cumsum([len(of_one) for of_one in observed]) - 1
    rows = int(last[-1]) + 1
    real = memory.empty("mask", (rows,), np.bool_)
    real[:] = True
    real[last] = False
    terminated = memory.empty("terminated", (rows,), np.bool_)
    terminated[:] = False
    terminated[last - 1] = [episode.is_terminated for episode in episodes]
    before = np.cumsum(real) - 1  # row of the transitions alone

    def of_rows(name: str, pieces: list[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
        column = memory.empty(name, (rows,), dtype)
        column[:] = np.concatenate(pieces)[before]
        return column

    rewards = of_rows("rewards", [episode.get_rewards() for episode in episodes], np.float32)
    rewards[last] = 0.0
    logp = [episode.get_extra_model_outputs(Columns.ACTION_LOGP) for episode in episodes]
    actions = [episode.get_actions() for episode in episodes]
    shape = (rows, *observed[0].shape[1:])
    return {
        Columns.OBS: np.concatenate(observed, out=memory.empty("obs", shape, np.float32)),
        Columns.ACTIONS: of_rows("actions", actions, actions[0].dtype),
        Columns.REWARDS: rewards,
        Columns.ACTION_LOGP: of_rows("logp", logp, logp[0].dtype),
        Columns.TERMINATEDS: terminated,
        Columns.LOSS_MASK: real,
    }


class SupervisedAPPO(Supervised, APPO):
    """RLlib's APPO whose remote runners are supervised."""


class TimedAPPOLearner(LeanLearner, APPOTorchLearner):
    """RLlib's APPO with transitions discounted by the ticks they took.

    It learns in a thread of its own, and RLlib never asks how that fares: once it has died of an exception,
    sampling goes on for ever or waits for ever. Here the next batch handed over raises that exception.

    `learner_config_dict` holds `gamma`, per tick; RLlib's own must be 1.
    """

    failure: BaseException | None = None

    def build(self) -> None:
        """Build as RLlib does, then put guards around what its thread does."""
        self.memory = Memory()
        self.handed_over: deque[Any] = deque(maxlen=HELD)
        super().build()
        self.thread = LearnerThread(self)
        self.thread.set_results(Results())
        self.thread.wrap(guarded_update, self.failed)

    def failed(self, error: BaseException) -> None:
        """Keep what ended the thread for whoever hands over a batch, and wake whoever waits for results."""
        self.failure = error
        self.thread.stop()

    def update(self, *, training_data: TrainingData, **kwargs: Any) -> Any:
        """Hand a batch over to the thread; nothing, where the node is gone on which the fragments lay.

        Raises:
            LearnerDiedError: it has died.
        """
        result = {}
        if self.failure is None:
            training_data.solve_refs()
            if training_data.episodes != []:
                result = super().update(training_data=training_data, **kwargs)
                if "_rl_module_state_after_update" in result:
                    self.handed_over.append(result["_rl_module_state_after_update"])
        if self.failure is not None:
            died = LearnerDiedError(f"the learner died of {type(self.failure).__name__}: {self.failure}")
            died.add_note("".join(traceback.format_exception(self.failure)).rstrip())
            raise died
        return result

    def _make_batch_if_necessary(self, training_data: TrainingData) -> MultiAgentBatch:
        if training_data.episodes is None:  # the thread has its batch
            return super()._make_batch_if_necessary(training_data=training_data)
        columns = with_last_states(training_data.episodes, self.memory)
        tensors = {name: torch.from_numpy(of).to(self.device) for name, of in columns.items()}
        decisions = sum(len(episode) for episode in training_data.episodes)
        return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(tensors)}, env_steps=decisions)

    def compute_loss_for_module(self, *, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        """RLlib's loss; the last number of an observation is the clock of its episode."""
        clock = batch[Columns.OBS][:, -1]
        ticks = torch.diff(clock, append=clock[-1:]).clamp(min=0)  # below 0: to the row of another episode
        gamma = self.config.learner_config_dict["gamma"]
        in_time = {
            **batch,
            Columns.TERMINATEDS: ending(batch[Columns.TERMINATEDS], ticks, gamma),
            # Rows that only hold a bootstrap state weigh nothing. RLlib takes their discount away, but not
            # their error 0 - V, which would go into the row before and cancel its bootstrap.
            Columns.ACTION_LOGP: batch[Columns.ACTION_LOGP].where(batch[Columns.LOSS_MASK], NEVER_CHOSEN),
        }
        loss: Tensor = super().compute_loss_for_module(batch=in_time, **kwargs)
        return loss


def guarded_update(self: TimedAPPOLearner, **kwargs: Any) -> Any:
    """`Learner.update`; what it raises is kept."""
    try:
        return Learner.update(self, **kwargs)
    except BaseException as error:
        self.failed(error)
        return None
