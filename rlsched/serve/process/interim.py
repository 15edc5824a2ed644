"""The interim process, which answers while Ray and Serve start and clients wait already.

`rlsched serve` starts it if its listening socket is older than itself: after the death of Ray, or if systemd
opened it. It needs 3 seconds, and replicas need 12. It ends once replicas answer.
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

INSTANCE = "interim"  # header value that distinguishes its answers from those of replicas

CODE = (
    "from rlsched.serve.process import lean_imports; lean_imports.postpone(); "
    "from rlsched.serve.process.interim_server import main; main()"
)
"""Code of the process; it imports torch as replicas do."""

LISTENING = 3  # descriptor of its listening socket
READY_S, ENDING_S = 20.0, 20.0  # longest wait for its first answer, and for its end; then it is killed

LOOK_S = 0.05


@dataclass(frozen=True)
class Interim:
    """The interim process as its parent sees it."""

    process: int  # its id
    stdin: int  # descriptor; the process ends when it is closed
    stdout: int  # descriptor; the process writes a line when it answers

    @classmethod
    def start(cls, config: ServeConfig, listening: socket.socket) -> Interim:
        """Start the process at a listening socket.

        If it cannot serve, it ends without a message: replicas report the same problem.
        """
        child_stdin, stdin = os.pipe()
        stdout, child_stdout = os.pipe()
        descriptors = {child_stdin: 0, child_stdout: 1, listening.fileno(): LISTENING}
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", CODE, config.model_dump_json()],
            {"OMP_NUM_THREADS": "1"} | os.environ,  # as for replicas
            file_actions=[(os.POSIX_SPAWN_DUP2, parent, child) for parent, child in descriptors.items()],
            setsid=True,  # Ctrl-C goes to its parent, which ends it
        )
        os.close(child_stdin)
        os.close(child_stdout)
        return cls(process, stdin, stdout)

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait(self) -> None:
        """Wait until it answers or has ended: Ray's start would take a core from it."""
        select.select([self.stdout], [], [], READY_S)

    def end(self) -> None:
        """End it after its last requests."""
        os.close(self.stdin)
        deadline = time.monotonic() + ENDING_S
        while os.waitpid(self.process, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(self.process, signal.SIGKILL)
            time.sleep(LOOK_S)
        os.close(self.stdout)
