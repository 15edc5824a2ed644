"""Trainings that are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.sections import WarmStart
from rlsched.learn.rllib import engine as rllib
from rlsched.learn.warm_start import Demonstration, demonstrate
from tests.learn.training_runs import (
    command,
)

from .conftest import TINY

pytestmark = pytest.mark.slow


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
