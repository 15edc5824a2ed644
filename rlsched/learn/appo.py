"""APPO on RLlib's new API stack: V-trace in simulated time, and a learner whose death is heard of."""

from __future__ import annotations

import traceback
from queue import Queue
from typing import Any

import torch
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from torch import Tensor

from rlsched.learn.discounting import ending
from rlsched.learn.learner import LeanLearner

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


class GuardedAPPOLearner(LeanLearner, APPOTorchLearner):
    """RLlib's APPO with transitions discounted by the ticks they took.

    It learns in a thread of its own, and RLlib never asks how that fares: once it has died of an exception,
    sampling goes on for ever or waits for ever. Here the next batch handed over raises that exception.

    `learner_config_dict` holds `gamma`, per tick; RLlib's own must be 1.
    """

    failure: BaseException | None = None

    def build(self) -> None:
        """Build as RLlib does, then put guards around what its thread does."""
        super().build()
        thread = self._learner_thread  # it waits for a batch, and has no results yet
        self._learner_thread_out_queue = thread._out_queue = Results()
        thread._update_method = guarded_update
        step = thread.step  # the first one waits for a batch already; what follows its update is not guarded

        def guarded_step() -> bool:
            try:
                return bool(step())
            except BaseException as error:
                self.failed(error)
                return False

        thread.step = guarded_step

    def failed(self, error: BaseException) -> None:
        """Keep what ended the thread for whoever hands over a batch, and wake whoever waits for results."""
        self.failure = error
        self._learner_thread._stop_event.set()  # before the next batch
        self._agg_event.set()

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
        if self.failure is not None:
            died = LearnerDiedError(f"the learner died of {type(self.failure).__name__}: {self.failure}")
            died.add_note("".join(traceback.format_exception(self.failure)).rstrip())
            raise died
        return result

    def compute_loss_for_module(self, *, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        """RLlib's loss; the last number of an observation is the clock of its episode."""
        clock = batch[Columns.OBS][:, -1]
        ticks = torch.diff(clock, append=clock[-1:]).clamp(min=0)  # below 0: to the row of another episode
        gamma = self.config.learner_config_dict["gamma"]
        told = {
            **batch,
            Columns.TERMINATEDS: ending(batch[Columns.TERMINATEDS], ticks, gamma),
            # Rows that only hold a bootstrap state weigh nothing. RLlib takes their discount away, but not
            # their error 0 - V, which would go into the row before and cancel its bootstrap.
            Columns.ACTION_LOGP: batch[Columns.ACTION_LOGP].where(batch[Columns.LOSS_MASK], NEVER_CHOSEN),
        }
        loss: Tensor = super().compute_loss_for_module(batch=told, **kwargs)
        return loss


def guarded_update(self: GuardedAPPOLearner, **kwargs: Any) -> Any:
    """`Learner.update`; what it raises is kept."""
    try:
        return Learner.update(self, **kwargs)
    except BaseException as error:
        self.failed(error)
        return None
