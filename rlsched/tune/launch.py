"""Running a sweep on Ray Tune: what is to be tried, where, and what goes on if it is cut short."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ray import tune
from ray.tune import CheckpointConfig, CLIReporter, FailureConfig, RunConfig, TuneConfig, Tuner
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler

from rlsched.errors import BadInputError
from rlsched.files import Alone
from rlsched.learn.folder import RunFolder
from rlsched.learn.interrupts import interrupts
from rlsched.learn.rllib.resources import check_resources
from rlsched.learn.rllib.session import ray_session
from rlsched.tune.folder import DONE, SweepFolder
from rlsched.tune.follower import Follower, Progress, Say, Stopping, Watcher, nothing
from rlsched.tune.sweep import Sweep, Target, looked_at
from rlsched.tune.trial import (
    FOLDER,
    POINT,
    SCORE,
    STEPS,
    Trial,
    needs,
    placed,
    point_of,
)

QUIET = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours also answers SIGTERM and SIGHUP
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # runs write metrics.csv and TensorBoard themselves
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000",  # that was looked at before
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of trials that were asked to stop: nobody waits for them
    "RAY_AIR_NEW_OUTPUT": "0",  # ours is shown instead
}


@dataclass(frozen=True)
class Ended:
    """How a sweep ended.

    Attributes:
        reason: why.
        progress: how far it was.
        errors: of trials that failed, by name of their folder.
    """

    reason: Literal["all tried", "interrupted"]
    progress: Progress
    errors: Mapping[str, str]


def run(
    sweep: Sweep,
    folder: SweepFolder,
    watch: Watcher,
    *,
    resume: bool,
    address: str | None,
    trust: bool = False,
    say: Say = nothing,
    log: bool = False,
) -> Ended:
    """Try every point; what comes of it is in the folders of trials (`results.outcomes`).

    A sweep that goes on begins again, with the same points, and every trial goes on with what its folder has:
    nothing depends on what Ray Tune remembers. Ctrl-C, SIGTERM and SIGHUP stop trials after their iterations.

    Args:
        sweep: checked.
        folder: of a new sweep, or with `resume` of the one that goes on.
        watch: is told how far it is.
        resume: go on.
        address: of a Ray cluster; None: this machine.
        trust: accept checkpoints that this user has not signed.
        say: is given a line when a trial begins, is at a halt, or ends.
        log: say a line every minute, too, about trials that run.

    Raises:
        BadInputError: there is a sweep already, a checkpoint cannot be used, or Ray has less than a trial
            needs.
    """
    where = str(folder.path)
    for name, level in {"ray": logging.ERROR, "ray.tune": logging.CRITICAL}.items():
        logging.getLogger(name).setLevel(level)  # what fails is told in the end, once
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    if resume:
        folder.check_settings()
    else:
        folder.check_free()
    with ray_session(address):
        for point in looked_at(sweep):
            check_resources(needs(sweep, point, where), where, "a trial")
        if not resume:
            folder.create(sweep)
        try:
            alone = Alone(folder.path)
        except BlockingIOError:
            raise BadInputError(where, "is searched by another process", "wait for it, or end it") from None
        try:
            if resume:
                check_checkpoints(folder, trust=trust)
            folder.let_run()  # a driver that was killed may have asked
            follower = Follower(sweep, folder, watch, say, log=log)
            with interrupts(lambda: None) as interrupted:
                tuner(sweep, folder, follower, Stopping(follower, interrupted)).fit()
        finally:
            folder.let_run()
            alone.let_go()
    follower.look()
    progress = follower.progress
    ended = progress.done + progress.stopped + progress.failed
    reason: Literal["all tried", "interrupted"] = "all tried" if ended >= progress.trials else "interrupted"
    return Ended(reason, progress, follower.errors())


def check_checkpoints(folder: SweepFolder, *, trust: bool) -> None:
    """See whether trainings that have begun can go on from their checkpoints; tell of damaged ones.

    Raises:
        BadInputError: one cannot.
    """
    for path in sorted(folder.path.glob("trials/*/seed-*")):
        if not (path / DONE).exists():
            for problem in RunFolder(path).checkpoints.intact(trust=trust)[1]:
                logging.getLogger(__name__).warning("%s; going on from an earlier one", problem)


def tuner(sweep: Sweep, folder: SweepFolder, follower: Follower, stopping: Stopping) -> Tuner:
    """Ray Tune's face of a sweep."""
    where = str(folder.path)
    targets = sweep.targets(where)
    points = sweep.points()
    space: dict[str, Any] = {FOLDER: str(folder.path.resolve())}
    search, samples = None, 1
    if sweep.search.kind == "optuna":
        samples = min(sweep.search.samples or 1, sweep.size or sys.maxsize)
        search = optuna(sweep, folder, targets)
    else:
        space[POINT] = tune.grid_search(points)
    scheduler = FIFOScheduler()
    if sweep.search.kind == "asha":
        rungs = sweep.rungs(follower.steps)
        scheduler = AsyncHyperBandScheduler(
            time_attr=STEPS,
            metric=SCORE,
            mode="max",
            max_t=rungs[-1],
            grace_period=rungs[0],
            reduction_factor=sweep.search.reduction,
        )
    return Tuner(
        tune.with_resources(Trial, lambda config: placed(needs(sweep, point_of(sweep, config), where))),
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
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),  # trials keep their own
            callbacks=[follower],
            stop=stopping,
            verbose=0,
            progress_reporter=CLIReporter(max_report_frequency=10**9),
        ),
    )


def optuna(sweep: Sweep, folder: SweepFolder, targets: tuple[Target, ...]) -> Any:
    """A searcher that looks at results; it begins with what the sweep had begun with before."""
    from optuna import logging as told
    from optuna.samplers import TPESampler
    from ray.tune.search.optuna import OptunaSearch

    from rlsched.tune.searcher import Searcher

    told.set_verbosity(told.ERROR)
    before = [
        {key: sweep.space[key].to_text(value) for key, value in trial.told()[1].items()}
        for trial in folder.trials()
    ]
    several = len(targets) > 1
    samples = sweep.search.samples or 1
    return Searcher(
        OptunaSearch.convert_search_space({key: domain.of_tune() for key, domain in sweep.space.items()}),
        metric=[f"{SCORE}_{k}" for k in range(len(targets))] if several else SCORE,
        mode=["max"] * len(targets) if several else "max",
        points_to_evaluate=before,
        # With the same seed it would draw what it had drawn before.
        sampler=TPESampler(
            seed=sweep.search.seed + len(before), n_startup_trials=max(2, min(10, samples // 3))
        ),
    )
