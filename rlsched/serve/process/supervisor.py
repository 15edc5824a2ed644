"""The two processes of `rlsched serve`: the second runs Ray and Serve, and the first restarts it.

The first process holds the listening socket, so clients wait during a restart, and are not refused. If Ray or
the second process dies, it starts an interim process (`interim`), which answers until replicas do again.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rlsched.learn.interrupts import leave_terminal
from rlsched.serve.process.interim import Interim
from rlsched.serve.process.proxy import end_haproxies
from rlsched.serve.settings import ServeConfig

if TYPE_CHECKING:
    from rlsched.serve.process.deployment import RunningService

SUPERVISED = "RLSCHED_SUPERVISED"  # environment variable of the second process: its fields as JSON
MAX_RESTARTS = 10  # restarts in a row; beyond, another restart will not help
STEADY_S = 30.0  # run time after which the count of restarts begins again
LOOK_S = 0.05  # seconds between two looks whether Ray is alive
ANSWER_S = 60.0  # longest time in which the first process answers the second

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
FINAL = (DONE, BAD_INPUT, INTERRUPTED)  # exit codes that the command passes on after a signal to end

GCS = "gcs_server"
"""Ray's name for the process that knows all others. Replicas answer for a while without it."""

FOLDER, ANSWERS, ANNOUNCED, DIED, FAILS = "folder", "answers", "announced", "died", "fails"
"""Reports of the second process: the folder of HAProxy's files; replicas answer; the user knows it; Ray has
died; it ends by an error that a restart would not help."""

HANGS_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)
"""Events of a connection whose other end is closed, with or without bytes to read."""


