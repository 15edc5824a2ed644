"""Supervises remote env runners: kills hung ones, and fails the run when none remain.

Ray restarts a runner whose process has ended, and RLlib gives it its state. But both wait for a hung runner:
in every iteration until a timeout, and with APPO forever.
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
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rlsched.learn.rllib.ray_compat import runner_manager

logger = logging.getLogger(__name__)

LOOK_S, LOOKS = 3.0, 20
"""Seconds between looks; and least number of looks in the time that a runner may take to answer."""

GOODBYE_S = 3.0
"""Seconds for runners to answer at the end. A silent runner is killed, since stopping it could hang."""

WAIT_S = 0.1
"""Seconds between looks for the first restarted runner, where none is in service."""


class RunnersLostError(RuntimeError):
    """All runners have used up their restarts; the message has the last one's exception."""


@dataclass(eq=False)
class SupervisedRunner:
    """A remote runner and its health."""

    actor: Any
    ping: Any = None  # the pending answer
    since: float = 0.0  # when the answer was expected first, in seconds of the process's clock
    alive: bool = True  # the last answer came
    hung: bool = False  # killed since its last answer
    lost: str | None = None  # the exception that it died of, once it is not restarted any more

    def ask(self, now: float) -> None:
        """Send a ping, which the runner answers after its present work."""
        self.ping, self.since = self.actor.ping.remote(), now

    def listen(self) -> None:
        """Read the answer to the ping."""
        self.alive = False
        try:
            ray.get(self.ping)
            self.alive, self.hung, self.lost = True, False, None
        except ActorDiedError as error:
            if not error.preempted:  # else it is restarted, and that does not count
                self.lost = str(error)
        except RayError:  # it is being restarted
            logger.debug("a runner is away", exc_info=True)
        self.ping = None


class RunnerSupervisor:
    """Supervises remote runners, in a thread; all of them must have started.

    A runner may take `hung_s` seconds to answer; None: forever.
    """

    def __init__(self, group: EnvRunnerGroup, hung_s: float | None) -> None:
        self.manager = runner_manager(group)
        self.hung_s = hung_s
        self.pause = LOOK_S if hung_s is None else min(LOOK_S, hung_s / LOOKS)
        self.watched = {number: SupervisedRunner(actor) for number, actor in self.manager.actors().items()}
        self.last_lost = ""
        self.failure: BaseException | None = None
        for runner in self.watched.values():  # before they have anything else to do
            runner.ask(time.monotonic())
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, name="runner supervisor", daemon=True)
        self.thread.start()

    def check(self) -> None:
        """Fail when no runner remains.

        Raises:
            RunnersLostError: no runner remains.
        """
        if self.failure is not None:
            raise self.failure
        if all(runner.lost is not None for runner in self.watched.values()):
            raise RunnersLostError(
                f"every runner died more often than sampling.restarts allows, the last one: {self.last_lost}"
            )

    def has_returned(self) -> bool:
        """Whether a restarted runner answers that RLlib does not use yet."""
        return any(runner.alive and not self._serves(number) for number, runner in self.watched.items())

    def stop(self) -> None:
        """End the supervision, and kill runners that do not answer."""
        self.over.set()
        self.thread.join()
        pending = {runner.actor.ping.remote(): runner for runner in self.watched.values()}
        _, silent = ray.wait(list(pending), num_returns=len(pending), timeout=GOODBYE_S)
        for ref in silent:
            ray.kill(pending[ref].actor)

    def _serves(self, number: int) -> bool:
        return bool(self.manager.is_actor_healthy(number))

    def _watch(self) -> None:
        try:
            last = time.monotonic()
            while not self.over.wait(self.pause) and ray.is_initialized():
                now = time.monotonic()
                if now - last > 2 * self.pause + 1:  # this process was stopped itself, and got no answers
                    for runner in self.watched.values():
                        runner.since = now
                last = now
                self._look(now)
        except BaseException as error:
            self.failure = error

    def _look(self, now: float) -> None:
        waiting = {runner.ping: number for number, runner in self.watched.items() if runner.ping is not None}
        answered, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0) if waiting else ([], [])
        for ref in answered:
            self._hear(waiting[ref])
        for number, runner in self.watched.items():
            if not self._serves(number):  # it is being started, or waits for resources
                runner.since = now
            if runner.ping is None:
                runner.ask(now)
            elif self.hung_s is not None and now - runner.since > self.hung_s:
                logger.warning("runner %d is ended: %s", number, self._silence())
                runner.since, runner.hung = now, True
                ray.kill(runner.actor, no_restart=False)

    def _hear(self, number: int) -> None:
        runner = self.watched[number]
        before = runner.lost
        runner.listen()
        if runner.lost is not None and before is None:
            self.last_lost = self._silence() if runner.hung else runner.lost
            logger.warning(
                "runner %d is not started again (see sampling.restarts): %s", number, self.last_lost
            )

    def _silence(self) -> str:
        return f"it did not answer for {self.hung_s:g} s (see sampling.hung_seconds)"


class Supervised(Algorithm):
    """Base of RLlib's algorithms with supervised remote runners; waits while none is in service."""

    supervisor: RunnerSupervisor | None = None

    def setup(self, config: Any) -> None:
        """Build as RLlib does."""
        super().setup(config)
        if self.config.num_env_runners:
            self.supervisor = RunnerSupervisor(self.env_runner_group, self.config.sample_timeout_s)

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup) -> list[int]:
        """Restore the state of restarted runners, before every training step.

        RLlib looks for them at every step, and waits a while for missing ones. Without any runner RLlib
        continues: APPO with the driver's own runner, which has no environments, DQN with its replay buffer.

        Raises:
            RunnersLostError: no runner is left.
        """
        if self.supervisor is None or env_runner_group is not self.env_runner_group:
            return list(super().restore_env_runners(env_runner_group))
        restored: list[int] = []
        while True:
            self.supervisor.check()
            if self.supervisor.has_returned():
                restored += super().restore_env_runners(env_runner_group)
            if env_runner_group.num_healthy_remote_workers():
                return restored
            time.sleep(WAIT_S)

    def cleanup(self) -> None:
        """Stop the supervision, then RLlib's processes."""
        if self.supervisor is not None:
            self.supervisor.stop()
        super().cleanup()
