"""What Slurm's accounting says of a site's jobs, as a trace in the Standard Workload Format.

Reads what `sacct --parsable2` prints, line by line: what is more than some thousand jobs is kept on disk, so
that memory hardly grows. What `sacct --json` prints is read whole. Command: docs/guide/bring-a-trace.md.
Fields:
https://slurm.schedmd.com/sacct.html.
"""

from __future__ import annotations

import datetime
import gzip
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import IO, cast
from zoneinfo import ZoneInfo

from rlsched.errors import BadInputError
from rlsched.files import replacing
from rlsched.reading import MOST_IDLE_LINES, too_idle
from rlsched.workloads.sacct_forms import BLANK, is_another_header, rows
from rlsched.workloads.slurm_times import Clock, NoSuchTimeError, span_s
from rlsched.workloads.spill import FAR, Run, Runs, Sorted, Sorter, Use

COMMAND = (
    "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --parsable2 --starttime 2025-01-01 --endtime now "
    "--format JobID,JobIDRaw,User,Account,Partition,State,Submit,Eligible,Start,End,ElapsedRaw,"
    "TimelimitRaw,ReqCPUS,AllocCPUS"
)
"""That a site runs."""

LARGEST = 2**53
"""A trace with larger numbers is not read."""

LATEST_S = 250_000_000_000
"""In the year 9892: no calendar here goes far beyond."""

COMMON = 10_000
"""Texts whose meaning is remembered, as many jobs have them: limits, and who submits what to where."""

DROPPED = {
    "steps_dropped": "steps of jobs (123.batch, 123.0): the line of the job itself says it all",
    "short_lines_dropped": "lines with fewer fields than the first line names",
    "long_lines_dropped": "lines with more fields: leave out names of jobs, which may hold the separator",
    "earlier_dropped": "other lines of a job: runs after which it was put back, the same run again; the last "
    "counts",
    "other_cluster_dropped": "jobs of other clusters than that of --cluster",
    "resized_dropped": "parts of jobs that ran on in another size: the last part counts",
    "submit_missing_dropped": "jobs without a time of submission",
    "never_started_dropped": "jobs that wait, or were cancelled before they started",
    "still_running_dropped": "jobs that had not ended",
    "zero_runtime_dropped": "jobs that ran for less than a second",
    "processors_missing_dropped": "jobs without processors",
    "not_numeric_dropped": "jobs with text where a number or a time belongs",
    "no_such_time_dropped": "jobs with a time that clocks were set forward over: "
    "see whether --time-zone is that of the site",
}
"""Why lines become no job."""
REPAIRED = {
    "limit_missing": "jobs without a time limit: what they request is -1, and read as their runtime",
    "start_before_submit": "jobs whose start is before their submit, which is then taken to be that",
    "time_undecided": "jobs with a time that came twice, as clocks were set back, and nothing says which it "
    "is: the first is taken; SLURM_TIME_FORMAT=%s prints what is clear",
}

