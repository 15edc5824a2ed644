"""Trainings that are refused before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.sections import WarmStart
from rlsched.learn.pid import LimitCheck
from rlsched.learn.rllib import engine as rllib
from rlsched.learn.warm_start import Demonstration, demonstrate
from tests.learn.training_runs import (
    command,
    limit_of,
    rows,
)

from .conftest import TINY

pytestmark = pytest.mark.slow


def test_what_validation_says_of_limits_goes_into_the_next_iteration(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that goes on, which goes no more than a tenth beyond its steps."""
    handed: list[Mapping[str, LimitCheck]] = []
    iterate = rllib.RllibEngine.iterate

    def iterated(
        engine: rllib.RllibEngine, fraction: float, checks: Mapping[str, LimitCheck], share: float
    ) -> rllib.Progress:
        handed.append(checks)
        return iterate(engine, fraction, checks, share)

    monkeypatch.setattr(rllib.RllibEngine, "iterate", iterated)
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    assert main(["train", "--resume", "--out", str(folder), "--set", "steps=900"]) == 0
    assert [int(row["steps"]) for row in rows(folder)] == [0, 256, 512, 712, 968]
    assert len(handed) == 2
    for row, checks in zip(rows(folder)[2:], handed, strict=False):
        assert set(checks) == {"wait_time", "makespan"}
        for name, check in checks.items():
            mean = float(row[f"validation_limited.{name}"])
            assert (check.limit, check.mean) == (limit_of(folder, name), mean)
            assert check.highest == pytest.approx(mean + float(row[f"validation_margin.{name}"]))
            assert check.highest > mean


def test_a_policy_imitates_before_its_first_iteration_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default where jobs are planned; a run that goes on has learned it already."""
    demonstration: list[WarmStart] = []

    def counted(feed: EpisodeFeed, warm: WarmStart, rng: np.random.Generator) -> Demonstration:
        demonstration.append(warm)
        return demonstrate(feed, warm, rng)

    monkeypatch.setattr(rllib, "demonstrate", counted)
    words = ["--set", "episode.max_ticks=40", "--set", "warm_start.decisions=300", "--steps", "256"]
    little = [word for setting in TINY if "warm_start" not in setting for word in ("--set", setting)]
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", "--scenario", "green-10", *little, *words, *out]) == 0
    assert [(warm.teacher, warm.decisions) for warm in demonstration] == [("packing", 300)]
    assert "ppo after imitating packing on scenario green-10" in " ".join(capsys.readouterr().err.split())
    assert main(["train", "--resume", "--steps", "512", *out]) == 0
    assert len(demonstration) == 1


def test_there_is_no_run_to_go_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", "--out", str(tmp_path / "none")]) == 2
    assert "none: holds no run; leave out --resume to begin one" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("observation.blocks=[queue]", "observation.blocks: value ['queue']: network.kind job_scorer"),
        ("warm_start={teacher: shortest}", "holds no trained policy"),
        ("validation.metric=bsld", "validation.metric: value 'bsld'"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, message: str
) -> None:
    assert main(command(tmp_path / "run", "--set", setting)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
