"""Following a sweep: how its trials are doing, a line for what happens to each, and how they are stopped."""

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
from rlsched.tune.space import Point, assignments
from rlsched.tune.sweep import Sweep
from rlsched.tune.trial import DECISIONS, OBJECTIVE, SCORE, point_of

LOOK_EVERY_S = 1.0
"""Between looks at how far trials are."""

SAY_EVERY_S = 55.0
"""Between lines about trials that run, where nothing else was said: less than a minute, with the looks."""

STOPPING_S = 120.0
"""In which trials that are asked to stop may end their iteration, before Ray ends them."""


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Attributes:
        trials: that there will be.
        done: got to their end.
        stopped: early, as worse than others.
        failed: could not be done, again and again.
        share: of all that is to be learned or played.
        best: the highest score of those that are done, with its point.
    """

    trials: int
    done: int
    stopped: int
    failed: int
    share: float
    best: tuple[float, Point] | None


Watcher = Callable[[Progress], None]
Say = Callable[[str], None]


def nothing(line: str) -> None:
    """Say nothing."""


class Follower(Callback):
    """Hears from Ray Tune how trials are doing, looks into their folders, and tells.

    Args:
        sweep: that is searched.
        folder: of the sweep.
        watch: is told how far it is, every second.
        say: is given lines about trials.
        log: say a line every minute, whatever happens.
        clock: seconds.
    """

    def __init__(
        self,
        sweep: Sweep,
        folder: SweepFolder,
        watch: Watcher,
        say: Say = nothing,
        *,
        log: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sweep, self.folder, self.watch = sweep, folder, watch
        self.tell, self.log, self.clock = say, log, clock
        self.targets = sweep.targets(str(folder.path))
        self.total = len(sweep.points())
        self.steps = self.steps_of({})
        self.wanted: dict[str, int] = {}
        self.broken: list[Any] = []
        self.running: list[Point] = []
        self.best: tuple[float, Point] | None = None
        self.done, self.stopped, self.failed = 0, 0, 0
        self.looked, self.last_line = 0.0, clock()
        self.progress = Progress(self.total, 0, 0, 0, 0.0, None)

    def __getstate__(self) -> dict[str, Any]:
        """Ray Tune writes its callbacks down, and listeners may be a terminal; nobody reads it."""
        return {name: value for name, value in vars(self).items() if name not in {"watch", "tell", "broken"}}

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Ray Tune looks around, many times a second."""
        self.running = [
            point_of(self.sweep, trial.config) for trial in trials if trial.status == TuneTrial.RUNNING
        ]
        if self.clock() - self.looked >= LOOK_EVERY_S:
            self.look()
        if self.log and self.running and self.clock() - self.last_line >= SAY_EVERY_S:
            for point in self.running:
                self.say(point, f"runs, {self.standing(point)}")

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """The process of a trial is there."""
        point = point_of(self.sweep, trial.config)
        folder = self.folder.trial(point)
        if not folder.done:
            begun = any(folder.training(seed).path.exists() for seed in self.sweep.seeds)
            self.say(point, f"goes on, {self.standing(point)}" if begun else f"begins with {self.seeds}")

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial is at a halt, or at its end."""
        if not result["done"]:
            self.say(point_of(self.sweep, trial.config), f"is at a halt, {self.outcome(result)}")

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial is at its end, or was stopped as worse than others."""
        point = point_of(self.sweep, trial.config)
        if not self.folder.trial(point).done:
            self.stopped += 1
            self.say(point, f"is stopped early, {self.outcome(trial.last_result)}")
            return
        self.done += 1
        self.say(point, f"is at its end, {self.outcome(trial.last_result)}")
        score = trial.last_result[SCORE]
        if self.best is None or score > self.best[0]:
            self.best = (score, point)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial failed, and is tried again."""
        self.say(point_of(self.sweep, trial.config), "failed, and is tried again")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial failed for good."""
        self.failed += 1
        self.broken.append(trial)  # whose error is not known yet
        self.say(point_of(self.sweep, trial.config), "failed for good")

    def errors(self) -> dict[str, str]:
        """The last line of what went wrong in each trial that failed for good, by name of its folder."""
        found = {}
        for trial in self.broken:
            said = str(trial.get_error() or "no word why").strip().splitlines()
            found[self.folder.trial(point_of(self.sweep, trial.config)).path.name] = said[-1]
        return found

    def stop_trials(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Ask trials to stop, and wait until those that run have, or `STOPPING_S` are over.

        Args:
            sleep: waits for seconds.
        """
        self.tell("stopping trials, to go on later; Ctrl-C again ends them now")
        self.folder.ask_to_stop()
        until = self.clock() + STOPPING_S
        while self.clock() < until and any(self.works(point) for point in self.running):
            sleep(LOOK_EVERY_S)

    def works(self, point: Point) -> bool:
        """Whether a process is at work in the folder of a trial."""
        try:
            Alone(self.folder.trial(point).path).let_go()
        except BlockingIOError:
            return True
        except FileNotFoundError:  # it has not begun
            return False
        return False

    def say(self, point: Point, text: str) -> None:
        """Tell a line about a trial."""
        self.tell(f"{' '.join(assignments(point))} {text}")
        self.last_line = self.clock()

    @property
    def seeds(self) -> str:
        """The seeds of each trial, in words."""
        seeds = self.sweep.seeds
        return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"

    def outcome(self, result: Mapping[str, Any]) -> str:
        """What a trial came to: decisions of all its seeds, and each objective."""
        steps = [f"{result[DECISIONS]:,} decisions"] if result[DECISIONS] else []
        values = enumerate(self.targets)
        return ", ".join([*steps, *(f"{one.metric} {result[f'{OBJECTIVE}_{k}']:.4g}" for k, one in values)])

    def standing(self, point: Point) -> str:
        """Where a trial is: its seed, and decisions of that so far."""
        trial = self.folder.trial(point)
        for seed in self.sweep.seeds:
            if self.sweep.policy is not None:
                if trial.run(seed) is None:
                    return f"seed {seed}"
            elif not trial.ended(seed):
                rows = trial.training(seed).rows()
                steps = int(float(rows[-1].get("steps") or 0)) if rows else 0
                return f"seed {seed}, {steps:,} of {self.wanted_of(point):,} decisions"
        return "at its end"

    def look(self) -> None:
        """See how far everything is, and tell."""
        begun = self.folder.trials()
        shares = [1.0 if trial.done else self._share(trial) for trial in begun]
        share = min(1.0, (sum(shares)) / max(1, self.total))
        self.progress = Progress(self.total, self.done, self.stopped, self.failed, share, self.best)
        self.watch(self.progress)
        self.looked = self.clock()

    def _share(self, trial: TrialFolder) -> float:
        """Of one trial that is not at its end."""
        found = [trial.training(seed).latest() for seed in self.sweep.seeds]
        steps = [0 if one is None else one[1].steps for one in found]
        return min(1.0, sum(steps) / (self.wanted_of(trial.told()[1]) * len(steps)))

    def wanted_of(self, point: Point) -> int:
        """Decisions of each training of a trial, which are found out once."""
        name = self.folder.trial(point).path.name
        if name not in self.wanted:
            self.wanted[name] = self.steps_of(point)
        return self.wanted[name]

    def steps_of(self, point: Point) -> int:
        """Decisions of each training of a trial."""
        scenario, config = self.sweep.settings(str(self.folder.path), point)
        return config.settled(scenario).steps or 1


class Stopping(Stopper):
    """Ends a sweep that was interrupted, once its trials have stopped.

    Args:
        follower: knows which trials run.
        interrupted: whether somebody asked the sweep to stop.
    """

    def __init__(self, follower: Follower, interrupted: Interrupted) -> None:
        self.follower, self.interrupted = follower, interrupted
        self.stopped = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No trial ends by itself."""
        return False

    def stop_all(self) -> bool:
        """Whether to end all; Ray Tune asks many times a second, and begins nothing while it waits."""
        if self.interrupted() and not self.stopped:
            self.follower.stop_trials()
            self.stopped = True
        return self.stopped