STATUS = {"COMPLETED": 1, "CANCELLED": 5, "PREEMPTED": 5, "REVOKED": 5}
"""By state; others have failed: 0."""
FAILED, UNKNOWN = 0, -1
GONE_ON = {"REQUEUED": "earlier_dropped", "RESIZING": "resized_dropped"}
"""States of runs that another one follows."""
UNDER_WAY = {"RUNNING", "SUSPENDED", "PENDING"}


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
        zone_known: whether hours of the day are those of the site.
    """

    lines: int = 0
    jobs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    processors: int = 0
    seen: int = 0
    unused: list[str] = field(default_factory=list)
    users: int = 0
    queues: int = 0
    zone_known: bool = True


class _Fields:
    """Where the fields of a job stand in a line.

    Args:
        names: of the first line.
        where: what errors call the input.
        eligible: jobs count as submitted when they could have started.

    Attributes:
        count: of them.
        unused: names of what is not read.
        pick: id, state, submit, start, end, runtime, processors had and asked for, limit, user, group and
            queue, of the fields of a line and one more, which is empty and stands for what is not printed.
        cluster: place of the name of the cluster; None: it is not printed.
        queued: place of the time of submission, where another one stands for it; None: none does.
        has_end: when runs ended is printed.
        processors, limit_s: of the texts that stand for them.

    Raises:
        BadInputError: one is missing.
    """

    def __init__(self, names: Sequence[str], where: str, *, eligible: bool) -> None:
        self.count = len(names)
        known = {name.strip().lower().removeprefix("\ufeff"): k for k, name in enumerate(names)}
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
        place("jobidraw")
        self.queued = place("submit") if eligible else None
        submit, start = needed("eligible" if eligible else "submit"), needed("start")
        elapsed = place("elapsedraw", "elapsed")
        end = place("end") if elapsed is not None else needed("end", "elapsedraw")
        allocated = place("alloccpus", "ncpus")
        tres = place("alloctres") if allocated is None else None
        requested = place("reqcpus")
        if allocated is None and tres is None and requested is None:
            needed("alloccpus")
        minutes = place("timelimitraw")
        limit = place("timelimit") if minutes is None else minutes
        state = place("state")
        if end is None and state is None:
            needed("end", "state")  # else nobody knows what still runs
        self.processors: Callable[[str], int] = _whole if tres is None else _cpus
        self.limit_s: Callable[[str], int] = span_s if minutes is None else _minutes_s
        places = (
            self.id,
            state,
            submit,
            start,
            start if end is None else end,
            elapsed,
            tres if allocated is None else allocated,
            requested,
            limit,
            place("user", "uid"),
            place("account", "group", "gid"),
            place("partition"),
        )
        self.cluster = place("cluster")
        self.has_end = end is not None
        self.pick = itemgetter(*(self.count if place is None else place for place in places))
        self.unused = [name for k, name in enumerate(names) if k not in used and name.strip()]


def _whole(text: str) -> int:
    return int(text or 0)


def _cpus(tres: str) -> int:
    return int(dict(part.partition("=")[::2] for part in tres.split(",")).get("cpu", 0))


def _minutes_s(text: str) -> int:
    return 60 * int(text)


class _Numbers:
    """Numbers for names, in the order in which they come."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.of.setdefault(name, len(self.of) + 1) if name else UNKNOWN