@dataclass(frozen=True)
class Supervised:
    """The second process."""

    parent: socket.socket  # connection to the first
    listening: socket.socket | None  # the socket of the service; None: Serve opens one
    config: ServeConfig  # settings of the service, from the first process
    gate: dict[str, Any]  # its results, in figures
    announced: bool  # whether an earlier start has printed that the service answers
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of_process(cls) -> Supervised | None:
        """This process, whose environment loses the variable; None: it has no supervisor."""
        value = os.environ.pop(SUPERVISED, None)
        if value is None:
            return None
        fields = json.loads(value)
        parent, listening = fields["parent"], fields["listening"]
        for descriptor in (parent, listening):
            if descriptor >= 0:
                os.set_inheritable(descriptor, False)
        connection = socket.socket(fileno=parent)
        connection.settimeout(ANSWER_S)
        return cls(
            connection,
            None if listening < 0 else socket.socket(fileno=listening),
            ServeConfig.model_validate(fields["config"]),
            fields["gate"],
            fields["announced"],
        )

    def report(self, *words: object) -> None:
        """Report to the first process, and wait until it has acted, if it lives."""
        with self._lock, suppress(OSError):
            self.parent.sendall(" ".join(map(str, words)).encode() + b"\n")
            self.parent.recv(1)

    @contextmanager
    def watching(self, service: RunningService) -> Iterator[None]:
        """Watch a service in a thread: the start itself would wait for a dead Ray.

        This process ends at once if its node of Ray dies, and in order if the first process dies.
        """
        over = threading.Event()

        def watch() -> None:
            while not (dead := service.node.dead()):
                if over.wait(LOOK_S):
                    return
                if self._is_orphan():
                    os.kill(os.getpid(), signal.SIGTERM)
                    return
            if not over.is_set():
                # The GCS only if nothing else died: without it replicas still answer for a while.
                name = next((process for process in dead if process != GCS), GCS)
                self.report(DIED, name, service.node.logs())
                service.abandon()
                os._exit(FAILED)

        thread = threading.Thread(target=watch, name="rlsched-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _is_orphan(self) -> bool:
        """Whether the first process has ended."""
        poll = select.poll()
        poll.register(self.parent, HANGS_UP)
        return bool(poll.poll(0))


@dataclass(eq=False)
class Supervisor:
    """The first process, which runs a command as the second one."""

    config: ServeConfig
    host: str  # the service listens at
    listening: socket.socket | None  # None: Serve opens one
    say: Callable[[str], None]  # writes a line for the user
    _: KW_ONLY
    waiting: bool  # whether clients may wait already
    command: Sequence[str]
    gate: Mapping[str, Any] = field(default_factory=dict)  # its results, in figures

    def __post_init__(self) -> None:
        self._answered, self._over, self._announced, self._restarts = self.waiting, False, False, 0
        self._since: float | None = None  # replicas answer, in this start
        self._process: subprocess.Popen[bytes] | None = None
        self._interim: Interim | None = None
        self._folder: Path | None = None

    def run(self) -> int:
        """Run the service, again if it dies, until it ends in order; returns the exit code of the command."""
        with self._passing_signals():
            try:
                if self._answered:
                    self._start_interim()
                while (code := self._run_once()) is None:
                    pass
            finally:
                self._end_interim()
        return code

    def _run_once(self) -> int | None:
        """Run the second process until it ends; returns the command's exit code, or None: start it again."""
        if self._interim is not None:
            self._interim.wait()  # Ray's start would take a core from it
        self._since, restarts, fails = None, None, False
        connection, its_end = socket.socketpair()
        with connection:
            with its_end:
                self._process = self._start(its_end)
            if self._over:
                self._process.terminate()
            with connection.makefile("rb") as lines, suppress(ConnectionError):
                for line in lines:
                    word, _, rest = line.decode().rstrip().partition(" ")
                    if word == DIED:
                        name, _, logs = rest.partition(" ")
                        restarts = self._restart(f"Ray's {name}", f"look into {logs}, and start again")
                        # A log can be written by one process only, so it ends first.
                        if name == GCS and self._interim is not None and self.config.log is None:
                            self._interim.wait()
                    else:
                        fails = fails or word == FAILS
                        self._handle(word, rest)
                    connection.sendall(b".")
            code = self._process.wait()
        if self._over:
            return code if code in FINAL else DONE if self._answered else INTERRUPTED
        if restarts is None:
            if (fails and self._restarts == 0) or code in {DONE, INTERRUPTED}:
                return code
            if code >= 0 and not self._answered:
                return code
            restarts = self._restart("the process that runs Ray", f"its exit code is {code}; start again")
        if self._folder is not None:
            end_haproxies(self._folder)
        return None if restarts else FAILED

    def _handle(self, word: str, rest: str) -> None:
        """Handle a report about a start that goes well."""
        if word == FOLDER:
            self._folder = Path(rest)
        elif word == ANSWERS:
            self._answered, self._since = True, time.monotonic()
            self._end_interim()
        elif word == ANNOUNCED:
            self._announced = True

    def _start(self, its_end: socket.socket) -> subprocess.Popen[bytes]:
        """Start the second process, with its end of the connection."""
        listening = -1 if self.listening is None else self.listening.fileno()
        fields = {
            "parent": its_end.fileno(),
            "listening": listening,
            "config": self.config.model_dump(mode="json"),
            "gate": dict(self.gate),
            "announced": self._announced,
        }
        return subprocess.Popen(
            self.command,
            env=os.environ | {SUPERVISED: json.dumps(fields)},
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor for descriptor in (its_end.fileno(), listening) if descriptor >= 0],
            start_new_session=True,  # Ctrl-C goes to this process, which passes it on
        )

    def _restart(self, process: str, hint: str) -> bool:
        """Whether to start the service again; if so, the interim process answers until then.

        The hint is the remedy if it does not start again.
        """
        if self._over:
            return False
        if not self._answered:
            self._say(f"failed: {process} has died while the service started; {hint}")
            return False
        steady = self._since is not None and time.monotonic() - self._since >= STEADY_S
        self._restarts = 1 if steady else self._restarts + 1
        if self._restarts > MAX_RESTARTS:
            problem = f"the service has died {self._restarts} times in a row, this time {process}"
            self._say(f"failed: {problem}; {hint}")
            return False
        self._start_interim()
        self._say(f"{process} has died; starting again")
        return True

    def _say(self, text: str) -> None:
        """Write a line for the user, if the terminal is still open."""
        with suppress(OSError):
            self.say(text)

    def _start_interim(self) -> None:
        if self._interim is not None and not self._interim.is_alive():
            self._end_interim()
        if self.listening is not None and self._interim is None:
            try:
                self._interim = Interim(self.config.at(self.host), self.listening)
            except OSError as error:  # there may be no memory for it now; replicas may still come
                self._say(f"no interim process until replicas answer: {error}")

    def _end_interim(self) -> None:
        if self._interim is not None:
            self._interim.end()
        self._interim = None

    @contextmanager
    def _passing_signals(self) -> Iterator[None]:
        """Pass Ctrl-C, SIGTERM and SIGHUP to the second process, which ends in order."""

        def pass_on(number: int, frame: FrameType | None) -> None:
            self._over = True
            if number == signal.SIGHUP:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal and its shell both send it
                leave_terminal()
            if self._process is not None:
                self._process.send_signal(number)

        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, pass_on) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
