"""External sort of job records: the last record of each job, and jobs by submit time, mostly on disk.

Memory holds at most `MEMORY_ROWS` or `SORTED_ROWS` rows, or one of `PARTITIONS` files.
"""

from __future__ import annotations

import heapq
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple, cast

REQUEUE_S = 3600
"""Time after a run within which its job may be requeued, with a new submit time. A later record with the same
job id is of another job: Slurm reuses ids."""
MEMORY_ROWS = 20_000
"""Records in memory before they go to partition files."""
PARTITIONS = 64
"""Partition files; all records of a job id are in one file."""
SORTED_ROWS = 50_000
"""Jobs in one sorted file."""
CHUNK_ROWS = 100
"""Jobs that are read back from a sorted file at a time."""
NOT_STARTED = 1 << 60
"""Start time of a job that has not started."""


class JobRecord(NamedTuple):
    """One accounting record of a job, as a trace has it.

    Attributes:
        submit, start: Unix seconds.
        line: number of its line in the input.
        job: job id.
        runtime: seconds; 0: the job did not run, and `text` is the reason, a key of `sacct.DROPPED`.
        processors: allocated, or requested if these are more.
        limited: it has a time limit.
        text: its line in the trace, from the wait time on.
        queued: Unix seconds of its submission or requeue, where `submit` is its eligible time.
        ended: Unix seconds of its end, suspensions included, as far as known.
    """

    submit: int
    start: int
    line: int
    job: str
    runtime: int
    processors: int
    limited: bool
    text: str
    queued: int
    ended: int


class LastRecords:
    """The last record of each job, wherever in the input it is.

    Args:
        folder: for temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._in_memory: list[JobRecord] = []
        self._files: list[IO[bytes]] = []

    def add(self, records: Iterator[JobRecord]) -> None:
        """Add all records; called once."""
        while rows := list(islice(records, MEMORY_ROWS)):
            if len(rows) < MEMORY_ROWS and not self._files:
                self._in_memory = rows
                return
            self._write(rows)

    def _write(self, rows: Iterable[JobRecord]) -> None:
        if not self._files:
            self._files = [(self._folder / f"runs-{k}").open("w+b") for k in range(PARTITIONS)]
        partitions: list[list[tuple[object, ...]]] = [[] for _ in range(PARTITIONS)]
        for record in rows:
            partitions[hash(record.job) % PARTITIONS].append(tuple(record))  # plain tuples pickle faster
        for file, partition in zip(self._files, partitions, strict=True):
            pickle.dump(partition, file)

    def last(self, counts: Counter[str]) -> Iterator[JobRecord]:
        """The last record of each job that ran.

        Args:
            counts: number of other records by reason, a key of `sacct.DROPPED`; added to.
        """
        yield from _last_records(self._in_memory, counts)
        for file in self._files:
            file.seek(0)
            yield from _last_records(map(JobRecord._make, _read(file)), counts)
            file.close()  # the sorted files are all open at the same time later

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()


def _last_records(records: Iterable[JobRecord], counts: Counter[str]) -> Iterator[JobRecord]:
    first_of: dict[str, JobRecord] = {}
    more_of: defaultdict[str, list[JobRecord]] = defaultdict(list)
    for record in records:
        if first_of.setdefault(record.job, record) is not record:
            more_of[record.job].append(record)
    earlier = 0
    for job, first in first_of.items():
        records_of_job = sorted([first, *more_of[job]], key=_progress) if job in more_of else [first]
        for last, count in _last_of_each_job(records_of_job):
            earlier += count
            if last.runtime:
                yield last
            else:
                counts[last.text] += 1
    if earlier:
        counts["earlier_dropped"] += earlier


def _progress(record: JobRecord) -> tuple[int, int, bool, int]:
    """Sort key: how far a job was. In the file of an earlier month it may still be pending or running."""
    start = record.start if record.start < NOT_STARTED else -1
    return record.submit, start, record.runtime > 0, record.line


def _last_of_each_job(records: list[JobRecord]) -> Iterator[tuple[JobRecord, int]]:
    """Last record of each job with the same id, and the number of its earlier records."""
    last, earlier = records[0], 0
    for record in records[1:]:
        if record.queued > last.ended + REQUEUE_S:
            yield last, earlier
            earlier = -1
        last, earlier = record, earlier + 1
    yield last, earlier


SortedRow = tuple[int, int, str]
"""Submit time, number of the input line, and the line of the trace."""


class SubmitSorter:
    """Sorts jobs by submit time.

    Args:
        folder: for temporary files.

    Attributes:
        count: number of jobs.
        first: earliest submit time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._in_memory: list[SortedRow] = []
        self._files: list[Path] = []
        self.count = 0
        self.first = 0

    def add(self, jobs: Iterator[SortedRow]) -> None:
        """Add all jobs; called once."""
        while rows := list(islice(jobs, SORTED_ROWS)):
            rows.sort()
            self.first = min(self.first, rows[0][0]) if self.count else rows[0][0]
            self.count += len(rows)
            if len(rows) < SORTED_ROWS and not self._files:
                self._in_memory = rows
                return
            self._write(rows)

    def _write(self, rows: Iterable[SortedRow]) -> None:
        path = self._folder / f"part-{len(self._files)}"
        iterator = iter(rows)
        with path.open("wb") as file:
            while chunk := list(islice(iterator, CHUNK_ROWS)):
                pickle.dump(chunk, file)
        self._files.append(path)

    def sorted(self, stack: ExitStack) -> Iterator[SortedRow]:
        """All jobs by submit time, ties by line.

        Args:
            stack: closes the files.
        """
        files = [stack.enter_context(path.open("rb")) for path in self._files]
        rows = (cast("Iterator[SortedRow]", _read(file)) for file in files)
        return heapq.merge(self._in_memory, *rows)


def _read(file: IO[bytes]) -> Iterator[tuple[object, ...]]:
    """Rows that this process wrote, list by list."""
    return chain.from_iterable(_chunks(file))


def _chunks(file: IO[bytes]) -> Iterator[list[tuple[object, ...]]]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return
