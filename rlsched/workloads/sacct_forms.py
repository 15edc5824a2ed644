"""Forms of sacct's output: lines with a separator, or JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from rlsched.errors import BadInputError
from rlsched.json_files import parse_json
from rlsched.reading import most_bytes, too_large
from rlsched.workloads.slurm_output import check_errors

SEPARATOR = "|"
OTHER_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
IDS = frozenset(("jobid", "jobidraw"))
QUOTE = '"'
BLANK = [""]
"""Fields of an empty line."""

LINES_BYTES = 2**33
"""Largest output of lines, unless `LIMIT_VARIABLE` is set; lines do not stay in memory."""

JSON_BYTES = 2**27
"""Largest JSON output, unless `LIMIT_VARIABLE` is set; parsed, it takes twenty times as much memory."""

JSON_COLUMNS = (
    *("JobID", "Cluster", "User", "Account", "Partition", "State", "Submit", "Eligible", "Start", "End"),
    *("ElapsedRaw", "TimelimitRaw", "ReqCPUS", "AllocCPUS"),
)
"""Columns of the rows that `json_rows` makes of `sacct --json`."""


def rows(lines: Iterable[str], where: str, delimiter: str | None, command: str) -> Iterator[list[str]]:
    """Fields of each line, the first with the names of columns.

    Args:
        lines: output of sacct.
        where: its name in errors.
        delimiter: between fields; None: that of --parsable2.
        command: that prints the supported form, for messages.

    Raises:
        BadInputError: the input is empty, or has an unsupported form.
    """
    rest = iter(lines)
    first = next((text for line in rest if (text := line.removeprefix("\ufeff")).strip()), None)
    if first is None:
        raise BadInputError(where, "is empty", f"run: {command}")
    if first.lstrip()[0] in "{[":
        yield from json_rows(_joined(chain([first], rest), where), where, command)
        return
    separator = delimiter or SEPARATOR
    names = _quoted_fields(first, separator)
    if not is_header(names):
        _refuse_form(first, names, where, command)
    # Otherwise a quote is an ordinary character: names of jobs may begin with one.
    quotes = len(separator) == 1 and (first.lstrip().startswith(QUOTE) or separator == ",")
    yield names
    for line in rest:
        fields = _fields(line, separator)
        # sacct itself writes no quotes: a line with as many fields as the header needs no parsing.
        is_plain = separator == "," and not first.lstrip().startswith(QUOTE) and len(fields) == len(names)
        yield _quoted_fields(line, separator) if quotes and not is_plain else fields


def _joined(lines: Iterable[str], where: str) -> str:
    """The lines as one text."""
    most, count = most_bytes(JSON_BYTES), 0
    parts = []
    for line in lines:
        count += len(line)
        if count > most:
            error = too_large(where, most)
            remedy = f"{error.remedy}, or print it with --parsable2, which is read line by line"
            raise BadInputError(where, error.problem, remedy)
        parts.append(line)
    return "".join(parts)


def is_header(values: Sequence[str]) -> bool:
    """Whether the fields of a line are names of columns."""
    return not IDS.isdisjoint(name.strip().lower() for name in values)


def is_another_header(values: Sequence[str]) -> bool:
    """Whether a later line has names of columns; start is one of them, as a user may be called jobid."""
    names = {name.strip().lower().removeprefix("\ufeff") for name in values}
    return "start" in names and not IDS.isdisjoint(names)


def _fields(line: str, separator: str) -> list[str]:
    return line.rstrip("\r\n").split(separator)


def _quoted_fields(line: str, separator: str) -> list[str]:
    """Fields of a line; some may be in quotes, as spreadsheets write them."""
    if QUOTE not in line or len(separator) > 1:
        return _fields(line, separator)
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=separator))
    except csv.Error:  # a field of more than 131,072 characters
        return [line]


def _refuse_form(first: str, names: Sequence[str], where: str, command: str) -> None:
    """Name the form of the input."""
    for separator, name in OTHER_SEPARATORS.items():
        if is_header(_quoted_fields(first, separator)):
            remedy = f"add --delimiter {json.dumps(separator)}, or print it with --parsable2"
            raise BadInputError(where, f"has columns separated by {name}, not by '|'", remedy)
    if is_header(first.split()):
        raise BadInputError(where, "has columns of fixed width", "print it with --parsable2")
    if first.lstrip().startswith("<"):
        raise BadInputError(where, "is a web page, or XML", f"run: {command}")
    if first.lstrip().startswith(";"):
        raise BadInputError(where, "is a trace (SWF) already", "use it as it is")
    if len(names) > 2 and names[0][:1].isdigit():
        problem = "begins with a job, not with the names of columns"
        raise BadInputError(where, problem, "print it without --noheader")


def json_rows(text: str, where: str, command: str) -> Iterator[list[str]]:
    """Rows of the output of `sacct --json`, the first with the names of columns.

    Raises:
        BadInputError: it is other JSON, or holds errors of Slurm.
    """
    remedy = "give the output of sacct --json, or use --parsable2"
    try:
        content = parse_json(text)
    except json.JSONDecodeError as error:
        problem = f"is not JSON from line {error.lineno}, column {error.colno} on ({error.msg})"
        raise BadInputError(where, problem, remedy) from None
    except ValueError as error:
        raise BadInputError(where, f"is JSON that cannot be read ({error})", remedy) from None
    content = content if isinstance(content, dict) else {}
    check_errors(where, content.get("errors"), command)
    jobs = content.get("jobs")
    if not isinstance(jobs, list):
        raise BadInputError(where, "is JSON without a list of jobs", remedy)
    yield list(JSON_COLUMNS)
    for job in jobs:
        yield _job_row(job if isinstance(job, dict) else {})


def _job_row(job: Mapping[str, Any]) -> list[str]:
    """Fields of a job; missing ones are empty."""
    time, required = _mapping(job, "time"), _mapping(job, "required")
    requested = _number(required.get("CPUs"))
    return [
        _job_id(job),
        *(_text(job.get(name)) for name in ("cluster", "user", "account", "partition")),
        _state(job.get("state")),
        *(_number(time.get(name)) for name in ("submission", "eligible", "start", "end", "elapsed", "limit")),
        requested,
        _allocated(job) or requested,
    ]


def _job_id(job: Mapping[str, Any]) -> str:
    """The job id as sacct prints it: N_k for a task of an array."""
    array = _mapping(job, "array")
    task = array.get("task_id", array.get("task"))
    number, of = _number(task), _number(array.get("job_id"))
    # Before v0.0.40 a job that is no task had the array 0.
    return f"{of}_{number}" if number and of not in {"", "0"} else _number(job.get("job_id"))


def _allocated(job: Mapping[str, Any]) -> str:
    allocated = _mapping(job, "tres").get("allocated")
    for tres in allocated if isinstance(allocated, list) else ():
        if isinstance(tres, dict) and tres.get("type") == "cpu":
            return _number(tres.get("count"))
    return ""


def _state(value: object) -> str:
    """The first state; v0.0.39 has a word, later versions a list."""
    current = value.get("current") if isinstance(value, dict) else value
    words = current if isinstance(current, list) else [current]
    return _text(words[0]) if words else ""


def _number(value: object) -> str:
    """A number, plain or with its set flag, as text; UNLIMITED where it is infinite."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return "UNLIMITED"
        value = value.get("number") if value.get("set", True) is True else None
    return "" if isinstance(value, bool) or not isinstance(value, int | str) else str(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(job: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = job.get(name)
    return value if isinstance(value, dict) else {}
