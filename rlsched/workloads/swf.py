"""Reads and writes traces in the Standard Workload Format.

Drops and repairs are counted.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.workloads.swf_text import FIELDS, OPTIONAL, raw_lines, read_columns

Rules = Literal["standard", "rlscheduler"]
BoolArray = NDArray[np.bool_]

REPAIRS = {
    "short_lines_dropped": "lines with fewer than 18 fields",
    "long_lines_dropped": "lines with more than 18 fields: two jobs in one line, or another format",
    "truncated_line_dropped": "a last line that is cut off",
    "not_numeric_dropped": "lines with text in a required number",
    "out_of_range_dropped": "jobs with a number beyond 2**53, or processors from 2**30 on",
    "repeated_id_dropped": "further lines of a job number; in the format, the first line sums up the job",
    "missing_id_numbered": "jobs without a number (-1), numbered after all others",
    "negative_submit_dropped": "jobs without a submit time",
    "processors_missing_dropped": "jobs with neither allocated nor requested processors",
    "zero_runtime_dropped": "jobs that never ran",
    "negative_runtime_dropped": "jobs without a runtime",
    "negative_runtime_set_to_10s": "jobs without a runtime, under the rules of rlscheduler",
    "requested_missing_filled": "jobs without a requested time: their runtime replaces it",
    "fractions_rounded": "jobs with fractions of seconds or processors: submit rounded down, the rest up",
    "dependencies_ignored": "jobs with a preceding job in the trace: they arrive at their submit time unless "
    "workload.dependencies is follow",
    "dependencies_unknown": "jobs with a preceding job that is not before them in the trace, or was dropped: "
    "they arrive at their submit time",
    "resorted": "places where the file was out of order",
    "oversized_dropped": "jobs that request more than the cluster has",
    "larger_than_limit_dropped": "jobs that request more than workload.max_job_demand",
    "larger_than_limit_scaled": "jobs that request more than workload.max_job_demand, cut to it",
    "longer_than_limit_dropped": "jobs that run for or request more than workload.max_job_duration",
    "longer_than_limit_scaled": "jobs that run for or request more than workload.max_job_duration, cut to it",
    "beyond_horizon_dropped": "jobs that request more ticks than decision.horizon, which cannot be planned; "
    "a longer horizon, a longer cluster.tick_s or workload.oversized=scale keeps them",
    "beyond_horizon_scaled": "jobs that request more ticks than decision.horizon, cut to it",
    "ended_at_requested": "jobs that run longer than they request, ended by cluster.kill_at_requested",
    "small_negatives_zeroed": "small negative values of the power file, the draw of idle plants: set to 0",
    "thousands_marks_removed": "values of the power file with marks between thousands, as in 1.234,5",
    "blank_rows_filled": "rows of the power file without values, filled with the mean of their neighbours",
}
"""Drop or repair of a trace or a power file -> its meaning."""

NEGATIVE_RUNTIME_S = 10
"""Seconds that rlscheduler gives to a job without a runtime."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The jobs of a trace file, and the machine in its header.

    Attributes:
        jobs: demand (jobs, 1) in processors; by submit time under the standard rules, by job number
            under those of rlscheduler.
        processors: MaxProcs of the header, else MaxNodes, else None.
        nodes: MaxNodes of the header, or None.
        header: the `; Key: value` comments; a repeated key adds a line to its value.
        repairs: key of `REPAIRS` -> count; only counts above 0.
    """

    jobs: JobTable
    processors: int | None
    nodes: int | None
    header: dict[str, str]
    repairs: dict[str, int]


def read(path: str | Path, *, rules: Rules = "standard", tick_s: int = 1) -> Trace:
    """Read a trace.

    Args:
        path: a file, plain or gzip.
        rules: standard: jobs that did not run are dropped, the others sorted by submit time.
            rlscheduler: as that simulator loads traces [Zhang et al. 2020], for published figures: a
            negative runtime is 10 s, jobs are sorted by number, sizes are whole nodes.
        tick_s: seconds per tick of the result.

    Raises:
        BadInputError: the file cannot be read as a trace, or no job of it is usable.
    """
    path = Path(path)
    text = read_columns(path)
    repairs = Counter(text.dropped)
    processors = _header_number(text.header, "MaxProcs", path)
    nodes = _header_number(text.header, "MaxNodes", None if processors else path)
    processors = nodes if processors is None else processors
    columns = _usable(text.columns, repairs, rules)
    if not len(columns["id"]):
        reasons = "; ".join(f"{count:,} {REPAIRS[name]}" for name, count in repairs.items() if count)
        raise BadInputError(str(path), f"has no usable job ({reasons})", "give a trace of jobs that ran")
    demand = columns["processors"].astype(np.int64)
    if rules == "rlscheduler" and nodes and processors:
        # ceil(demand / (processors / nodes)) nodes, back in processors; in integers, so exact
        whole = -(demand * -nodes // processors)
        demand = -(whole * -processors // nodes)
    jobs = JobTable.build(
        id=columns["id"],
        submit=np.floor(columns["submit"]),
        runtime=np.ceil(columns["runtime"]),
        requested=np.ceil(columns["requested"]),
        demand=demand,
        start=np.where(columns["wait"] < 0, -1, np.floor(columns["submit"] + columns["wait"])),
        user=columns["user"],
        queue=columns["queue"],
        preceding=np.where(columns["preceding"] > 0, columns["preceding"], -1),
        think=np.ceil(columns["think"]),
    )
    jobs = _ordered(jobs.in_ticks(tick_s), repairs, rules)
    repairs["dependencies_ignored"] = int((jobs.predecessors() >= 0).sum())
    return Trace(
        jobs=jobs,
        processors=processors,
        nodes=nodes,
        header=text.header,
        repairs={name: repairs[name] for name in REPAIRS if repairs[name]},
    )


_WHOLE = re.compile(
    r"(\d{1,3}(?:[,'_]\d{3}){1,5}|\d{1,18})(?:\.0*)?"
    r"(?=\s*$|\s*[;,](?!\d)|\s+[^\W\d_]{2,}(?!.*(?<!\w)\d))"
)
"""A number, and what may follow: a remark, or words without another number."""

_UNKNOWN = re.compile(r"-1(?:\.0*)?(?=\D*$)|\D*$")
"""A value without a number."""


def _header_number(header: Mapping[str, str], key: str, path: Path | None) -> int | None:
    """The number at the start of a header value, as in `338 (batch partition; 512 total)` and `1,024`.

    Raises:
        BadInputError: the value has an ambiguous number; only with a path.
    """
    values = [value for name, value in header.items() if re.sub(r"[\s_-]", "", name).lower() == key.lower()]
    value = re.sub(r"[(\[][^)\]]*[)\]]?", " ", values[0]).rstrip() if values else ""  # remarks in brackets
    if _UNKNOWN.match(value):
        return None
    match = _WHOLE.match(value)
    if match is None and path is None:
        return None
    if match is None:
        problem = f"value {values[0][:60]!r} is not a whole number"
        raise BadInputError(f"{path}: {key}", problem, "write it with digits only, as in 1024")
    return int(re.sub(r"\D", "", match[1])) or None


def _usable(columns: dict[str, FloatArray], repairs: Counter[str], rules: Rules) -> dict[str, FloatArray]:
    """Drop unusable jobs, fill missing values in, and count both.

    The order of the checks matters: a job counts for its first fault.
    """

    def drop(bad: BoolArray, reason: str) -> None:
        nonlocal columns
        if bad.any():
            repairs[reason] += int(bad.sum())
            columns = {name: column[~bad] for name, column in columns.items()}

    for name in OPTIONAL:
        columns[name] = np.where(columns[name] >= 0, columns[name], -1)  # nan too
    for name in ("wait", "preceding", "think"):  # optional values: the job stays
        columns[name] = np.where(columns[name] <= 2**53, columns[name], -1)
    columns["processors"] = np.maximum(columns["allocated"], columns["processors"])
    beyond = np.any([np.abs(column) > 2**53 for column in columns.values()], axis=0)
    drop(beyond | (columns["processors"] >= 2**30), "out_of_range_dropped")
    columns["id"] = _numbered(columns["id"], repairs)
    first = np.zeros(len(columns["id"]), dtype=bool)
    first[np.unique(columns["id"], return_index=True)[1]] = True
    drop(~first, "repeated_id_dropped")
    drop(columns["submit"] < 0, "negative_submit_dropped")
    drop(columns["processors"] <= 0, "processors_missing_dropped")
    if rules == "rlscheduler":
        negative = columns["runtime"] < 0
        repairs["negative_runtime_set_to_10s"] += int(negative.sum())
        columns["runtime"] = np.where(negative, NEGATIVE_RUNTIME_S, columns["runtime"])
    drop(columns["runtime"] < 0, "negative_runtime_dropped")
    drop(columns["runtime"] == 0, "zero_runtime_dropped")
    unknown = columns["requested"] <= 0
    repairs["requested_missing_filled"] += int(unknown.sum())
    columns["requested"] = np.where(unknown, columns["runtime"], columns["requested"])
    is_fraction = [columns[name] % 1 != 0 for name in ("submit", "runtime", "requested", "processors")]
    repairs["fractions_rounded"] += int(np.any(is_fraction, axis=0).sum())
    columns["processors"] = np.ceil(columns["processors"])
    return columns


def _numbered(ids: FloatArray, repairs: Counter[str]) -> FloatArray:
    """Number jobs without a number after the largest."""
    missing = ids < 0
    count = int(missing.sum())
    if not count:
        return ids
    repairs["missing_id_numbered"] += count
    ids = ids.copy()
    ids[missing] = max(ids.max(), 0) + np.arange(1, count + 1)
    return ids


def _ordered(jobs: JobTable, repairs: Counter[str], rules: Rules) -> JobTable:
    """Sort by submit time, ties by number; by number alone under the rules of rlscheduler."""
    steps = np.diff(jobs.id)
    if rules == "standard":
        gaps = np.diff(jobs.submit)
        steps = np.where(gaps == 0, steps, gaps)
    repairs["resorted"] += int((steps < 0).sum())
    if (steps > 0).all():
        return jobs
    return jobs.in_submit_order() if rules == "standard" else jobs.take(np.argsort(jobs.id, kind="stable"))


def write(
    path: str | Path,
    jobs: JobTable,
    *,
    processors: int,
    header: Mapping[str, str] | None = None,
    starts: IntArray | None = None,
    tick_s: int = 1,
) -> None:
    """Write jobs as a trace, atomically; gzip if the name ends in .gz.

    The same jobs give the same bytes.

    Args:
        path: the file; an old one is replaced.
        jobs: with one resource type, processors; the format has no qos.
        processors: size of the machine.
        header: further `; Key: value` comments; each line of a value becomes one.
        starts: (jobs,) start times, ticks, -1 not started; for the wait field.
        tick_s: seconds per tick of the jobs.

    Raises:
        BadInputError: the jobs have several resources, or the file cannot be written.
    """
    path = Path(path)
    if jobs.num_resources != 1:
        problem = f"{jobs.num_resources} resource types"
        raise BadInputError(str(path), problem, "write a trace of jobs with processors only")
    comments = {"Version": "2.2", "MaxJobs": str(len(jobs)), "MaxRecords": str(len(jobs))}
    comments |= {"MaxNodes": str(processors), "MaxProcs": str(processors)} | dict(header or {})
    lines = [f"; {key}: {line}" for key, value in comments.items() for line in value.splitlines() or [""]]
    table = np.full((len(jobs), FIELDS), -1, dtype=np.int64)
    table[:, 0] = jobs.id
    table[:, 1] = jobs.submit * tick_s
    if starts is not None:
        started = np.asarray(starts) >= 0
        table[:, 2] = np.where(started, (starts - jobs.submit) * tick_s, -1)
        table[:, 10] = np.where(started, 1, -1)  # status: completed
    table[:, 3] = jobs.runtime * tick_s
    table[:, 4] = table[:, 7] = jobs.demand[:, 0]
    table[:, 8] = jobs.requested * tick_s
    table[:, 11] = jobs.user
    table[:, 14] = jobs.queue
    table[:, 16] = jobs.preceding
    table[:, 17] = np.where(jobs.think < 0, -1, jobs.think * tick_s)
    lines += [" ".join(map(str, row)) for row in table.tolist()]
    _write_lines(path, lines)


def rewrite(
    source: str | Path, target: str | Path, jobs: JobTable, *, note: str, processors: int | None = None
) -> None:
    """Write some jobs of a trace with the lines of its file, but their present submit times.

    The header and all other fields stay. Jobs without a number in the file get only the fields that a
    simulation has.

    Args:
        source: a trace.
        target: the file to write; an old one is replaced; gzip if the name ends in .gz.
        jobs: of the trace, in the order to write; times in seconds.
        note: for the header.
        processors: of the machine, if the header has none.

    Raises:
        BadInputError: a file cannot be read or written.
    """
    header, lines = raw_lines(Path(source))
    counts = {"maxjobs": len(jobs), "maxrecords": len(jobs)}
    output_lines = [_recounted(line, counts) for line in header]
    if processors is not None and not any(
        re.match(r"[;\s]*Max[\s_-]*Procs\s*[:=]", line, re.I) for line in output_lines
    ):
        output_lines.append(f"; MaxProcs: {processors}")
    output_lines.append(f"; Note: {note}")
    for k, number in enumerate(jobs.id.tolist()):
        line = lines.get(number)
        if line is None:
            runtime, demand, requested = jobs.runtime[k], jobs.demand[k, 0], jobs.requested[k]
            fields = f"{number} 0 -1 {runtime} {demand} -1 -1 {demand} {requested}".split()
            fields += ["-1"] * (FIELDS - len(fields))
        else:
            fields = line.split(" ")
        output_lines.append(" ".join([fields[0], str(jobs.submit[k]), *fields[2:]]))
    _write_lines(Path(target), output_lines)


def _recounted(line: str, counts: Mapping[str, int]) -> str:
    """A line of the header, with the present count."""
    match = re.match(r"([;\s]*(\w+)\s*[:=]\s*)\d+", line)
    if match is None or match[2].lower() not in counts:
        return line
    return f"{match[1]}{counts[match[2].lower()]}"


def _write_lines(path: Path, lines: list[str]) -> None:
    data = ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
    try:
        write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise BadInputError(str(path), problem, "give a folder that exists and is writable") from None
