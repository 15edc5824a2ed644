"""Running a sweep on Ray Tune: what is to be tried, where, and what goes on if it is cut short."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ray import tune
from ray.tune import Callback, CheckpointConfig, CLIReporter, FailureConfig, RunConfig, TuneConfig, Tuner
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler

from rlsched.errors import BadInputError
from rlsched.files import Alone
from rlsched.learn.resources import check_resources
from rlsched.learn.session import ray_session
from rlsched.tune.folder import SweepFolder, TrialFolder
from rlsched.tune.space import Point
from rlsched.tune.sweep import Sweep, Target, looked_at
from rlsched.tune.trial import FOLDER, POINT, SCORE, STEPS, Trial, needs, placed, point_of

LOOK_EVERY_S = 1.0
"""Between looks at how far trials are."""

QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # runs write metrics.csv and TensorBoard themselves
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000",  # that was looked at before
    "RAY_AIR_NEW_OUTPUT": "0",  # ours is shown instead
}


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
) -> Ended:
    """Try every point; what comes of it is in the folders of trials (`results.outcomes`).

    A sweep that goes on begins again, with the same points, and every trial goes on with what its folder has:
    nothing depends on what Ray Tune remembers.

    Args:
        sweep: checked.
        folder: of a new sweep, or with `resume` of the one that goes on.
        watch: is told how far it is.
        resume: go on.
        address: of a Ray cluster; None: this machine.
        trust: whoever wrote the checkpoints of trainings; else this user must have.

    Raises:
        BadInputError: there is a sweep already, a checkpoint cannot be used, or Ray has less than a trial
            needs.
    """
    where = str(folder.path)
    for name, level in {"ray": logging.ERROR, "ray.tune": logging.CRITICAL}.items():
        logging.getLogger(name).setLevel(level)  # what fails is told in the end, once
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    if not resume:
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
                check_checkpoints(sweep, folder, trust=trust)
            follower = Follower(sweep, folder, watch)
            tuner(sweep, folder, follower).fit()
        finally:
            alone.let_go()
    follower.look()
    progress = follower.progress
    ended = progress.done + progress.stopped + progress.failed
    reason: Literal["all tried", "interrupted"] = "all tried" if ended >= progress.trials else "interrupted"
    return Ended(reason, progress, follower.errors())


def check_checkpoints(sweep: Sweep, folder: SweepFolder, *, trust: bool) -> None:
    """See whether trainings that have begun can go on from their checkpoints; tell of damaged ones.

    Raises:
        BadInputError: one cannot.
    """
    for trial in folder.trials():
        _, config = sweep.settings(str(folder.path), trial.told()[1])
        for seed in sweep.seeds:
            if not trial.ended(seed):
                found = trial.training(seed).checkpoints.intact(trust=trust or config.engine != "rllib")
                for problem in found[1]:
                    logging.getLogger(__name__).warning("%s; going on from an earlier one", problem)


def tuner(sweep: Sweep, folder: SweepFolder, follower: Follower) -> Tuner:
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


class Follower(Callback):
    """Hears from Ray Tune how trials are doing, and looks into their folders."""

    def __init__(self, sweep: Sweep, folder: SweepFolder, watch: Watcher) -> None:
        self.sweep, self.folder, self.watch = sweep, folder, watch
        self.total = len(sweep.points())
        self.steps = self.steps_of({})
        self.wanted: dict[str, int] = {}
        self.broken: list[Any] = []
        self.best: tuple[float, Point] | None = None
        self.done, self.stopped, self.failed = 0, 0, 0
        self.looked = 0.0
        self.progress = Progress(self.total, 0, 0, 0, 0.0, None)

    def __getstate__(self) -> dict[str, Any]:
        """Ray Tune writes its callbacks down, and this one's listener may be a terminal; nobody reads it."""
        return {name: value for name, value in vars(self).items() if name not in {"watch", "broken"}}

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Ray Tune looks around, many times a second."""
        if time.monotonic() - self.looked >= LOOK_EVERY_S:
            self.look()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial is at its end, or was stopped as worse than others."""
        point = point_of(self.sweep, trial.config)
        if not self.folder.trial(point).done:
            self.stopped += 1
            return
        self.done += 1
        score = trial.last_result[SCORE]
        if self.best is None or score > self.best[0]:
            self.best = (score, point)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial failed for good."""
        self.failed += 1
        self.broken.append(trial)  # whose error is not known yet

    def errors(self) -> dict[str, str]:
        """The last line of what went wrong in each trial that failed for good, by name of its folder."""
        found = {}
        for trial in self.broken:
            said = str(trial.get_error() or "no word why").strip().splitlines()
            found[self.folder.trial(point_of(self.sweep, trial.config)).path.name] = said[-1]
        return found

    def look(self) -> None:
        """See how far everything is, and tell."""
        begun = self.folder.trials()
        shares = [1.0 if trial.done else self._share(trial) for trial in begun]
        share = min(1.0, (sum(shares)) / max(1, self.total))
        self.progress = Progress(self.total, self.done, self.stopped, self.failed, share, self.best)
        self.watch(self.progress)
        self.looked = time.monotonic()

    def _share(self, trial: TrialFolder) -> float:
        """Of one trial that is not at its end."""
        found = [trial.training(seed).latest() for seed in self.sweep.seeds]
        steps = [0 if one is None else one[1].steps for one in found]
        name = trial.path.name
        if name not in self.wanted:
            self.wanted[name] = self.steps_of(trial.told()[1])
        return min(1.0, sum(steps) / (self.wanted[name] * len(steps)))

    def steps_of(self, point: Point) -> int:
        """Decisions of each training of a trial."""
        scenario, config = self.sweep.settings(str(self.folder.path), point)
        return config.settled(scenario).steps or 1
