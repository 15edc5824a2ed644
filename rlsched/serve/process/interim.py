"""A process that answers while Ray and Serve start, where clients are waiting already.

`rlsched serve` starts it where its listening socket is older than itself: after the death of Ray, or where
systemd opened it. It needs 3 seconds, and replicas need 12. It ends once replicas answer.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass

from rlsched.serve.settings import ServeConfig

INSTANCE = "interim"
"""Header value that distinguishes its answers from those of replicas."""

CODE = (
    "from rlsched.serve.process import lean_imports; lean_imports.postpone(); "
    "from rlsched.serve.process.interim_server import main; main()"
)
"""What the process runs: torch is imported as replicas import it."""

LISTENING = 3
"""Its descriptor of the listening socket."""

READY_S, ENDING_S = 20.0, 20.0
"""Longest wait for its first answer, and for its end; then it is killed."""

LOOK_S = 0.05


@dataclass(frozen=True)
class Interim:
    """The process, as its parent knows it.

    Attributes:
        process: its id.
        ends: descriptor of its stdin, at whose end it ends.
        ready: descriptor of its stdout, which says when it answers.
    """

    process: int
    ends: int
    ready: int

    @classmethod
    def start(cls, config: ServeConfig, listening: socket.socket) -> Interim:
        """Start to answer at a listening socket.

        Where it cannot, it ends and says nothing: replicas find the same problem.
        """
        its_stdin, ends = os.pipe()
        ready, its_stdout = os.pipe()
        descriptors = {its_stdin: 0, its_stdout: 1, listening.fileno(): LISTENING}
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", CODE, config.model_dump_json()],
            {"OMP_NUM_THREADS": "1"} | os.environ,  # as replicas have it
            file_actions=[(os.POSIX_SPAWN_DUP2, here, there) for here, there in descriptors.items()],
            setsid=True,  # Ctrl-C is for its parent, which ends it
        )
        os.close(its_stdin)
        os.close(its_stdout)
        return cls(process, ends, ready)

    def is_alive(self) -> bool:
        """Whether it has not ended by itself."""
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait(self) -> None:
        """Wait until it answers or has ended: Ray's start would take a core from it."""
        select.select([self.ready], [], [], READY_S)

    def end(self) -> None:
        """End it, once it has answered what it was asked."""
        os.close(self.ends)
        deadline = time.monotonic() + ENDING_S
        while os.waitpid(self.process, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(self.process, signal.SIGKILL)
            time.sleep(LOOK_S)
        os.close(self.ready)
