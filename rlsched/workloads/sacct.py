"""What Slurm's accounting says of a site's jobs, as a trace in the Standard Workload Format.

Reads what `sacct --parsable2` prints, line by line: however long it is, memory stays the same. See
docs/traces.md for the command; fields: https://slurm.schedmd.com/sacct.html.
"""

from __future__ import annotations

import datetime
import gzip
import heapq
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, cast

from rlsched.errors import BadInputError
from rlsched.files import replacing

COMMAND = (
    "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --parsable2 --starttime 2025-01-01 --endtime now "
    "--format JobID,JobIDRaw,User,Account,Partition,State,Submit,Eligible,Start,End,ElapsedRaw,"
    "TimelimitRaw,ReqCPUS,AllocCPUS"
)
"""That a site runs."""

SEPARATOR = "|"
ROWS = 50_000
"""Jobs that are held at a time; they are put into order, and into a file of their own."""
HOUR_S, DAY_S = 3600, 86_400
LENGTH = len("2025-01-31T12:00:00")
NEVER = {"", "unknown", "none", "n/a", "invalid"}
"""What stands for a time that has not come."""

DROPPED = {
    "steps_dropped": "steps of jobs (123.batch, 123.0): the line of the job itself says it all",
    "short_lines_dropped": "lines with fewer fields than the first line names",
    "long_lines_dropped": "lines with more fields: leave out names of jobs, which may hold the separator",
    "requeued_dropped": "runs after which a job was put back into the queue: its last run counts",
    "submit_missing_dropped": "jobs without a time of submission",
    "never_started_dropped": "jobs that wait, or were cancelled before they started",
    "still_running_dropped": "jobs that had not ended",
    "zero_runtime_dropped": "jobs that ran for less than a second",
    "processors_missing_dropped": "jobs without processors",
    "not_numeric_dropped": "jobs with text where a number or a time belongs",
}
"""Why lines become no job."""
REPAIRED = {
    "limit_missing": "jobs without a time limit: what they request is -1, and read as their runtime",
    "start_before_submit": "jobs whose start is before their submit, which is then taken to be that",
}

STATUS = {"COMPLETED": 1, "CANCELLED": 5, "PREEMPTED": 5, "REVOKED": 5}
"""By state; others have failed: 0."""
FAILED, UNKNOWN = 0, -1


@dataclass
class Imported:
    """What came of an import.

    Attributes:
        lines: read, without the first one.
        jobs: written.
        counts: a name of `DROPPED` or `REPAIRED` -> lines.
        processors: of the machine.
        seen: of them that were in use at once at a full hour, or that the largest job had.
        unused: columns that a trace has no place for.
        users, queues: different ones.
    """

    lines: int = 0
    jobs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    processors: int = 0
    seen: int = 0
    unused: list[str] = field(default_factory=list)
    users: int = 0
    queues: int = 0


class _Fields:
    """Where the fields of a job stand in a line.

    Args:
        names: of the first line.
        where: what errors call the input.
        eligible: jobs count as submitted when they could have started.

    Raises:
        BadInputError: one is missing.
    """

    def __init__(self, names: Sequence[str], where: str, *, eligible: bool) -> None:
        self.count = len(names)
        known = {name.strip().lower(): k for k, name in enumerate(names)}
        used: set[int] = set()

        def place(*wanted: str) -> int | None:
            found = next((known[name] for name in wanted if name in known), None)
            if found is not None:
                used.add(found)
            return found

        def needed(*wanted: str) -> int:
            found = place(*wanted)
            if found is None:
                problem = f"has no column {wanted[0]} in its first line"
                raise BadInputError(where, problem, f"run: {COMMAND}")
            return found

        self.id = needed("jobid", "jobidraw")
        self.raw = place("jobidraw")
        self.submit = needed("eligible" if eligible else "submit")
        self.start = needed("start")
        self.elapsed = place("elapsedraw", "elapsed")
        self.end = place("end") if self.elapsed is not None else needed("end", "elapsedraw")
        self.allocated = place("alloccpus", "ncpus")
        self.tres = place("alloctres") if self.allocated is None else None
        self.requested = place("reqcpus")
        if self.allocated is None and self.tres is None and self.requested is None:
            needed("alloccpus")
        self.minutes = place("timelimitraw")
        self.limit = place("timelimit") if self.minutes is None else None
        self.state = place("state")
        self.user = place("user", "uid")
        self.group = place("account", "group", "gid")
        self.queue = place("partition")
        self.unused = [name for k, name in enumerate(names) if k not in used and name.strip()]


