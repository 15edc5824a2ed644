"""Progress of a sweep: a line for each event of a trial, the share that is done, and a stop in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.stopper import Stopper

from rlsched.files import Alone
from rlsched.learn.interrupts import Interrupted
from rlsched.tune.folder import SweepFolder, TrialFolder
from rlsched.tune.space import Point, assignments, point_id
from rlsched.tune.sweep import Sweep
from rlsched.tune.trial import DECISIONS, OBJECTIVE, SCORE, point_of

REFRESH_S = 1.0
"""Seconds between reads of the trials' folders."""

LOG_S = 55.0
"""Seconds without a line, after which running trials have one: with `REFRESH_S` less than a minute."""

STOP_TIMEOUT_S = 120.0
"""Seconds in which stopping trials may end their iteration, before Ray ends them."""


@dataclass(frozen=True)
class Progress:
    """Progress of a sweep, in trials."""

    trials: int
    done: int
    stopped: int  # early, as worse than others
    failed: int  # more often than the sweep allows
    share: float  # of all decisions
    best: tuple[float, Point] | None  # the highest score of the completed trials, with its point


OnProgress = Callable[[Progress], None]
WriteLine = Callable[[str], None]


def ignore_line(line: str) -> None:
    """Write nothing."""


class ProgressCallback(Callback):
    """Gets events from Ray Tune, reads the trials' folders, and reports both.

    Args:
        sweep: that runs.
        folder: of the sweep.
        on_progress: called with the progress every second.
        write_line: called with each line about a trial.
        log: also write a line about running trials every minute.
        clock: returns seconds.
    """

    def __init__(
        self,
        sweep: Sweep,
        folder: SweepFolder,
        on_progress: OnProgress,
        write_line: WriteLine = ignore_line,
        *,
        log: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sweep, self.folder, self.on_progress = sweep, folder, on_progress
        self.write_line, self.log, self.clock = write_line, log, clock
        self.targets = sweep.targets(str(folder.path))
        self.total = len(sweep.points())
        self.steps_by_trial: dict[str, int] = {}
        self.failed_trials: list[Any] = []
        self.running: list[Point] = []
        self.best: tuple[float, Point] | None = None
        self.done, self.stopped, self.failed = 0, 0, 0
        self.last_refresh, self.last_line = 0.0, clock()
        self.progress = Progress(self.total, 0, 0, 0, 0.0, None)

    def __getstate__(self) -> dict[str, Any]:
        """Ray Tune pickles its callbacks, and functions may hold a terminal; the pickle is never read."""
        unpicklable = {"on_progress", "write_line", "failed_trials"}
        return {name: value for name, value in vars(self).items() if name not in unpicklable}

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Refresh the progress; Ray Tune calls this many times a second."""
        self.running = [
            point_of(self.sweep, trial.config) for trial in trials if trial.status == TuneTrial.RUNNING
        ]
        if self.clock() - self.last_refresh >= REFRESH_S:
            self.refresh()
        if self.log and self.running and self.clock() - self.last_line >= LOG_S:
            for point in self.running:
                self.report(point, f"runs, {self.status(point)}")

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Report that a trial starts or resumes."""
        point = point_of(self.sweep, trial.config)
        folder = self.folder.trial(point)
        if not folder.done:
            resumes = any(folder.run_folder(seed).path.exists() for seed in self.sweep.seeds)
            self.report(point, f"resumes, {self.status(point)}" if resumes else f"starts with {self.seeds}")

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Report that a trial has reached a rung."""
        if not result["done"]:
            self.report(point_of(self.sweep, trial.config), f"pauses at a rung, {self.outcome(result)}")

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Report that a trial is completed, or stopped as worse than others."""
        point = point_of(self.sweep, trial.config)
        if not self.folder.trial(point).done:
            self.stopped += 1
            self.report(point, f"is stopped early, {self.outcome(trial.last_result)}")
            return
        self.done += 1
        self.report(point, f"is completed, {self.outcome(trial.last_result)}")
        score = trial.last_result[SCORE]
        if self.best is None or score > self.best[0]:
            self.best = (score, point)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Report that a failed trial starts again."""
        self.report(point_of(self.sweep, trial.config), "failed, and starts again")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Report that a trial failed and does not start again."""
        self.failed += 1
        self.failed_trials.append(trial)  # Ray Tune sets its error later
        self.report(point_of(self.sweep, trial.config), "failed for good")

    def errors(self) -> dict[str, str]:
        """The last line of the error of each failed trial, by name of its folder."""
        errors = {}
        for trial in self.failed_trials:
            lines = str(trial.get_error() or "no reason given").strip().splitlines()
            errors[self.folder.trial(point_of(self.sweep, trial.config)).path.name] = lines[-1]
        return errors

    def stop_trials(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Ask all trials to stop, and wait for them, at most `STOP_TIMEOUT_S`."""
        self.write_line("stopping trials, which can be resumed; Ctrl-C again ends them now")
        self.folder.request_stop()
        deadline = self.clock() + STOP_TIMEOUT_S
        while self.clock() < deadline and any(self.is_locked(point) for point in self.running):
            sleep(REFRESH_S)

    def is_locked(self, point: Point) -> bool:
        """Whether a process works in the folder of a trial."""
        try:
            Alone(self.folder.trial(point).path).let_go()
        except BlockingIOError:
            return True
        except FileNotFoundError:  # not started yet
            return False
        return False

    def report(self, point: Point, text: str) -> None:
        """Write a line about a trial."""
        self.write_line(f"{' '.join(assignments(point))} {text}")
        self.last_line = self.clock()

    @property
    def seeds(self) -> str:
        """The seeds of each trial, in words."""
        seeds = self.sweep.seeds
        return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"

    def outcome(self, result: Mapping[str, Any]) -> str:
        """The result of a trial in words: decisions of all its seeds, and each objective."""
        steps = [f"{result[DECISIONS]:,} decisions"] if result[DECISIONS] else []
        values = [
            f"{target.metric} {result[f'{OBJECTIVE}_{k}']:.4g}" for k, target in enumerate(self.targets)
        ]
        return ", ".join([*steps, *values])

    def status(self, point: Point) -> str:
        """The seed that a trial works on, and the decisions of that seed so far."""
        trial = self.folder.trial(point)
        for seed in self.sweep.seeds:
            if self.sweep.policy is not None:
                if trial.read_run(seed) is None:
                    return f"seed {seed}"
            elif not trial.seed_done(seed):
                rows = trial.run_folder(seed).rows()
                steps = int(float(rows[-1].get("steps") or 0)) if rows else 0
                return f"seed {seed}, {steps:,} of {self.steps_of(point):,} decisions"
        return "completed"

    def refresh(self) -> None:
        """Read the progress from the trials' folders, and report it."""
        shares = [1.0 if trial.done else self._share(trial) for trial in self.folder.trials()]
        share = min(1.0, sum(shares) / max(1, self.total))
        self.progress = Progress(self.total, self.done, self.stopped, self.failed, share, self.best)
        self.on_progress(self.progress)
        self.last_refresh = self.clock()

    def _share(self, trial: TrialFolder) -> float:
        """The share of its decisions that an incomplete trial has reached."""
        checkpoints = [trial.run_folder(seed).latest() for seed in self.sweep.seeds]
        steps = [0 if checkpoint is None else checkpoint[1].steps for checkpoint in checkpoints]
        return min(1.0, sum(steps) / (self.steps_of(trial.read_point()[1]) * len(steps)))

    def steps_of(self, point: Point) -> int:
        """Decisions of each training of a trial, computed once for each."""
        name = point_id(point)
        if name not in self.steps_by_trial:
            scenario, config = self.sweep.settings(str(self.folder.path), point)
            self.steps_by_trial[name] = config.resolve(scenario).steps
        return self.steps_by_trial[name]


class InterruptStopper(Stopper):
    """Ends an interrupted sweep once its trials have stopped.

    Args:
        callback: knows the running trials.
        interrupted: returns whether a signal asked the sweep to stop.
    """

    def __init__(self, callback: ProgressCallback, interrupted: Interrupted) -> None:
        self.callback, self.interrupted = callback, interrupted
        self.stopped = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether to end one trial: never."""
        return False

    def stop_all(self) -> bool:
        """Whether to end all trials. Ray Tune starts none while this waits."""
        if self.interrupted() and not self.stopped:
            self.callback.stop_trials()
            self.stopped = True
        return self.stopped
