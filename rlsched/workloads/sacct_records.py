"""Job records from the lines of sacct's output."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

from rlsched.errors import BadInputError
from rlsched.reading import MOST_IDLE_LINES, too_idle
from rlsched.workloads.external_sort import NOT_STARTED, JobRecord
from rlsched.workloads.sacct_columns import Columns
from rlsched.workloads.sacct_forms import BLANK, is_another_header
from rlsched.workloads.slurm_output import Clock, NoSuchTimeError, span_s

HOUR_S = 3600
LARGEST = 2**53
"""A trace with larger numbers is not read."""

LATEST_S = 250_000_000_000
"""In the year 9892, near the end of Python's calendar."""

CACHED_TEXTS = 10_000
"""Texts with a cached meaning, since many jobs share them: limits, and user, account and queue."""

STATUS = {"COMPLETED": 1, "CANCELLED": 5, "PREEMPTED": 5, "REVOKED": 5}
"""SWF status by state; 0 (failed) for other states."""
FAILED, UNKNOWN = 0, -1
SUPERSEDED = {"REQUEUED": "earlier_dropped", "RESIZING": "resized_dropped"}
"""States of records that another record of the job follows -> key of `sacct.DROPPED`."""
ACTIVE = {"RUNNING", "SUSPENDED", "PENDING"}


@dataclass
class Imported:
    """The result of an import.

    Attributes:
        lines: number of lines, without headers.
        counts: key of `sacct.DROPPED` or `sacct.REPAIRED` -> number of lines.
        most_in_use: most processors in use at a full hour, or of the largest job.
        unused: columns that a trace has no field for.
        users, queues: number of different ones.
        zone_known: the times of day are those of the site.
    """

    lines: int = 0
    jobs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    processors: int = 0
    most_in_use: int = 0
    unused: list[str] = field(default_factory=list)
    users: int = 0
    queues: int = 0
    zone_known: bool = True

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"seen" if name == "most_in_use" else name: value for name, value in vars(self).items()}


