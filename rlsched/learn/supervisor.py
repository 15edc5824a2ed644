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
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rlsched.learn.rllib.ray_compat import runner_manager

logger = logging.getLogger(__name__)

LOOK_S, LOOKS = 3.0, 20
"""Between looks; and so many at least in the time that a runner may take to answer."""

GOODBYE_S = 3.0
"""That runners have to answer in the end; who does not is not asked to stop, which could take for ever."""

WAIT_S = 0.1
"""Between looks for the first runner that comes back, where none is left."""


class RunnersLostError(RuntimeError):
    """Every runner has died too often to be started again; the message says of what the last one did."""


@dataclass(eq=False)
class Watched:
    """A runner, and how it does.

    Attributes:
        actor: its handle.
        asked: the answer that is waited for.
        since: when it was expected to answer first, in seconds of the process's clock.
        there: its last answer came.
        hung: it was ended since.
        lost: of what it died, if it is not started again.
    """

    actor: Any
    asked: Any = None
    since: float = 0.0
    there: bool = True
    hung: bool = False
    lost: str | None = None

    def ask(self, now: float) -> None:
        """Whether it is there; it answers after what it does now."""
        self.asked, self.since = self.actor.ping.remote(), now

    def listen(self) -> None:
        """Take the answer that has come."""
        self.there = False
        try:
            ray.get(self.asked)
            self.there, self.hung, self.lost = True, False, None
        except ActorDiedError as error:
            if not error.preempted:  # else it is started again, and nobody counts that
                self.lost = str(error)
        except RayError:  # it is being started again
            logger.debug("a runner is away", exc_info=True)
        self.asked = None


class Guard:
    """Looks after remote runners, in a thread of its own.

    Args:
        group: the runners; all of them are there.
        hung_s: that one in service may take for what it does before it answers; None: for ever.
    """

    def __init__(self, group: EnvRunnerGroup, hung_s: float | None) -> None:
        self.manager = runner_manager(group)
        self.hung_s = hung_s
        self.pause = LOOK_S if hung_s is None else min(LOOK_S, hung_s / LOOKS)
        self.watched = {number: Watched(actor) for number, actor in self.manager.actors().items()}
        self.last_lost = ""
        self.failure: BaseException | None = None
        for one in self.watched.values():  # before they have anything else to do
            one.ask(time.monotonic())
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, name="guard of runners", daemon=True)
        self.thread.start()

    def check(self) -> None:
        """See whether anybody is left.

        Raises:
            RunnersLostError: nobody is.
        """
        if self.failure is not None:
            raise self.failure
        if all(one.lost is not None for one in self.watched.values()):
            raise RunnersLostError(
                f"every runner died more often than sampling.restarts allows, the last one: {self.last_lost}"
            )

    def has_returned(self) -> bool:
        """Whether a runner is there that RLlib does not know to be back in service."""
        return any(one.there and not self._serves(number) for number, one in self.watched.items())

    def stop(self) -> None:
        """Look no more, and end who does not answer."""
        self.over.set()
        self.thread.join()
        pending = {one.actor.ping.remote(): one for one in self.watched.values()}
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
                if now - last > 2 * self.pause + 1:  # this process was stopped itself: nobody could answer it
                    for one in self.watched.values():
                        one.since = now
                last = now
                self._look(now)
        except BaseException as error:
            self.failure = error

    def _look(self, now: float) -> None:
        waiting = {one.asked: number for number, one in self.watched.items() if one.asked is not None}
        answered, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0) if waiting else ([], [])
        for ref in answered:
            self._hear(waiting[ref])
        for number, one in self.watched.items():
            if not self._serves(number):  # it is being started, or waits for a place to be
                one.since = now
            if one.asked is None:
                one.ask(now)
            elif self.hung_s is not None and now - one.since > self.hung_s:
                logger.warning("runner %d is ended: %s", number, self._silence())
                one.since, one.hung = now, True
                ray.kill(one.actor, no_restart=False)

    def _hear(self, number: int) -> None:
        one = self.watched[number]
        before = one.lost
        one.listen()
        if one.lost is not None and before is None:
            self.last_lost = self._silence() if one.hung else one.lost
            logger.warning(
                "runner %d is not started again (see sampling.restarts): %s", number, self.last_lost
            )

    def _silence(self) -> str:
        return f"it did not answer for {self.hung_s:g} s (see sampling.hung_seconds)"


class Supervised(Algorithm):
    """An algorithm of RLlib's whose remote runners are looked after, and waited for where none is left."""

    guard: Guard | None = None

    def setup(self, config: Any) -> None:
        """Build as RLlib does."""
        super().setup(config)
        if self.config.num_env_runners:
            self.guard = Guard(self.env_runner_group, self.config.sample_timeout_s)

    def restore_env_runners(self, env_runner_group: EnvRunnerGroup) -> list[int]:
        """Give runners that have been started again their state, before every training step.

        RLlib looks for them at every step, and waits a while for those that it does not find. Without any it
        goes on: APPO from the driver's own runner, which has no environments, DQN from what it remembers.

        Raises:
            RunnersLostError: no runner is left.
        """
        if self.guard is None or env_runner_group is not self.env_runner_group:
            return list(super().restore_env_runners(env_runner_group))
        restored: list[int] = []
        while True:
            self.guard.check()
            if self.guard.has_returned():
                restored += super().restore_env_runners(env_runner_group)
            if env_runner_group.num_healthy_remote_workers():
                return restored
            time.sleep(WAIT_S)

    def cleanup(self) -> None:
        """Let go of processes."""
        if self.guard is not None:
            self.guard.stop()
        super().cleanup()
