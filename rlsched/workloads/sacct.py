"""Import of Slurm's accounting as a trace in the Standard Workload Format.

Output of `sacct --parsable2` is read line by line, with most jobs on disk, so that memory hardly grows.
Output of `sacct --json` is read whole. docs/guide/bring-a-trace.md has the command; fields:
https://slurm.schedmd.com/sacct.html.
"""

from __future__ import annotations

import datetime
import gzip
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast
from zoneinfo import ZoneInfo

from rlsched.errors import BadInputError
from rlsched.files import replacing
from rlsched.workloads.external_sort import ExternalSort, JobRecord, last_records
from rlsched.workloads.sacct_columns import COMMAND
from rlsched.workloads.sacct_forms import rows
from rlsched.workloads.sacct_records import HourlyUse, Imported, RecordReader
from rlsched.workloads.slurm_output import Clock

DROPPED = {
    "steps_dropped": "steps of jobs (123.batch, 123.0): the line of the job itself has it all",
    "short_lines_dropped": "lines with fewer fields than the first line names",
    "long_lines_dropped": "lines with more fields: remove names of jobs, which may hold the separator",
    "earlier_dropped": "other lines of a job: runs before it was requeued, or the same run again; the last "
    "counts",
    "other_cluster_dropped": "jobs of other clusters than that of --cluster",
    "resized_dropped": "parts of jobs that were resized while they ran: the last part counts",
    "submit_missing_dropped": "jobs without a submit time",
    "never_started_dropped": "jobs that are pending, or were cancelled before they started",
    "still_running_dropped": "jobs that had not ended",
    "zero_runtime_dropped": "jobs that ran for less than a second",
    "processors_missing_dropped": "jobs without processors",
    "not_numeric_dropped": "jobs with text where a number or a time belongs",
    "no_such_time_dropped": "jobs with a time that a clock change skips: see whether --time-zone is that of "
    "the site",
}
"""Reasons why a line becomes no job."""
REPAIRED = {
    "limit_missing": "jobs without a time limit: their requested time is -1, and read as their runtime",
    "start_before_submit": "jobs that start before their submit time, which becomes the start time",
    "time_undecided": "jobs with a time that a clock change repeats, where nothing settles which one it is: "
    "the first is taken; SLURM_TIME_FORMAT=%s prints unambiguous times",
}


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
    """Write the jobs of sacct's output as a trace.

    Jobs are numbered, and stand in the file, in the order of their submit times, which count from the first.

    Args:
        lines: of the output, the first with the names of columns; or JSON.
        where: name of the input in errors.
        out: the trace; an old one is replaced; gzip if the name ends in .gz.
        processors: of the machine; None: the most in use at a full hour.
        eligible: jobs count as submitted at their eligible time.
        zone: of the site; None: unknown.
        cluster: only its jobs; None: the output has one cluster.
        delimiter: between fields; None: that of --parsable2.

    Raises:
        BadInputError: there is no job, or none of the cluster, a column is missing, or the input has an
            unsupported form.
        OSError: the trace, or a temporary file beside it, cannot be written.
    """
    result, clock = Imported(), Clock(zone)
    reader = RecordReader(where, clock, result, eligible=eligible, cluster=cluster)
    # The folder of the trace is made once there is something to write.
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".sacct.", dir=parent)))
        records, sorter = ExternalSort(temporary, "records"), ExternalSort(temporary, "jobs")
        use = HourlyUse()
        records.add(reader.records(rows(lines, where, delimiter, COMMAND)))
        last = last_records(map(JobRecord._make, records.sorted()), result.counts)
        sorter.add(_trace_rows(last, use, result))
        result.jobs = sorter.count
        if not result.jobs:
            counts = result.counts
            reasons = "; ".join(f"{counts[name]:,} {DROPPED[name]}" for name in DROPPED if name in counts)
            raise BadInputError(where, f"holds no job that ran ({reasons or 'no line'})", f"run: {COMMAND}")
        result.most_in_use = max(result.most_in_use, use.most())
        result.processors = result.most_in_use if processors is None else processors
        result.zone_known = zone is not None or not clock.absolute
        jobs = sorter.sorted()
        first = next(jobs)
        _write(out, first[0], chain([first], jobs), [*_zone_lines(zone, first[0]), *reader.header()], result)
    return result


def _trace_rows(
    records: Iterable[JobRecord], use: HourlyUse, result: Imported
) -> Iterator[tuple[int, int, str]]:
    """Submit time, number of the input line, and line of the trace; counts repairs, and the largest job."""
    counts, largest = result.counts, 0
    for record in records:
        submit = record.submit
        if not record.limited:
            counts["limit_missing"] += 1
        if record.start < submit:
            counts["start_before_submit"] += 1
            submit = record.start
        if record.processors > largest:
            largest = record.processors
        use.add(record)
        yield submit, record.line, record.text
    result.most_in_use = largest


def _zone_lines(zone: ZoneInfo | None, start_s: int) -> Iterator[str]:
    """Comments of the trace about its time zone."""
    if zone is not None:
        offset = datetime.datetime.fromtimestamp(start_s, zone).utcoffset() or datetime.timedelta()
        yield f"; TimeZone: {int(offset.total_seconds())}"
        yield f"; TimeZoneString: {zone.key}"


def _write(
    out: Path, first: int, jobs: Iterable[tuple[Any, ...]], header: Iterable[str], result: Imported
) -> None:
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(replacing(out))
        if out.suffix == ".gz":
            compressed = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
            file = cast("IO[bytes]", compressed)
        comments = {
            "Version": "2.2",
            "Computer": "unknown",
            "Conversion": "rlsched trace import sacct",
            "MaxJobs": result.jobs,
            "MaxRecords": result.jobs,
            "UnixStartTime": first,
            "MaxNodes": result.processors,
            "MaxProcs": result.processors,
            "MaxQueues": result.queues,
        }
        lines = [*(f"; {key}: {value}" for key, value in comments.items()), *header]
        file.write(("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
        for number, (submit, _, line) in enumerate(jobs, start=1):
            file.write(f"{number} {submit - first} {line}\n".encode())
