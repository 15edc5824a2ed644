"""Training run: iterate, validate, checkpoint and stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from tensorboardX import SummaryWriter

from rlsched.learn.calibration import calibrate
from rlsched.learn.checkpoints import PICKLED, Standing, private_copy
from rlsched.learn.config.training import ResolvedConfig, TrainConfig
from rlsched.learn.engine import CalibratedEngine, Engine, Progress, number
from rlsched.learn.folder import RunFolder
from rlsched.learn.interrupts import Interrupted, interrupts
from rlsched.learn.iteration_length import next_share
from rlsched.learn.plan import Plan, plan
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.learn.rllib.session import bundles, check_resources, session_for
from rlsched.learn.selection import DIFFERENCE, Score, Validation, limited_name, margin_name
from rlsched.learn.summary import Reason, Summary, reason_to_end
from rlsched.learn.watchdog import StalledError, watchdog
from rlsched.scenario import ResolvedScenario, Scenario

VALIDATED = ("bounded_slowdown", "wait", "utilization", "schedule_span")  # more metrics for operators
SCORED = ("relative", DIFFERENCE, f"{DIFFERENCE}_low", f"{DIFFERENCE}_high", "hoarding")
STOPPING_MINUTES = 0.5


class Display(Protocol):
    """Shows the progress of a run."""

    def prepare(self, scenario: ResolvedScenario, config: ResolvedConfig) -> None:
        """Show the checked settings, before Ray and RLlib start."""

    def begin(self, standing: Standing, validation: Validation) -> None:
        """Show the progress from which the run starts or resumes."""

    def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
        """Show a finished iteration."""

    def stopping(self) -> None:
        """Show that the run will stop after this iteration, as requested."""


def train(
    scenario: Scenario,
    config: TrainConfig,
    folder: RunFolder,
    display: Display,
    *,
    resume: bool = False,
    address: str | None = None,
    pause_at: int | None = None,
    trust: bool = False,
) -> Summary:
    """Train a policy, and write everything about it into the run folder.

    Args:
        scenario: to simulate; its cluster may leave units to the trace.
        config: how to train.
        folder: a new run's folder, or with `resume` that of the run to resume.
        display: shows progress.
        resume: resume from the last undamaged checkpoint.
        address: of a Ray cluster; left out: this machine.
        pause_at: decisions after which the run pauses, to be resumed later.
        trust: accept a checkpoint that this user has not signed; see `plan`.

    Raises:
        BadInputError: the scenario or the folder cannot be used; before anything long starts.
    """
    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)  # its warnings are about its own defaults
    with ExitStack() as stack:
        if resume:  # before anything is read that another process may be writing
            stack.enter_context(folder.locked())
        planned = plan(scenario, config, folder, resume=resume, trust=trust)
        for problem in planned.damaged:
            logging.getLogger(__name__).warning("%s; resuming from an earlier one", problem)
        display.prepare(planned.scenario, planned.config)
        stack.enter_context(session_for(planned.config, address))
        interrupted = stack.enter_context(interrupts(display.stopping))
        if planned.config.algorithm.uses_ray:
            check_resources(bundles(planned.config), str(folder.path), "the training")
        if resume:
            folder.go_on(planned.scenario, planned.config, planned.inputs)
        else:
            stack.enter_context(folder.locked())
            folder.create(planned.scenario, planned.config, planned.inputs)
        folder.save_validation(planned.validation.facts())
        run = Run(planned, folder, pause_at)
        try:
            run.begin()
            display.begin(run.standing, run.validation)
            reason = run.loop(display, interrupted)
        finally:
            run.stop()
    return Summary.of(folder, reason)


class Run:
    """State of a running training."""

    def __init__(self, planned: Plan, folder: RunFolder, pause_at: int | None = None) -> None:
        self.config, self.validation, self.folder = planned.config, planned.validation, folder
        self.latest, self.trust, self.pause_at = planned.latest, planned.trust, pause_at
        self.saved: Standing | None = None
        self.best_iteration = -1  # of the best policy of a resumed run
        self.standing = Standing() if self.latest is None else self.latest[1]
        standing, config = self.standing, planned.initial_config
        self.engine: Engine = config.algorithm.open_engine(
            config, planned.feed, standing.iteration, standing.steps
        )
        self.writer = SummaryWriter(str(folder.path / "tensorboard"))
        self.began = self.standing.seconds  # of the part of the run that this process trains
        self.iterated = 0.0  # iterations of that part

    def stop(self) -> None:
        """Stop processes and close files; hung processes are left to the end of Ray's session."""
        self.writer.close()
        try:
            with watchdog(STOPPING_MINUTES, "stopping what played and learned"):
                self.engine.stop()
        except StalledError as error:
            logging.getLogger(__name__).warning("%s", error)

    def begin(self) -> None:
        """Resume from the last undamaged checkpoint, or else begin.

        The policy before training is saved and validated, to measure what training adds.
        """
        if self.latest is None:
            self.folder.keep_metrics_up_to(-1)
            self.engine.policy().save(self.folder.start)
            update = self.validate()
            self.standing = self.standing.model_copy(update={"seconds": 0.0})  # training begins here
            self.record(Progress(0, dict.fromkeys(self.engine.columns)), update, 0, 0.0)
            return
        # Learners in other processes, perhaps on other machines, read the original path.
        read_in_place = self.trust or bool(self.config.learners) or self.config.engine != PICKLED
        with nullcontext(self.latest[0]) if read_in_place else private_copy(self.latest[0]) as path:
            self.engine.restore(path / self.config.engine, load_policy(path))
        self.folder.checkpoints.set_aside(self.standing.iteration)
        self.folder.keep_metrics_up_to(self.standing.iteration)
        if self.standing.best_value is not None:
            # Validated again: its figures may be from a version with other episodes or rules.
            best = load_policy(self.folder.best)
            self.best_iteration = int(best.about.get("iteration", -1))
            update = self._best(self.validation.run(best))
            self.standing = self.standing.model_copy(update=update)

    def loop(self, display: Display, interrupted: Interrupted) -> Reason:
        """Iterate until there is a reason to stop; the last state is always in a checkpoint."""
        while True:
            reason = self.reason_to_stop(interrupted)
            if reason is not None:
                self.checkpoint()
                return reason
            began, before = time.monotonic(), self.standing.steps
            title = f"iteration {self.standing.iteration + 1} (see stalled_minutes)"
            with watchdog(self.config.stalled_minutes, title):
                share = self.next_share()
                progress = self.engine.iterate(self.run_fraction, self.standing.checks, share)
            played = progress.steps - before
            self.iterated += share if self.engine.shortens_all else played / self.engine.usual_decisions
            seconds = time.monotonic() - began
            self.standing = self.standing.model_copy(
                update={
                    "iteration": self.standing.iteration + 1,
                    "steps": progress.steps,
                    "seconds": self.standing.seconds + seconds,
                    "better": False,
                }
            )
            # The policy since the last validation may be the best.
            last = self.reason_to_stop(interrupted) in ("steps", "minutes", "paused")
            pretraining = self.config.algorithm.pretraining_steps(self.config)
            read = before < pretraining <= self.standing.steps
            due = last or read or self.standing.iteration % self.config.validation.every == 0
            metrics = self.validate() if due else {}
            if read:
                self.named(metrics).save(self.folder.read_first)
            row = self.record(progress, metrics, progress.steps - before, seconds)
            if due:
                self.checkpoint()
            display.update(row, self.standing)

    def next_share(self) -> float:
        """Length of the next iteration as a share of the usual one, so that the run does not overrun far."""
        usual_s = (self.standing.seconds - self.began) / self.iterated if self.iterated else None
        return next_share(self.config, self.standing, self.engine, usual_s)

    @property
    def run_fraction(self) -> float:
        """Share of the run that is over, by decisions or by time."""
        fraction = self.standing.steps / (self.config.steps)
        if self.config.minutes is not None:
            fraction = max(fraction, self.standing.seconds / (60 * self.config.minutes))
        return min(fraction, 1.0)

    def reason_to_stop(self, interrupted: Interrupted) -> Reason | None:
        """Reason to end the run now; None: continue."""
        if interrupted():
            return "interrupted"
        reason = reason_to_end(self.config, self.standing)
        paused = self.pause_at is not None and self.standing.steps >= self.pause_at
        return "paused" if paused and reason in (None, "better", "no improvement") else reason

    def validate(self) -> dict[str, float]:
        """Play the validation episodes, and save the policy if it is the best so far."""
        began = time.monotonic()
        engine = self.engine
        if self._calibrates and isinstance(engine, CalibratedEngine):
            metrics = self._calibrated(engine)
        else:
            metrics = self.validation.run(engine.policy())
        score = self.validation.score(metrics)
        standing = self.standing
        best = Score()
        if standing.best_value is not None:
            best = Score(standing.best_excess or 0.0, standing.best_value)
        # Offline algorithms are to match the dataset. The match improves with training: the newest is best.
        # `again`: a killed run had saved this policy after its last checkpoint.
        again = score == best and standing.iteration == self.best_iteration
        better = score < best or again or not self.config.plays
        update: dict[str, Any] = {
            "seconds": standing.seconds + time.monotonic() - began,
            "since_best": 0 if better else standing.since_best + 1,
            "better": better and self.validation.beats(metrics),
            "checks": self.validation.checks(metrics),
        }
        if better:
            update |= self._best(metrics)
            self.named(metrics).save(self.folder.best)
        self.standing = standing.model_copy(update=update)
        return metrics

    @property
    def _calibrates(self) -> bool:
        """Whether validation calibrates the no-op's bias."""
        if not self.validation.limits:
            return False
        begins = self.config.algorithm.calibration(self.config)
        return begins is not None and self.run_fraction >= begins

    def _calibrated(self, engine: CalibratedEngine) -> dict[str, float]:
        """Move the no-op's bias to the best that calibration tries, and return the metrics with it."""
        shifted = 0.0

        def play(amount: float) -> dict[str, float]:
            nonlocal shifted
            engine.shift_noop(amount - shifted)
            shifted = amount
            return self.validation.run(engine.policy())

        tried = calibrate(play, self.validation.score)
        amount, metrics = min(tried, key=lambda trial: self.validation.score(trial[1]))
        engine.shift_noop(amount - shifted)
        return metrics

    def _best(self, metrics: Mapping[str, float]) -> dict[str, Any]:
        """Fields of `Standing` for the best policy, from its metrics in validation."""
        score = self.validation.score(metrics)
        return {
            "best_excess": score.excess,
            "best_value": score.value,
            "best_metric": metrics[self.validation.metric],
            "best_hoarding": metrics["hoarding"],
            "best_checks": self.validation.checks(metrics),
        }

    def named(self, metrics: dict[str, float]) -> NetworkPolicy:
        """The newest policy, with its iteration, decisions and validation metrics in `about`."""
        policy, standing = self.engine.policy(), self.standing
        about = {"iteration": standing.iteration, "steps": standing.steps, "validation": metrics}
        return replace(policy, about=policy.about | about)

    def checkpoint(self) -> None:
        """Write a checkpoint, unless the state is saved already."""

        def write(path: Path) -> None:
            self.engine.save(path / self.config.engine)
            self.engine.policy().save(path / "policy")

        if self.saved != self.standing:
            self.folder.checkpoints.save(self.standing, write)
            self.saved = self.standing

    def record(
        self, progress: Progress, metrics: dict[str, float], steps: int, seconds: float
    ) -> dict[str, float | int | None]:
        """Write an iteration, or the validation before the first, to metrics.csv and TensorBoard.

        `steps` are the decisions of the iteration; `metrics` are empty where there was no validation.
        """
        row: dict[str, float | int | None] = {
            "iteration": self.standing.iteration,
            "steps": self.standing.steps,
            "seconds": round(self.standing.seconds, 3),
            "steps_per_second": round(steps / max(seconds, 1e-9), 1),
            **progress.row,
        }
        costs = self.validation.scenario.objective.limits
        limited = (of(cost) for cost in costs for of in (limited_name, margin_name))
        checked = dict.fromkeys((*VALIDATED, self.validation.metric, *SCORED, *limited))
        row |= {f"validation_{name}": number(metrics.get(name)) for name in checked}
        row["kept"] = int(self.standing.since_best == 0) if metrics else None
        self.folder.append_metrics(row)
        for name, value in row.items():
            if value is not None and name not in ("iteration", "steps"):
                self.writer.add_scalar(name, value, self.standing.steps)
        self.writer.flush()
        return row
