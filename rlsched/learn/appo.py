"""APPO on RLlib's new API stack: V-trace in simulated time, and a learner whose death is heard of."""

from __future__ import annotations

import traceback
from typing import Any

import torch
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from torch import Tensor

from rlsched.learn.discounting import ending


class LearnerDiedError(RuntimeError):
    """The thread that learns has ended; the message says of what, and a note where."""


class GuardedAPPOLearner(APPOTorchLearner):
    """RLlib's APPO with transitions discounted by the ticks they took.

    It learns in a thread of its own, and RLlib never asks how that fares: once it has died of an exception,
    sampling goes on for ever or waits for ever. Here the next batch handed over raises that exception.

    `learner_config_dict` holds `gamma`, per tick; RLlib's own must be 1.
    """

    failure: BaseException | None = None

    def build(self) -> None:
        """Build as RLlib does, then put a guard around what its thread does."""
        super().build()
        self._learner_thread._update_method = guarded_update

    def update(self, *args: Any, **kwargs: Any) -> Any:
        """Hand a batch over to the thread.

        Raises:
            LearnerDiedError: it has died.
        """
        result = None if self.failure else super().update(*args, **kwargs)
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
        ended = ending(batch[Columns.TERMINATEDS], ticks, gamma)
        loss: Tensor = super().compute_loss_for_module(batch={**batch, Columns.TERMINATEDS: ended}, **kwargs)
        return loss


def guarded_update(self: GuardedAPPOLearner, **kwargs: Any) -> Any:
    """`Learner.update`; what it raises is kept for whoever hands over a batch or waits for results."""
    try:
        return Learner.update(self, **kwargs)
    except BaseException as error:
        self.failure = error
        self._learner_thread._stop_event.set()  # before the next batch
        self._agg_event.set()
        return None