class _Numbering:
    """Numbers names in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers) + 1) if name else UNKNOWN


class RecordReader:
    """Reads job records from lines.

    Args:
        where: name of the input in errors.
        clock: parses times.
        result: counts of lines are added to it.
        eligible: jobs count as submitted at their eligible time.
        cluster: only its jobs; None: the input has one cluster.
    """

    def __init__(
        self, where: str, clock: Clock, result: Imported, *, eligible: bool, cluster: str | None
    ) -> None:
        self._where, self._result, self._clock = where, result, clock
        self._eligible, self._cluster = eligible, cluster
        self._clusters: dict[str, None] = {}
        self._users, self._groups, self._queues = _Numbering(), _Numbering(), _Numbering()
        self._owner_fields = lru_cache(CACHED_TEXTS)(self._compute_owner_fields)
        self._limit_s = lru_cache(CACHED_TEXTS)(self._compute_limit_s)

    def records(self, lines: Iterator[list[str]]) -> Iterator[JobRecord]:
        """Every record that may be the last of its job, in the order of the lines.

        Args:
            lines: fields of each line; the first names the columns, and so do headers of joined files.

        Raises:
            BadInputError: a column is missing, there are jobs of several clusters, or too many lines in a row
                hold no job.
        """
        result, counts = self._result, self._result.counts
        self._set_columns(next(lines))
        idle = 0
        for values in lines:
            if idle > MOST_IDLE_LINES:
                raise too_idle(self._where)
            idle += 1
            if values == BLANK:
                continue
            columns = self._columns
            is_complete = len(values) == columns.count
            if not (is_complete and values[columns.id][:1].isdigit()) and is_another_header(values):
                self._set_columns(values)
                continue
            result.lines += 1
            if not is_complete:
                counts["short_lines_dropped" if len(values) < columns.count else "long_lines_dropped"] += 1
                continue
            if "." in values[columns.id]:
                idle = 0
                counts["steps_dropped"] += 1
                continue
            values.append("")
            record = self._record_or_reason(values)
            if record not in ("no_such_time_dropped", "not_numeric_dropped"):
                idle = 0
            if isinstance(record, str):
                counts[record] += 1
            else:
                yield record
        result.users, result.queues = len(self._users.numbers), len(self._queues.numbers)
        self._check_clusters()

    def header(self) -> Iterator[str]:
        """Comments of the trace with the names of the numbered queues."""
        for name, number in self._queues.numbers.items():
            yield f"; Queue: {number} {name}"

    def _set_columns(self, names: Sequence[str]) -> None:
        self._columns = Columns(names, self._where, eligible=self._eligible)
        self._limit_s.cache_clear()
        self._result.unused = self._columns.unused
        if self._cluster is not None and self._columns.cluster is None:
            problem = f"value {self._cluster!r}, and {self._where} does not say of which cluster jobs are"
            raise BadInputError("--cluster", problem, "remove it, or add Cluster to --format")

    def _check_clusters(self) -> None:
        names = ", ".join(list(self._clusters)[:10]) + (", ..." if len(self._clusters) > 10 else "")
        if self._cluster is None and len(self._clusters) > 1:
            problem = f"holds jobs of {len(self._clusters)} clusters: {names}"
            raise BadInputError(self._where, problem, "name one with --cluster")
        if self._clusters and self._cluster not in (None, *self._clusters):
            problem = f"value {self._cluster!r}, and {self._where} holds jobs of {names} only"
            raise BadInputError("--cluster", problem, "name one of these clusters")

    def _record_or_reason(self, values: Sequence[str]) -> JobRecord | str:
        """A record, or a key of `sacct.DROPPED`."""
        try:
            return self._record(values)
        except NoSuchTimeError:
            return "no_such_time_dropped"
        except ValueError:
            return "not_numeric_dropped"

    def _record(self, values: Sequence[str]) -> JobRecord | str:
        """A record, or a key of `sacct.DROPPED`."""
        columns, clock = self._columns, self._clock
        fields = columns.pick(values)
        job, state, submit_text, start_text, end_text, elapsed = fields[:6]
        allocated_text, requested_text, limit, user, group, queue = fields[6:]
        if columns.cluster is not None:
            cluster = values[columns.cluster]
            self._clusters[cluster] = None
            if self._cluster not in (None, cluster):
                return "other_cluster_dropped"
        state = state.partition(" ")[0]
        if state in SUPERSEDED:
            return SUPERSEDED[state]
        clock.ambiguous = False
        submit, start = clock(submit_text), clock(start_text)
        if submit is None:
            return "submit_missing_dropped"
        line = self._result.lines
        queued = (submit if columns.queued is None else clock(values[columns.queued])) or submit
        if start is None:
            reason = "never_started_dropped"
            return JobRecord(job, submit, NOT_STARTED, False, line, 0, 0, False, reason, queued, submit)
        end = clock(end_text)
        if end is None or state in ACTIVE:
            reason = "still_running_dropped"
            return JobRecord(job, submit, start, False, line, 0, 0, False, reason, queued, start)
        elapsed_s = None if columns.has_end and not elapsed else span_s(elapsed)
        undecided = False
        if clock.ambiguous:
            (queued, submit, start, end), undecided = self._resolved_times(values, elapsed_s)
        runtime = end - start if elapsed_s is None else elapsed_s
        end = max(end, start + runtime)
        if runtime <= 0:
            reason = "zero_runtime_dropped"
            return JobRecord(job, submit, start, False, line, 0, 0, False, reason, queued, end)
        requested = int(requested_text or 0)
        allocated = columns.processors(allocated_text) or requested
        if allocated <= 0:
            return "processors_missing_dropped"
        limit_s = self._limit_s(limit)
        status = STATUS.get(state, FAILED) if state else UNKNOWN
        text = (
            f"{max(0, start - submit)} {runtime} {allocated} -1 -1 {requested or allocated} {limit_s} -1 "
            f"{status} {self._owner_fields(user, group, queue)}"
        )
        processors = max(allocated, requested)
        _check_range(min(submit, start), max(submit, queued, end), max(processors, limit_s))
        if undecided:
            self._result.counts["time_undecided"] += 1
        limited = limit_s != UNKNOWN
        return JobRecord(job, submit, start, True, line, runtime, processors, limited, text, queued, end)

    def _resolved_times(
        self, values: Sequence[str], elapsed_s: int | None
    ) -> tuple[tuple[int, int, int, int], bool]:
        """Queue, submit, start and end time of a job, where a clock change makes one of them ambiguous.

        Args:
            values: fields of its line.
            elapsed_s: seconds that it ran; None: from its start to its end.

        Returns:
            The times that agree best, the earliest of several, and whether there are several.
        """
        columns, times = self._columns, self._clock.times
        _, _, submit_text, start_text, end_text, *_ = columns.pick(values)
        queued_text = submit_text if columns.queued is None else values[columns.queued]
        queued_text = submit_text if self._clock(queued_text) is None else queued_text

        def misfit(run: tuple[int, int, int]) -> tuple[bool, bool, bool]:
            submit, start, end = run
            length = end - start
            return elapsed_s is not None and length != elapsed_s, length < (elapsed_s or 0), start < submit

        runs = [
            (submit, start, end)
            for submit, start in product(times(submit_text), times(start_text))
            for end in (times(end_text) if columns.has_end else (start,))
        ]
        least = min(map(misfit, runs))
        best = [run for run in runs if misfit(run) == least]
        submit = best[0][0]
        queued = min(times(queued_text), key=lambda time: (time > submit, abs(submit - time)))
        return (queued, *best[0]), len(best) > 1

    def _compute_limit_s(self, text: str) -> int:
        """Seconds; UNKNOWN where the job has no limit of its own: UNLIMITED, Partition_Limit."""
        return (self._columns.limit_s(text) if text[:1].isdigit() else 0) or UNKNOWN

    def _compute_owner_fields(self, user: str, group: str, queue: str) -> str:
        """The last fields of a job's line in the trace."""
        number = self._queues(queue)
        return f"{self._users(user)} {self._groups(group)} -1 {number} {number} -1 -1"


def _check_range(earliest_s: int, latest_s: int, largest: int) -> None:
    if earliest_s < 0 or latest_s > LATEST_S or largest > LARGEST:
        raise ValueError("a number is too small or too large")


class HourlyUse:
    """Processors in use at full hours."""

    def __init__(self) -> None:
        self._changes: defaultdict[int, int] = defaultdict(int)

    def add(self, record: JobRecord) -> None:
        """Add a job."""
        first, last = -(-record.start // HOUR_S), -(-(record.start + record.runtime) // HOUR_S)
        if first < last:
            self._changes[first] += record.processors
            self._changes[last] -= record.processors

    def most(self) -> int:
        """The most at any full hour."""
        use = most = 0
        for hour in sorted(self._changes):
            use += self._changes[hour]
            most = max(most, use)
        return most
