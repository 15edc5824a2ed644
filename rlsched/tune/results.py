"""Results of a sweep: one table of all runs, the best settings, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import yaml

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.tune.folder import Run, SweepFolder
from rlsched.tune.space import Point, assignments, text
from rlsched.tune.sweep import Sweep, Target

VIOLATION_PENALTY = 1000.0
"""Penalty of a score for a violated limit, and again for a violation by the whole limit: more than the
logarithms of two objectives can differ by."""

UNKNOWN_SCORE = -1e12
"""Score of a trial without a result: searchers do not accept infinity."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one trial."""

    name: str  # of its folder
    point: Point
    runs: tuple[Run, ...]  # of its seeds, as far as they exist
    objectives: tuple[float, ...]  # means over seeds; NaN without a value
    excess: float  # violation of limits, mean over seeds
    rank: tuple[float, float]  # smaller is better: limits first, then the first objective
    whole: bool  # all seeds are completed


def objectives_of(point: Point, runs: Sequence[Run], targets: Sequence[Target]) -> tuple[float, ...]:
    """The mean over seeds of every objective; NaN where no seed has it."""
    objectives = []
    for target in targets:
        if target.metric in point:
            objectives.append(float(point[target.metric]))
            continue
        values = [run.figures[target.metric] for run in runs if target.metric in run.figures]
        objectives.append(float(np.mean(values)) if values else float("nan"))
    return tuple(objectives)


def score(value: float, target: Target, excess: float) -> float:
    """An objective for a searcher, higher is better: in the same order, with violations below all others."""
    if np.isnan(value):
        return UNKNOWN_SCORE
    gain = value if target.mode == "max" else -value
    penalty = VIOLATION_PENALTY * (1.0 + excess) if excess > 0 else 0.0
    return float(np.sign(gain) * np.log1p(abs(gain))) - penalty


def rank(value: float, target: Target, excess: float) -> tuple[float, float]:
    """The order of trials, as a run selects its best policy: limits, then the objective."""
    if np.isnan(value):
        return np.inf, np.inf
    return excess, -value if target.mode == "max" else value


def load_outcomes(folder: SweepFolder) -> tuple[Sweep, tuple[Target, ...], list[Outcome]]:
    """The sweep, its objectives, and the results of all trials so far, the best first, equal ones by name.

    Raises:
        BadInputError: the folder holds no sweep, or is damaged.
    """
    sweep = folder.read()
    where = str(folder.path)
    targets = sweep.targets(where)
    outcomes = []
    for trial in folder.trials():
        _, point = trial.read_point()
        runs = tuple(run for seed in sweep.seeds if (run := trial.read_run(seed)) is not None)
        values = objectives_of(point, runs, targets)
        excess = float(np.mean([run.excess for run in runs])) if runs else np.inf
        order = rank(values[0], targets[0], excess)
        outcomes.append(Outcome(trial.path.name, point, runs, values, excess, order, trial.done))
    return sweep, targets, sorted(outcomes, key=lambda outcome: (outcome.rank, outcome.name))


def pareto_front(outcomes: Sequence[Outcome], targets: Sequence[Target]) -> list[Outcome]:
    """The completed trials that no other one dominates, among those that keep their limits.

    A trial dominates another where it is as good in all objectives, and better in one [Pareto]. Where no
    trial keeps its limits, all completed ones count.
    """
    complete = [outcome for outcome in outcomes if outcome.whole and not np.isnan(outcome.objectives).any()]
    feasible = [outcome for outcome in complete if all(run.excess <= 0 for run in outcome.runs)] or complete
    signs = np.array([1.0 if target.mode == "min" else -1.0 for target in targets])
    losses = np.array([signs * outcome.objectives for outcome in feasible])
    losses = losses.reshape(len(feasible), len(targets))
    return [
        outcome
        for outcome, loss in zip(feasible, losses, strict=True)
        if not ((losses <= loss).all(axis=1) & (losses < loss).any(axis=1)).any()
    ]


def results_table(sweep: Sweep, outcomes: Sequence[Outcome], targets: Sequence[Target]) -> pd.DataFrame:
    """One row per run: trial, rank, whether complete and on the front, settings, seed, all metrics.

    A setting with only numbers is a number, any other one a line of YAML.
    """
    front = {outcome.name for outcome in pareto_front(outcomes, targets)}
    numbers = {key for key, domain in sweep.space.items() if domain.numeric}
    rows: list[dict[str, Any]] = []
    for rank, outcome in enumerate(outcomes, start=1):
        settings = {
            f"set.{key}": value if key in numbers else text(value) for key, value in outcome.point.items()
        }
        rows += [
            {
                "trial": outcome.name,
                "rank": rank,
                "whole": outcome.whole,
                "front": outcome.name in front,
                **settings,
                "seed": run.seed,
                "steps": run.steps,
                "seconds": run.seconds,
                "excess": run.excess,
                **run.figures,
            }
            for run in outcome.runs
        ]
    return pd.DataFrame(rows)


def save_results(
    folder: SweepFolder, sweep: Sweep, targets: Sequence[Target], outcomes: Sequence[Outcome]
) -> None:
    """Write results.parquet, and the best settings as files to train with; arguments of `load_outcomes`.

    Raises:
        BadInputError: the folder cannot be written.
    """
    buffer = BytesIO()
    results_table(sweep, outcomes, targets).to_parquet(buffer, index=False)
    try:
        write_whole(folder.results, buffer.getvalue())
        for old in folder.fronts():
            old.unlink()
        best = next((outcome for outcome in outcomes if outcome.whole), None)
        if best is None:
            return
        write_whole(folder.best, config_file(sweep, folder, best))
        if len(targets) > 1:
            for number, outcome in enumerate(pareto_front(outcomes, targets), start=1):
                write_whole(folder.path / f"front-{number}.yaml", config_file(sweep, folder, outcome))
    except OSError as error:
        raise BadInputError(str(folder.path), f"cannot be written ({error})", "make room") from None


def config_file(sweep: Sweep, folder: SweepFolder, outcome: Outcome) -> bytes:
    """A file for `rlsched train`; without training the scenario for `rlsched simulate`."""
    scenario, config = sweep.settings(str(folder.path), outcome.point)
    scenario_values = scenario.model_dump(mode="json")
    comments = [f"# Trial {outcome.name} of {folder.path}: {', '.join(assignments(outcome.point))}"]
    if sweep.policy is not None:
        comments.append(f"# rlsched simulate --scenario FILE --policy {sweep.policy}")
        values = scenario_values
    else:
        comments.append("# rlsched train FILE")
        values = {**config.model_dump(mode="json"), "scenario": scenario_values}
    return ("\n".join(comments) + "\n").encode() + yaml.safe_dump(values, sort_keys=False, encoding="utf-8")
