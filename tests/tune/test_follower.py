"""What a sweep says while its trials run, and how it stops them; trials and clock are not real."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlsched.files import Alone
from rlsched.learn.checkpoints import Standing
from rlsched.learn.interrupts import Interrupted, interrupts
from rlsched.learn.selection import Validation
from rlsched.tune.folder import SweepFolder
from rlsched.tune.follower import STOPPING_S, Follower, Progress, Stopping
from rlsched.tune.sweep import Sweep
from rlsched.tune.trial import Silent, StoppedError, Trial

POINT = {"ppo.learning_rate": 0.001}
NAME = "ppo.learning_rate=0.001"


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Said:
    """Lines, each with its time."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.lines, self.times = clock, list[str](), list[float]()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self.times.append(self.clock())


def unseen(progress: Progress) -> None:
    """Who watches nothing."""


def trial_of(folder: SweepFolder, **result: Any) -> Any:
    """A trial of Ray Tune that runs."""
    config = {"point": POINT, "folder": str(folder.path)}
    return SimpleNamespace(config=config, status="RUNNING", last_result=result)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said(clock: Clock) -> Said:
    return Said(clock)


@pytest.fixture
def folder(tiny: dict[str, Any], tmp_path: Path) -> SweepFolder:
    found = SweepFolder(tmp_path / "sweep")
    found.create(Sweep.model_validate(tiny))
    return found


def follower_of(folder: SweepFolder, said: Said, *, log: bool = True) -> Follower:
    return Follower(folder.read(), folder, unseen, said, log=log, clock=said.clock)


def test_each_trial_says_when_it_begins_halts_and_ends(folder: SweepFolder, said: Said) -> None:
    follower, trial = follower_of(folder, said), trial_of(folder)
    follower.on_trial_start(1, [trial], trial)
    halt = {"done": False, "score": 0.4, "decisions": 2048, "objective_0": 0.512345}
    follower.on_trial_result(2, [trial], trial, halt)
    folder.trial(POINT).begin(POINT)
    folder.trial(POINT).finish()
    trial.last_result = {"done": True, "score": 0.5, "decisions": 8192, "objective_0": 0.75}
    follower.on_trial_result(3, [trial], trial, trial.last_result)
    follower.on_trial_complete(4, [trial], trial)
    metric = follower.targets[0].metric
    assert said.lines == [
        f"{NAME} begins with seeds 0, 1",
        f"{NAME} is at a halt, 2,048 decisions, {metric} 0.5123",
        f"{NAME} is at its end, 8,192 decisions, {metric} 0.75",
    ]


def test_a_trial_says_that_it_goes_on_or_is_stopped_early(folder: SweepFolder, said: Said) -> None:
    follower, trial = follower_of(folder, said), trial_of(folder, decisions=0, objective_0=float("nan"))
    folder.trial(POINT).begin(POINT)
    training = folder.trial(POINT).training(1)
    training.path.mkdir()
    folder.trial(POINT).training(0).path.mkdir()
    folder.trial(POINT).end(0)
    training.append_metrics({"iteration": 1, "steps": 512})
    follower.on_trial_start(1, [trial], trial)
    follower.on_trial_recover(2, [trial], trial)
    follower.on_trial_complete(3, [trial], trial)
    assert said.lines == [
        f"{NAME} goes on, seed 1, 512 of 4,096 decisions",
        f"{NAME} failed, and is tried again",
        f"{NAME} is stopped early, {follower.targets[0].metric} nan",
    ]


@pytest.mark.parametrize("log", [True, False])
def test_a_log_shows_life_every_minute(folder: SweepFolder, said: Said, clock: Clock, log: bool) -> None:
    """On a terminal a bar does, so that lines are for what happens."""
    follower, trial = follower_of(folder, said, log=log), trial_of(folder)
    folder.trial(POINT).begin(POINT)
    for second in range(600):
        clock.sleep(1.0)
        if second == 300:
            folder.trial(POINT).training(0).path.mkdir()
            folder.trial(POINT).training(0).append_metrics({"iteration": 3, "steps": 1536})
        follower.on_step_end(second, [trial])
    if not log:
        assert said.lines == []
        return
    gaps = [later - earlier for earlier, later in zip([0.0, *said.times], [*said.times, 600.0], strict=True)]
    assert max(gaps) <= 60.0
    assert said.lines[0] == f"{NAME} runs, seed 0, 0 of 4,096 decisions"
    assert said.lines[-1] == f"{NAME} runs, seed 0, 1,536 of 4,096 decisions"


def test_nothing_is_said_while_nothing_runs(folder: SweepFolder, said: Said, clock: Clock) -> None:
    follower, trial = follower_of(folder, said), trial_of(folder)
    trial.status = "PENDING"
    clock.sleep(100.0)
    follower.on_step_end(1, [trial])
    assert said.lines == []


def test_an_interrupted_sweep_waits_for_its_trials(folder: SweepFolder, said: Said, clock: Clock) -> None:
    follower, interrupted = follower_of(folder, said), Interrupted()
    stopping = Stopping(follower, interrupted)
    folder.trial(POINT).begin(POINT)
    follower.on_step_end(1, [trial_of(folder)])
    at_work = Alone(folder.trial(POINT).path)
    assert not stopping.stop_all()
    assert not folder.stopping.exists()

    def sleep(seconds: float) -> None:
        assert folder.stopping.exists()
        clock.sleep(seconds)
        if clock() >= 5.0:
            at_work.let_go()

    follower.stop_trials(sleep)
    assert clock() == 5.0
    assert said.lines == ["stopping trials, to go on later; Ctrl-C again ends them now"]
    interrupted.requested = True
    assert stopping.stop_all()
    assert stopping.stop_all()
    assert len(said.lines) == 2, "trials are asked once"


def test_it_does_not_wait_for_ever(folder: SweepFolder, said: Said, clock: Clock) -> None:
    follower = follower_of(folder, said)
    folder.trial(POINT).begin(POINT)
    follower.on_step_end(1, [trial_of(folder)])
    at_work = Alone(folder.trial(POINT).path)
    follower.stop_trials(clock.sleep)
    assert clock() == pytest.approx(STOPPING_S, abs=1.0)
    at_work.let_go()


def test_a_trial_that_is_asked_to_stop_does(folder: SweepFolder) -> None:
    trial = Trial.__new__(Trial)
    trial.setup({"folder": str(folder.path), "point": POINT})
    folder.ask_to_stop()
    with pytest.raises(StoppedError, match="asked to stop"):
        trial.step()
    Alone(folder.trial(POINT).path).let_go()  # nobody is at work there


@pytest.mark.parametrize("asked", [True, False])
def test_a_training_of_a_trial_is_asked_as_by_a_signal(asked: bool) -> None:
    shown = Silent(lambda: asked)
    row: dict[str, float | int | None] = {}
    validation = Validation.__new__(Validation)
    for call in (lambda: shown.update(row, Standing()), lambda: shown.begin(Standing(), validation)):
        with interrupts(shown.stopping) as interrupted:
            call()
            assert interrupted() == asked
