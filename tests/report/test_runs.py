"""Learning curves read back from run folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from rlsched.evaluate.results import Result
from rlsched.learn.folder import RunFolder
from rlsched.report.html import write_report
from rlsched.report.learning_curve import LearningCurves, draw_learning, learning_of

HEURISTICS = {"sjf": {"bounded_slowdown": 7.0, "wait": 90.0}, "area": {"bounded_slowdown": 6.5, "wait": 80.0}}


def run(path: Path, heuristics: dict[str, dict[str, float]] = HEURISTICS, rows: int = 4) -> Path:
    folder = RunFolder(path)
    path.mkdir()
    folder.save_validation({"metric": "bounded_slowdown", "episodes": 8, "heuristics": heuristics})
    for k in range(rows):
        checked = 6.0 - 0.1 * k if k % 2 else None
        values = {"bounded_slowdown": 9.0 - k if k else None, "validation_bounded_slowdown": checked}
        selected = None if checked is None else int(k < 2)
        folder.append_metrics({"iteration": k + 1, "steps": 100 * (k + 1), **values, "kept": selected})
    return path


def names(pictures: Sequence[LearningCurves]) -> list[list[str]]:
    return [[Path(curve.name).name for curve in picture.curves] for picture in pictures]


def test_a_curve_has_the_points_that_were_measured(tmp_path: Path) -> None:
    (picture,) = learning_of([run(tmp_path / "one")])
    assert picture.metric == "bounded_slowdown"
    assert picture.heuristics == {"sjf + greedy": 7.0, "area + greedy": 6.5}
    (curve,) = picture.curves
    assert curve.name == str(tmp_path / "one")
    assert curve.steps.tolist() == [200, 300, 400]
    assert curve.values.tolist() == [8.0, 7.0, 6.0]
    assert curve.validation_steps.tolist() == [200, 400]
    assert curve.validation_values.tolist() == [5.9, 5.7]
    assert curve.selected.tolist() == [True, False]


def test_runs_share_a_picture_only_where_they_were_validated_alike(tmp_path: Path) -> None:
    different = {"sjf": {"bounded_slowdown": 3.0, "wait": 90.0}}
    folders = [run(tmp_path / "a"), run(tmp_path / "b"), run(tmp_path / "c", different)]
    pictures = learning_of(folders)
    assert names(pictures) == [["a", "b"], ["c"]]
    assert pictures[1].heuristics == {"sjf + greedy": 3.0}


def test_policies_of_a_run_have_its_curve_once(tmp_path: Path) -> None:
    first_run, second_run = run(tmp_path / "one"), run(tmp_path / "other")
    policies = [
        first_run / "start",
        first_run,
        tmp_path / "exported",
        second_run / "checkpoints" / "000010" / "policy",
    ]
    assert names(learning_of(policies)) == [["one", "other"]]


def test_where_there_is_only_validation_it_is_the_curve(tmp_path: Path) -> None:
    """As a search writes it: what it plays in training is no policy of its own, and has no metrics."""
    folder = RunFolder(tmp_path / "search")
    folder.path.mkdir()
    heuristics = {"packing:now": {"job_value_ratio": 0.836}, "fcfs:horizon": {"job_value_ratio": 0.828}}
    folder.save_validation({"metric": "job_value_ratio", "episodes": 8, "heuristics": heuristics})
    for steps, validated, selected in ((0, 0.835, 1), (800, None, None), (1600, 0.845, 1), (2400, 0.842, 0)):
        row = {"return_mean": 9.0, "sigma": 0.3, "validation_job_value_ratio": validated, "kept": selected}
        folder.append_metrics({"iteration": steps // 800, "steps": steps, **row})
    (picture,) = learning_of([folder.path])
    assert picture.heuristics == {"packing + now": 0.836, "fcfs + horizon": 0.828}
    (curve,) = picture.curves
    assert not len(curve.steps)
    assert curve.validation_steps.tolist() == [0, 1600, 2400]
    assert curve.validation_values.tolist() == [0.835, 0.845, 0.842]
    assert curve.selected.tolist() == [True, True, False]


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 8, 12])
def test_a_run_killed_while_it_wrote_has_the_points_before(tmp_path: Path, cut: int) -> None:
    path = run(tmp_path / "one")
    text = (path / "metrics.csv").read_bytes()
    (path / "metrics.csv").write_bytes(text[:-cut])
    (picture,) = learning_of([path])
    (curve,) = picture.curves
    assert curve.validation_values.tolist() == [5.9]
    assert curve.values.tolist() == [8.0, 7.0]


def test_a_run_without_validation_yet_has_what_it_saw_in_training(tmp_path: Path) -> None:
    path = run(tmp_path / "one")
    table = (path / "metrics.csv").read_text().splitlines()
    blank = [",".join([*line.split(",")[:3], "", ""]) for line in table[1:]]
    (path / "metrics.csv").write_text("\n".join([table[0], *blank, ""]))
    (picture,) = learning_of([path])
    assert picture.curves[0].values.tolist() == [8.0, 7.0, 6.0]
    assert not len(picture.curves[0].validation_steps)
    assert draw_learning(picture)


def test_folders_without_a_curve_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    assert learning_of([tmp_path / "policy", tmp_path / "nowhere", run(tmp_path / "new", rows=0)]) == []


def test_the_page_shows_them(tmp_path: Path, result: Result) -> None:
    page = write_report(tmp_path / "report", result, learning=learning_of([run(tmp_path / "one")]))
    assert "Learning curve: bounded slowdown" in page.read_text("utf-8")
    assert (tmp_path / "report" / "learning-1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("file", ["validation.json", "metrics.csv"])
def test_what_is_damaged_is_said(tmp_path: Path, file: str) -> None:
    path = run(tmp_path / "one")
    text = (path / file).read_text()
    (path / file).write_text(text[:40] if file == "validation.json" else text.replace("8.0", "eight"))
    with pytest.raises(BadInputError, match=r"one: its validation\.json or metrics\.csv is damaged"):
        learning_of([path])
