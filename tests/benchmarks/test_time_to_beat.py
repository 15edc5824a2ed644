"""Time to beat every heuristic: runs end once they do, and how long that took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks import time_to_beat
from benchmarks.time_to_beat import TimedRun
from rlsched.errors import BadInputError
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.learn.folder import RunFolder
from rlsched.scenario import Scenario, load

ARGUMENTS = ("--scenario", "lublin-256", "--algos", "priority_search")
SETTINGS = (
    "steps=2000",
    "episode.jobs=32",
    "decision.window=16",
    "validation.episodes=5",
    "search.population=4",
    "search.episodes=1",
)


def test_runs_that_end_before_they_are_ahead(tmp_path: Path) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    target = tmp_path / "figures.json"
    time_to_beat.main(
        [*ARGUMENTS, "--seeds", "2", *words, "--out", str(tmp_path / "runs"), "--json", str(target)]
    )
    runs = json.loads(target.read_text())["runs"]
    assert [(run["algo"], run["seed"]) for run in runs] == [
        ("priority_search", 0),
        ("priority_search", 1),
    ]
    for run in runs:
        folder = RunFolder(tmp_path / "runs" / f"priority_search-{run['seed']}")
        checked = [row for row in folder.rows() if row["validation_bounded_slowdown"]]
        assert len(checked) == len(folder.rows())  # after every iteration
        ahead = [
            float(row["validation_difference_high"]) < 0
            and float(row["validation_hoarding"]) == 0
            and row["kept"] == "1"
            for row in checked
        ]
        assert run["ahead"] == ahead[-1]
        assert not any(ahead[:-1])  # else it would have ended there
        assert run["decisions"] == int(checked[-1]["steps"])
        assert 0 < run["learning_s"] < run["seconds"]
    with pytest.raises(BadInputError, match="holds a run"):
        time_to_beat.main([*ARGUMENTS, *words, "--out", str(tmp_path / "runs")])


def test_runs_train_as_train_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With what was left out settled by algorithm and scenario, not by the defaults of the settings."""
    observed: list[TrainConfig] = []

    def stop(simulated: Scenario, config: TrainConfig, *_: object) -> NoReturn:
        observed.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(time_to_beat, "train", stop)
    simulated, arguments = load("lublin-256"), make_config({}, "test", ["minutes=1", "ppo.epochs=3"])
    with pytest.raises(KeyboardInterrupt):
        list(time_to_beat.timed_runs(simulated, arguments, ["ppo"], [4], tmp_path))
    (config,) = observed
    assert config.network == arguments.resolve(simulated).network
    assert (config.seed, config.minutes, config.ppo.epochs) == (4, 1.0, 3)
    assert config.validation.until_better


def test_seconds_are_those_of_iterations(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for steps, seconds, speed in ((0, 0.0, 0.0), (300, 5.0, 100.0), (700, 9.0, 200.0)):
        folder.append_metrics(
            {"iteration": steps, "steps": steps, "seconds": seconds, "steps_per_second": speed}
        )
    assert time_to_beat.learning_seconds(folder) == pytest.approx(3.0 + 2.0)


def test_medians_are_given_where_all_got_ahead() -> None:
    def run(algo: str, seed: int, ahead: bool, seconds: float) -> TimedRun:
        return TimedRun(algo, seed, ahead, False, 1000 * seed, seconds, 2 * seconds, 8.0, 9.0)

    runs = [
        *(run("ppo", seed, True, seconds) for seed, seconds in ((1, 30.0), (2, 50.0), (3, 90.0))),
        run("dqn", 1, True, 20.0),
        run("dqn", 2, False, 60.0),
    ]
    result = {(item.name, item.case): item.value for item in time_to_beat.figures("here", runs)}
    assert result["learning_s_to_beat", "here, ppo, median of 3"] == 50.0
    assert result["decisions_to_beat", "here, ppo, median of 3"] == 2000.0
    assert result["learning_s_to_beat", "here, dqn, seed 1"] == 20.0
    assert not any("dqn, seed 2" in case or "dqn, median" in case for _, case in result)


def test_unknown_algorithms_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        time_to_beat.main(["--algos", "bc"])
    assert "invalid choice: 'bc'" in capsys.readouterr().err
