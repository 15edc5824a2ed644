"""Runs of jobs put into order on disk: the last one of every job, and these by submit time.

However many there are, memory holds `ROWS` of them, or a `PARTITIONS`th.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple
from zlib import crc32

HOUR_S = 3600
ROWS = 50_000
"""Runs that are held at a time; then they go into files."""
PARTITIONS = 64
"""Files that runs are put into by job, so that those of one job are in one file."""


class Job(NamedTuple):
    """A run, as a trace has it; times are of the epoch.

    Where it is none, the line says why: a name of `DROPPED`.
    """

    submit: int
    start: int
    runtime: int
    processors: int
    line: str  # from the wait time on

    @property
    def ran(self) -> bool:
        """Whether it is one."""
        return self.runtime > 0


class Runs:
    """Finds the last run of every job, wherever its lines stand; most of them are on disk.

    Args:
        room: a folder for that.
    """

    def __init__(self, room: Path) -> None:
        self._room = room
        self._held: list[tuple[str, int, Job]] = []
        self._files: list[IO[str]] = []
        self._count = 0

    def add(self, whose: str, run: Job) -> None:
        """Take one more."""
        self._held.append((whose, self._count, run))
        self._count += 1
        if len(self._held) == ROWS:
            self._put_down()

    def _put_down(self) -> None:
        if not self._files:
            self._files = [
                (self._room / f"runs-{k}").open("w+", encoding="utf-8", errors="surrogateescape")
                for k in range(PARTITIONS)
            ]
        for whose, number, run in self._held:
            place = crc32(whose.encode("utf-8", "surrogateescape")) % PARTITIONS
            submit, start, runtime, processors, line = run
            self._files[place].write(f"{whose}\t{number} {submit} {start} {runtime} {processors} {line}\n")
        self._held = []

    def last(self, counts: Counter[str]) -> Iterator[tuple[int, Job]]:
        """The last run of every job that ran, and the number of its line; the others are counted.

        Args:
            counts: by reason.
        """
        if not self._files:
            yield from _last(self._held, counts)
            return
        self._put_down()
        for file in self._files:
            file.seek(0)
            yield from _last(map(_run, file), counts)

    def close(self) -> None:
        """Let go of files."""
        for file in self._files:
            file.close()


def _run(row: str) -> tuple[str, int, Job]:
    whose, _, rest = row.rstrip("\n").partition("\t")
    number, submit, start, runtime, processors, line = rest.split(" ", 5)
    return whose, int(number), Job(int(submit), int(start), int(runtime), int(processors), line)


def _last(runs: Iterable[tuple[str, int, Job]], counts: Counter[str]) -> Iterator[tuple[int, Job]]:
    found: dict[str, tuple[int, Job]] = {}
    for whose, number, run in runs:
        before = found.get(whose)
        if before is not None:
            counts["earlier_dropped"] += 1
            if (before[1].submit, before[1].start, before[0]) > (run.submit, run.start, number):
                continue
        found[whose] = number, run
    for number, run in found.values():
        if run.ran:
            yield number, run
        else:
            counts[run.line] += 1


Row = tuple[int, int, str]
"""Submit time, number of the line, and what a trace says."""


class Sorter:
    """Puts jobs into the order of their submit times, most of them on disk.

    Args:
        room: a folder for that.

    Attributes:
        count: jobs.
        first: submit time.
    """

    def __init__(self, room: Path) -> None:
        self._room = room
        self._held: list[Row] = []
        self._parts: list[Path] = []
        self.count = 0
        self.first = 0

    def add(self, number: int, job: Job) -> None:
        """Take one more, from the line of that number."""
        self.first = min(self.first, job.submit) if self.count else job.submit
        self.count += 1
        self._held.append((job.submit, number, job.line))
        if len(self._held) == ROWS:
            self._put_down()

    def _put_down(self) -> None:
        self._held.sort()
        part = self._room / f"part-{len(self._parts)}"
        with part.open("w", encoding="ascii") as file:
            file.writelines(f"{submit} {number} {line}\n" for submit, number, line in self._held)
        self._parts.append(part)
        self._held = []

    def sorted(self, stack: ExitStack) -> Iterator[Row]:
        """All of them; of those that came at once, the one of the first line first.

        Args:
            stack: closes files.
        """
        if not self._parts:
            self._held.sort()
            return iter(self._held)
        if self._held:
            self._put_down()
        files = [stack.enter_context(part.open(encoding="ascii")) for part in self._parts]
        return heapq.merge(*map(_read, files))


def _read(file: Iterable[str]) -> Iterator[Row]:
    for row in file:
        submit, number, line = row.rstrip("\n").split(" ", 2)
        yield int(submit), int(number), line


class Use:
    """Processors in use at full hours."""

    def __init__(self) -> None:
        self._changes: Counter[int] = Counter()

    def add(self, job: Job) -> None:
        """Of one more job."""
        first, last = -(-job.start // HOUR_S), -(-(job.start + job.runtime) // HOUR_S)
        if first < last:
            self._changes[first] += job.processors
            self._changes[last] -= job.processors

    def most(self) -> int:
        """At any of them."""
        use = most = 0
        for hour in sorted(self._changes):
            use += self._changes[hour]
            most = max(most, use)
        return most
