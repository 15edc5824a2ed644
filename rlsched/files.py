"""Files that are there whole or not at all, also when the process is killed or the disk is full."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO


def quoted(path: str | Path) -> str:
    """A path quoted for a shell, for suggested commands."""
    return shlex.quote(str(path))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name and rename it, in a folder that is made; devices are written through.

    Raises:
        OSError: it cannot be written; what was there is untouched.
    """
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which at the end, if all went well, takes the place of another; see `write_whole`.

    Raises:
        OSError: it cannot be written; what was there is untouched.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()  # of a link, what it points to is replaced
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = unfinished_name(target)
    try:
        with unfinished.open("wb") as file:
            yield file
        os.replace(unfinished, target)
    except OSError as error:
        if error.filename != str(unfinished):
            raise
        # The caller does not know the other name.
        raise type(error)(error.errno, error.strerror, str(path)) from None
    finally:
        unfinished.unlink(missing_ok=True)


LONGEST_NAME = 200
"""Bytes of a name that its unfinished file has, too; file systems take 255."""


def unfinished_name(path: Path) -> Path:
    """Path of a file until it is whole: hidden, in its folder, and of this process alone."""
    return hidden(path, f"{os.getpid()}.part")


def hidden(path: Path, ending: str) -> Path:
    """A hidden name beside a file or folder, also where its own name is as long as names may be."""
    name = os.fsdecode(os.fsencode(path.name)[:LONGEST_NAME])
    return path.with_name(f".{name}.{ending}")


RETRY_S = 0.2
"""Seconds between checks whether another process has left a folder."""


class Alone:
    """Keeps other processes out of a folder, or from a file, until it is let go or this process ends.

    Args:
        path: of the folder or file, which is there. Processes on other machines are kept from a file alone:
            NFS does not lock folders.
        patience_s: seconds that others may take to leave.

    Raises:
        BlockingIOError: another process is in it.
        OSError: there is no such folder or file.
    """

    def __init__(self, path: Path, patience_s: float = 0.0) -> None:
        self._held: int | None = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        until = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    self.let_go()
                    raise
                time.sleep(RETRY_S)  # flock itself waits for ever, or not at all
            else:
                return

    def let_go(self) -> None:
        """Let others in."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def temporary_home() -> Path:
    """Folder of temporary files that replaces the home folder of this user; it may have to be made."""
    return Path(tempfile.gettempdir()) / f"rlsched-{os.getuid()}"


def ensure_home() -> None:
    """Give this process a home folder where its user has none to write to, as in some containers.

    Ray writes a token there, matplotlib a list of fonts, and this package its compiled code.

    Raises:
        OSError: no folder can take its place.
    """
    with suppress(RuntimeError):  # no home is known
        home = Path.home()
        if os.access(home, os.W_OK):
            os.environ.setdefault("HOME", str(home))  # which Ray's C++ asks for
            return
    home = temporary_home()
    home.mkdir(mode=0o700, exist_ok=True)
    if not is_private(home):
        raise PermissionError(errno.EPERM, "belongs to others, too", str(home))
    os.environ["HOME"] = str(home)


def is_private(path: Path, shared: int = 0o022) -> bool:
    """Whether a file or folder, no link, is this user's and gives others none of these permissions.

    Args:
        path: that is there.
        shared: permissions of group and others; left out: to write.

    Raises:
        OSError: it is not there.
    """
    status = path.lstat()
    proper = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return proper and status.st_uid == os.getuid() and not status.st_mode & shared
