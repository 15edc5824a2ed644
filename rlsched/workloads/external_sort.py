"""External sort of rows that are too many for memory, and the job records that an import sorts."""

from __future__ import annotations

import heapq
import pickle
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

REQUEUE_S = 3600
"""Time after a run within which its job may be requeued, with a new submit time. A later record with the same
job id is of another job: Slurm reuses ids."""
MEMORY_ROWS = 50_000
"""Rows in memory, and in one sorted file."""
CHUNK_ROWS = 100
"""Rows that are read back from a sorted file at a time."""
NOT_STARTED = -1
"""Start time of a job that has not started."""


class JobRecord(NamedTuple):
    """One accounting record of a job, as a trace has it; records sort by job, and by how far it was.

    In the file of an earlier month a job may still be pending or running.

    Attributes:
        submit, start: Unix seconds.
        ran: the job ran; else `text` is the reason, a key of `sacct.DROPPED`.
        line: number of its line in the input.
        processors: allocated, or requested if these are more.
        text: its line in the trace, from the wait time on.
        queued: Unix seconds of its submission or requeue, where `submit` is its eligible time.
        ended: Unix seconds of its end, suspensions included, as far as known.
    """

    job: str
    submit: int
    start: int
    ran: bool
    line: int
    runtime: int
    processors: int
    limited: bool
    text: str
    queued: int
    ended: int


_END = JobRecord("", 0, 0, False, 0, 0, 0, False, "", sys.maxsize, 0)
"""Follows the last record."""


def last_records(records: Iterable[JobRecord], counts: Counter[str]) -> Iterator[JobRecord]:
    """The last record of each job that ran.

    Args:
        records: sorted.
        counts: number of other records by reason, a key of `sacct.DROPPED`; added to.
    """
    for record, following in pairwise(chain(records, [_END])):
        if record.job == following.job and following.queued <= record.ended + REQUEUE_S:
            counts["earlier_dropped"] += 1
        elif record.ran:
            yield record
        else:
            counts[record.text] += 1


class ExternalSort:
    """Sorts rows, mostly on disk: `MEMORY_ROWS` at a time, whose sorted files are merged."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self.name = folder, name
        self._in_memory: list[tuple[Any, ...]] = []
        self._files: list[Path] = []
        self.count = 0

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add all rows; called once."""
        rest = iter(rows)
        while batch := sorted(islice(rest, MEMORY_ROWS)):
            self.count += len(batch)
            if len(batch) < MEMORY_ROWS and not self._files:
                self._in_memory = batch
                return
            path = self._folder / f"{self.name}-{len(self._files)}"
            with path.open("wb") as file:
                for first in range(0, len(batch), CHUNK_ROWS):
                    # Plain tuples pickle faster than named ones.
                    pickle.dump(list(map(tuple, batch[first : first + CHUNK_ROWS])), file)
            self._files.append(path)

    def sorted(self) -> Iterator[tuple[Any, ...]]:
        """All rows in order."""
        return heapq.merge(self._in_memory, *map(_read, self._files))


def _read(path: Path) -> Iterator[tuple[Any, ...]]:
    """Rows that this process wrote, list by list."""
    with path.open("rb") as file:
        while True:
            try:
                yield from pickle.load(file)
            except EOFError:
                return
