"""What a service decided, state by state, as lines of JSON: to look up, and to show again what was shown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rlsched.errors import BadInputError
from rlsched.serve.ledger.ledger import Book, Lately, Noted, Reread, Shown

NAMES = "journal-*.jsonl"
FILE_BYTES = 64 << 20
"""After which another file is begun."""

SHOWN_STATES = 2000
"""Of the newest, of which a page is made."""


class Journal:
    """Writes the lines; whoever is killed leaves at most half of the last one.

    Args:
        folder: of the files; those that are there are left alone.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._number = 1 + max((_number(path) for path in folder.glob(NAMES)), default=-1)
        self._file = self._path().open("ab")
        self._encoder = msgspec.json.Encoder()

    def _path(self) -> Path:
        return self._folder / f"journal-{self._number:05d}.jsonl"

    def take(self, noted: Iterable[Noted]) -> None:
        """Write some down.

        Raises:
            OSError: the disk is full or gone.
        """
        begun = self._file.tell()
        try:
            self._file.write(b"".join(self._encoder.encode(one) + b"\n" for one in noted))
            self._file.flush()
        except OSError:
            self._begin_anew(begun)
            raise
        if self._file.tell() >= FILE_BYTES:
            self._file.close()
            self._number += 1
            self._file = self._path().open("ab")

    def _begin_anew(self, whole: int) -> None:
        """Leave no half line behind: another one would be written on to it."""
        self._file.detach().close()  # without what could not be written
        os.truncate(self._path(), whole)
        self._file = self._path().open("ab")

    def close(self) -> None:
        """Nothing more will come."""
        self._file.close()


def _number(path: Path) -> int:
    digits = path.stem.partition("-")[2]
    return int(digits) if digits.isdigit() else -1


def read_journal(folder: Path, cluster: str | None = None) -> Shown:
    """What was decided last about a cluster, or the newest, for a page.

    Raises:
        BadInputError: nothing was written down there, or a line is damaged.
    """
    paths = sorted(folder.glob(NAMES), key=_number)
    if not paths:
        remedy = "name the folder that rlsched serve was told with --log"
        raise BadInputError(str(folder), "holds no journal", remedy)
    book = Book()
    for noted in _newest(paths):
        lately = Lately()
        lately.count(noted.answer)
        lately.noted.append(noted)
        book.take("journal", [], {noted.state.cluster: lately})
    return book.shown(cluster)


def _newest(paths: list[Path]) -> Iterator[Noted]:
    """The newest states, the oldest of them first."""
    decoder = msgspec.json.Decoder(Reread)
    lines: list[tuple[Path, int, bytes]] = []
    for path in reversed(paths):
        whole = path.read_bytes().split(b"\n")[:-1]  # what stands behind the last line's end was cut short
        lines = [(path, k, line) for k, line in enumerate(whole, start=1)][-SHOWN_STATES:] + lines
        if len(lines) >= SHOWN_STATES:
            break
    for path, number, line in lines[-SHOWN_STATES:]:
        try:
            noted = decoder.decode(line)
        except msgspec.MsgspecError as error:
            problem = f"line {number} is damaged ({error})"
            raise BadInputError(str(path), problem, "remove the line, or the file") from None
        yield noted
