"""Training with several seeds by the command line: folders, going on, Ctrl-C, refusals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlsched.cli.main import main
from rlsched.learn import series
from rlsched.learn.checkpoints import Standing
from rlsched.learn.folder import RunFolder
from rlsched.learn.policy import load_policy
from rlsched.learn.run import train
from rlsched.learn.summary import Summary, reason_to_end

from .test_search_runs import command, figures, rows

pytestmark = pytest.mark.usefixtures("no_ray")

STEPS = 700
Train = Callable[..., Summary]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeds 3 and 4, and beside them what was written as JSON."""
    out = tmp_path_factory.mktemp("series") / "two"
    words = command(out, "--seeds", "2", "--seed", "3", "--json", out.parent / "two.json", steps=STEPS)
    assert main(words) == 0
    return out


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "two"))


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the folders of runs that are trained from now on."""
    actual: list[str] = []

    def record_call(scenario: Any, config: Any, folder: RunFolder, *rest: Any, **more: Any) -> Summary:
        actual.append(f"{folder.path.name}{' again' if more['resume'] else ''}")
        return train(scenario, config, folder, *rest, **more)

    monkeypatch.setattr(series, "train", record_call)
    return actual


def test_each_seed_is_an_ordinary_run(trained: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in trained.iterdir()) == ["seed-3", "seed-4"]
    settings = [RunFolder(trained / name).read() for name in ("seed-3", "seed-4")]
    assert [config.seed for _, config in settings] == [3, 4]
    assert settings[0][0] == settings[1][0]
    assert settings[0][1].model_copy(update={"seed": 4}) == settings[1][1]
    assert load_policy(trained / "seed-4").about["steps"] > 0
    assert main(command(tmp_path / "alone", "--seed", "4", steps=STEPS)) == 0
    assert figures(tmp_path / "alone", 99) == figures(trained / "seed-4", 99)


def test_what_is_written(trained: Path) -> None:
    values = json.loads((trained.parent / "two.json").read_text())
    assert (values["schema"], values["folder"], values["reason"]) == (1, str(trained), "steps")
    assert [(run["seed"], run["folder"]) for run in values["runs"]] == [
        (seed, str(trained / f"seed-{seed}")) for seed in (3, 4)
    ]
    best = [run["best"] for run in values["runs"]]
    assert values["aggregate"] == {
        "metric": "job_value",
        "seeds": 2,
        "within_limits": 2,
        "median": pytest.approx(sum(best) / 2),
        "interquartile_mean": pytest.approx(sum(best) / 2),
    }


def test_finished_seeds_are_left_alone_and_others_begin(
    copy: Path, trainings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = (copy / "seed-3" / "metrics.csv").read_bytes()
    assert main(["train", "--resume", "--seeds", "3", "--out", str(copy)]) == 0
    assert trainings == ["seed-5"]
    assert (copy / "seed-3" / "metrics.csv").read_bytes() == before
    assert RunFolder(copy / "seed-5").read()[1].seed == 5
    output = capsys.readouterr().out
    assert "seeds 3, 4 and 5: median " in output
    assert f"rlsched evaluate {copy} " in output.replace("\n", " ")


def test_ctrl_c_ends_the_series_and_resume_goes_on(
    copy: Path, trainings: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run is interrupted after an iteration more, so that the second is not begun again."""
    done = [len(rows(copy / name)) for name in ("seed-3", "seed-4")]
    longer = ("--steps", str(3 * STEPS))
    with monkeypatch.context() as patch:
        patch.setattr("rlsched.learn.interrupts.Interrupted.__call__", lambda self: True)
        assert main(["train", "--resume", "--seeds", "2", "--out", str(copy), *longer]) == 130
    assert trainings == ["seed-3 again"]
    assert f"rlsched train --resume --seeds 2 --out {copy}" in capsys.readouterr().out.replace("\n", "")
    assert main(["train", "--resume", "--seeds", "2", "--out", str(copy), *longer]) == 0
    assert trainings == ["seed-3 again"] * 2 + ["seed-4 again"]
    for name, count in zip(("seed-3", "seed-4"), done, strict=True):
        rows_written = rows(copy / name)
        assert len(rows_written) > count
        assert int(rows_written[-1]["steps"]) >= 3 * STEPS
    assert main(["train", "--resume", "--seeds", "2", "--out", str(copy)]) == 0
    assert len(trainings) == 3


def test_refusals(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ordinary, resume = copy / "seed-3", ["train", "--resume", "--out"]
    several = ["--seeds", "2"]
    for arguments, output in (
        (command(copy), "holds seeds 3 and 4 already; add --seeds N --resume"),
        (command(copy, *several), "holds seeds 3 and 4 already; add --seeds N --resume"),
        (command(ordinary, *several), "holds a run without --seeds; name another --out"),
        (command(tmp_path / "new", "--seeds", "0"), "--seeds: value '0'; use a whole number from 1 on"),
        (
            command(tmp_path / "new", *several, "--set", "search.start=/nowhere"),
            "search.start: no such folder: /nowhere",
        ),
        ([*resume, str(copy)], "holds no run; add --seeds N"),
        ([*resume, str(ordinary), *several], "holds a run without --seeds; name another --out"),
        ([*resume, str(tmp_path / "new"), *several], "holds no seeds of a training; leave out --resume"),
        ([*resume, str(copy), *several, "--seed", "3"], "cannot change seed"),
        (["export", str(copy), str(tmp_path / "new")], f"name one of its seeds, as {ordinary}"),
    ):
        capsys.readouterr()
        assert main(arguments) == 2, arguments
        assert output in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_seeds_of_other_settings_are_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / "seed-4" / "train.yaml"
    file.write_text(file.read_text().replace("population: 6", "population: 8"))
    assert main(["train", "--resume", "--seeds", "2", "--out", str(copy)]) == 2
    assert "seed-4: was trained with other settings than seed 3" in capsys.readouterr().err


def test_the_series_is_evaluated_as_one(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    words = ["evaluate", str(trained), "--episodes", "2", "--against", "packing:now", "--json", "-"]
    assert main(words) == 0
    values = json.loads(capsys.readouterr().out)
    assert [episode["training_seed"] for episode in values["episodes"]] == [3, 3, 4, 4, None, None]
    assert {(row["policy"], tuple(row["seeds"])) for row in values["seeds"]} == {(str(trained), (3, 4))}


def test_a_run_is_at_its_end_by_its_settings(trained: Path) -> None:
    config = RunFolder(trained / "seed-3").read()[1].model_copy(update={"steps": 100, "minutes": 2.0})
    checked = config.validation.model_copy(update={"patience": 3})
    config = config.model_copy(update={"validation": checked})
    assert reason_to_end(config, Standing(steps=99, seconds=119.0, since_best=2)) is None
    assert reason_to_end(config, Standing(steps=100)) == "steps"
    assert reason_to_end(config, Standing(seconds=120.0)) == "minutes"
    assert reason_to_end(config, Standing(since_best=3)) == "no improvement"
    assert reason_to_end(config, Standing(better=True)) is None
    racing = config.model_copy(update={"validation": checked.model_copy(update={"until_better": True})})
    assert reason_to_end(racing, Standing(better=True)) == "better"
