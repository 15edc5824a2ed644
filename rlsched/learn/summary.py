"""How a training run ended, as its folder says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlsched.evaluate.statistics import PolicyLabel
from rlsched.json_files import parse_json
from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.folder import RunFolder
from rlsched.learn.selection import best_by_mean
from rlsched.scenario import Scenario

Reason = Literal["steps", "minutes", "no improvement", "better", "interrupted", "paused"]


@dataclass(frozen=True)
class Summary:
    """How a run ended.

    Attributes:
        scenario: that was simulated.
        folder: of the run.
        reason: why it did.
        standing: how far it was.
        metric: by which policies are compared.
        episodes: of the validation.
        best_heuristic: the best heuristic in these, and its metric.
        before: the metric before training; None where nobody wrote it down.
        plays: the kept policy is the best, else the newest.
        limits: cost -> its limit.
        unmoved: costs with a limit whose multiplier has never moved, where there are multipliers.
        trained: by this command; else it was at its end before.
    """

    scenario: Scenario
    folder: Path
    reason: Reason
    standing: Standing
    metric: str
    episodes: int
    best_heuristic: tuple[PolicyLabel, float]
    before: float | None
    plays: bool
    limits: dict[str, float]
    unmoved: tuple[str, ...]
    trained: bool = True

    @classmethod
    def of(cls, folder: RunFolder, reason: Reason) -> Summary:
        """What the folder of a run says.

        Args:
            folder: with a checkpoint.
            reason: why the run ended.

        Raises:
            BadInputError: there is no run.
        """
        scenario, config = folder.read()
        latest = folder.latest()
        assert latest is not None, "a run ends with a checkpoint"
        facts = parse_json(folder.validation.read_text("utf-8"))
        metric = facts["metric"]
        heuristics = {PolicyLabel(*name.split(":")): values for name, values in facts["heuristics"].items()}
        best = best_by_mean(heuristics, metric)
        limits = facts["limits"]
        return cls(
            scenario,
            folder.path,
            reason,
            latest[1],
            metric,
            facts["episodes"],
            (best, heuristics[best][metric]),
            before=folder.first(f"validation_{metric}"),
            plays=config.plays,
            limits=limits,
            unmoved=tuple(
                name
                for name in limits
                if config.algorithm.within_limits and folder.first(f"{name}_cost") is None
            ),
        )

    @property
    def within_limits(self) -> bool:
        """Whether the kept policy kept all limits in validation, those of hoarding and those of costs."""
        return self.standing.best_excess == 0


def reason_to_end(config: ResolvedConfig, standing: Standing) -> Reason | None:
    """Why a run is at its end by its settings; None: it is not."""
    if standing.steps >= (config.steps):
        return "steps"
    if config.minutes is not None and standing.seconds >= 60 * config.minutes:
        return "minutes"
    if standing.better and config.validation.until_better:
        return "better"
    patience = config.validation.patience
    if patience is not None and standing.since_best >= patience:
        return "no improvement"
    return None