class _Reader:
    """Makes jobs of lines.

    Args:
        where: what errors call the input.
        clock: of their times.
        found: what is counted.
        eligible: jobs count as submitted when they could have started.
        cluster: whose jobs count; None: there is one only.
    """

    def __init__(
        self, where: str, clock: Clock, found: Imported, *, eligible: bool, cluster: str | None
    ) -> None:
        self._where, self._found, self._clock = where, found, clock
        self._eligible, self._cluster = eligible, cluster
        self._clusters: dict[str, None] = {}
        self._users, self._groups, self._queues = _Numbers(), _Numbers(), _Numbers()
        self._whose = lru_cache(COMMON)(self._owner)
        self._limit_s = lru_cache(COMMON)(self._limit)

    def runs(self, lines: Iterator[list[str]]) -> Iterator[Run]:
        """All that may be the last of a job, in the order of the lines.

        Args:
            lines: fields of each; the first names the columns, and others may, where files were joined.

        Raises:
            BadInputError: a column is missing, there are jobs of several clusters, or too many lines in a row
                are none.
        """
        found, counts = self._found, self._found.counts
        self._take_names(next(lines))
        idle = 0
        for values in lines:
            fields = self._fields
            if idle > MOST_IDLE_LINES:
                raise too_idle(self._where)
            idle += 1
            if values == BLANK:
                continue
            whole = len(values) == fields.count
            if not (whole and values[fields.id][:1].isdigit()) and is_another_header(values):
                self._take_names(values)
                continue
            found.lines += 1
            if not whole:
                counts["short_lines_dropped" if len(values) < fields.count else "long_lines_dropped"] += 1
                continue
            if "." in values[fields.id]:
                idle = 0
                counts["steps_dropped"] += 1
                continue
            values.append("")
            try:
                run = self._run(values)
            except NoSuchTimeError:
                counts["no_such_time_dropped"] += 1
                continue
            except ValueError:
                counts["not_numeric_dropped"] += 1
                continue
            idle = 0
            if isinstance(run, str):
                counts[run] += 1
            else:
                yield run
        found.users, found.queues = len(self._users.of), len(self._queues.of)
        named = ", ".join(list(self._clusters)[:10]) + (", ..." if len(self._clusters) > 10 else "")
        if self._cluster is None and len(self._clusters) > 1:
            problem = f"holds jobs of {len(self._clusters)} clusters: {named}"
            raise BadInputError(self._where, problem, "name one with --cluster")
        if self._clusters and self._cluster not in (None, *self._clusters):
            problem = f"value {self._cluster!r}, and {self._where} holds jobs of {named} only"
            raise BadInputError("--cluster", problem, "name a cluster that is there")

    def _take_names(self, names: Sequence[str]) -> None:
        self._fields = _Fields(names, self._where, eligible=self._eligible)
        self._limit_s.cache_clear()
        self._found.unused = self._fields.unused
        if self._cluster is not None and self._fields.cluster is None:
            problem = f"value {self._cluster!r}, and {self._where} does not say of which cluster jobs are"
            raise BadInputError("--cluster", problem, "leave it out, or add Cluster to --format")

    def header(self) -> Iterator[str]:
        """What stands for the numbers of queues."""
        for name, number in self._queues.of.items():
            yield f"; Queue: {number} {name}"

    def _run(self, values: Sequence[str]) -> Run | str:
        """A run, or why there is none.

        Raises:
            ValueError: a number or a time is none.
        """
        fields, clock = self._fields, self._clock
        job, state, came, began, ended, elapsed, had, asked, limit, user, group, queue = fields.pick(values)
        if fields.cluster is not None:
            cluster = values[fields.cluster]
            self._clusters[cluster] = None
            if self._cluster not in (None, cluster):
                return "other_cluster_dropped"
        state = state.partition(" ")[0]
        if state in GONE_ON:
            return GONE_ON[state]
        clock.twice = False
        submit, start = clock(came), clock(began)
        if submit is None:
            return "submit_missing_dropped"
        number = self._found.lines
        queued = (submit if fields.queued is None else clock(values[fields.queued])) or submit
        if start is None:
            return Run(submit, FAR, number, job, 0, 0, False, "never_started_dropped", queued, submit)
        end = clock(ended)
        if end is None or state in UNDER_WAY:
            return Run(submit, start, number, job, 0, 0, False, "still_running_dropped", queued, start)
        span = None if fields.has_end and not elapsed else span_s(elapsed)
        undecided = False
        if clock.twice:
            (queued, submit, start, end), undecided = self._settled(values, span)
        runtime = end - start if span is None else span
        end = max(end, start + runtime)
        if runtime <= 0:
            return Run(submit, start, number, job, 0, 0, False, "zero_runtime_dropped", queued, end)
        requested = int(asked or 0)
        allocated = fields.processors(had) or requested
        if allocated <= 0:
            return "processors_missing_dropped"
        limit_s = self._limit_s(limit)
        wait = start - submit if start > submit else 0
        status = STATUS.get(state, FAILED) if state else UNKNOWN
        text = (
            f"{wait} {runtime} {allocated} -1 -1 {requested or allocated} {limit_s} -1 {status} "
            f"{self._whose(user, group, queue)}"
        )
        processors = max(allocated, requested)
        if (
            min(submit, start) < 0
            or max(submit, queued, end) > LATEST_S
            or max(processors, limit_s) > LARGEST
        ):
            raise ValueError("a number is too small or too large")
        if undecided:
            self._found.counts["time_undecided"] += 1
        return Run(submit, start, number, job, runtime, processors, limit_s != UNKNOWN, text, queued, end)

    def _settled(self, values: Sequence[str], span: int | None) -> tuple[tuple[int, ...], bool]:
        """When a job was queued, submitted, started and ended, where clocks were set back meanwhile.

        Args:
            values: of its line.
            span: seconds that it ran; None: from its start to its end.

        Returns:
            The times that agree best, the earliest of several, and whether there are several.
        """
        fields, times = self._fields, self._clock.times
        _, _, came, began, ended, *_ = fields.pick(values)
        queued = came if fields.queued is None else values[fields.queued]
        queued = came if self._clock(queued) is None else queued

        def misfit(run: tuple[int, int, int]) -> tuple[bool, bool, bool]:
            submit, start, end = run
            length = end - start
            return span is not None and length != span, length < (span or 0), start < submit

        runs = [
            (submit, start, end)
            for submit, start in product(times(came), times(began))
            for end in (times(ended) if fields.has_end else (start,))
        ]
        least = min(map(misfit, runs))
        best = [run for run in runs if misfit(run) == least]
        submit = best[0][0]
        put = min(times(queued), key=lambda time: (time > submit, abs(submit - time)))
        return (put, *best[0]), len(best) > 1

    def _limit(self, text: str) -> int:
        """Seconds; UNKNOWN where there is none of the job's own: UNLIMITED, Partition_Limit."""
        return (self._fields.limit_s(text) if text[:1].isdigit() else 0) or UNKNOWN

    def _owner(self, user: str, group: str, queue: str) -> str:
        """What ends the line of a job."""
        place = self._queues(queue)
        return f"{self._users(user)} {self._groups(group)} -1 {place} {place} -1 -1"


