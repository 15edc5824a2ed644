"""The two processes of `rlsched serve`: one runs Ray and Serve, and one outlives it and starts it again.

The first process keeps the listening socket, so clients wait where nobody takes connections, and are not
refused. Where Ray or the second process dies, it has an interim process answer (`process.interim`)
until replicas do again.
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
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

from rlsched.learn.interrupts import leave_terminal
from rlsched.serve.process.interim import Interim
from rlsched.serve.process.proxy import end_haproxies
from rlsched.serve.settings import ServeConfig

if TYPE_CHECKING:
    from rlsched.serve.process.launch import Service

SUPERVISED = "RLSCHED_SUPERVISED"
"""Environment variable of the second process: its fields as JSON."""

MOST_RESTARTS = 10
"""In a row; then something is wrong that another start does not mend."""

STEADY_S = 30.0
"""After which a service that ran for so long counts restarts anew."""

LOOK_S = 0.05
"""Between two looks at whether Ray is alive."""

ANSWER_S = 60.0
"""In which the first process answers the second."""

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
FINAL = (DONE, BAD_INPUT, INTERRUPTED)
"""Exit codes that the command passes on where it was to end."""

GCS = "gcs_server"
"""As Ray names the process that knows all others. Without it alone, replicas answer for a while."""

FOLDER, ANSWERS, ANNOUNCED, DIED, FAILS = "folder", "answers", "announced", "died", "fails"
"""What the second process tells the first: where HAProxy's files are, that replicas answer, that the user has
been told so, that Ray has died, and that it ends by an error that another start would find again."""

HANGS_UP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)
"""Events of a connection whose other end is closed, whether or not there is something to read."""


@dataclass(frozen=True)
class Supervised:
    """The second process, as it knows itself.

    Attributes:
        parent: connection to the first.
        listening: the socket of the service; None: Serve has its own.
        config: what is served, as the first process has read it.
        gate: what it found, in figures.
        announced: whether a start before this one has told the user that the service answers.
    """

    parent: socket.socket
    listening: socket.socket | None
    config: ServeConfig
    gate: dict[str, Any]
    announced: bool
    _telling: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of_process(cls) -> Supervised | None:
        """Of this process, whose environment loses the variable; None: it is not such a one."""
        value = os.environ.pop(SUPERVISED, None)
        if value is None:
            return None
        fields = json.loads(value)
        parent, listening = fields["parent"], fields["listening"]
        for descriptor in (parent, listening):
            if descriptor >= 0:
                os.set_inheritable(descriptor, False)
        found = socket.socket(fileno=parent)
        found.settimeout(ANSWER_S)
        return cls(
            found,
            None if listening < 0 else socket.socket(fileno=listening),
            ServeConfig.model_validate(fields["config"]),
            fields["gate"],
            fields["announced"],
        )

    def tell(self, *words: object) -> None:
        """Tell the first process something, and wait until it has acted on it, if it lives."""
        with self._telling, suppress(OSError):
            self.parent.sendall(" ".join(map(str, words)).encode() + b"\n")
            self.parent.recv(1)

    @contextmanager
    def watching(self, service: Service) -> Iterator[None]:
        """Watch over a service in a thread: the start itself would wait for a dead Ray.

        Where its node of Ray dies, this process ends at once. Where the first process does, it ends in order.
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
                name = next((one for one in dead if one != GCS), GCS)
                self.tell(DIED, name, service.node.logs())
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
        looking = select.poll()
        looking.register(self.parent, HANGS_UP)
        return bool(looking.poll(0))


