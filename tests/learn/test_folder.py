"""The run folder: whole checkpoints, unbroken metrics, no run over another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rlsched.cli.main import main
from rlsched.cli.train_settings import settings_given
from rlsched.errors import BadInputError
from rlsched.learn.checkpoints import MAX_CHECKPOINTS, Standing
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.folder import RunFolder
from rlsched.scenario import Scenario


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "runs" / "one")


def save(folder: RunFolder, iteration: int, text: str = "") -> Path:
    return folder.checkpoints.save(
        Standing(iteration=iteration), lambda path: put(path, text or str(iteration))
    )


def put(path: Path, text: str) -> None:
    (path / "state").write_text(text)


def names(folder: RunFolder) -> list[str]:
    return sorted(path.name for path in folder.checkpoints.path.iterdir())


def test_settings_are_written_and_read_again(folder: RunFolder, small: Scenario, tiny: TrainConfig) -> None:
    folder.create(small, tiny.resolve(small), {})
    assert folder.read() == (small, tiny.resolve(small))
    versions = json.loads((folder.path / "versions.json").read_text())
    assert {"rlsched", "ray", "torch", "python"} <= versions.keys()


def test_the_training_file_of_a_run_trains_the_same_problem(
    folder: RunFolder, small: Scenario, tiny: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.create(small, tiny.resolve(small), {})
    path = folder.path / "train.yaml"
    simulated, written = settings_given(path, None, None, [])
    assert (simulated, written.resolve(small)) == (small, tiny.resolve(small))
    longer, _ = settings_given(path, None, None, ["episode.jobs=99"])
    assert longer.episode.jobs == 99

    values = yaml.safe_load(path.read_text())
    del values["scenario"]  # as older versions wrote it
    path.write_text(yaml.safe_dump(values))
    assert folder.read() == (small, tiny.resolve(small))
    assert main(["train", str(path), "--out", str(folder.path / "other")]) == 2
    assert capsys.readouterr().err == (
        f"error: {path}: scenario: is missing; name one: 'scenario: NAME or FILE.yaml', or a mapping\n"
    )
    assert not (folder.path / "other").exists()


def test_a_run_is_never_written_over(folder: RunFolder, small: Scenario, tiny: TrainConfig) -> None:
    folder.create(small, tiny.resolve(small), {})
    with pytest.raises(BadInputError) as caught:
        folder.create(small, tiny.resolve(small), {})
    assert (
        str(caught.value) == f"{folder.path}: holds a run already; add --resume, or name another --out folder"
    )


def test_folders_that_cannot_be(tmp_path: Path, small: Scenario, tiny: TrainConfig) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(BadInputError, match="cannot be written"):
            RunFolder(path).create(small, tiny.resolve(small), {})
    with pytest.raises(BadInputError, match="holds no run; leave out --resume"):
        RunFolder(tmp_path / "none").read()
    folder = RunFolder(tmp_path / "run")
    folder.create(small, tiny.resolve(small), {})
    (folder.path / "train.yaml").write_text("stepz: 1\n")
    with pytest.raises(BadInputError, match="stepz: unknown key"):
        folder.read()


def test_without_checkpoints_there_is_no_latest(folder: RunFolder) -> None:
    assert folder.latest() is None
    folder.checkpoints.path.mkdir(parents=True)
    assert folder.latest() is None


def test_the_latest_whole_checkpoint_counts_and_old_ones_go(folder: RunFolder) -> None:
    for iteration in (8, 9, 10, 100):
        path = save(folder, iteration)
        latest = folder.latest()
        assert latest is not None
        assert latest == (path, Standing(iteration=iteration))
    assert names(folder) == ["000010", "000100"]
    assert len(names(folder)) == MAX_CHECKPOINTS
    again = save(folder, 100, "again")
    assert (again / "state").read_text() == "again"


def test_half_a_checkpoint_is_none(folder: RunFolder) -> None:
    whole = save(folder, 3)

    def breaks(path: Path) -> None:
        put(path, "half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.checkpoints.save(Standing(iteration=4), breaks)
    (folder.checkpoints.path / "000005").mkdir()  # without a standing, as of a copy that was cut off
    (folder.checkpoints.path / "notes").mkdir()
    latest = folder.latest()
    assert latest is not None
    assert latest[0] == whole
    path = save(folder, 4)  # what was left of the last time is in nobody's way
    assert (path / "state").read_text() == "4"
    assert not list(folder.checkpoints.path.glob(".*"))


def rows(folder: RunFolder) -> list[str]:
    return folder.metrics.read_text().splitlines()


def test_metrics_go_on_where_the_checkpoint_stands(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.keep_metrics_up_to(3)  # nothing yet
    for iteration in range(1, 6):
        folder.append_metrics({"iteration": iteration, "steps": 10 * iteration, "wait": None})
    folder.keep_metrics_up_to(3)
    assert rows(folder) == ["iteration,steps,wait", "1,10,", "2,20,", "3,30,"]
    folder.append_metrics({"iteration": 4, "steps": 44, "wait": 0.5})
    assert rows(folder)[-2:] == ["3,30,", "4,44,0.5"]
    folder.keep_metrics_up_to(-1)
    assert rows(folder) == ["iteration,steps,wait"]
    folder.append_metrics({"iteration": 1, "steps": 10, "wait": 1})
    assert rows(folder) == ["iteration,steps,wait", "1,10,1"]


@pytest.mark.parametrize("torn", ["1", "12,1", "4,4", "x,1,2,3", "3,1,2,3", "3,30,", "3,30,7"])
def test_a_row_that_was_cut_off_is_dropped(folder: RunFolder, torn: str) -> None:
    """The process was killed while it wrote row 12, or the disk was full."""
    folder.path.mkdir(parents=True)
    folder.metrics.write_text(f"iteration,steps,wait\n1,10,\n2,20,\n{torn}")
    folder.keep_metrics_up_to(11)
    assert rows(folder) == ["iteration,steps,wait", "1,10,", "2,20,"]


def test_an_empty_metrics_file_gets_its_header(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    folder.metrics.touch()
    folder.keep_metrics_up_to(5)
    folder.append_metrics({"iteration": 1})
    assert rows(folder) == ["iteration", "1"]


def test_a_newer_version_may_bring_columns(folder: RunFolder) -> None:
    """Every row stays readable, with nothing where nobody knew."""
    folder.path.mkdir(parents=True)
    folder.append_metrics({"iteration": 0, "loss": 0.5})
    folder.append_metrics({"iteration": 1, "loss": 0.25, "paid": 7.0})
    folder.append_metrics({"loss": 0.125, "iteration": 2})
    assert folder.metrics.read_text().splitlines() == [
        "iteration,loss,paid",
        "0,0.5,",
        "1,0.25,7.0",
        "2,0.125,",
    ]
    assert folder.first("paid") == 7.0
    assert folder.first("loss") == 0.5
    assert folder.first("unknown") is None
    folder.keep_metrics_up_to(0)
    assert folder.metrics.read_text().splitlines() == ["iteration,loss,paid", "0,0.5,"]


def test_a_standing_of_an_older_version_is_read() -> None:
    old = Standing.model_validate_json(
        '{"iteration": 3, "steps": 96, "best_excess": 0.0, "best_value": -1.0, "best_paid": {"energy": 1.0}}'
    )
    assert (old.best_checks, old.best_hoarding) == ({}, None)
