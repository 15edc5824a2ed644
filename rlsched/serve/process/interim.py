"""The interim process, which answers while Ray and Serve start and clients wait already.

`rlsched serve` starts it if its listening socket is older than itself: after the death of Ray, or if systemd
opened it. It needs 3 seconds, and replicas need 12. It ends once replicas answer.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys

from rlsched.serve.settings import ServeConfig

INSTANCE = "interim"  # header value that distinguishes its answers from those of replicas

CODE = (
    "from rlsched.serve.process import lean_imports; lean_imports.postpone(); "
    "from rlsched.serve.process.interim_server import main; main()"
)
"""Code of the process; it imports torch as replicas do."""

READY_S, ENDING_S = 20.0, 20.0  # longest wait for its first answer, and for its end; then it is killed


class Interim:
    """The interim process as its parent sees it; it answers at a listening socket until it is ended.

    If it cannot serve, it ends without a message: replicas report the same problem.
    """

    def __init__(self, config: ServeConfig, listening: socket.socket) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, config.model_dump_json(), str(listening.fileno())],
            stdin=subprocess.PIPE,  # it ends when this is closed
            stdout=subprocess.PIPE,  # it writes a line when it answers
            env={"OMP_NUM_THREADS": "1"} | os.environ,  # as for replicas
            pass_fds=[listening.fileno()],
            start_new_session=True,  # Ctrl-C goes to its parent, which ends it
        )

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wait(self) -> None:
        """Wait until it answers or has ended: Ray's start would take a core from it."""
        assert self.process.stdout is not None
        select.select([self.process.stdout], [], [], READY_S)

    def end(self) -> None:
        """End it after its last requests."""
        try:
            self.process.communicate(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
