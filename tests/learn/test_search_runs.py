"""Whole runs of priority search by the command line: their folder, going on, being killed, being used."""

from __future__ import annotations

import csv
import gzip
import json
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from rlsched.cli.main import main
from rlsched.learn.algorithms.base import ALGORITHMS
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.policy import load_policy

from .test_search import SHORT, TINY
from .test_search_resume import cut

pytestmark = pytest.mark.usefixtures("no_ray")

SAMPLE = Path(__file__).parents[2] / "datasets" / "sample.swf.gz"


def command(out: Path, *more: object, steps: int = 1100) -> list[str]:
    settings = (
        *SHORT,
        *TINY[1:],
        "validation.episodes=4",
        "validation.every=1",
        "validation.metric=job_value",
    )
    arguments = [
        "train",
        "--scenario",
        "green-10",
        "--algo",
        "priority_search",
        "--steps",
        steps,
        "--out",
        out,
    ]
    return [
        str(part) for part in (*arguments, *(x for setting in settings for x in ("--set", setting)), *more)
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(command(folder, "--json", folder.parent / "run.json")) == 0
    return folder


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


FIGURES = ("steps", "return_mean", "return_best", "sigma", "validation_job_value", "kept")


def figures(folder: Path, number: int) -> list[list[str]]:
    """What does not depend on the clock, of the first rows."""
    return [[row[name] for name in FIGURES] for row in rows(folder)[:number]]


def same_policy(item: Path, second: Path) -> bool:
    nets = [load_policy(path).net.state_dict() for path in (item, second)]
    return all((nets[0][name] == nets[1][name]).all() for name in nets[0])


def test_a_run_leaves_its_whole_folder(run: Path) -> None:
    assert {path.name for path in run.iterdir()} == {
        *("scenario.yaml", "train.yaml", "versions.json", "inputs.json", "validation.json", "metrics.csv"),
        *("tensorboard", "checkpoints", "start", "best", "process.json"),
    }
    rows_written = rows(run)
    assert [int(row["iteration"]) for row in rows_written] == list(range(len(rows_written)))
    assert len(rows_written) >= 3
    assert rows_written[0]["return_mean"] == ""
    for row in rows_written[1:]:
        assert float(row["return_best"]) >= float(row["return_mean"]) > 0
        assert float(row["sigma"]) > 0
    newest = sorted((run / "checkpoints").iterdir())[-1]
    assert {path.name for path in newest.iterdir()} == {
        *("policy", "search", "standing.json", "manifest.json"),
    }
    assert [path.name for path in (newest / "search").iterdir()] == ["search.npz"]
    validation = json.loads((run / "validation.json").read_text())
    assert (validation["metric"], validation["episodes"]) == ("job_value", 4)
    assert "packing:now" in validation["heuristics"]
    saved = json.loads((run / "best" / "policy.json").read_text())
    assert saved["network"]["kind"] == "priority"
    assert saved["about"]["algo"] == "priority_search"
    assert saved["scenario"]["objective"]["gamma"] == 0.998  # the search's own return changes no scenario
    summary = json.loads((run.parent / "run.json").read_text())
    assert (summary["reason"], summary["steps"]) == ("steps", int(rows_written[-1]["steps"]))


def test_the_same_command_is_the_same_run(run: Path, tmp_path: Path) -> None:
    assert main(command(tmp_path / "again")) == 0
    assert figures(tmp_path / "again", 99) == figures(run, 99)
    assert same_policy(tmp_path / "again", run)


def test_a_run_resumes_from_its_initial_policy(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any folder, and whatever has become of the run that it began with."""
    shutil.copytree(run, tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    begins = ("--set", "search.start=other", "--set", "decision.window=7")
    assert main(command(Path("mine"), *begins)) == 0
    assert "other" in (tmp_path / "mine" / "train.yaml").read_text()
    assert same_policy(tmp_path / "mine" / "start", run)
    shutil.copytree(tmp_path / "mine", tmp_path / "unbroken")
    for checkpoint in (tmp_path / "mine" / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)  # killed before the first one
    shutil.rmtree(tmp_path / "other")
    monkeypatch.chdir("/")
    assert main(["train", "--resume", "--out", str(tmp_path / "mine")]) == 0
    assert same_policy(tmp_path / "mine" / "start", run)
    assert figures(tmp_path / "mine", 99) == figures(tmp_path / "unbroken", 99)


def test_it_is_a_heuristic_that_one_can_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    arguments = ["--scenario", "green-10", "--set", SHORT[0], "--policy", f"packing,{run}", "--episodes", "3"]
    assert main(["simulate", *arguments, "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {episode["policy"] for episode in values["episodes"]} == {"packing", str(run)}
    assert main(["evaluate", str(run), "--episodes", "2", "--against", "packing", "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {episode["policy"] for episode in values["episodes"]} == {"packing", str(run)}


def test_a_run_that_goes_on_judges_its_best_again(run: Path, tmp_path: Path) -> None:
    """What it was worth by other episodes or rules is nothing that later policies can be held against."""
    shutil.copytree(run, tmp_path / "mine")
    latest = RunFolder(tmp_path / "mine").latest()
    assert latest is not None
    path, standing = latest
    unbeaten = standing.model_copy(update={"best_value": -1e9, "best_excess": None, "best_metric": 1e9})
    (path / "standing.json").write_text(unbeaten.model_dump_json())
    (path / "manifest.json").unlink()
    assert main(["train", "--resume", "--out", str(tmp_path / "mine"), "--steps", "1600"]) == 0
    after = RunFolder(tmp_path / "mine").latest()
    assert after is not None
    assert after[1].best_value is not None
    assert after[1].best_value >= -2  # a share of the best order's value
    assert after[1].best_metric is not None
    assert after[1].best_metric < 1e6


def test_resume_goes_on_as_if_it_had_never_stopped(run: Path, tmp_path: Path) -> None:
    short, long = tmp_path / "short", tmp_path / "long"
    shutil.copytree(run, short)
    assert main(["train", "--resume", "--out", str(short), "--steps", "3000"]) == 0
    assert main(command(long, steps=3000)) == 0
    assert len(rows(short)) > len(rows(run))
    assert figures(short, 99) == figures(long, 99)
    assert same_policy(short, long)


def test_goes_on_with_a_trace_that_has_moved_but_with_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    was, now, out = tmp_path / "was.swf", tmp_path / "now.swf", tmp_path / "run"
    jobs = gzip.decompress(SAMPLE.read_bytes())
    was.write_bytes(jobs)
    words = ["train", "--algo", "priority_search", "--trace", str(was), "--out", str(out)]
    few = [*TINY[1:], "episode.jobs=32", "validation.episodes=2", "validation.every=1"]
    assert main([*words, "--steps", "500", *(word for item in few for word in ("--set", item))]) == 0
    steps = rows(out)[-1]["steps"]
    was.rename(now)
    capsys.readouterr()
    go_on = ["train", "--resume", "--out", str(out), "--steps", str(2 * int(steps))]
    assert main(go_on) == 2
    assert f"{was}: no such file" in capsys.readouterr().err
    now.write_bytes(jobs + b"\n")
    assert main([*go_on, "--trace", str(now)]) == 2
    assert f"{out}: was started with another trace (" in capsys.readouterr().err
    now.write_bytes(jobs)
    assert main([*go_on, "--trace", str(now)]) == 0
    assert int(rows(out)[-1]["steps"]) >= 2 * int(steps)
    assert str(now) in (out / "scenario.yaml").read_text()


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody else goes on with it before it is gone."""
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    process = subprocess.Popen(
        [sys.executable, "-m", "rlsched", *command(killed, steps=10_000_000)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    patience = time.monotonic() + 300
    try:
        while not {path.name for path in (killed / "checkpoints").glob("[0-9]*")} - {"000001"}:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < patience, "it takes too long"
            time.sleep(0.02)
        capsys.readouterr()
        assert main(["train", "--resume", "--out", str(killed)]) == 2
        output = capsys.readouterr().err
        assert f"{killed}: is being trained by process {process.pid} on host " in output
        assert "; wait for it, or end it" in output
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    latest = RunFolder(killed).latest()
    assert latest is not None
    steps = str(latest[1].steps + 700)  # two generations
    assert main(["train", "--resume", "--out", str(killed), "--steps", steps]) == 0
    assert len(rows(killed)) >= latest[1].iteration + 2
    assert main(command(unbroken, steps=int(steps))) == 0
    assert figures(killed, 999) == figures(unbroken, 999)
    assert same_policy(killed, unbroken)


def test_a_damaged_search_is_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a version without a manifest: with one, the checkpoint before it is gone on from."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    newest = sorted((copy / "checkpoints").iterdir())[-1]
    (newest / "manifest.json").unlink()
    file = newest / "search" / "search.npz"
    file.write_bytes(cut(file.read_bytes()))
    capsys.readouterr()
    resume = ["train", "--resume", "--out", str(copy), "--steps", "3000"]
    assert main(resume) == 2
    output = capsys.readouterr().err
    assert "Traceback" not in output
    assert re.search(rf"^error: {re.escape(str(file))}: is damaged .*; remove {newest} .*=", output, re.M)
    np.savez(file, state=np.frombuffer(pickle.dumps("a search"), np.uint8), steps=3, prices="{}")
    assert main(resume) == 2
    assert "a pickle, which is not read any more" in capsys.readouterr().err
    shutil.rmtree(newest)
    assert main(resume) == 0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("observation.blocks=[jobs, profile]", "observation.blocks"),
        ("observation.blocks=[queue, profile]", "observation.blocks"),
        ("search.population=1", "search.population: value 1"),
        ("search.sigma=0", "search.sigma: value 0"),
        ("network.priority_units=-1", "network.priority_units: value -1"),
        ("network.kind=mlp", "priority_search finds no network.kind mlp"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, message: str
) -> None:
    capsys.readouterr()
    assert main(command(tmp_path / "run", "--set", setting)) == 2
    error = capsys.readouterr().err
    assert [line for line in error.splitlines() if line.startswith("error: ")] == [error.splitlines()[-1]]
    assert message in error.splitlines()[-1]
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_algorithms_say_what_they_are_and_whose(capsys: pytest.CaptureFixture[str]) -> None:
    names = list(ALGORITHMS)
    assert names == sorted(names)
    capsys.readouterr()
    assert main(["algorithms", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)["algorithms"]
    assert [row["name"] for row in listed] == names
    for row in listed:
        assert row["doc"]
        assert re.search(r"\d{4}", row["source"])
        for key, value in row["settings"].items():  # each can be set by this name
            make_config({}, "test", [f"{row['section']}.{key}={json.dumps(value)}"])
    search = next(row for row in listed if row["name"] == "priority_search")
    assert "CMA-ES" in search["doc"]
    assert search["settings"] == TrainConfig().search.model_dump(mode="json")
    assert main(["algorithms"]) == 0
    assert "search.population=24" in capsys.readouterr().out
