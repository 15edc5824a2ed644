"""Starting a service again in the same process, where its node of Ray has died.

The process keeps its number, its arguments and its listening socket, in which clients wait meanwhile.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

LISTENING, RESTARTS = "RLSCHED_LISTENING", "RLSCHED_RESTARTS"
"""Environment variables of a process that starts again: descriptor of its socket, and restarts in a row."""

MOST_RESTARTS = 10
"""In a row; then something is wrong that another start does not mend."""

STEADY_S = 30.0
"""After which a service that ran for so long counts restarts anew."""

STDERR = 2
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that come while the process is replaced wait until it has started."""


@dataclass(frozen=True)
class Restart:
    """How a process of `rlsched serve` was started, to start it again alike.

    Attributes:
        environment: variables before anything was set for Ray.
        count: restarts in a row before this start.
        listening: socket of the start before; None: there was none.
    """

    environment: Mapping[str, str]
    count: int
    listening: socket.socket | None

    @classmethod
    def of_process(cls) -> Restart:
        """Of this process; takes its variables from the environment, so that no other process has them."""
        descriptor, count = os.environ.pop(LISTENING, None), int(os.environ.pop(RESTARTS, "0"))
        if count:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        listening = None if descriptor is None else socket.socket(fileno=int(descriptor))
        if listening is not None:
            listening.set_inheritable(False)
        return cls(dict(os.environ), count, listening)

    def allowed(self, ran_s: float) -> bool:
        """Whether to start again after so many seconds of service.

        Not where another program than rlsched's command has called it: that would start again as a whole.
        """
        if "serve" not in sys.argv[1:]:
            return False
        return ran_s >= STEADY_S or self.count < MOST_RESTARTS

    def now(self, ran_s: float, listening: socket.socket | None, unless: Callable[[], bool]) -> None:
        """Replace this process by itself; what it has started must have ended.

        Args:
            ran_s: seconds that it has served.
            listening: its socket, if it has one.
            unless: whether it is to end; then nothing happens.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        if unless():
            return
        count = 1 if ran_s >= STEADY_S else self.count + 1
        variables = {**self.environment, RESTARTS: str(count)}
        for descriptor in map(int, os.listdir("/proc/self/fd")):  # Ray leaves files open to children
            if descriptor > STDERR:
                with suppress(OSError):  # that of the list itself is closed by now
                    os.set_inheritable(descriptor, False)
        if listening is not None:
            listening.set_inheritable(True)
            variables[LISTENING] = str(listening.fileno())
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], variables)
