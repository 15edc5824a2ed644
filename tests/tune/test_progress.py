"""Lines of a sweep while its trials run, and how it stops them; trials and clock are substitutes."""

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
from rlsched.tune.progress import STOP_TIMEOUT_S, InterruptStopper, Progress, ProgressCallback
from rlsched.tune.sweep import Sweep
from rlsched.tune.trial import SilentDisplay, StoppedError, Trial

POINT = {"ppo.learning_rate": 0.001}
NAME = "ppo.learning_rate=0.001"


class Clock:
    """Seconds that pass in `sleep` alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Lines:
    """Lines with their times."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.lines, self.times = clock, list[str](), list[float]()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self.times.append(self.clock())


def ignore_progress(progress: Progress) -> None:
    """Do nothing."""


def trial_of(folder: SweepFolder, **result: Any) -> Any:
    """A trial of Ray Tune that runs."""
    config = {"point": POINT, "folder": str(folder.path)}
    return SimpleNamespace(config=config, status="RUNNING", last_result=result)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def output(clock: Clock) -> Lines:
    return Lines(clock)


@pytest.fixture
def folder(tiny: dict[str, Any], tmp_path: Path) -> SweepFolder:
    sweep_folder = SweepFolder(tmp_path / "sweep")
    sweep_folder.create(Sweep.model_validate(tiny))
    return sweep_folder


def callback_of(folder: SweepFolder, output: Lines, *, log: bool = True) -> ProgressCallback:
    return ProgressCallback(folder.read(), folder, ignore_progress, output, log=log, clock=output.clock)


def test_a_trial_has_a_line_when_it_starts_pauses_and_ends(folder: SweepFolder, output: Lines) -> None:
    callback, trial = callback_of(folder, output), trial_of(folder)
    callback.on_trial_start(1, [trial], trial)
    halt = {"done": False, "score": 0.4, "decisions": 2048, "objective_0": 0.512345}
    callback.on_trial_result(2, [trial], trial, halt)
    folder.trial(POINT).create(POINT)
    folder.trial(POINT).mark_done()
    trial.last_result = {"done": True, "score": 0.5, "decisions": 8192, "objective_0": 0.75}
    callback.on_trial_result(3, [trial], trial, trial.last_result)
    callback.on_trial_complete(4, [trial], trial)
    metric = callback.targets[0].metric
    assert output.lines == [
        f"{NAME} starts with seeds 0, 1",
        f"{NAME} pauses at a rung, 2,048 decisions, {metric} 0.5123",
        f"{NAME} is completed, 8,192 decisions, {metric} 0.75",
    ]


def test_a_trial_has_a_line_when_it_resumes_fails_and_is_stopped(folder: SweepFolder, output: Lines) -> None:
    callback, trial = callback_of(folder, output), trial_of(folder, decisions=0, objective_0=float("nan"))
    folder.trial(POINT).create(POINT)
    training = folder.trial(POINT).run_folder(1)
    training.path.mkdir()
    folder.trial(POINT).run_folder(0).path.mkdir()
    folder.trial(POINT).mark_seed_done(0)
    training.append_metrics({"iteration": 1, "steps": 512})
    callback.on_trial_start(1, [trial], trial)
    callback.on_trial_recover(2, [trial], trial)
    callback.on_trial_complete(3, [trial], trial)
    assert output.lines == [
        f"{NAME} resumes, seed 1, 512 of 4,096 decisions",
        f"{NAME} failed, and starts again",
        f"{NAME} is stopped early, {callback.targets[0].metric} nan",
    ]


@pytest.mark.parametrize("log", [True, False])
def test_a_log_has_a_line_every_minute(folder: SweepFolder, output: Lines, clock: Clock, log: bool) -> None:
    """On a terminal a progress bar replaces it."""
    callback, trial = callback_of(folder, output, log=log), trial_of(folder)
    folder.trial(POINT).create(POINT)
    for second in range(600):
        clock.sleep(1.0)
        if second == 300:
            folder.trial(POINT).run_folder(0).path.mkdir()
            folder.trial(POINT).run_folder(0).append_metrics({"iteration": 3, "steps": 1536})
        callback.on_step_end(second, [trial])
    if not log:
        assert output.lines == []
        return
    gaps = [
        later - earlier for earlier, later in zip([0.0, *output.times], [*output.times, 600.0], strict=True)
    ]
    assert max(gaps) <= 60.0
    assert output.lines[0] == f"{NAME} runs, seed 0, 0 of 4,096 decisions"
    assert output.lines[-1] == f"{NAME} runs, seed 0, 1,536 of 4,096 decisions"


def test_no_line_without_a_running_trial(folder: SweepFolder, output: Lines, clock: Clock) -> None:
    callback, trial = callback_of(folder, output), trial_of(folder)
    trial.status = "PENDING"
    clock.sleep(100.0)
    callback.on_step_end(1, [trial])
    assert output.lines == []


def test_an_interrupted_sweep_waits_for_its_trials(folder: SweepFolder, output: Lines, clock: Clock) -> None:
    callback, interrupted = callback_of(folder, output), Interrupted()
    stopper = InterruptStopper(callback, interrupted)
    folder.trial(POINT).create(POINT)
    callback.on_step_end(1, [trial_of(folder)])
    lock = Alone(folder.trial(POINT).path)
    assert not stopper.stop_all()
    assert not folder.stopping.exists()

    def sleep(seconds: float) -> None:
        assert folder.stopping.exists()
        clock.sleep(seconds)
        if clock() >= 5.0:
            lock.let_go()

    callback.stop_trials(sleep)
    assert clock() == 5.0
    assert output.lines == ["stopping trials, which can be resumed; Ctrl-C again ends them now"]
    interrupted.requested = True
    assert stopper.stop_all()
    assert stopper.stop_all()
    assert len(output.lines) == 2, "trials are asked once"


def test_the_wait_for_trials_is_limited(folder: SweepFolder, output: Lines, clock: Clock) -> None:
    callback = callback_of(folder, output)
    folder.trial(POINT).create(POINT)
    callback.on_step_end(1, [trial_of(folder)])
    lock = Alone(folder.trial(POINT).path)
    callback.stop_trials(clock.sleep)
    assert clock() == pytest.approx(STOP_TIMEOUT_S, abs=1.0)
    lock.let_go()


def test_a_trial_stops_on_request(folder: SweepFolder) -> None:
    trial = Trial.__new__(Trial)
    trial.setup({"folder": str(folder.path), "point": POINT})
    folder.request_stop()
    with pytest.raises(StoppedError, match="asked to stop"):
        trial.step()
    Alone(folder.trial(POINT).path).let_go()  # it is not locked any more


@pytest.mark.parametrize("requested", [True, False])
def test_the_request_reaches_a_training_as_a_signal(requested: bool) -> None:
    display = SilentDisplay(lambda: requested)
    row: dict[str, float | int | None] = {}
    validation = Validation.__new__(Validation)
    for call in (lambda: display.update(row, Standing()), lambda: display.begin(Standing(), validation)):
        with interrupts(display.stopping) as interrupted:
            call()
            assert interrupted() == requested
