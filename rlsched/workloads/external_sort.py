"""Runs of jobs put into order on disk: the last one of every job, and these by submit time.

However many there are, memory holds `ROWS` or `SORTED` of them, or a `PARTITIONS`th.
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

HOUR_S = 3600
AGAIN_S = 3600
"""After a run; until then its job may be put back into the queue, with a new submit time. What has the same
number and comes later is another job: Slurm uses numbers again."""
ROWS = 20_000
"""Runs that are held at a time; then they go into files."""
PARTITIONS = 64
"""Files that runs are put into by job, so that those of one job are in one file."""
SORTED = 50_000
"""Jobs in order that go into a file."""
TOGETHER = 100
"""Jobs in order that are read back at a time."""


FAR = 1 << 60
"""Stands for the start of what has not started."""


class Run(NamedTuple):
    """What a line says of a job, as a trace has it.

    Attributes:
        submit, start: seconds of the epoch.
        number: of the line.
        job: whose it is.
        runtime: seconds; 0: it is no run, and `text` a name of `DROPPED`, why not.
        processors: that it had, or had asked for if these are more.
        limited: a time limit is known.
        text: of the trace, from the wait time on.
        queued: seconds of the epoch when it was submitted, or put back, where `submit` is another time.
        ended: when it ended, suspensions included; as far as known.
    """

    submit: int
    start: int
    number: int
    job: str
    runtime: int
    processors: int
    limited: bool
    text: str
    queued: int
    ended: int


class Runs:
    """Finds the last run of every job, wherever its lines stand; most of them are on disk.

    Args:
        room: a folder for that.
    """

    def __init__(self, room: Path) -> None:
        self._room = room
        self._held: list[Run] = []
        self._files: list[IO[bytes]] = []

    def take(self, runs: Iterator[Run]) -> None:
        """Take them all."""
        while held := list(islice(runs, ROWS)):
            if len(held) < ROWS and not self._files:
                self._held = held
                return
            self._put_down(held)

    def _put_down(self, held: Iterable[Run]) -> None:
        if not self._files:
            self._files = [(self._room / f"runs-{k}").open("w+b") for k in range(PARTITIONS)]
        parts: list[list[tuple[object, ...]]] = [[] for _ in range(PARTITIONS)]
        for run in held:
            parts[hash(run.job) % PARTITIONS].append(tuple(run))  # plain ones are written faster
        for file, part in zip(self._files, parts, strict=True):
            pickle.dump(part, file)

    def last(self, counts: Counter[str]) -> Iterator[Run]:
        """The last run of every job that ran; the others are counted.

        Args:
            counts: by reason.
        """
        yield from _last(self._held, counts)
        for file in self._files:
            file.seek(0)
            yield from _last(map(Run._make, _read(file)), counts)
            file.close()  # all that are sorted are open at once

    def close(self) -> None:
        """Let go of files."""
        for file in self._files:
            file.close()


def _last(runs: Iterable[Run], counts: Counter[str]) -> Iterator[Run]:
    found: dict[str, Run] = {}
    several: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if found.setdefault(run.job, run) is not run:
            several[run.job].append(run)
    earlier = 0
    for job, first in found.items():
        for run, before in (
            _last_of_each(sorted([first, *several[job]], key=_progress)) if job in several else [(first, 0)]
        ):
            earlier += before
            if run.runtime:
                yield run
            else:
                counts[run.text] += 1
    if earlier:
        counts["earlier_dropped"] += earlier


def _progress(run: Run) -> tuple[int, int, bool, int]:
    """How far a job was: of a file of an earlier month it may still wait, or run."""
    return run.submit, run.start if run.start < FAR else -1, run.runtime > 0, run.number


def _last_of_each(runs: list[Run]) -> Iterator[tuple[Run, int]]:
    """Of runs under one number, the last of each job, and how many it had before."""
    last, before = runs[0], 0
    for run in runs[1:]:
        if run.queued > last.ended + AGAIN_S:
            yield last, before
            before = -1
        last, before = run, before + 1
    yield last, before


Sorted = tuple[int, int, str]
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
        self._held: list[Sorted] = []
        self._parts: list[Path] = []
        self.count = 0
        self.first = 0

    def take(self, jobs: Iterator[Sorted]) -> None:
        """Take them all."""
        while held := list(islice(jobs, SORTED)):
            held.sort()
            self.first = min(self.first, held[0][0]) if self.count else held[0][0]
            self.count += len(held)
            if len(held) < SORTED and not self._parts:
                self._held = held
                return
            self._put_down(held)

    def _put_down(self, held: Iterable[Sorted]) -> None:
        part = self._room / f"part-{len(self._parts)}"
        rows = iter(held)
        with part.open("wb") as file:
            while some := list(islice(rows, TOGETHER)):
                pickle.dump(some, file)
        self._parts.append(part)

    def sorted(self, stack: ExitStack) -> Iterator[Sorted]:
        """All of them; of those that came at once, the one of the first line first.

        Args:
            stack: closes files.
        """
        files = [stack.enter_context(part.open("rb")) for part in self._parts]
        return heapq.merge(self._held, *(cast("Iterator[Sorted]", _read(file)) for file in files))


def _read(file: IO[bytes]) -> Iterator[tuple[object, ...]]:
    """Rows that this process has put down in lists."""
    return chain.from_iterable(_lists(file))


def _lists(file: IO[bytes]) -> Iterator[list[tuple[object, ...]]]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


class Use:
    """Processors in use at full hours."""

    def __init__(self) -> None:
        self._changes: defaultdict[int, int] = defaultdict(int)

    def add(self, run: Run) -> None:
        """Of one more job."""
        first, last = -(-run.start // HOUR_S), -(-(run.start + run.runtime) // HOUR_S)
        if first < last:
            self._changes[first] += run.processors
            self._changes[last] -= run.processors

    def most(self) -> int:
        """At any of them."""
        use = most = 0
        for hour in sorted(self._changes):
            use += self._changes[hour]
            most = max(most, use)
        return most
