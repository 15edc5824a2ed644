"""One trial of Ray Tune: trains every seed up to the next rung, and reports the results."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from rlsched.files import Alone
from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.rllib.session import bundles
from rlsched.learn.run import train
from rlsched.learn.selection import Validation
from rlsched.scenario import Scenario
from rlsched.tune.evaluation import evaluate_policy
from rlsched.tune.folder import Run, SweepFolder
from rlsched.tune.results import objectives_of, score
from rlsched.tune.space import Point
from rlsched.tune.sweep import Sweep

POINT = "point"
"""Key of a whole point in the configuration of Ray Tune; Optuna's trials have single settings instead."""

FOLDER = "folder"
"""Key of the sweep's folder there."""

SCORE, STEPS = "score", "steps"

OBJECTIVE, DECISIONS = "objective", "decisions"
"""Keys of a result: objectives without transformation, and decisions of all seeds."""

LOCK_TIMEOUT_S = 60.0
"""Seconds to wait for another process to leave the folder of a trial."""


class SilentDisplay:
    """A display of a training that shows nothing, as the sweep shows its progress.

    Args:
        stop_requested: returns whether the sweep asks the trial to stop.
    """

    def __init__(self, stop_requested: Callable[[], bool]) -> None:
        self.stop_requested = stop_requested

    def prepare(self, scenario: Scenario, config: ResolvedConfig) -> None:
        """All settings are valid."""

    def begin(self, standing: Standing, validation: Validation) -> None:
        """The run starts or resumes."""
        if self.stop_requested():
            signal.raise_signal(signal.SIGTERM)  # a training then stops after its iteration

    def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
        """An iteration is done."""
        if self.stop_requested():
            signal.raise_signal(signal.SIGTERM)

    def stopping(self) -> None:
        """Ray, or the sweep, ends the trial."""


class StoppedError(RuntimeError):
    """A trial was asked to stop, and did."""


class Trial(tune.Trainable):
    """Trains or evaluates with the settings of one point, and resumes from its folder."""

    def setup(self, config: dict[str, Any]) -> None:
        """Read the sweep and the point.

        Args:
            config: the folder of the sweep, and a point, or settings of Optuna.
        """
        logging.getLogger("ray").setLevel(logging.ERROR)
        self.folder = SweepFolder(Path(config[FOLDER]))
        self.sweep = self.folder.read()
        self.point = point_of(self.sweep, config)
        self.trial = self.folder.trial(self.point)
        self.trial.create(self.point)
        where = str(self.folder.path)
        self.scenario, self.training = self.sweep.settings(where, self.point)
        self.targets = self.sweep.targets(where)
        steps = self.training.resolve(self.scenario).steps
        self.rungs = self.sweep.rungs(steps) if self.sweep.policy is None else [1]
        self.rung = 0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Use this process for the next point: another one would take seconds to start."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Train every seed up to the next rung.

        Returns:
            Values for Ray Tune: the objectives, one score for all, and the decisions so far.

        Raises:
            StoppedError: the sweep, or the end of Ray, stopped the trial.
        """
        rung_steps = self.rungs[self.rung]
        self.rung += 1
        last = self.rung == len(self.rungs)
        # A process of a killed driver or on a lost node may still run. An interrupted sweep waits for this.
        lock = Alone(self.trial.path, LOCK_TIMEOUT_S)
        try:
            runs = None if last else self.trial.read_rung(rung_steps)
            if runs is None:
                runs = [self._seed(seed, None if last else rung_steps) for seed in self.sweep.seeds]
                if last:
                    self.trial.mark_done()
                else:
                    self.trial.save_rung(rung_steps, runs)
        finally:
            lock.let_go()
        targets, objectives = self.targets, objectives_of(self.point, runs, self.targets)
        excess = float(np.mean([run.excess for run in runs]))
        values = zip(targets, objectives, strict=True)
        return {
            **{f"{SCORE}_{k}": score(value, target, excess) for k, (target, value) in enumerate(values)},
            **{f"{OBJECTIVE}_{k}": value for k, value in enumerate(objectives)},
            SCORE: score(objectives[0], targets[0], excess),
            DECISIONS: sum(run.steps for run in runs),
            STEPS: rung_steps,
            "done": last,
        }

    def _seed(self, seed: int, rung_steps: int | None) -> Run:
        """Train one seed up to a rung; None: to its end."""
        if self.folder.stopping.exists():
            raise StoppedError("the trial was asked to stop")
        if self.sweep.policy is not None:
            if self.trial.read_run(seed) is None:
                began = time.monotonic()
                values, excess = evaluate_policy(self.scenario, self.sweep.policy, self.sweep.episodes, seed)
                self.trial.save_figures(seed, time.monotonic() - began, values, excess)
        elif not self.trial.seed_done(seed):
            self._train(seed, rung_steps)
        run = self.trial.read_run(seed)
        assert run is not None, "a training ends with a checkpoint"
        return run

    def _train(self, seed: int, rung_steps: int | None) -> None:
        config, folder = self.training.model_copy(update={"seed": seed}), self.trial.run_folder(seed)
        latest = folder.latest()
        if rung_steps is not None and latest is not None and latest[1].steps >= rung_steps:
            return
        # The driver has checked earlier checkpoints; this node may run as another user.
        display = SilentDisplay(self.folder.stopping.exists)
        reason = train(
            self.scenario, config, folder, display, resume=folder.holds_run, pause_at=rung_steps, trust=True
        ).reason
        if reason == "interrupted":  # by the sweep or the end of Ray, before the rung
            raise StoppedError("the trial was asked to stop")
        if reason != "paused":
            self.trial.mark_seed_done(seed)


def point_of(sweep: Sweep, config: Mapping[str, Any]) -> dict[str, Any]:
    """The point of a configuration of Ray Tune."""
    if POINT in config:
        return dict(config[POINT])
    return {key: domain.from_text(config[key]) for key, domain in sweep.space.items()}


def trial_resources(sweep: Sweep, point: Point, where: str) -> list[dict[str, float]]:
    """CPUs and GPUs of the processes of a trial; the first is the trial itself."""
    if sweep.policy is not None:
        return [{"CPU": 1.0}]
    scenario, config = sweep.settings(where, point)
    resolved = config.resolve(scenario)
    driver = {"CPU": 1.0}
    if config.gpus_per_learner and not config.learners:
        driver["GPU"] = config.gpus_per_learner
    return [driver, *bundles(resolved)]