class Supervisor:
    """The first process.

    Args:
        config: what is served.
        host: the service listens at.
        listening: its socket; None: Serve has its own.
        say: tells the user something.
        waiting: whether clients may be waiting already.
        command: of the second process.
        gate: what it found, in figures.
    """

    def __init__(
        self,
        config: ServeConfig,
        host: str,
        listening: socket.socket | None,
        say: Callable[[str], None],
        *,
        waiting: bool,
        command: Sequence[str],
        gate: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._config, self._host, self._listening = config, host, listening
        self._say_line, self._command, self._gate = say, command, dict(gate)
        self._answered, self._over, self._announced, self._restarts = waiting, False, False, 0
        self._since: float | None = None  # replicas answer, in this start
        self._process: subprocess.Popen[bytes] | None = None
        self._interim: Interim | None = None
        self._folder: Path | None = None

    def run(self) -> int:
        """Have the service run, again where it dies, until it ends in order.

        Returns:
            The exit code of the command.
        """
        with self._passing_on_signals():
            try:
                if self._answered:
                    self._answer_meanwhile()
                while (code := self._run_once()) is None:
                    pass
            finally:
                self._end_interim()
        return code

    def _run_once(self) -> int | None:
        """Start the second process and wait for its end.

        Returns:
            The exit code of the command; None: it is to be started again.
        """
        if self._interim is not None:
            self._interim.wait()  # Ray's start would take a core from it
        self._since, again, fails = None, None, False
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
                        again = self._goes_on(f"Ray's {name}", f"look into {logs}, and start again")
                        # A log can be written by one process only, so it ends first.
                        if name == GCS and self._interim is not None and self._config.log is None:
                            self._interim.wait()
                    else:
                        fails = fails or word == FAILS
                        self._hear(word, rest)
                    connection.sendall(b".")
            code = self._process.wait()
        if self._over:
            return code if code in FINAL else DONE if self._answered else INTERRUPTED
        if again is None:
            if (fails and self._restarts == 0) or code in {DONE, INTERRUPTED}:
                return code
            if code >= 0 and not self._answered:
                return code
            again = self._goes_on("the process that runs Ray", f"its exit code is {code}; start again")
        if self._folder is not None:
            end_haproxies(self._folder)
        return None if again else FAILED

    def _hear(self, word: str, rest: str) -> None:
        """What the second process tells of a start that goes well."""
        if word == FOLDER:
            self._folder = Path(rest)
        elif word == ANSWERS:
            self._answered, self._since = True, time.monotonic()
            self._end_interim()
        elif word == ANNOUNCED:
            self._announced = True

    def _start(self, its_end: socket.socket) -> subprocess.Popen[bytes]:
        """Start the second process, with its end of a connection to this one."""
        listening = -1 if self._listening is None else self._listening.fileno()
        fields = {
            "parent": its_end.fileno(),
            "listening": listening,
            "config": self._config.model_dump(mode="json"),
            "gate": self._gate,
            "announced": self._announced,
        }
        return subprocess.Popen(
            self._command,
            env=os.environ | {SUPERVISED: json.dumps(fields)},
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor for descriptor in (its_end.fileno(), listening) if descriptor >= 0],
            start_new_session=True,  # Ctrl-C is for this process, which passes it on
        )

    def _goes_on(self, who: str, hint: str) -> bool:
        """Whether the service is to be started again; if so, something answers until then.

        Args:
            who: has died.
            hint: what to do otherwise.
        """
        if self._over:
            return False
        if not self._answered:
            self._say(f"failed: {who} has died while the service started; {hint}")
            return False
        steady = self._since is not None and time.monotonic() - self._since >= STEADY_S
        self._restarts = 1 if steady else self._restarts + 1
        if self._restarts > MOST_RESTARTS:
            problem = f"the service has died {self._restarts} times in a row, this time {who}"
            self._say(f"failed: {problem}; {hint}")
            return False
        self._answer_meanwhile()
        self._say(f"{who} has died; starting again")
        return True

    def _say(self, text: str) -> None:
        """Tell the user something, where the terminal is still there."""
        with suppress(OSError):
            self._say_line(text)

    def _answer_meanwhile(self) -> None:
        if self._interim is not None and not self._interim.is_alive():
            self._end_interim()
        if self._listening is not None and self._interim is None:
            try:
                self._interim = Interim.start(self._config.at(self._host), self._listening)
            except OSError as error:  # there may be no memory for it now; replicas may still come
                self._say(f"nothing answers until replicas do: {error}")

    def _end_interim(self) -> None:
        if self._interim is not None:
            self._interim.end()
        self._interim = None

    @contextmanager
    def _passing_on_signals(self) -> Iterator[None]:
        """Have the second process end in order by Ctrl-C, SIGTERM and a closed terminal."""

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
