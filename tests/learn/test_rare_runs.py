"""Launchpad and RARE as runs on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched.cli.main import main
from rlsched.learn.folder import RunFolder
from rlsched.learn.policy import load_policy
from rlsched.learn.rllib.replay import ReplayBuffer
from rlsched.offline.reader import Reader
from tests.learn.rare_setting import (
    GAMMA,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_address")]


@pytest.mark.long
def test_launchpad_reads_then_plays_and_goes_on(
    sjf_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n_step applies to the dataset and to sampled episodes."""
    out, looked = tmp_path / "run", []
    sample = ReplayBuffer.sample
    read = Reader.__init__

    def sampled(self: ReplayBuffer, number: int, n_step: int, gamma: float) -> dict[str, Any]:
        looked.append((n_step, gamma))
        return sample(self, number, n_step, gamma)

    def reads(self: Reader, *args: Any, **more: Any) -> None:
        looked.append((more["n_step"], more["gamma"]))
        read(self, *args, **more)

    monkeypatch.setattr(ReplayBuffer, "sample", sampled)
    monkeypatch.setattr(Reader, "__init__", reads)
    settings = [
        "launchpad.rows=12000",
        "rare.imitate=8000",
        "rare.learning_starts=1000",
        "rare.every=64",
        "rare.batch=8192",
        "rare.n_step=5",
        "sampling.fragment=64",
        "validation.episodes=2",
        "averaging=0",
    ]
    sets = [word for setting in settings for word in ("--set", setting)]
    words = ["train", "--algo", "launchpad", "--dataset", str(sjf_dataset), *sets, "--out", str(out)]
    assert main([*words, "--steps", "20000"]) == 0
    rows = RunFolder(out).rows()
    steps = [int(row["steps"]) for row in rows]
    assert steps == [0, 4096, 8000, 12000, 16096, 20192]  # what is imitated is no row more
    validated = [row["validation_job_value_ratio"] != "" for row in rows]
    assert validated == [True, False, False, True, False, True]  # what has been read, too
    assert load_policy(out / "read").about["steps"] == 12000
    played = [row["episode_return_mean"] != "" for row in rows]
    assert not any(played[:4])
    assert float(rows[2]["agreement"]) > float(rows[1]["agreement"])
    assert [row["vf_explained_var"] != "" for row in rows] == played
    assert main(["train", "--resume", "--steps", "24000", "--out", str(out)]) == 0
    assert int(RunFolder(out).rows()[-1]["steps"]) == 24_288
    assert len(looked) > 3
    assert set(looked) == {(5, GAMMA)}


def test_rare_alone_reads_or_plays(
    sjf_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--set", "sampling.fragment=32", "--set", "validation.episodes=2", "--steps", "4000"]
    policy_values = ["--set", "rare.learning_starts=1000", "--set", "rare.rows=2048", "--set", "rare.every=8"]
    policy_values += ["--set", "rare.batch=1024"]
    played = ["train", "--algo", "rare", "--scenario", "green-10", "--set", "episode.max_ticks=100"]
    assert main([*played, *small, *policy_values, "--out", str(tmp_path / "played")]) == 0
    assert [int(row["steps"]) for row in RunFolder(tmp_path / "played").rows()] == [0, 2048, 4096]
    read = ["train", "--algo", "rare", "--dataset", str(sjf_dataset)]
    assert main([*read, *small, *policy_values, "--out", str(tmp_path / "read")]) == 0
    rows = RunFolder(tmp_path / "read").rows()
    assert [int(row["steps"]) for row in rows] == [0, 2048, 4096]
    assert rows[-1]["episode_return_mean"] == ""
    capsys.readouterr()
    assert main([*read, "--set", "sampling.runners=1", "--out", str(tmp_path / "no")]) == 2
    assert "sampling.runners: not supported by algo=rare" in capsys.readouterr().err
    few = ["train", "--algo", "launchpad", "--dataset", str(sjf_dataset), "--steps", "1000"]
    assert main([*few, "--out", str(tmp_path / "no")]) == 2
    assert "launchpad.rows: value 1000000 is no less than steps 1000" in capsys.readouterr().err
