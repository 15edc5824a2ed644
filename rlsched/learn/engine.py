"""What makes policies better, one iteration after the other; a training run knows no more of it than this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from rlsched.learn.pid import LimitCheck
from rlsched.learn.policy import TrainedPolicy


@dataclass(frozen=True)
class Progress:
    """What an iteration came to.

    Attributes:
        steps: decisions since the run began: taken, or read from a dataset.
        row: figures for the record, None where there is none yet.
    """

    steps: int
    row: Mapping[str, float | None]


class Engine(Protocol):
    """An algorithm at work.

    Attributes:
        shortens_all: all remaining iterations of a run are shortened by one share; else only the last is.
    """

    shortens_all: bool

    @property
    def usual_decisions(self) -> float:
        """Of an iteration that is not shortened."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the figures that every iteration gives."""

    def iterate(
        self, run_fraction: float = 0.0, checks: Mapping[str, LimitCheck] | None = None, share: float = 1.0
    ) -> Progress:
        """One iteration.

        Args:
            run_fraction: share of the run that is over.
            checks: cost with a limit -> what the last validation says of it.
            share: of an iteration's usual decisions.
        """

    def policy(self) -> TrainedPolicy:
        """The policy that would be kept now."""

    def save(self, folder: Path) -> None:
        """Write everything that going on needs into a folder that is not there yet."""

    def restore(self, folder: Path, policy: TrainedPolicy) -> None:
        """Resume from a saved state, and the policy of the same checkpoint."""

    def stop(self) -> None:
        """Let go of processes and files."""


@runtime_checkable
class CalibratedEngine(Engine, Protocol):
    """An algorithm whose policies can be calibrated (`rlsched.learn.calibration`)."""

    def shift_noop(self, amount: float) -> None:
        """Add an amount to the logit of the no-op in every state, in what learns and in the policy."""


def number(value: object) -> float | None:
    """A plain number, or None where there is none yet (RLlib says NaN until an episode has ended)."""
    plain = float("nan") if value is None else float(np.asarray(value))
    return plain if np.isfinite(plain) else None
