"""The best trial, the Pareto front, and the table, compared with all pairs of trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlsched.learn.config.training import read_config
from rlsched.tune.folder import Run, SweepFolder
from rlsched.tune.results import (
    Outcome,
    load_outcomes,
    objectives_of,
    pareto_front,
    rank,
    save_results,
    score,
)
from rlsched.tune.sweep import Sweep, Target

TARGETS = (Target(metric="job_value_ratio", mode="max"), Target(metric="wait", mode="min"))


def outcome(name: str, values: tuple[float, float], excess: float = 0.0, whole: bool = True) -> Outcome:
    run = Run(0, 1, 1.0, excess, dict(zip(("job_value_ratio", "wait"), values, strict=True)))
    return Outcome(name, {}, (run,), values, excess, rank(values[0], TARGETS[0], excess), whole)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_no_trial_dominates_the_front(values: list[tuple[int, int]]) -> None:
    trials = [outcome(str(k), (float(a), float(b))) for k, (a, b) in enumerate(values)]
    expected = {
        trial.name
        for trial in trials
        if not any(
            rival.objectives[0] >= trial.objectives[0]
            and rival.objectives[1] <= trial.objectives[1]
            and rival.objectives != trial.objectives
            for rival in trials
        )
    }
    assert {trial.name for trial in pareto_front(trials, TARGETS)} == expected


def test_a_violation_ranks_last() -> None:
    feasible, violating = outcome("feasible", (0.2, 5.0)), outcome("violating", (0.9, 1.0), excess=1e-3)
    unfinished = outcome("unfinished", (0.95, 0.5), whole=False)
    assert feasible.rank < violating.rank
    assert [trial.name for trial in pareto_front([feasible, violating, unfinished], TARGETS)] == ["feasible"]
    assert [trial.name for trial in pareto_front([violating], TARGETS)] == ["violating"]


def test_objectives_are_means_of_seeds_or_searched_settings() -> None:
    runs = [Run(k, 1, 1.0, 0.0, {"wait": float(k)}) for k in range(3)]
    targets = (Target(metric="wait", mode="min"), Target(metric="a.b", mode="min"))
    assert objectives_of({"a.b": 7}, runs, targets) == (1.0, 7.0)
    missing = objectives_of({}, runs, (Target(metric="slowdown", mode="min"),))
    assert np.isnan(missing[0])


VALUES, BREACHES = st.floats(-1e9, 1e9), st.floats(1e-6, 1e6)


@given(VALUES, VALUES, BREACHES, st.sampled_from(["max", "min"]))
def test_scores_rank_violations_last(a: float, b: float, excess: float, mode: str) -> None:
    """On any scale of the objective; a trial without a result ranks behind both."""
    target = Target.model_validate({"metric": "wait", "mode": mode})
    assert rank(a, target, 0.0) < rank(b, target, excess) < rank(float("nan"), target, 0.0)
    assert score(a, target, 0.0) > score(b, target, excess) > score(float("nan"), target, 0.0)


@given(VALUES, VALUES, st.sampled_from([0.0, 0.5]), st.sampled_from(["max", "min"]))
def test_scores_keep_the_order_of_objectives(a: float, b: float, excess: float, mode: str) -> None:
    target = Target.model_validate({"metric": "wait", "mode": mode})
    assume(abs(a - b) > 1e-6 * max(1.0, abs(a), abs(b)))
    better = score(a, target, excess) > score(b, target, excess)
    assert better == (rank(a, target, excess) < rank(b, target, excess)) == ((a > b) == (mode == "max"))


def test_results_come_from_the_files_alone(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Evaluations of two settings with two seeds; a third one lacks a seed."""
    sweep = Sweep.model_validate(
        {
            **tiny,
            "base": {"scenario": "green-10"},
            "policy": "sjf:now",
            "space": {"workload.load": {"values": [0.5, 1.0, 1.5]}, "decision.window": {"values": [5]}},
            "objectives": [{"metric": "job_value_ratio"}, {"metric": "workload.load", "mode": "max"}],
        }
    )
    folder = SweepFolder(tmp_path / "sweep")
    folder.create(sweep)
    for k, point in enumerate(sweep.points()):
        trial = folder.trial(point)
        trial.create(point)
        for seed in sweep.seeds[: 1 if k == 2 else 2]:
            trial.save_figures(seed, 2.0, {"job_value_ratio": 0.9 - 0.2 * k + 0.01 * seed})
        if k < 2:
            trial.mark_done()
    _, _, trials = load_outcomes(folder)
    assert [trial.point["workload.load"] for trial in trials] == [0.5, 1.0, 1.5]
    assert [trial.whole for trial in trials] == [True, True, False]
    save_results(folder, *load_outcomes(folder))
    table = pd.read_parquet(folder.results)
    assert table["seed"].tolist() == [0, 1, 0, 1, 0]
    assert table["front"].tolist() == [True, True, True, True, False]
    assert table["set.workload.load"].tolist() == [0.5, 0.5, 1.0, 1.0, 1.5]
    assert table["job_value_ratio"].tolist() == [0.9, 0.91, 0.7, 0.71, 0.5]
    assert [path.name for path in folder.fronts()] == ["front-1.yaml", "front-2.yaml"]


@pytest.mark.parametrize("first", [0, 1])
def test_the_rank_of_equal_trials_does_not_depend_on_their_start(
    tiny: dict[str, Any], tmp_path: Path, first: int
) -> None:
    sweep = Sweep.model_validate({**tiny, "policy": None, "seeds": [0]})
    folder = SweepFolder(tmp_path / "sweep")
    folder.create(sweep)
    points = sweep.points()
    for point in (points[first], points[1 - first]):
        trial = folder.trial(point)
        trial.create(point)
        trial.save_figures(0, 2.0, {"job_value_ratio": 0.5})
        trial.mark_done()
    names = [trial.name for trial in load_outcomes(folder)[2]]
    assert names == sorted(names)
    assert len(names) == 2


def test_the_best_settings_are_a_training_file(tiny: dict[str, Any], tmp_path: Path) -> None:
    sweep = Sweep.model_validate({**tiny, "policy": None})
    folder = SweepFolder(tmp_path / "sweep")
    folder.create(sweep)
    point = sweep.points()[1]
    trial = folder.trial(point)
    trial.create(point)
    for seed in sweep.seeds:
        trial.save_figures(seed, 2.0, {"job_value_ratio": 0.5})
    trial.mark_done()
    save_results(folder, *load_outcomes(folder))
    assert read_config(folder.best) == sweep.settings("here", point)
