"""Who looks after runners in other processes: one that hangs is ended; a run that has lost all of them ends.

Ray starts a runner again whose process has ended, and RLlib gives it its state, but both wait for one that
hangs: in every iteration anew until a timeout, for APPO silently for ever.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.appo import APPO
from ray.rllib.algorithms.dqn import DQN
from ray.rllib.algorithms.ppo import PPO
from ray.rllib.env.env_runner_group import EnvRunnerGroup

logger = logging.getLogger(__name__)

LOOKS = 20
"""In the time that a runner may take to answer."""


class RunnersLostError(RuntimeError):
    """Every runner has died too often to be started again; the message says of what the last one did."""


@dataclass(eq=False)
class Patient:
    """A runner, and how it does.

    Attributes:
        actor: its handle.
        asked: the answer that is waited for.
        since: when it was asked, in seconds of the process's clock.
        up: it has answered since it was started, so that it may be expected to.
        cause: of its death, if it is not started again.
    """

    actor: Any
    asked: Any = None
    since: float = 0.0
    up: bool = False
    cause: str | None = None

    def ask(self, now: float) -> None:
        """Whether it is there; it answers after what it does now."""
        self.asked, self.since = self.actor.ping.remote(), now

    def listen(self) -> None:
        """Take the answer that has come."""
        try:
            ray.get(self.asked)
            self.up = True
        except ActorDiedError as error:
            self.cause = str(error)
        except RayError:  # it is being started again
            self.up = False
        self.asked = None


class Guard:
    """Looks after remote runners, in a thread of its own.

    Args:
        group: the runners.
        patience_s: that one may take for what it does before it answers.
    """

    def __init__(self, group: EnvRunnerGroup, patience_s: float) -> None:
        self.patience_s = patience_s
        self.patients = {number: Patient(actor) for number, actor in group._worker_manager.actors().items()}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, name="guard of runners", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Look no more."""
        self.over.set()
        self.thread.join()

    def check(self) -> None:
        """See whether anybody is left.

        Raises:
            RunnersLostError: nobody is.
        """
        causes = [patient.cause for patient in self.patients.values()]
        if None not in causes:
            raise RunnersLostError(
                f"every runner died more often than sampling.restarts allows; the last one said: {causes[-1]}"
            )

    def _watch(self) -> None:
        pause = self.patience_s / LOOKS
        last = time.monotonic()
        while not self.over.wait(pause) and ray.is_initialized():
            now = time.monotonic()
            if now - last > self.patience_s / 2:  # this process was stopped itself: nobody could answer it
                for patient in self.patients.values():
                    patient.since = now
            last = now
            self._look(now)

    def _look(self, now: float) -> None:
        waiting = {patient.asked: patient for patient in self.patients.values() if patient.asked is not None}
        answered, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0) if waiting else ([], [])
        for ref in answered:
            waiting[ref].listen()
        for number, patient in self.patients.items():
            if patient.cause is not None:
                continue
            if patient.asked is None:
                patient.ask(now)
            elif patient.up and now - patient.since > self.patience_s:
                logger.warning(
                    "runner %d has not answered for %g s: it is ended, and started again (see "
                    "sampling.hung_seconds)",
                    number,
                    self.patience_s,
                )
                patient.up = False
                ray.kill(patient.actor, no_restart=False)


class Guarded(Algorithm):
    """An algorithm of RLlib's whose remote runners are looked after."""

    guard: Guard | None = None

    def setup(self, config: Any) -> None:
        """Build as RLlib does."""
        super().setup(config)
        if self.config.num_env_runners:
            self.guard = Guard(self.env_runner_group, self.config.sample_timeout_s)

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup) -> list[int]:
        """Give runners that have been started again their state, before every training step.

        Raises:
            RunnersLostError: no runner is left.
        """
        if self.guard is not None:
            self.guard.check()
        restored: list[int] = super().restore_env_runners(env_runner_group)
        return restored

    def cleanup(self) -> None:
        """Let go of processes."""
        if self.guard is not None:
            self.guard.stop()
        super().cleanup()


class GuardedPPO(Guarded, PPO):
    """PPO whose remote runners are looked after."""


class GuardedDQN(Guarded, DQN):
    """DQN whose remote runners are looked after."""


class GuardedAPPO(Guarded, APPO):
    """APPO whose remote runners are looked after, and waited for where none is alive.

    RLlib's samples from the driver's own runner then, which has no environments.
    """

    LOOK_AGAIN_S = 0.1

    def _sample_and_get_connector_states(self) -> Any:
        if self.config.num_env_runners and not self.env_runner_group.num_healthy_remote_workers():
            time.sleep(self.LOOK_AGAIN_S)
            return [], [], [], set()
        return super()._sample_and_get_connector_states()
