"""A training run: iterate, validate, checkpoint, stop; everything else is somebody else's."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

import numpy as np
import torch
from tensorboardX import SummaryWriter

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.files import checksum
from rlsched.learn.config import TrainConfig
from rlsched.learn.engine import Engine, Progress, number
from rlsched.learn.folder import RunFolder, Standing
from rlsched.learn.imitation import check_teacher
from rlsched.learn.networks import build_policy
from rlsched.learn.policy import TrainedPolicy, load_policy
from rlsched.learn.selection import Score, Validation
from rlsched.learn.session import session_for
from rlsched.learn.watchdog import StalledError, watchdog
from rlsched.offline.check import check_for
from rlsched.offline.manifest import MANIFEST, read_manifest
from rlsched.scenario import Episode, Scenario, files, rooted
from rlsched.sim.layout import Layout
from rlsched.sim.priorities import PRIORITIES

VALIDATION_SEED = 0x76616C  # of the validation episodes, the same in every run so that runs compare
VALIDATED = (
    "bounded_slowdown",
    "wait",
    "utilization",
    "schedule_span",
)  # what an operator cares about beside
STOPPING_MINUTES = 0.5
Reason = Literal["steps", "minutes", "no improvement", "interrupted"]


class Display(Protocol):
    """Shows how a run is doing."""

    def prepare(self) -> None:
        """All settings are good; Ray and RLlib are about to start."""

    def begin(self, standing: Standing, validation: Validation) -> None:
        """The run starts, or goes on, here."""

    def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
        """An iteration is done."""


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    folder: Path
    reason: Reason
    standing: Standing
    metric: str
    best_heuristic: tuple[str, float]


def train(
    scenario: Scenario,
    config: TrainConfig,
    folder: RunFolder,
    display: Display,
    *,
    resume: bool = False,
    address: str | None = None,
) -> Summary:
    """Train a policy, and leave everything about it in the run folder.

    Args:
        scenario: what is simulated; its cluster may leave units to the trace.
        config: how to train.
        folder: a new run's folder, or with `resume` that of a run to go on with.
        display: shows progress.
        resume: go on from the last whole checkpoint.
        address: of a Ray cluster; left out: this machine.

    Raises:
        BadInputError: the scenario or the folder cannot be used; before anything long starts.
    """
    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)  # its warnings are about its own defaults
    if not resume:
        folder.check_free()
    config = in_place(config.settled(scenario))
    scenario = rooted(scenario)
    latest = folder.latest() if resume else None
    feed = EpisodeFeed(scenario)
    scenario = feed.scenario
    layout = Layout.of(scenario.observation, scenario.decision, len(feed.units))
    if config.network.kind == "cnn":
        drawn = config.network.model_copy(update={"units": tuple(feed.units)})
        config = config.model_copy(update={"network": drawn})
    build_policy(layout, config.network)  # refuses what it cannot work with, before anything is written
    begun = config
    if latest is None:
        begun = beginning(config, folder)
        check_teachers(begun, feed, layout)
    if config.dataset is not None:
        manifest, rewards = read_manifest(config.dataset), config.algo != "bc"
        check_for(config.dataset, manifest, scenario, len(feed.units), rewards=rewards)
    inputs = inputs_of(scenario, config)
    if resume:
        folder.check_inputs(inputs)
    check_devices(config)
    rng = np.random.default_rng(VALIDATION_SEED)
    episodes = [feed.training(rng) for _ in range(config.validation.episodes or 1)]
    settled = scenario
    if scenario.decision.horizon is None:  # who may leave jobs unfinished is judged as if it might not
        settled = scenario.model_copy(update={"episode": Episode(jobs=scenario.episode.jobs)})
    validation = Validation.of(settled, feed.units, episodes, config.validation.metric or "")
    display.prepare()
    with session_for(config, address), interrupts() as interrupted:
        if resume:
            folder.go_on(scenario, config, inputs)
        else:
            folder.create(scenario, config, inputs)
        folder.save_validation(validation.facts())
        engine = open_engine(begun, feed, 0 if latest is None else latest[1].iteration)
        run = Run(scenario, config, folder, validation, engine, latest)
        try:
            run.begin()
            display.begin(run.standing, validation)
            reason = run.loop(display, interrupted)
        finally:
            run.stop()
    return Summary(folder.path, reason, run.standing, validation.metric, validation.best_heuristic)


def inputs_of(scenario: Scenario, config: TrainConfig) -> dict[str, str]:
    """Checksums of what is learned from; a dataset's manifest has those of its files.

    Raises:
        BadInputError: something cannot be read.
    """
    found = files(scenario)
    if config.dataset is not None:
        found |= {"dataset": config.dataset / MANIFEST}
    try:
        return {name: checksum(path) for name, path in found.items()}
    except OSError as error:
        raise BadInputError(str(error.filename), f"cannot be read ({error})", "bring it back") from None


def open_engine(config: TrainConfig, feed: EpisodeFeed, iteration: int) -> Engine:
    """The algorithm that these settings name, ready to go on from an iteration."""
    if config.algo == "priority_search":
        from rlsched.learn.search import SearchEngine

        return SearchEngine(config, feed, iteration)
    from rlsched.learn.rllib import RllibEngine

    return RllibEngine(config, feed, iteration)


def in_place(config: TrainConfig) -> TrainConfig:
    """The same with other runs and datasets named from the root, likewise."""
    warm, start = config.warm_start, config.search.start
    if warm is not None and warm.teacher not in PRIORITIES:
        warm = warm.model_copy(update={"teacher": str(Path(warm.teacher).resolve())})
    if start is not None:
        start = str(Path(start).resolve())
    search = config.search.model_copy(update={"start": start})
    dataset = None if config.dataset is None else config.dataset.resolve()
    return config.model_copy(update={"warm_start": warm, "search": search, "dataset": dataset})


def beginning(config: TrainConfig, folder: RunFolder) -> TrainConfig:
    """How a run begins that has no checkpoint, perhaps again.

    What another search found may have gone, or gone on, since this one began with it: then it is the policy
    before training that counts.
    """
    if config.search.start is None or not folder.has_start():
        return config
    search = config.search.model_copy(update={"start": str(folder.start)})
    return config.model_copy(update={"search": search})


def check_teachers(config: TrainConfig, feed: EpisodeFeed, layout: Layout) -> None:
    """See whether the policies that a run begins with can be used.

    Raises:
        BadInputError: one cannot.
    """
    if config.warm_start is not None:
        check_teacher(feed, config.warm_start)
    if config.search.start is not None:
        from rlsched.learn.search import found_before

        found_before(layout, config.network, config.search.start)


def check_devices(config: TrainConfig) -> None:
    """See whether what learns in this process has the GPU that it is to learn on.

    Raises:
        BadInputError: it has not.
    """
    if config.gpus_per_learner and not config.learners and not torch.cuda.is_available():
        raise BadInputError(
            "gpus_per_learner",
            f"value {config.gpus_per_learner:g}: no GPU here",
            "leave it out, or set learners=1 on a cluster that has one",
        )


class Run:
    """A run while it is going on."""

    def __init__(
        self,
        scenario: Scenario,
        config: TrainConfig,
        folder: RunFolder,
        validation: Validation,
        engine: Engine,
        latest: tuple[Path, Standing] | None,
    ) -> None:
        self.scenario, self.config, self.folder, self.validation = scenario, config, folder, validation
        self.latest = latest
        self.standing = Standing() if latest is None else latest[1]
        self.engine = engine
        self.writer = SummaryWriter(str(folder.path / "tensorboard"))

    def stop(self) -> None:
        """Let go of processes and files; who does not let go is left to the end of Ray's session."""
        self.writer.close()
        try:
            with watchdog(STOPPING_MINUTES, "stopping what played and learned"):
                self.engine.stop()
        except StalledError as error:
            logging.getLogger(__name__).warning("%s", error)

    def begin(self) -> None:
        """Go on from the last whole checkpoint; without one, begin.

        The policy before training is kept and validated, to tell what training adds.
        """
        if self.latest is None:
            self.folder.keep_metrics_up_to(-1)
            self.engine.policy().save(self.folder.start)
            found = self.validate()
            self.standing = self.standing.model_copy(update={"seconds": 0.0})  # training begins here
            self.record(Progress(0, dict.fromkeys(self.engine.columns)), found, 0, 0.0)
            return
        self.engine.restore(self.latest[0] / self.config.engine, load_policy(self.latest[0]))
        self.folder.keep_metrics_up_to(self.standing.iteration)

    def loop(self, display: Display, interrupted: Interrupted) -> Reason:
        """Iterate until there is a reason to stop; the last state is always in a checkpoint."""
        while True:
            reason = self.reason_to_stop(interrupted)
            if reason is not None:
                self.checkpoint()
                return reason
            began, before = time.monotonic(), self.standing.steps
            what = f"iteration {self.standing.iteration + 1} (see stalled_minutes)"
            with watchdog(self.config.stalled_minutes, what):
                progress = self.engine.iterate()
            seconds = time.monotonic() - began
            self.standing = self.standing.model_copy(
                update={
                    "iteration": self.standing.iteration + 1,
                    "steps": progress.steps,
                    "seconds": self.standing.seconds + seconds,
                }
            )
            # What was learned since the last validation may be the best.
            last = self.reason_to_stop(interrupted) in ("steps", "minutes")
            read = before < self.config.read_first <= self.standing.steps
            due = last or read or self.standing.iteration % self.config.validation.every == 0
            found = self.validate() if due else {}
            if read:
                self.named(found).save(self.folder.read_first)
            row = self.record(progress, found, progress.steps - before, seconds)
            if due:
                self.checkpoint()
            display.update(row, self.standing)

    def reason_to_stop(self, interrupted: Interrupted) -> Reason | None:
        """Why the run should end now, if it should."""
        if interrupted():
            return "interrupted"
        if self.standing.steps >= (self.config.steps or 0):
            return "steps"
        if self.config.minutes is not None and self.standing.seconds >= 60 * self.config.minutes:
            return "minutes"
        patience = self.config.validation.patience
        if patience is not None and self.standing.since_best >= patience:
            return "no improvement"
        return None

    def validate(self) -> dict[str, float]:
        """Play the validation episodes, and keep the policy if it is the best so far."""
        began = time.monotonic()
        policy = self.engine.policy()
        metrics = self.validation.run(policy)
        score = self.validation.score(metrics)
        standing = self.standing
        best = (
            Score()
            if standing.best_value is None
            else Score(standing.best_excess or 0.0, standing.best_value)
        )
        # What imitates is to be the same as what it imitates, not better: that grows with every iteration.
        better = score < best or not self.config.plays
        update: dict[str, Any] = {
            "seconds": standing.seconds + time.monotonic() - began,
            "since_best": 0 if better else standing.since_best + 1,
        }
        if better:
            update |= {
                "best_excess": score.excess,
                "best_value": score.value,
                "best_metric": metrics[self.validation.metric],
            }
            self.named(metrics).save(self.folder.best)
        self.standing = standing.model_copy(update=update)
        return metrics

    def named(self, metrics: dict[str, float]) -> TrainedPolicy:
        """The newest policy, with what it is and what it came to in validation."""
        policy, standing = self.engine.policy(), self.standing
        about = {"iteration": standing.iteration, "steps": standing.steps, "validation": metrics}
        return replace(policy, about=policy.about | about)

    def checkpoint(self) -> None:
        """Write the state of everything."""

        def write(path: Path) -> None:
            self.engine.save(path / self.config.engine)
            self.engine.policy().save(path / "policy")

        self.folder.save(self.standing, write)

    def record(
        self, progress: Progress, found: dict[str, float], steps: int, seconds: float
    ) -> dict[str, float | int | None]:
        """Put an iteration, or what was there before the first, into metrics.csv and TensorBoard.

        Args:
            progress: what it came to.
            found: metrics of the validation, where there was one.
            steps: decisions of it.
            seconds: that they took.
        """
        row: dict[str, float | int | None] = {
            "iteration": self.standing.iteration,
            "steps": self.standing.steps,
            "seconds": round(self.standing.seconds, 3),
            "steps_per_second": round(steps / max(seconds, 1e-9), 1),
            **progress.row,
        }
        checked = dict.fromkeys((*VALIDATED, self.validation.metric, "relative"))
        row |= {f"validation_{name}": number(found.get(name)) for name in checked}
        row["kept"] = int(self.standing.since_best == 0) if found else None
        self.folder.append_metrics(row)
        for name, value in row.items():
            if value is not None and name not in ("iteration", "steps"):
                self.writer.add_scalar(name, value, self.standing.steps)
        self.writer.flush()
        return row


class Interrupted:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.asked


@contextmanager
def interrupts() -> Iterator[Interrupted]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the iteration; a second Ctrl-C does not wait."""
    state = Interrupted()

    def ask(number: int, frame: FrameType | None) -> None:
        if state.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        state.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
