"""What studies tell of figures that are made up: which is the best order, what is gained, what is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from rlsched import scenario
from rlsched.evaluate.statistics import SummaryRow
from rlsched.report.style import to_png


@pytest.fixture
def study(request: pytest.FixtureRequest) -> ModuleType:
    """Import it by its name."""
    return import_module(f"benchmarks.{request.param}")


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("study", [name], indirect=True)


def labels(figure: Figure) -> set[str]:
    """All that is written in it."""
    return {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)}


def place_result(study: ModuleType, place: str, mean: float, low: float, high: float) -> Any:
    return study.PlaceResult(place, mean, 30.0, "area:easy", mean - 30.0, low, high, False)


@of("study_travel")
def test_seeds_are_compared_as_one_policy_with_the_best_heuristic(study: ModuleType) -> None:
    def row(policy: str, mean: float, *, learned: bool = False, **more: float) -> dict[str, Any]:
        arguments = {"policy": policy, "backfill": "easy", "metric": study.METRIC, "mean": mean}
        return arguments | {"learned": learned} | more

    ends = {"best_heuristic_difference": -6.0, "difference_low": -9.0, "difference_high": -2.0}
    rows = [row("sjf", 40.0), row("area", 30.0), row("runs/travels", 24.0, learned=True, **ends)]
    rows.append(row("area", 1.0) | {"metric": "wait"})
    reported = {"summary": rows, "hoarding": [{"policy": "runs/travels", "breached": ["wait"]}]}
    result = study.read("HPC2N", reported)
    assert result == study.PlaceResult("HPC2N", 24.0, 30.0, "area:easy", -6.0, -9.0, -2.0, True)
    assert result.verdict == "better"


@of("study_travel")
def test_members_that_are_shown_are_none_of_those_trained_on(study: ModuleType, tmp_path: Path) -> None:
    trained = {part.workload.parameters for part in scenario.load("lublin-family").workload.parts}
    files = [file for kind in study.UNSEEN_SEEDS for file in study.unseen(tmp_path / "members", kind)]
    displayed = [scenario.load(str(file)) for file in files]
    assert len(trained) == 96
    assert len(displayed) == len(set(files)) == 2 * study.UNSEEN_MEMBERS
    assert not trained & {item.workload.parameters for item in displayed}
    assert all(64 <= item.cluster.resources[0].units <= 4096 for item in displayed)


@of("lublin_family")
def test_the_shipped_family_is_the_one_that_is_written(study: ModuleType) -> None:
    members = study.family(study.TRAINING_SEED, study.TRAINING_MEMBERS)
    parts = scenario.load("lublin-family").model_dump(mode="json", exclude_unset=True)["workload"]["parts"]
    assert parts == members


@of("study_travel")
def test_places_are_listed_and_counted(study: ModuleType) -> None:
    result = [
        place_result(study, "a", 24.0, -8.0, -4.0),
        place_result(study, "b", 29.0, -3.0, 1.0),
        place_result(study, "c", 33.0, 1.0, 4.0),
    ]
    lines = study.table(result).splitlines()
    assert [line.split()[-1] for line in lines[1:4]] == ["better", "level", "worse"]
    assert lines[-1].strip() == "1 better, 1 level, 1 worse of 3"
    figure = study.draw(result[:2], result[2:])
    assert labels(figure) >= {"a", "b", "c"}
    assert to_png(figure).startswith(b"\x89PNG")


def made_up(study: ModuleType) -> dict[int, tuple[dict[str, Any], str]]:
    """The k-th formulation is k tenths worse than the best order, and takes k + 1 seconds."""
    ratios = {name: 1 + k / 10 for k, name in enumerate(study.FORMULATIONS)}
    return {
        size: (
            {
                name: study.Cell(np.full((2, 24), ratio), [k + 1.0, k + 1.0])
                for k, (name, ratio) in enumerate(ratios.items())
            },
            "sjf:greedy 2.00",
        )
        for size in study.CLUSTERS
    }


@of("study_formulations")
def test_formulations_are_listed_by_cluster_and_on_average(study: ModuleType) -> None:
    lines = study.table(made_up(study)).splitlines()
    assert lines[0].split()[-len(study.FORMULATIONS) :] == list(study.FORMULATIONS)
    assert len(lines) == 1 + len(study.CLUSTERS) + 2
    assert lines[1].split()[:3] == ["10", "sjf:greedy", "2.00"]
    assert lines[-2].split()[1:] == ["1.000", "1.100", "1.200", "1.300", "1.400", "1.500"]
    assert lines[-1].split()[-6:] == ["1.00", "2.00", "3.00", "4.00", "5.00", "6.00"]
    figure = study.draw(made_up(study))
    assert {form.about for form in study.FORMULATIONS.values()} <= labels(figure)


@of("study_formulations")
def test_who_else_computes_changes_no_time(study: ModuleType) -> None:
    assert study.Cell(np.ones((3, 2)), [2.0, 9.0, 1.0]).usual_seconds == 2.0


@of("study_formulations")
def test_time_counts_without_the_validation_between(study: ModuleType, tmp_path: Path) -> None:
    rows = ["steps,steps_per_second,seconds", "0,0.0,0", "1000,500.0,2", "3000,1000.0,60"]
    (tmp_path / "metrics.csv").write_text("\n".join(rows))
    assert study.seconds(tmp_path) == pytest.approx(4 / 3)


def row(policy: str, mean: float, **learned: Any) -> SummaryRow:
    known: Mapping[str, Any] = {field: None for field in SummaryRow.__dataclass_fields__}
    reported = {"policy": policy, "backfill": "greedy", "metric": "slowdown", "learned": bool(learned)}
    return SummaryRow(**{**known, **reported, "mean": mean, "low": mean - 1, "high": mean + 1, **learned})


@of("study_deeprm")
def test_learners_and_heuristics_are_listed_best_first(study: ModuleType) -> None:
    ahead = {"best_heuristic_difference": -0.5, "difference_low": -0.75, "difference_high": -0.25}
    rows = [row("sjf", 2.5), row("runs/ppo-1", 2.0, **ahead)]
    rows += [replace(item, metric="wait", mean=60.0 * item.mean) for item in rows]
    rows += [replace(item, metric="schedule_span", mean=1.25) for item in rows[:2]]
    lines = study.table(rows, {"runs/ppo-1": 20.4}).splitlines()
    assert " ".join(lines[1].split()) == "ppo-1 2.000 [1.00, 3.00] -0.50 [-0.75, -0.25] 120 1.25 20"
    assert " ".join(lines[2].split()) == "sjf:greedy 2.500 [1.50, 3.50] 150 1.25"


@of("study_deeprm")
def test_curves_of_seeds_end_where_the_shortest_ends(study: ModuleType, tmp_path: Path) -> None:
    curves = []
    for k, points in enumerate((3, 2)):
        run = tmp_path / f"ppo-{k}"
        run.mkdir()
        rows = [f"{100 * i},{10 * (i + k)},{5 - i}" for i in range(points)]
        (run / "metrics.csv").write_text("\n".join(["steps,seconds,validation_slowdown", *rows]) + "\n")
        at = 100.0 * np.arange(points)
        curves.append(study.Curve(str(run), at, at, at, 5.0 - np.arange(points), at > 0))
    result = study.learned(curves)
    assert result.steps.tolist() == [0, 100]
    assert result.seconds.tolist() == [5, 15]
    assert result.values.tolist() == [[5, 4], [5, 4]]
    figure = study.draw({"ppo": result, "a2c": result}, {"sjf": 2.0})
    assert {"PPO", "A2C", "sjf 2.00"} <= labels(figure)


def of_limits(study: ModuleType, slowdown: float, wait: float, cost: float, limit: float) -> Any:
    """What is read of an evaluation with one policy and three heuristics."""

    def row(policy: str, backfill: str, metric: str, mean: float, *, learned: bool = False) -> dict[str, Any]:
        ends = {"low": 0.8 * mean, "high": 1.25 * mean}
        return {"policy": policy, "backfill": backfill, "metric": metric, "mean": mean, **ends} | {
            "learned": learned
        }

    rows = []
    known = (("sjf", "greedy", 40.0, 500.0), ("sjf", "easy", 30.0, 600.0), ("fcfs", "easy", 90.0, 900.0))
    for policy, backfill, mean, waited in known:
        rows.append(row(policy, backfill, "bounded_slowdown", mean))
        rows.append(row(policy, backfill, "wait", waited))
    rows.append(row("runs/a", "policy", "bounded_slowdown", slowdown, learned=True))
    rows.append(row("runs/a", "policy", "wait", wait * 500.0, learned=True))
    assessed = {"policy": "runs/a", "cost": "wait_time", "limit": limit, "paid": cost}
    limits = [assessed | {"low": 0.9 * cost, "high": 1.1 * cost}]
    return study.read("1.3 x sjf", {"summary": rows, "limits": limits})


@of("study_limits")
def test_waits_are_multiples_of_greedy_sjfs_and_limits_are_checked_by_interval(study: ModuleType) -> None:
    policy, heuristics = of_limits(study, slowdown=12.0, wait=1.25, cost=65_000.0, limit=60_000.0)
    assert (policy.name, policy.wait, policy.slowdown) == ("1.3 x sjf", 1.25, 12.0)
    assert {item.name: item.wait for item in heuristics} == {
        "sjf + greedy": 1.0,
        "sjf + easy": 1.2,
        "fcfs + easy": 1.8,
    }
    assert study.share(policy.limits[0]) == "1.08 [0.975, 1.19] kept"
    beyond, _ = of_limits(study, slowdown=12.0, wait=1.25, cost=70_000.0, limit=60_000.0)
    assert study.share(beyond.limits[0]).endswith("exceeded")
    starved, _ = of_limits(study, slowdown=12.0, wait=1.25, cost=0.0, limit=0.0)
    assert study.share(starved.limits[0]) == "0 [0, 0] kept"
    *_, last = study.table([policy], heuristics).splitlines()
    assert last.split()[:3] == ["sjf", "+", "easy"]


@of("study_limits")
def test_the_trade_off_is_drawn_with_every_limit(study: ModuleType) -> None:
    policy, heuristics = of_limits(study, slowdown=12.0, wait=1.25, cost=1.0, limit=1.0)
    figure = study.draw({"lublin-256": ([policy, policy._replace(name="1.6 x sjf", wait=1.5)], heuristics)})
    assert {"PPO, 1.3 x sjf", "PPO, 1.6 x sjf", "lublin-256", "heuristics"} <= labels(figure)
    assert to_png(figure).startswith(b"\x89PNG")
