"""The journal: records of a service as lines of JSON, to look up and to show the page again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rlsched.errors import BadInputError
from rlsched.serve.ledger.ledger import Ledger, PageData
from rlsched.serve.ledger.records import ClusterRecords, Record, StoredRecord

NAMES = "journal-*.jsonl"
FILE_BYTES = 64 << 20  # size at which the next file begins
PAGE_RECORDS = 2000  # newest records of a journal that a page shows


class Journal:
    """Writes the lines; a killed process leaves at most half of the last one.

    Args:
        folder: of the files; existing ones stay as they are.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._number = 1 + max((_number(path) for path in folder.glob(NAMES)), default=-1)
        self._file = self._path().open("ab")
        self._encoder = msgspec.json.Encoder()

    def _path(self) -> Path:
        return self._folder / f"journal-{self._number:05d}.jsonl"

    def add(self, records: Iterable[Record]) -> None:
        """Write some records.

        Raises:
            OSError: the disk is full or gone.
        """
        begin = self._file.tell()
        try:
            self._file.write(b"".join(self._encoder.encode(record) + b"\n" for record in records))
            self._file.flush()
        except OSError:
            self._truncate(begin)
            raise
        if self._file.tell() >= FILE_BYTES:
            self._file.close()
            self._number += 1
            self._file = self._path().open("ab")

    def _truncate(self, size: int) -> None:
        """Remove half a line: the next one would continue it."""
        self._file.detach().close()  # without the rest of its buffer
        os.truncate(self._path(), size)
        self._file = self._path().open("ab")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _number(path: Path) -> int:
    digits = path.stem.partition("-")[2]
    return int(digits) if digits.isdigit() else -1


def read_journal(folder: Path, cluster: str | None = None) -> PageData:
    """Read the newest records for a page.

    Args:
        folder: of the journal.
        cluster: on the page; None: the newest.

    Raises:
        BadInputError: there is no journal, or a line is damaged.
    """
    paths = sorted(folder.glob(NAMES), key=_number)
    if not paths:
        remedy = "name the folder of rlsched serve --log"
        raise BadInputError(str(folder), "holds no journal", remedy)
    ledger = Ledger()
    for record in _newest(paths):
        records = ClusterRecords()
        records.count(record.answer)
        records.records.append(record)
        ledger.add("journal", [], {record.state.cluster: records})
    return ledger.page_data(cluster)


def _newest(paths: list[Path]) -> Iterator[Record]:
    """The newest records, the oldest of them first."""
    decoder = msgspec.json.Decoder(StoredRecord)
    lines: list[tuple[Path, int, bytes]] = []
    for path in reversed(paths):
        complete = path.read_bytes().split(b"\n")[:-1]  # text after the last newline is half a line
        lines = [(path, k, line) for k, line in enumerate(complete, start=1)][-PAGE_RECORDS:] + lines
        if len(lines) >= PAGE_RECORDS:
            break
    for path, number, line in lines[-PAGE_RECORDS:]:
        try:
            record = decoder.decode(line)
        except msgspec.MsgspecError as error:
            problem = f"line {number} is damaged ({error})"
            raise BadInputError(str(path), problem, "remove the line, or the file") from None
        yield record
