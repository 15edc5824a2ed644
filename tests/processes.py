"""Commands in processes of their own, which tests send signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import rlsched

ROOT = Path(rlsched.__file__).parents[1]
PATIENCE_S = 300.0


def until(done: Callable[[], bool], spec: str) -> None:
    """Wait for something, on a busy machine, too."""
    started = time.monotonic()
    while not done():
        assert time.monotonic() - started < PATIENCE_S, spec
        time.sleep(0.02)


class Command:
    """`rlsched` in a process, with a temporary folder of its own.

    Args:
        folder: for what it says, and for its temporary folder.
        arguments: of the command.
    """

    def __init__(self, folder: Path, *arguments: object) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.mark = uuid.uuid4().hex
        self._out, self._err = folder / "out.txt", folder / "err.txt"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rlsched", *map(str, arguments)],
                cwd=ROOT,
                stdout=out,
                stderr=err,
                env=os.environ | {"RLSCHED_MARK": self.mark, "TMPDIR": str(self.temporary)},
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        """What it said on stdout."""
        return self._out.read_text("utf-8")

    @property
    def err(self) -> str:
        """What it said on stderr."""
        return self._err.read_text("utf-8")

    def processes(self) -> list[str]:
        """Commands of its processes, and of those that they started."""
        return [command.decode("utf-8", "replace") for command in self._files("cmdline")]

    def has_loaded(self, library: str) -> bool:
        """Whether one of these processes uses a library, by a part of its path."""
        return any(library.encode() in maps for maps in self._files("maps"))

    def _files(self, name: str) -> list[bytes]:
        """What the system says of each of these processes."""
        result = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is another user's
                if self.mark.encode() in (path / "environ").read_bytes():
                    result.append((path / name).read_bytes())
        return result

    def until(self, done: Callable[[], bool], spec: str) -> None:
        """Wait for something that is to come before the command ends."""
        until(lambda: self.process.poll() is not None or done(), spec)
        assert self.process.poll() is None, self.err

    def end(self, number: signal.Signals) -> int:
        """Send a signal; the exit code, once nothing of it runs any more."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        until(lambda: not self.processes(), "the end of its processes")
        return code

    def kill(self) -> None:
        """End it where a test has failed; what it started ends with it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
