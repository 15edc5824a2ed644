"""The best, the front, and the table: against looking at every pair."""

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
from rlsched.tune.results import Outcome, front, objectives_of, outcomes, rank, save, score
from rlsched.tune.sweep import Sweep, Target

TARGETS = (Target(metric="job_value_ratio", mode="max"), Target(metric="wait", mode="min"))


def outcome(name: str, values: tuple[float, float], excess: float = 0.0, whole: bool = True) -> Outcome:
    run = Run(0, 1, 1.0, excess, dict(zip(("job_value_ratio", "wait"), values, strict=True)))
    return Outcome(name, {}, (run,), values, excess, rank(values[0], TARGETS[0], excess), whole)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_the_front_is_whom_nobody_beats(values: list[tuple[int, int]]) -> None:
    found = [outcome(str(k), (float(a), float(b))) for k, (a, b) in enumerate(values)]
    expected = {
        one.name
        for one in found
        if not any(
            other.objectives[0] >= one.objectives[0]
            and other.objectives[1] <= one.objectives[1]
            and other.objectives != one.objectives
            for other in found
        )
    }
    assert {one.name for one in front(found, TARGETS)} == expected


def test_who_breaks_limits_is_behind_who_keeps_them() -> None:
    kept, broken = outcome("kept", (0.2, 5.0)), outcome("broken", (0.9, 1.0), excess=1e-3)
    unfinished = outcome("unfinished", (0.95, 0.5), whole=False)
    assert kept.rank < broken.rank
    assert [one.name for one in front([kept, broken, unfinished], TARGETS)] == ["kept"]
    assert [one.name for one in front([broken], TARGETS)] == ["broken"]


def test_objectives_are_means_of_seeds_or_what_was_searched() -> None:
    runs = [Run(k, 1, 1.0, 0.0, {"wait": float(k)}) for k in range(3)]
    targets = (Target(metric="wait", mode="min"), Target(metric="a.b", mode="min"))
    assert objectives_of({"a.b": 7}, runs, targets) == (1.0, 7.0)
    missing = objectives_of({}, runs, (Target(metric="slowdown", mode="min"),))
    assert np.isnan(missing[0])


VALUES, BREACHES = st.floats(-1e9, 1e9), st.floats(1e-6, 1e6)


@given(VALUES, VALUES, BREACHES, st.sampled_from(["max", "min"]))
def test_who_keeps_limits_is_told_to_searchers_as_better(
    a: float, b: float, excess: float, mode: str
) -> None:
    """On whatever scale the objective is; who told nothing is behind both."""
    target = Target.model_validate({"metric": "wait", "mode": mode})
    assert rank(a, target, 0.0) < rank(b, target, excess) < rank(float("nan"), target, 0.0)
    assert score(a, target, 0.0) > score(b, target, excess) > score(float("nan"), target, 0.0)


@given(VALUES, VALUES, st.sampled_from([0.0, 0.5]), st.sampled_from(["max", "min"]))
def test_searchers_are_told_the_order_of_objectives(a: float, b: float, excess: float, mode: str) -> None:
    target = Target.model_validate({"metric": "wait", "mode": mode})
    assume(abs(a - b) > 1e-6 * max(1.0, abs(a), abs(b)))
    told = score(a, target, excess) > score(b, target, excess)
    assert told == (rank(a, target, excess) < rank(b, target, excess)) == ((a > b) == (mode == "max"))


def test_a_sweep_is_told_from_its_files_alone(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Of a policy that plays: two settings, two seeds; one seed of the third is missing yet."""
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
        trial.begin(point)
        for seed in sweep.seeds[: 1 if k == 2 else 2]:
            trial.save_figures(seed, 2.0, {"job_value_ratio": 0.9 - 0.2 * k + 0.01 * seed})
        if k < 2:
            trial.finish()
    _, _, found = outcomes(folder)
    assert [one.point["workload.load"] for one in found] == [0.5, 1.0, 1.5]
    assert [one.whole for one in found] == [True, True, False]
    save(folder, *outcomes(folder))
    table = pd.read_parquet(folder.results)
    assert table["seed"].tolist() == [0, 1, 0, 1, 0]
    assert table["front"].tolist() == [True, True, True, True, False]
    assert table["set.workload.load"].tolist() == [0.5, 0.5, 1.0, 1.0, 1.5]
    assert table["job_value_ratio"].tolist() == [0.9, 0.91, 0.7, 0.71, 0.5]
    assert [path.name for path in folder.fronts()] == ["front-1.yaml", "front-2.yaml"]


@pytest.mark.parametrize("first", [0, 1])
def test_equal_trials_are_ranked_the_same_whichever_began_first(
    tiny: dict[str, Any], tmp_path: Path, first: int
) -> None:
    sweep = Sweep.model_validate({**tiny, "policy": None, "seeds": [0]})
    folder = SweepFolder(tmp_path / "sweep")
    folder.create(sweep)
    points = sweep.points()
    for point in (points[first], points[1 - first]):
        trial = folder.trial(point)
        trial.begin(point)
        trial.save_figures(0, 2.0, {"job_value_ratio": 0.5})
        trial.finish()
    names = [one.name for one in outcomes(folder)[2]]
    assert names == sorted(names)
    assert len(names) == 2


def test_the_best_settings_are_a_training_file(tiny: dict[str, Any], tmp_path: Path) -> None:
    sweep = Sweep.model_validate({**tiny, "policy": None})
    folder = SweepFolder(tmp_path / "sweep")
    folder.create(sweep)
    point = sweep.points()[1]
    trial = folder.trial(point)
    trial.begin(point)
    for seed in sweep.seeds:
        trial.save_figures(seed, 2.0, {"job_value_ratio": 0.5})
    trial.finish()
    save(folder, *outcomes(folder))
    assert read_config(folder.best) == sweep.settings("here", point)