class _Numbers:
    """Numbers for names, in the order in which they come."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.of.setdefault(name, len(self.of) + 1) if name else UNKNOWN


class _Clock:
    """Seconds since the epoch of what sacct prints; local times are taken as if all were of one offset."""

    def __init__(self) -> None:
        self._days: dict[str, int] = {}

    def __call__(self, text: str) -> int | None:
        """None: the time has not come.

        Raises:
            ValueError: it is no time.
        """
        day = self._days.get(text[:10])
        if day is not None and len(text) == LENGTH:
            return day + 3600 * int(text[11:13]) + 60 * int(text[14:16]) + int(text[17:])
        if text.isdigit():
            return int(text) or None  # Slurm's 0 is never
        if text.lower() in NEVER:
            return None
        time = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
        self._days[text[:10]] = int(time.timestamp()) // DAY_S * DAY_S
        return int(time.timestamp())


def span_s(text: str) -> int:
    """Seconds of `[days-][hours:]minutes:seconds`, or of a number of them.

    Raises:
        ValueError: it is none.
    """
    if text.isdigit():
        return int(text)
    days, mark, clock = text.rpartition("-")
    parts = [int(part) for part in clock.partition(".")[0].split(":")]
    if len(parts) > 3 or any(part < 0 for part in parts):
        raise ValueError(text)
    if mark:  # 1-02 is a day and two hours
        parts += [0] * (3 - len(parts))
    seconds = 0
    for part in parts:
        seconds = 60 * seconds + part
    return seconds + (DAY_S * int(days) if mark else 0)


class Job(NamedTuple):
    """One of them, as a trace has it; a line is one from the wait time on, and times are of the epoch."""

    submit: int
    start: int
    runtime: int
    processors: int
    line: str


class _Reader:
    """Makes jobs of lines.

    Args:
        fields: where they stand.
        found: what is counted.
    """

    def __init__(self, fields: _Fields, found: Imported) -> None:
        self._fields, self._found = fields, found
        self._clock, self._users, self._groups, self._queues = _Clock(), _Numbers(), _Numbers(), _Numbers()

    def jobs(self, lines: Iterable[str]) -> Iterator[Job]:
        """All that ran, in the order of the lines."""
        held: tuple[str, Job] | None = None
        fields, counts = self._fields, self._found.counts
        for line in lines:
            values = line.rstrip("\r\n").split(SEPARATOR)
            if len(values) != fields.count:
                if values == [""]:
                    continue
                self._found.lines += 1
                counts["short_lines_dropped" if len(values) < fields.count else "long_lines_dropped"] += 1
                continue
            self._found.lines += 1
            if "." in values[fields.id]:
                counts["steps_dropped"] += 1
                continue
            # With --duplicates, the runs of a job that was put back follow one another.
            number = values[fields.id if fields.raw is None else fields.raw]
            try:
                job = self._job(values)
            except ValueError:
                counts["not_numeric_dropped"] += 1
                continue
            if isinstance(job, str):
                counts[job] += 1
                continue
            if held is not None:
                if held[0] == number:
                    counts["requeued_dropped"] += 1
                else:
                    yield held[1]
            held = number, job
        if held is not None:
            yield held[1]
        self._found.users, self._found.queues = len(self._users.of), len(self._queues.of)

    def header(self) -> Iterator[str]:
        """What stands for the numbers of queues."""
        for name, number in self._queues.of.items():
            yield f"; Queue: {number} {name}"

    def _job(self, values: Sequence[str]) -> Job | str:
        """A job, or why it is none.

        Raises:
            ValueError: a number or a time is none.
        """
        fields, clock = self._fields, self._clock
        state = values[fields.state].partition(" ")[0] if fields.state is not None else ""
        if state == "REQUEUED":
            return "requeued_dropped"
        submit, start = clock(values[fields.submit]), clock(values[fields.start])
        if submit is None:
            return "submit_missing_dropped"
        if start is None:
            return "never_started_dropped"
        end = clock(values[fields.end]) if fields.end is not None else start
        if end is None or state in {"RUNNING", "SUSPENDED", "PENDING"}:
            return "still_running_dropped"
        runtime = end - start if fields.elapsed is None else span_s(values[fields.elapsed])
        if runtime <= 0:
            return "zero_runtime_dropped"
        requested = int(values[fields.requested] or 0) if fields.requested is not None else 0
        allocated = self._allocated(values) or requested
        if allocated <= 0:
            return "processors_missing_dropped"
        limit = self._limit(values)
        counts = self._found.counts
        if limit == UNKNOWN:
            counts["limit_missing"] += 1
        if start < submit:
            counts["start_before_submit"] += 1
            submit = start
        status = STATUS.get(state, FAILED) if state else UNKNOWN
        user = UNKNOWN if fields.user is None else self._users(values[fields.user])
        group = UNKNOWN if fields.group is None else self._groups(values[fields.group])
        queue = UNKNOWN if fields.queue is None else self._queues(values[fields.queue])
        line = (
            f"{start - submit} {runtime} {allocated} -1 -1 {requested or allocated} {limit} -1 {status} "
            f"{user} {group} -1 {queue} {queue} -1 -1"
        )
        return Job(submit, start, runtime, allocated, line)

    def _allocated(self, values: Sequence[str]) -> int:
        if self._fields.allocated is not None:
            return int(values[self._fields.allocated] or 0)
        if self._fields.tres is None:
            return 0
        parts = dict(part.partition("=")[::2] for part in values[self._fields.tres].split(","))
        return int(parts.get("cpu", 0))

    def _limit(self, values: Sequence[str]) -> int:
        """Seconds; UNKNOWN where there is none of the job's own."""
        fields = self._fields
        text = values[fields.minutes] if fields.minutes is not None else ""
        if fields.limit is not None:
            text = values[fields.limit]
        if not text[:1].isdigit():  # UNLIMITED, Partition_Limit
            return UNKNOWN
        return (int(text) * 60 if fields.minutes is not None else span_s(text)) or UNKNOWN


