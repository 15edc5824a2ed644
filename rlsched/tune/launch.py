"""Runs a sweep on Ray Tune."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import optuna
from ray import tune
from ray.tune import (
    CheckpointConfig,
    CLIReporter,
    FailureConfig,
    PlacementGroupFactory,
    RunConfig,
    TuneConfig,
    Tuner,
)
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

from rlsched.errors import BadInputError
from rlsched.files import Alone
from rlsched.learn.folder import RunFolder
from rlsched.learn.interrupts import interrupts
from rlsched.learn.rllib.session import check_resources, ray_session
from rlsched.tune.folder import DONE, SweepFolder
from rlsched.tune.progress import (
    InterruptStopper,
    OnProgress,
    Progress,
    ProgressCallback,
    WriteLine,
    ignore_line,
)
from rlsched.tune.sweep import Sweep, Target
from rlsched.tune.sweep_file import checked_points
from rlsched.tune.trial import (
    FOLDER,
    POINT,
    SCORE,
    STEPS,
    Trial,
    point_of,
    trial_resources,
)

TUNE_ENVIRONMENT = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours also handles SIGTERM and SIGHUP
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # runs write metrics.csv and TensorBoard themselves
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000",  # resources are checked before
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of stopped trials, whose results are not awaited
    "RAY_AIR_NEW_OUTPUT": "0",  # the command line shows its own
}
Reason = Literal["all tried", "interrupted"]

MAX_SUGGESTIONS = 200
"""Suggestions for one new point, before the search ends."""


@dataclass(frozen=True)
class SweepEnd:
    """Outcome of a sweep; errors are those of failed trials, by name of their folder."""

    reason: Reason
    progress: Progress
    errors: Mapping[str, str]


def run_sweep(
    sweep: Sweep,
    folder: SweepFolder,
    on_progress: OnProgress,
    *,
    resume: bool,
    address: str | None,
    trust: bool = False,
    write_line: WriteLine = ignore_line,
    log: bool = False,
) -> SweepEnd:
    """Try every point; results are in the trials' folders (`results.load_outcomes`).

    A resumed sweep starts with the same points, and every trial resumes from its folder. Nothing depends on
    the state of Ray Tune. Ctrl-C, SIGTERM and SIGHUP stop trials after their iterations.

    Args:
        sweep: checked.
        folder: of a new sweep, or with `resume` of an existing one.
        on_progress: called with the progress every second.
        resume: resume the sweep in the folder.
        address: of a Ray cluster; None: this machine.
        trust: accept checkpoints that this user has not signed.
        write_line: called with a line when a trial starts, pauses or ends.
        log: also write a line about running trials every minute.

    Raises:
        BadInputError: the folder holds a sweep, a checkpoint is unusable, or Ray has too little for a trial.
    """
    where = str(folder.path)
    for name, level in {"ray": logging.ERROR, "ray.tune": logging.CRITICAL}.items():
        logging.getLogger(name).setLevel(level)  # errors are reported once, at the end
    os.environ.update({name: os.environ.get(name, value) for name, value in TUNE_ENVIRONMENT.items()})
    if resume:
        folder.check_settings()
    else:
        folder.check_free()
    with ray_session(address):
        for point in checked_points(sweep):
            check_resources(trial_resources(sweep, point, where), where, "a trial")
        if not resume:
            folder.create(sweep)
        try:
            lock = Alone(folder.path)
        except BlockingIOError:
            raise BadInputError(where, "is searched by another process", "wait for it, or end it") from None
        try:
            if resume:
                check_checkpoints(folder, trust=trust)
            folder.clear_stop_request()  # of a driver that was killed
            callback = ProgressCallback(sweep, folder, on_progress, write_line, log=log)
            with interrupts(lambda: None) as interrupted:
                make_tuner(sweep, folder, callback, InterruptStopper(callback, interrupted)).fit()
        finally:
            folder.clear_stop_request()
            lock.let_go()
    callback.refresh()
    progress = callback.progress
    interrupted_early = progress.done + progress.stopped + progress.failed < progress.trials
    return SweepEnd("interrupted" if interrupted_early else "all tried", progress, callback.errors())


def check_checkpoints(folder: SweepFolder, *, trust: bool) -> None:
    """Check that unfinished trainings can resume from their checkpoints; warn of damaged ones.

    Raises:
        BadInputError: a training cannot.
    """
    for path in sorted(folder.path.glob("trials/*/seed-*")):
        if not (path / DONE).exists():
            for problem in RunFolder(path).checkpoints.intact(trust=trust)[1]:
                logging.getLogger(__name__).warning("%s; resuming from an earlier one", problem)


def make_tuner(
    sweep: Sweep, folder: SweepFolder, callback: ProgressCallback, stopper: InterruptStopper
) -> Tuner:
    """The Ray Tune experiment of a sweep."""
    where = str(folder.path)
    targets = sweep.targets(where)
    points = sweep.points()
    space: dict[str, Any] = {FOLDER: str(folder.path.resolve())}
    search, samples = None, 1
    if sweep.search.kind == "optuna":
        samples = min(sweep.search.samples or 1, sweep.size or sys.maxsize)
        search = make_optuna_search(sweep, folder, targets)
    else:
        space[POINT] = tune.grid_search(points)
    scheduler = FIFOScheduler()
    if sweep.search.kind == "asha":
        rungs = sweep.rungs(callback.steps_of({}))
        scheduler = AsyncHyperBandScheduler(
            time_attr=STEPS,
            metric=SCORE,
            mode="max",
            max_t=rungs[-1],
            grace_period=rungs[0],
            reduction_factor=sweep.search.reduction_factor,
        )
    return Tuner(
        tune.with_resources(
            Trial,
            lambda config: PlacementGroupFactory(trial_resources(sweep, point_of(sweep, config), where)),
        ),
        param_space=space,
        tune_config=TuneConfig(
            search_alg=search,
            scheduler=scheduler,
            num_samples=samples,
            max_concurrent_trials=sweep.parallel,
            reuse_actors=True,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=RunConfig(
            name=time.strftime("%Y%m%d-%H%M%S"),
            storage_path=str(folder.tune.resolve()),
            failure_config=FailureConfig(max_failures=sweep.failures),
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),  # trials write their own
            callbacks=[callback],
            stop=stopper,
            verbose=0,
            progress_reporter=CLIReporter(max_report_frequency=10**9),
        ),
    )


class UniqueOptunaSearch(OptunaSearch):
    """Optuna's search, which repeats points in a space of listed values, with each point once."""

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The settings of the next trial, or the mark that there is none."""
        for _ in range(MAX_SUGGESTIONS):
            settings = super().suggest(trial_id)
            key = json.dumps(settings, sort_keys=True)
            tried = self.__dict__.setdefault("tried", set())
            if key not in tried:
                tried.add(key)
                return settings
            self._ot_study.tell(self._ot_trials.pop(trial_id), state=optuna.trial.TrialState.FAIL)
        return str(Searcher.FINISHED)


def make_optuna_search(sweep: Sweep, folder: SweepFolder, targets: tuple[Target, ...]) -> Any:
    """An Optuna search that starts with the points of the trials that exist."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    earlier = [
        {key: sweep.space[key].to_text(value) for key, value in trial.read_point()[1].items()}
        for trial in folder.trials()
    ]
    several = len(targets) > 1
    startup = max(2, min(10, (sweep.search.samples or 1) // 3))
    return UniqueOptunaSearch(
        OptunaSearch.convert_search_space({key: domain.to_tune() for key, domain in sweep.space.items()}),
        metric=[f"{SCORE}_{k}" for k in range(len(targets))] if several else SCORE,
        mode=["max"] * len(targets) if several else "max",
        points_to_evaluate=earlier,
        # With the same seed it would draw the earlier points again.
        sampler=optuna.samplers.TPESampler(seed=sweep.search.seed + len(earlier), n_startup_trials=startup),
    )
