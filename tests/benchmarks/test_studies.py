"""What studies take for done, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import studies
from rlsched.learn.config.training import TrainConfig

WORDS = ["--algo", "ppo"]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Commands, which begin a run and do nothing else."""
    requested: list[tuple[str, ...]] = []

    def rlsched(*words: str, log: Path, threads: int) -> None:
        requested.append(words)
        out = Path(words[-1])
        out.mkdir(exist_ok=True)
        (out / "train.yaml").touch()

    monkeypatch.setattr(studies, "rlsched", rlsched)
    return requested


def test_what_is_done_is_not_done_again(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    run = tmp_path / "run"
    for _ in range(2):
        studies.train(run, WORDS, seed=1, threads=1)
    assert commands == [("train", *WORDS, "--seed", "1", "--out", str(run))]


def test_what_was_stopped_goes_on(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    run = tmp_path / "run"
    studies.train(run, WORDS, seed=1, threads=1)
    (run / "done").unlink()
    studies.train(run, WORDS, seed=1, threads=1)
    assert commands[1] == ("train", "--resume", "--out", str(run))


@pytest.mark.parametrize("second", ["words", "defaults"])
def test_runs_with_other_options_or_defaults_are_refused(
    commands: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    studies.train(tmp_path / "run", WORDS, seed=1, threads=1)
    if second == "defaults":
        monkeypatch.setattr(studies, "TrainConfig", lambda: TrainConfig(averaging=0.25))
    seed = 2 if second == "words" else 1
    with pytest.raises(SystemExit, match="asked for in other words"):
        studies.train(tmp_path / "run", WORDS, seed=seed, threads=1)


def test_policies_in_a_run_are_as_old_as_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "read").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        studies.evaluated(tmp_path / "found.json", [], [run, run / "read"])
    (run / "done").touch()
    result = tmp_path / "found.json"
    result.write_text("{}")
    (tmp_path / "found.json.asked").write_text("[]")
    assert studies.evaluated(result, [], [run, run / "read"]) == result
