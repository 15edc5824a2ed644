"""Summary of an ended training run, from its folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """Summary of an ended run."""

    scenario: Scenario
    folder: Path
    reason: Reason
    standing: Standing
    metric: str  # by which policies are compared
    episodes: int  # number of validation episodes
    best_heuristic: tuple[PolicyLabel, float]  # on these episodes, and its metric
    before: float | None  # the metric before training; None: not recorded
    plays: bool  # the saved policy is the best one; else the newest
    limits: dict[str, float]
    unmoved: tuple[str, ...]  # costs with a limit whose multiplier has never moved, if there are multipliers
    trained: bool = True  # by this command; else the run had ended before

    @classmethod
    def of(cls, folder: RunFolder, reason: Reason) -> Summary:
        """Read the summary from the folder of a run with a checkpoint.

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
        """Whether the saved policy kept all limits in validation, those of hoarding and those of costs."""
        return self.standing.best_excess == 0


def reason_to_end(config: ResolvedConfig, standing: Standing) -> Reason | None:
    """Reason to end a run by its settings; None: continue."""
    if standing.steps >= config.steps:
        return "steps"
    if config.minutes is not None and standing.seconds >= 60 * config.minutes:
        return "minutes"
    if standing.better and config.validation.until_better:
        return "better"
    patience = config.validation.patience
    if patience is not None and standing.since_best >= patience:
        return "no improvement"
    return None


def ended_before(config: ResolvedConfig, folder: RunFolder) -> Summary | None:
    """Summary of a run that has reached its end by these settings already; None: it has not."""
    latest, _ = folder.checkpoints.intact()
    reason = None if latest is None else reason_to_end(config, latest[1])
    return None if reason is None else replace(Summary.of(folder, reason), trained=False)
