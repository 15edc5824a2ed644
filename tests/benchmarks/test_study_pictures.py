"""What studies tell of figures that are made up: which is the best order, what is gained, what is drawn."""

from __future__ import annotations

import json
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
from rlsched.learn.config import make_config
from rlsched.report.style import to_png
from rlsched.scenario import Scenario

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """As it is when it is run: its folder is where it finds the others."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module(request.param)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("study", [name], indirect=True)


def labels(figure: Figure) -> set[str]:
    """All that is written in it."""
    return {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)}


def one(study: ModuleType, mean: float, difference: tuple[float, float, float] | None = None) -> Any:
    return study.Shown(mean, mean - 2, mean + 2, 0.75, difference, False)


def on_a_trace(study: ModuleType, trace: str) -> dict[str, Any]:
    return {
        "sjf:greedy": one(study, 40.0),
        "area:easy": one(study, 30.0),
        "runs/travels-0": one(study, 24.0, (-6.0, -8.0, -4.0)),
        "runs/travels-1": one(study, 27.0, (-3.0, -8.0, 2.0)),
        "runs/linear-hold-0": one(study, 29.0, (-1.0, -2.0, 1.0)),
        f"runs/own-{trace}-0": one(study, 22.0, (-8.0, -9.0, -7.0)),
    }


@of("study_travel")
def test_the_best_order_is_found_and_policies_are_known_by_their_folders(study: ModuleType) -> None:
    found = on_a_trace(study, "HPC2N")
    assert study.best_order(found) == ("area:easy", found["area:easy"])
    assert [study.kind_of(name) for name in found] == [
        "",
        "",
        "travels",
        "travels",
        "linear-hold",
        "own-HPC2N",
    ]


@of("study_travel")
def test_every_kind_is_trained_where_it_should_be(study: ModuleType) -> None:
    """But for those of a trace's own past, whose words are of another study."""
    for kind in study.EVERYWHERE:
        words = study.words(kind, 0.5)
        given = [words[k + 1] for k, word in enumerate(words) if word == "--set"]
        of_scenario = [one for one in given if one.partition(".")[0] in Scenario.model_fields]
        simulated = scenario.load(words[1], of_scenario)
        make_config({}, "test", [one for one in given if one not in of_scenario])
        steps = words[words.index("--steps") + 1]
        assert steps == str((study.STEPS if kind == "travels" else study.SEARCH_STEPS) // 2)
        assert simulated.decision.action_rule == ("fit" if kind.endswith("fit") else "hold")
        assert simulated.cluster.resources[0].units == 2048
        assert {part.units for part in simulated.workload.parts} == {128, 256, 2048}


@of("study_travel")
def test_orders_are_told_best_first_and_then_all_policies(study: ModuleType) -> None:
    lines = study.told("HPC2N", on_a_trace(study, "HPC2N")).splitlines()
    names = [line.split()[0] for line in lines[2:8]]
    assert names == ["area:easy", "sjf:greedy", "travels-0", "travels-1", "linear-hold-0", "own-HPC2N-0"]
    assert "-6.00 [-8.00, -4.00]" in lines[4]
    assert [line.split()[-2] for line in lines[8:]] == ["86.14", "59.77"]


@of("study_travel")
def test_seeds_are_held_against_an_order_together_episode_by_episode(
    study: ModuleType, tmp_path: Path
) -> None:
    """Two seeds whose means are 2 and 4 below the order in two episodes, which has 10 and 30 there."""
    played = {
        "runs/travels-0": (7, 23),
        "runs/travels-1": (9, 29),
        "runs/linear-hold-0": (1, 1),
        "sjf": (10, 30),
    }
    episodes = [
        {"policy": name, "backfill": "greedy", "metrics": {study.METRIC: value}}
        for name, values in played.items()
        for value in values
    ]
    (tmp_path / "told.json").write_text(json.dumps({"episodes": episodes}))
    found = study.together(tmp_path / "told.json", "travels", "sjf:greedy")
    assert (found.mean, found.low, found.high) == (-3, -4, -2)
    shares = study.gains(tmp_path / "told.json", "travels", "sjf:greedy")
    assert len(shares) == 10_001
    assert study.percents(shares) == "15.0 [13.3, 20.0] %"  # of means, episode by episode the same ones
    told = study.gained({256: shares, 2560: shares / 2})
    assert told == (
        "gains 15.0 [13.3, 20.0] % with 256 processors, 7.5 [6.7, 10.0] % with 2,560 processors, "
        "loses 50.0 [50.0, 50.0] % of it"
    )
    assert "loses" not in study.gained({256: shares - 0.14, 2560: shares})


@of("study_travel")
def test_every_trace_has_a_panel(study: ModuleType) -> None:
    figure = study.draw({trace: on_a_trace(study, trace) for trace in study.TRACES})
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(study.TRACES)
    assert {"area:easy (best order)", "travels", "searched, linear, hold", "of its own"} <= labels(figure)
    assert to_png(figure).startswith(b"\x89PNG")


def made_up(study: ModuleType) -> dict[int, tuple[dict[str, Any], str]]:
    """The k-th formulation is k tenths worse than the best order, and takes k + 1 seconds."""
    ratios = {name: 1 + k / 10 for k, name in enumerate(study.FORMULATIONS)}
    return {
        size: (
            {
                name: study.Found(np.full((2, 24), ratio), [k + 1.0, k + 1.0])
                for k, (name, ratio) in enumerate(ratios.items())
            },
            "sjf:greedy 2.00",
        )
        for size in study.CLUSTERS
    }


@of("study_formulations")
def test_formulations_are_told_by_cluster_and_on_average(study: ModuleType) -> None:
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
    assert study.Found(np.ones((3, 2)), [2.0, 9.0, 1.0]).usual_seconds == 2.0


@of("study_formulations")
def test_time_counts_without_the_validation_between(study: ModuleType, tmp_path: Path) -> None:
    rows = ["steps,steps_per_second,seconds", "0,0.0,0", "1000,500.0,2", "3000,1000.0,60"]
    (tmp_path / "metrics.csv").write_text("\n".join(rows))
    assert study.seconds(tmp_path) == pytest.approx(4 / 3)


def row(policy: str, mean: float, **learned: Any) -> SummaryRow:
    known: Mapping[str, Any] = {field: None for field in SummaryRow.__dataclass_fields__}
    told = {"policy": policy, "backfill": "greedy", "metric": "slowdown", "learned": bool(learned)}
    return SummaryRow(**{**known, **told, "mean": mean, "low": mean - 1, "high": mean + 1, **learned})


@of("study_deeprm")
def test_learners_and_orders_are_told_best_first(study: ModuleType) -> None:
    ahead = {"best_heuristic_difference": -0.5, "difference_low": -0.75, "difference_high": -0.25}
    rows = [row("sjf", 2.5), row("runs/ppo-1", 2.0, **ahead)]
    rows += [replace(one, metric="wait", mean=60.0 * one.mean) for one in rows]
    rows += [replace(one, metric="schedule_span", mean=1.25) for one in rows[:2]]
    lines = study.told(rows, {"runs/ppo-1": 20.4}).splitlines()
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
    found = study.learned(curves)
    assert found.steps.tolist() == [0, 100]
    assert found.seconds.tolist() == [5, 15]
    assert found.values.tolist() == [[5, 4], [5, 4]]
    figure = study.draw({"ppo": found, "a2c": found}, {"sjf": 2.0})
    assert {"PPO", "A2C", "sjf 2.00"} <= labels(figure)