def import_sacct(
    lines: Iterable[str],
    where: str,
    out: Path,
    *,
    processors: int | None = None,
    eligible: bool = False,
    zone: ZoneInfo | None = None,
    cluster: str | None = None,
    delimiter: str | None = None,
) -> Imported:
    """Write a trace of what sacct printed.

    Jobs are numbered, and stand in the file, in the order of their submit times, which count from the first.

    Args:
        lines: as they were printed, the first with the names of columns; or JSON.
        where: what errors call them.
        out: the trace; an old one is replaced; gzip if the name ends in .gz.
        processors: of the machine; None: those that were in use at once at some full hour, as far as known.
        eligible: jobs count as submitted once they could have started.
        zone: of the site; None: not known.
        cluster: whose jobs count; None: there is one only.
        delimiter: between fields; None: as of --parsable2.

    Raises:
        BadInputError: there is no job, or none of the cluster, a column is missing, or the input is in a form
            that is not read.
        OSError: the trace, or what is kept beside it meanwhile, cannot be written.
    """
    found, clock = Imported(), Clock(zone)
    reader = _Reader(where, clock, found, eligible=eligible, cluster=cluster)
    # The folder of the trace is made once there is something to write.
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    with ExitStack() as stack:
        room = stack.enter_context(tempfile.TemporaryDirectory(prefix=".sacct.", dir=folder))
        runs = stack.enter_context(closing(Runs(Path(room))))
        runs.take(reader.runs(rows(lines, where, delimiter, COMMAND)))
        sorter, use = Sorter(Path(room)), Use()
        sorter.take(_jobs(runs.last(found.counts), use, found))
        found.jobs = sorter.count
        if not found.jobs:
            counts = found.counts
            reasons = "; ".join(f"{counts[name]:,} {DROPPED[name]}" for name in DROPPED if name in counts)
            raise BadInputError(where, f"holds no job that ran ({reasons or 'no line'})", f"run: {COMMAND}")
        found.seen = max(found.seen, use.most())
        found.processors = found.seen if processors is None else processors
        found.zone_known = zone is not None or not clock.told
        _write(out, sorter, [*_zone_lines(zone, sorter.first), *reader.header()], found)
    return found


def _jobs(runs: Iterable[Run], use: Use, found: Imported) -> Iterator[Sorted]:
    """What is written of them; counts what is repaired, and the processors of the largest."""
    counts, largest = found.counts, 0
    for run in runs:
        submit = run.submit
        if not run.limited:
            counts["limit_missing"] += 1
        if run.start < submit:
            counts["start_before_submit"] += 1
            submit = run.start
        if run.processors > largest:
            largest = run.processors
        use.add(run)
        yield submit, run.number, run.text
    found.seen = largest


def _zone_lines(zone: ZoneInfo | None, begin: int) -> Iterator[str]:
    """What a header says of the time of day."""
    if zone is not None:
        offset = datetime.datetime.fromtimestamp(begin, zone).utcoffset() or datetime.timedelta()
        yield f"; TimeZone: {int(offset.total_seconds())}"
        yield f"; TimeZoneString: {zone.key}"


def _write(out: Path, sorter: Sorter, header: Iterable[str], found: Imported) -> None:
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
        file.write(("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
        for number, (submit, _, line) in enumerate(jobs, start=1):
            file.write(f"{number} {submit - begin} {line}\n".encode())
