"""One trial, wherever Ray Tune runs it: every seed up to the next halt, then word of how they stand."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune import PlacementGroupFactory

from rlsched.files import Alone
from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.rllib.resources import bundles
from rlsched.learn.run import train
from rlsched.learn.selection import Validation
from rlsched.scenario import Scenario
from rlsched.tune.folder import Run, SweepFolder
from rlsched.tune.playing import figures
from rlsched.tune.results import objectives_of, score
from rlsched.tune.space import Point
from rlsched.tune.sweep import Sweep

POINT = "point"
"""Where Ray Tune has a whole point, of those that were known before."""

FOLDER = "folder"
"""Where it has that of the sweep."""

SCORE, STEPS = "score", "steps"

OBJECTIVE, DECISIONS = "objective", "decisions"
"""What is told of a trial beside: objectives as they are, and decisions of all its seeds."""

OTHERS_S = 60.0
"""That another process may take to leave the folder of a trial."""


class Silent:
    """Shows nothing: the sweep shows how its trials are doing.

    Args:
        asked: whether the sweep asks the trial to stop.
    """

    def __init__(self, asked: Callable[[], bool]) -> None:
        self.asked = asked

    def prepare(self, scenario: Scenario, config: TrainConfig) -> None:
        """All settings are good."""

    def begin(self, standing: Standing, validation: Validation) -> None:
        """The run starts, or goes on; it may be asked to stop."""
        if self.asked():
            signal.raise_signal(signal.SIGTERM)  # at which a training stops after its iteration

    def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
        """An iteration is done; the run may be asked to stop."""
        if self.asked():
            signal.raise_signal(signal.SIGTERM)

    def stopping(self) -> None:
        """Ray, or the sweep, ends the trial."""


class StoppedError(RuntimeError):
    """A trial was asked to stop, and did."""


class Trial(tune.Trainable):
    """Trains, or lets play, what one point says; goes on with what its folder has."""

    def setup(self, config: dict[str, Any]) -> None:
        """Find out what to do.

        Args:
            config: the folder of the sweep, and a point, or settings that a searcher chose.
        """
        logging.getLogger("ray").setLevel(logging.ERROR)
        self.folder = SweepFolder(Path(config[FOLDER]))
        self.sweep = self.folder.read()
        self.point = point_of(self.sweep, config)
        self.trial = self.folder.trial(self.point)
        self.trial.begin(self.point)
        self.where = str(self.folder.path)
        scenario, training = self.sweep.settings(self.where, self.point)
        steps = training.settled(scenario).steps or 1
        self.rungs = self.sweep.rungs(steps) if self.sweep.policy is None else [1]
        self.rung = 0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next point: another process would take seconds to start."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Bring every seed to the next halt.

        Returns:
            What Ray Tune compares: the objectives, one score for all, and how far it is.

        Raises:
            StoppedError: the sweep, or who ends Ray, asked it to stop.
        """
        # Of a driver that was killed, or on a node that is cut off, another may not have ended yet. Held only
        # while something is done: a sweep that was interrupted waits for that.
        alone = Alone(self.trial.path, OTHERS_S)
        try:
            return self._step()
        finally:
            alone.let_go()

    def _step(self) -> dict[str, Any]:
        halt = self.rungs[self.rung]
        self.rung += 1
        last = self.rung == len(self.rungs)
        runs = None if last else self.trial.halted(halt)
        if runs is None:
            runs = [self._seed(seed, None if last else halt) for seed in self.sweep.seeds]
            if last:
                self.trial.finish()
            else:
                self.trial.save_halt(halt, runs)
        targets = self.sweep.targets(self.where)
        found = objectives_of(self.point, runs, targets)
        excess = float(np.mean([run.excess for run in runs]))
        values = zip(targets, found, strict=True)
        return {
            **{f"{SCORE}_{k}": score(value, target, excess) for k, (target, value) in enumerate(values)},
            **{f"{OBJECTIVE}_{k}": value for k, value in enumerate(found)},
            SCORE: score(found[0], targets[0], excess),
            DECISIONS: sum(run.steps for run in runs),
            STEPS: halt,
            "done": last,
        }

    def _seed(self, seed: int, halt: int | None) -> Run:
        """One seed up to a halt; to its end where there is none."""
        if self.folder.stopping.exists():
            raise StoppedError("the trial was asked to stop")
        scenario, config = self.sweep.settings(self.where, self.point, [f"seed={seed}"])
        if self.sweep.policy is not None:
            if self.trial.run(seed) is None:
                began = time.monotonic()
                values, excess = figures(scenario, self.sweep.policy, self.sweep.episodes, seed)
                self.trial.save_figures(seed, time.monotonic() - began, values, excess)
        elif not self.trial.ended(seed):
            self._train(scenario, config, seed, halt)
        found = self.trial.run(seed)
        assert found is not None, "a training ends with a checkpoint"
        return found

    def _train(self, scenario: Scenario, config: TrainConfig, seed: int, halt: int | None) -> None:
        folder = self.trial.training(seed)
        latest = folder.latest()
        if halt is not None and latest is not None and latest[1].steps >= halt:
            return
        # What was there before the sweep went on, its driver has checked; this may be another user's node.
        display = Silent(self.folder.stopping.exists)
        reason = train(
            scenario, config, folder, display, resume=folder.holds_run, pause_at=halt, trust=True
        ).reason
        if reason == "interrupted":  # by the sweep, who ends Ray, or this process: it is not at the halt
            raise StoppedError("the trial was asked to stop")
        if reason != "paused":
            self.trial.end(seed)


def point_of(sweep: Sweep, config: Mapping[str, Any]) -> dict[str, Any]:
    """The point that Ray Tune means."""
    if POINT in config:
        return dict(config[POINT])
    return {key: domain.of_text(config[key]) for key, domain in sweep.space.items()}


def needs(sweep: Sweep, point: Point, where: str) -> list[dict[str, float]]:
    """CPUs and GPUs of the processes of a trial; the first is its own."""
    if sweep.policy is not None:
        return [{"CPU": 1.0}]
    scenario, config = sweep.settings(where, point)
    config = config.settled(scenario)
    own = {"CPU": 1.0}
    if config.gpus_per_learner and not config.learners:
        own["GPU"] = config.gpus_per_learner
    return [own, *bundles(config)]


def placed(processes: Sequence[Mapping[str, float]]) -> PlacementGroupFactory:
    """The same as Ray Tune asks for it."""
    return PlacementGroupFactory([dict(each) for each in processes])
