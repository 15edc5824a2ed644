"""`rlsched bench learn`: runs end once they beat every heuristic, and what that took."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from rlsched.cli import bench_learn
from rlsched.cli.bench_learn import Race
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.learn.folder import RunFolder
from rlsched.scenario import Scenario, load

from .conftest import Run

GIVEN = ("bench", "learn", "--scenario", "lublin-256", "--algos", "priority_search")
SETTINGS = (
    "steps=2000",
    "episode.jobs=32",
    "decision.window=16",
    "validation.episodes=5",
    "search.population=4",
    "search.episodes=1",
)


def test_runs_that_end_before_they_are_ahead(rlsched: Run, tmp_path: Path) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    ran = rlsched(*GIVEN, "--seeds", "2", *words, "--out", tmp_path / "runs", "--json", "-")
    assert ran.code == 0, ran.err
    assert [(run["algo"], run["seed"]) for run in ran.json["runs"]] == [
        ("priority_search", 0),
        ("priority_search", 1),
    ]
    for run in ran.json["runs"]:
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
    again = rlsched(*GIVEN, *words, "--out", tmp_path / "runs")
    assert again.code == 2
    assert "holds a run" in again.err


def test_a_race_trains_as_train_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With what was left out settled by algorithm and scenario, not by the defaults of the settings."""
    seen: list[TrainConfig] = []

    def stop(simulated: Scenario, config: TrainConfig, *_: object) -> NoReturn:
        seen.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_learn, "train", stop)
    simulated, given = load("lublin-256"), make_config({}, "test", ["minutes=1", "ppo.epochs=3"])
    with pytest.raises(KeyboardInterrupt):
        list(bench_learn.race(simulated, given, ["ppo"], [4], tmp_path))
    (config,) = seen
    assert config.network == given.settled(simulated).network
    assert (config.seed, config.minutes, config.ppo.epochs) == (4, 1.0, 3)
    assert config.validation.until_better


def test_seconds_are_those_of_iterations(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for steps, seconds, speed in ((0, 0.0, 0.0), (300, 5.0, 100.0), (700, 9.0, 200.0)):
        folder.append_metrics(
            {"iteration": steps, "steps": steps, "seconds": seconds, "steps_per_second": speed}
        )
    assert bench_learn.learning_seconds(folder) == pytest.approx(3.0 + 2.0)


def test_medians_are_told_where_all_got_ahead() -> None:
    def run(algo: str, seed: int, ahead: bool, seconds: float) -> Race:
        return Race(algo, seed, ahead, False, 1000 * seed, seconds, 2 * seconds, 8.0, 9.0)

    races = [
        *(run("ppo", seed, True, seconds) for seed, seconds in ((1, 30.0), (2, 50.0), (3, 90.0))),
        run("dqn", 1, True, 20.0),
        run("dqn", 2, False, 60.0),
    ]
    found = {(one.name, one.case): one.value for one in bench_learn.figures("here", races)}
    assert found["learning_s_to_beat", "here, ppo, median of 3"] == 50.0
    assert found["decisions_to_beat", "here, ppo, median of 3"] == 2000.0
    assert found["learning_s_to_beat", "here, dqn, seed 1"] == 20.0
    assert not any("dqn, seed 2" in case or "dqn, median" in case for _, case in found)


@pytest.mark.parametrize(
    ("given", "said"),
    [(("--algos", "bc"), "unknown algorithm 'bc'"), (("--minutes", "0"), "value 0; give a time above 0")],
)
def test_what_cannot_race_is_refused(rlsched: Run, given: tuple[str, str], said: str) -> None:
    ran = rlsched("bench", "learn", *given)
    assert ran.code == 2
    assert said in ran.err
