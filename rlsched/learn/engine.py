"""Interface between a training run and an algorithm, which trains in iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from rlsched.learn.pid import LimitCheck
from rlsched.learn.policy import NetworkPolicy


@dataclass(frozen=True)
class Progress:
    """Result of an iteration."""

    steps: int  # decisions since the run began: taken, or read from a dataset
    row: Mapping[str, float | None]  # figures for metrics.csv; None where there is none yet


class Engine(Protocol):
    """Running algorithm of a training run."""

    shortens_all: bool  # all remaining iterations of a run are shortened by one share; else only the last

    @property
    def usual_decisions(self) -> float:
        """Decisions of an iteration that is not shortened."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the figures that every iteration gives."""

    def iterate(
        self, run_fraction: float = 0.0, checks: Mapping[str, LimitCheck] | None = None, share: float = 1.0
    ) -> Progress:
        """Train for one iteration.

        Args:
            run_fraction: share of the run that is over.
            checks: cost with a limit -> its check in the last validation.
            share: of an iteration's usual decisions.
        """

    def policy(self) -> NetworkPolicy:
        """The present policy, as it would be saved."""

    def save(self, folder: Path) -> None:
        """Write everything that a resumed run needs into a folder that does not exist yet."""

    def restore(self, folder: Path, policy: NetworkPolicy) -> None:
        """Resume from a saved state, and the policy of the same checkpoint."""

    def stop(self) -> None:
        """Stop processes and close files."""


@runtime_checkable
class CalibratedEngine(Engine, Protocol):
    """Engine with policies that can be calibrated (`rlsched.learn.calibration`)."""

    def shift_noop(self, amount: float) -> None:
        """Add an amount to the logit of the no-op in every state, in the learner and in the policy."""


def number(value: object) -> float | None:
    """Convert to a plain number; None where there is none yet (RLlib's NaN until an episode has ended)."""
    plain = float("nan") if value is None else float(np.asarray(value))
    return plain if np.isfinite(plain) else None
