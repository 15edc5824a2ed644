"""Recurrent policies from training to play."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rlsched.cli.main import main
from rlsched.learn.folder import RunFolder
from rlsched.learn.policy import load_policy
from tests.learn.test_recurrent import REMEMBERS

from .conftest import TINY

SITE = ("--scenario", "green-10", "--set", "episode.max_ticks=60", "--set", "workload.load=0.6")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("ray_address")
def test_from_training_to_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained within limits after a teacher, gone on with, evaluated, and recorded."""
    reported = [word for setting in (*TINY, *REMEMBERS) for word in ("--set", setting)]
    cocorl = ["--algo", "cocorl", "--limit", "delayed_jobs=10", "--set", "cocorl.fragment=32"]
    small = ["--set", "cocorl.minibatch=64", "--set", "warm_start={teacher: sjf, decisions: 1000, epochs: 1}"]
    run = tmp_path / "run"
    words = ["train", *SITE, *cocorl, *small, *reported, "--steps", "512", "--out", str(run)]
    assert main(words) == 0
    before = newest(run)
    first = load_policy(before).net.state_dict()
    assert first["recalled.weight"].abs().sum() > 0
    assert main(["train", "--resume", "--out", str(run), "--steps", "1024"]) == 0
    then = load_policy(newest(run))
    assert then.recurrent
    assert newest(run) != before
    assert not torch.equal(then.net.state_dict()["lstm.weight_hh_l0"], first["lstm.weight_hh_l0"])
    actual, page = tmp_path / "found.json", tmp_path / "page"
    requested = [
        "--episodes",
        "3",
        "--against",
        "sjf",
        "--json",
        str(actual),
        "--report",
        str(page),
        "--sample",
    ]
    assert main(["evaluate", str(run), *requested]) == 0
    assert len(json.loads(actual.read_text())["episodes"]) == 6
    data = tmp_path / "data"
    assert main(["collect", *SITE, "--policy", str(run), "--steps", "500", "--out", str(data)]) == 0
    assert main(["dataset", "check", str(data)]) == 0
    capsys.readouterr()
    assert main(["dataset", "judge", str(data), str(run)]) == 2
    assert "remembers what it has seen (network.lstm)" in capsys.readouterr().err
    assert main(["bench", "train", "--scenario", "green-10", "--set", "network.lstm=16"]) == 2
    assert "network.lstm: is not supported by all trainers that are measured" in capsys.readouterr().err


def newest(run: Path) -> Path:
    """The last checkpoint."""
    latest = RunFolder(run).latest()
    assert latest is not None
    return latest[0]
