"""APPO on RLlib's new API stack: V-trace in simulated time, and errors of the learner thread are raised."""

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

from rlsched.learn.rllib.learner import LeanLearner, discounts
from rlsched.learn.rllib.memory import HELD, Memory
from rlsched.learn.rllib.ray_compat import LearnerThread
from rlsched.learn.supervisor import Supervised

NEVER_CHOSEN = 1e4
"""Log probability under the behaviour policy that makes importance weights 0."""


class LearnerDiedError(RuntimeError):
    """The learner thread has died; the message names the exception, and a note holds its traceback."""


class Results(Queue[dict[str, Any]]):
    """Queue of results of updates, which are merged into one when they are taken.

    RLlib takes one result for every batch that it hands over, but there are several updates with every batch
    (`appo.epochs`). So results would pile up during a run, and be reported later and later.
    """

    def _get(self) -> dict[str, Any]:
        waiting = list(self.queue)
        self.queue.clear()
        if len(waiting) == 1:
            return waiting[0]
        together = MetricsLogger(root=True)  # only a root logger accepts throughputs
        together.aggregate(waiting)
        result: dict[str, Any] = together.reduce()
        return result


def with_last_states(episodes: Sequence[SingleAgentEpisode], memory: Memory) -> dict[str, NDArray[Any]]:
    """Columns of pieces of episodes, one after the other, each with a row for the state after its last.

    The result is that of RLlib's pipeline. RLlib lengthens the episodes themselves and copies them once for
    each connector. Its arrays, allocated for every batch beside a learner thread, fragmented the heap.

    Args:
        episodes: finalised.
        memory: for the arrays. They live as long as their batch. Even small ones would fragment the heap,
            between allocations of the learner thread.

    Returns:
        Arrays (row, ...). In rows of a last state the loss mask is False, the reward 0, and action and log
        probability are those of the row before.
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
    before = np.cumsum(real) - 1  # index among the transitions alone

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
    """RLlib's APPO with supervision of its remote runners."""


class TimedAPPOLearner(LeanLearner, APPOTorchLearner):
    """RLlib's APPO learner with transitions discounted by their ticks.

    APPO learns in a thread, and RLlib does not check that thread. After an exception there, sampling would
    continue or wait forever. Here the next `update` raises that exception.

    `learner_config_dict` holds `gamma`, per tick; RLlib's own must be 1.
    """

    failure: BaseException | None = None

    def build(self) -> None:
        """Build as RLlib does, then catch exceptions in the learner thread."""
        self.memory = Memory()
        self.handed_over: deque[Any] = deque(maxlen=HELD)
        super().build()
        self.thread = LearnerThread(self)
        self.thread.set_results(Results())
        self.thread.wrap(guarded_update, self.failed)

    def failed(self, error: BaseException) -> None:
        """Store the exception for the next `update`, and wake the thread that waits for results."""
        self.failure = error
        self.thread.stop()

    def update(self, *, training_data: TrainingData, **kwargs: Any) -> Any:
        """Hand a batch over to the thread; none, where the node that held the fragments is gone.

        Raises:
            LearnerDiedError: the thread has died.
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
            # Rows that only hold a bootstrap state get weight 0. RLlib sets their discount to 0, but not
            # their error 0 - V, which would go into the row before and cancel its bootstrap.
            Columns.ACTION_LOGP: batch[Columns.ACTION_LOGP].where(batch[Columns.LOSS_MASK], NEVER_CHOSEN),
        }
        loss: Tensor = super().compute_loss_for_module(batch=in_time, **kwargs)
        return loss


def guarded_update(self: TimedAPPOLearner, **kwargs: Any) -> Any:
    """Call `Learner.update`, and store its exceptions."""
    try:
        return Learner.update(self, **kwargs)
    except BaseException as error:
        self.failed(error)
        return None


def ending(terminated: Tensor, ticks: Tensor, gamma: float) -> Tensor:
    """Chance (row,) that a transition terminates, with the discount as a chance; 1 where the episode ended.

    RLlib's learners discount per decision: they multiply by their own gamma and by 1 - terminated. A discount
    is the chance that later rewards count at all [Sutton and Barto 2018, 5.8]. So with RLlib's gamma at 1, a
    transition that terminates with chance 1 - gamma^k is discounted correctly.
    """
    return 1.0 - discounts(ticks, gamma) * (1.0 - terminated.float())
