"""What came of a sweep: one table of all runs, the best settings, and those that none beats in everything."""

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

BROKEN = 1000.0
"""What breaking a limit at all costs in a score, and again breaking it by all of it: more than logarithms of
what is compared can differ by."""

UNKNOWN = -1e12
"""The score of a trial that told nothing: searchers take no infinity."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """One trial.

    Attributes:
        name: of its folder.
        point: what was tried.
        runs: its seeds as far as they are.
        objectives: (objective,) means over these; NaN where nothing is known.
        excess: by how much limits are broken, mean over seeds.
        rank: by which trials are ordered, smaller is better: limits first, then the first objective.
        whole: every seed got to its end.
    """

    name: str
    point: Point
    runs: tuple[Run, ...]
    objectives: tuple[float, ...]
    excess: float
    rank: tuple[float, float]
    whole: bool


def objectives_of(point: Point, runs: Sequence[Run], targets: Sequence[Target]) -> tuple[float, ...]:
    """The mean over seeds of every objective; NaN where no seed knows it."""
    found = []
    for target in targets:
        if target.metric in point:
            found.append(float(point[target.metric]))
            continue
        values = [run.figures[target.metric] for run in runs if target.metric in run.figures]
        found.append(float(np.mean(values)) if values else float("nan"))
    return tuple(found)


def score(value: float, target: Target, excess: float) -> float:
    """An objective for a searcher, higher is better: its order is kept, and limits come before all else."""
    if np.isnan(value):
        return UNKNOWN
    good = value if target.mode == "max" else -value
    return float(np.sign(good) * np.log1p(abs(good))) - (BROKEN * (1.0 + excess) if excess > 0 else 0.0)


def rank(value: float, target: Target, excess: float) -> tuple[float, float]:
    """By which trials are ordered, as a run keeps its best policy: limits, then the objective."""
    if np.isnan(value):
        return np.inf, np.inf
    return excess, -value if target.mode == "max" else value


def outcomes(folder: SweepFolder) -> tuple[Sweep, tuple[Target, ...], list[Outcome]]:
    """The sweep, its objectives, and all its trials as they are, the best first and equal ones by name.

    Raises:
        BadInputError: the folder holds no sweep, or is damaged.
    """
    sweep = folder.read()
    where = str(folder.path)
    targets = sweep.targets(where)
    found = []
    for trial in folder.trials():
        _, point = trial.told()
        runs = tuple(run for seed in sweep.seeds if (run := trial.run(seed)) is not None)
        values = objectives_of(point, runs, targets)
        excess = float(np.mean([run.excess for run in runs])) if runs else np.inf
        order = rank(values[0], targets[0], excess)
        found.append(Outcome(trial.path.name, point, runs, values, excess, order, trial.done))
    return sweep, targets, sorted(found, key=lambda one: (one.rank, one.name))


def front(found: Sequence[Outcome], targets: Sequence[Target]) -> list[Outcome]:
    """Those that no other beats or equals in all objectives, being better in one [Pareto]; limits kept.

    Where no trial keeps its limits, all count.
    """
    known = [one for one in found if one.whole and not np.isnan(one.objectives).any()]
    kept = [one for one in known if all(run.excess <= 0 for run in one.runs)] or known
    signs = np.array([1.0 if target.mode == "min" else -1.0 for target in targets])
    losses = np.array([signs * one.objectives for one in kept]).reshape(len(kept), len(targets))
    return [
        one
        for one, loss in zip(kept, losses, strict=True)
        if not ((losses <= loss).all(axis=1) & (losses < loss).any(axis=1)).any()
    ]


def table(sweep: Sweep, found: Sequence[Outcome], targets: Sequence[Target]) -> pd.DataFrame:
    """One row per run: trial, its rank, whether it is whole and on the front, settings, seed, all figures.

    A setting is a number where it can be nothing else, and else a line of YAML.
    """
    ahead = {one.name for one in front(found, targets)}
    numbers = {key for key, domain in sweep.space.items() if domain.numeric}
    rows: list[dict[str, Any]] = []
    for rank, one in enumerate(found, start=1):
        settings = {
            f"set.{key}": value if key in numbers else text(value) for key, value in one.point.items()
        }
        rows += [
            {
                "trial": one.name,
                "rank": rank,
                "whole": one.whole,
                "front": one.name in ahead,
                **settings,
                "seed": run.seed,
                "steps": run.steps,
                "seconds": run.seconds,
                "excess": run.excess,
                **run.figures,
            }
            for run in one.runs
        ]
    return pd.DataFrame(rows)


def save(folder: SweepFolder, sweep: Sweep, targets: Sequence[Target], found: Sequence[Outcome]) -> None:
    """Write results.parquet, and the best settings as files to train with.

    Args:
        folder: of the sweep.
        sweep: these and what follows as `outcomes` gives them.
        targets: likewise.
        found: likewise.

    Raises:
        BadInputError: the folder cannot be written.
    """
    buffer = BytesIO()
    table(sweep, found, targets).to_parquet(buffer, index=False)
    try:
        write_whole(folder.results, buffer.getvalue())
        for old in folder.fronts():
            old.unlink()
        best = next((one for one in found if one.whole), None)
        if best is None:
            return
        write_whole(folder.best, runnable(sweep, folder, best))
        if len(targets) > 1:
            for number, one in enumerate(front(found, targets), start=1):
                write_whole(folder.path / f"front-{number}.yaml", runnable(sweep, folder, one))
    except OSError as error:
        raise BadInputError(str(folder.path), f"cannot be written ({error})", "make room") from None


def runnable(sweep: Sweep, folder: SweepFolder, one: Outcome) -> bytes:
    """A file for `rlsched train`, or where nothing was trained the scenario for `rlsched simulate`."""
    scenario, config = sweep.settings(str(folder.path), one.point)
    simulated = scenario.model_dump(mode="json")
    told = [f"# Trial {one.name} of {folder.path}: {', '.join(assignments(one.point))}"]
    if sweep.policy is not None:
        told.append(f"# rlsched simulate --scenario FILE --policy {sweep.policy}")
        values = simulated
    else:
        told.append("# rlsched train FILE")
        values = {**config.model_dump(mode="json"), "scenario": simulated}
    return ("\n".join(told) + "\n").encode() + yaml.safe_dump(values, sort_keys=False, encoding="utf-8")