def import_sacct(
    lines: Iterable[str], where: str, out: Path, *, processors: int | None = None, eligible: bool = False
) -> Imported:
    """Write a trace of what sacct printed.

    Jobs are numbered, and stand in the file, in the order of their submit times, which count from the first.

    Args:
        lines: as they were printed, the first with the names of columns.
        where: what errors call them.
        out: the trace; an old one is replaced; gzip if the name ends in .gz.
        processors: of the machine; None: those that were in use at once at some full hour, as far as known.
        eligible: jobs count as submitted once they could have started.

    Raises:
        BadInputError: there is no job, or a column is missing.
        OSError: the trace, or what is kept beside it meanwhile, cannot be written.
    """
    lines = iter(lines)
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise BadInputError(where, "is empty", f"run: {COMMAND}")
    found = Imported()
    fields = _Fields(first.rstrip("\r\n").removeprefix("\ufeff").split(SEPARATOR), where, eligible=eligible)
    found.unused = fields.unused
    reader = _Reader(fields, found)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as room:
        sorter, use, largest = _Sorter(Path(room)), _Use(), 0
        for job in reader.jobs(lines):
            sorter.add(job)
            use.add(job)
            largest = max(largest, job.processors)
        found.jobs = sorter.count
        if not found.jobs:
            reasons = ", ".join(f"{name} {count}" for name, count in found.counts.items())
            raise BadInputError(where, f"holds no job that ran ({reasons or 'no line'})", f"run: {COMMAND}")
        found.seen = max(largest, use.most())
        found.processors = found.seen if processors is None else processors
        _write(out, sorter, reader.header(), found)
    return found


def _write(out: Path, sorter: _Sorter, header: Iterable[str], found: Imported) -> None:
    with ExitStack() as stack:
        jobs = sorter.sorted(stack)
        begin = sorter.first
        file: IO[bytes] = stack.enter_context(replacing(out))
        if out.suffix == ".gz":
            zipped = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
            file = cast("IO[bytes]", zipped)
        comments = {
            "Version": "2.2",
            "Computer": "unknown",
            "Conversion": "rlsched trace import sacct",
            "MaxJobs": found.jobs,
            "MaxRecords": found.jobs,
            "UnixStartTime": begin,
            "MaxNodes": found.processors,
            "MaxProcs": found.processors,
            "MaxQueues": found.queues,
        }
        lines = [*(f"; {key}: {value}" for key, value in comments.items()), *header]
        file.write(("\n".join(lines) + "\n").encode())
        for number, (submit, line) in enumerate(jobs, start=1):
            file.write(f"{number} {submit - begin} {line}\n".encode())


class _Sorter:
    """Puts jobs into the order of their submit times, most of them on disk.

    Args:
        room: a folder for that.

    Attributes:
        count: jobs.
        first: submit time.
    """

    def __init__(self, room: Path) -> None:
        self._room = room
        self._held: list[tuple[int, str]] = []
        self._parts: list[Path] = []
        self.count = 0
        self.first = 0

    def add(self, job: Job) -> None:
        """Take one more."""
        self.first = min(self.first, job.submit) if self.count else job.submit
        self.count += 1
        self._held.append((job.submit, job.line))
        if len(self._held) == ROWS:
            self._put_down()

    def _put_down(self) -> None:
        self._held.sort(key=_submit)
        part = self._room / str(len(self._parts))
        with part.open("w", encoding="ascii") as file:
            file.writelines(f"{submit} {line}\n" for submit, line in self._held)
        self._parts.append(part)
        self._held = []

    def sorted(self, stack: ExitStack) -> Iterator[tuple[int, str]]:
        """All of them; of those that came at once, the first that was taken first.

        Args:
            stack: closes files.
        """
        if not self._parts:
            self._held.sort(key=_submit)
            return iter(self._held)
        if self._held:
            self._put_down()
        files = [stack.enter_context(part.open(encoding="ascii")) for part in self._parts]
        return heapq.merge(*map(_read, files), key=_submit)


def _submit(row: tuple[int, str]) -> int:
    return row[0]


def _read(file: Iterable[str]) -> Iterator[tuple[int, str]]:
    for row in file:
        submit, _, line = row.rstrip("\n").partition(" ")
        yield int(submit), line


class _Use:
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
