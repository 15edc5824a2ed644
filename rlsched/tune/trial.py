"""One trial, wherever Ray Tune runs it: every seed up to the next halt, then word of how they stand."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import PlacementGroupFactory

from rlsched.learn.folder import Standing
from rlsched.learn.resources import bundles
from rlsched.learn.run import train
from rlsched.learn.selection import Validation
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


class Silent:
    """Shows nothing: the sweep shows how its trials are doing."""

    def prepare(self) -> None:
        """All settings are good."""

    def begin(self, standing: Standing, validation: Validation) -> None:
        """The run starts, or goes on."""

    def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
        """An iteration is done."""

    def stopping(self) -> None:
        """Ray ends the trial."""


class Trial(tune.Trainable):
    """Trains, or lets play, what one point says; goes on with what its folder has."""

    def setup(self, config: dict[str, Any]) -> None:
        """Find out what to do.

        Args:
            config: the folder of the sweep, and a point, or settings that a searcher chose.
        """
        logging.getLogger("ray").setLevel(logging.ERROR)
        at = SweepFolder(Path(config[FOLDER]))
        self.sweep = at.read()
        self.point = point_of(self.sweep, config)
        self.trial = at.trial(self.point)
        self.trial.begin(self.point)
        self.where = str(at.path)
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
        """
        halt = self.rungs[self.rung]
        self.rung += 1
        last = self.rung == len(self.rungs)
        runs = [self._seed(seed, None if last else halt) for seed in self.sweep.seeds]
        if last:
            self.trial.finish()
        targets = self.sweep.targets(self.where)
        found = objectives_of(self.point, runs, targets)
        return {
            **{f"objective_{k}": value for k, value in enumerate(found)},
            SCORE: score(runs, found, targets),
            STEPS: halt,
            "done": last,
        }

    def _seed(self, seed: int, halt: int | None) -> Run:
        """One seed up to a halt; to its end where there is none."""
        scenario, config = self.sweep.settings(self.where, self.point, [f"seed={seed}"])
        if self.sweep.policy is not None:
            found = self.trial.run(seed)
            if found is None:
                began = time.monotonic()
                values = figures(scenario, self.sweep.policy, self.sweep.episodes, seed)
                self.trial.save_figures(seed, time.monotonic() - began, values)
        else:
            folder = self.trial.training(seed)
            latest = folder.latest()
            wanted = halt or config.settled(scenario).steps or 1
            if latest is None or not self._is_there(latest[1], wanted, config.minutes):
                begun = (folder.path / "train.yaml").exists()
                train(scenario, config, folder, Silent(), resume=begun, pause_at=halt)
        found = self.trial.run(seed)
        assert found is not None, "a training ends with a checkpoint"
        return found

    def _is_there(self, standing: Standing, wanted: int, minutes: float | None) -> bool:
        """Whether a training has got so far, or has had its time."""
        return standing.steps >= wanted or (minutes is not None and standing.seconds >= 60 * minutes)


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
