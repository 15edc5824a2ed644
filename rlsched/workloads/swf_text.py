"""The text of a Standard Workload Format file: its header and the numbers of its lines.

`swf` makes jobs of the numbers. Format:
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html [Chapin et al. 1999].
"""

from __future__ import annotations

import io
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np

from rlsched.errors import BadInputError
from rlsched.files import quoted
from rlsched.jobs import FloatArray
from rlsched.reading import MOST_IDLE_LINES, as_text, read_data, too_idle

FIELDS = 18
"""Fields of a job line."""
SHORTEST = 2 * FIELDS
"""Fewest bytes of a job line, with its line break."""
USED = {
    "id": 0,
    "submit": 1,
    "wait": 2,
    "runtime": 3,
    "allocated": 4,
    "processors": 7,
    "requested": 8,
    "user": 11,
    "queue": 14,
    "preceding": 16,
    "think": 17,
}
"""Fields that a simulation needs -> position in a line, from 0."""
OPTIONAL = ("wait", "user", "queue", "preceding", "think")
"""Used fields that a job may lack."""
NEEDED = [k for k, name in enumerate(USED) if name not in OPTIONAL]
"""Positions of the required fields among the used ones."""

_JOB_LINE = re.compile(rb"^[ \t]*[^;\s]", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]*;+[ \t]*([A-Za-z][\w \t-]*:(?!//)|[Mm]ax[\w \t-]*=)(.*)")
"""A key and its value; after MaxProcs and similar keys, `=` counts as a colon."""


@dataclass(frozen=True, eq=False)
class SwfText:
    """A trace file as numbers.

    Attributes:
        header: the `; Key: value` comments before the first job; a repeated key adds a line.
        columns: field of `USED` -> (lines,) numbers as written; nan only in `OPTIONAL` ones.
        dropped: reason -> number of lines without a job.
    """

    header: dict[str, str]
    columns: dict[str, FloatArray]
    dropped: dict[str, int]


def read_columns(path: Path) -> SwfText:
    """Read a trace file, plain or gzip (by its content, not by its name).

    Raises:
        BadInputError: the file cannot be read, is empty, binary or damaged, or has no job line.
    """
    data = _read(path)
    first_job = _JOB_LINE.search(data)
    if first_job is None:
        raise BadInputError(str(path), "has no job line", "give a trace in the Standard Workload Format")
    # Comments may have any encoding: latin-1 reads every byte.
    header = _header(as_text(data[: first_job.start()]))
    body = data[first_job.start() :]
    del data  # it may be large
    columns = _columns_at_once(body)
    dropped: Counter[str] = Counter()
    if columns is None:
        columns = _columns_by_line(body, dropped)
        if not len(columns["id"]):
            _refuse_other_form(path, body)
    return SwfText(header, columns, dict(+dropped))


def _read(path: Path) -> bytes:
    """The text of a trace file, with newlines as line breaks."""
    data = read_data(path, "give a trace in the Standard Workload Format, plain or gzip")
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    if data.count(b"\n") - len(data) // SHORTEST > MOST_IDLE_LINES:
        raise too_idle(str(path))
    return data


def _header(comments: str) -> dict[str, str]:
    """The `; Key: value` lines; a repeated key adds a line to its value."""
    values_of: dict[str, list[str]] = {}
    for line in comments.split("\n"):
        match = _COMMENT.match(line.removesuffix("\r"))
        if match is not None:
            values_of.setdefault(match[1].rstrip(": =\t"), []).append(match[2].strip(" \t"))
    return {key: "\n".join(values) for key, values in values_of.items()}


def _refuse_other_form(path: Path, body: bytes) -> None:
    """Name the form of a file without a line of 18 fields."""
    first, _, _ = body.lstrip().partition(b"\n")
    remedy = "give a trace in the Standard Workload Format"
    if first.startswith(b"<"):
        raise BadInputError(str(path), "is a web page, or XML", f"{remedy}: the file behind its link")
    if first.startswith((b"{", b"[")):
        raise BadInputError(str(path), "is JSON", remedy)
    if b"JobID" in first:
        problem = "is a table of sacct"
        raise BadInputError(str(path), problem, f"rlsched trace import sacct {quoted(path)} --out OUT.swf")
    for separator, name in ((b",", "commas"), (b"|", "'|'"), (b":", "colons")):
        if first.count(separator) >= FIELDS // 2:
            remedy = "write the 18 fields of a job with blanks between them"
            raise BadInputError(str(path), f"has fields separated by {name}", remedy)


def raw_lines(path: Path) -> tuple[list[str], dict[int, str]]:
    """The lines of the header, and job number -> its first line.

    Raises:
        BadInputError: see `read_columns`.
    """
    data = _read(path)
    first_job = _JOB_LINE.search(data)
    begin = len(data) if first_job is None else first_job.start()
    header = data[:begin].decode("utf-8", "surrogateescape").splitlines()
    lines_of: dict[int, str] = {}
    for line in _lines(data[begin:]):
        fields = line.partition(b";")[0].split()
        if len(fields) == FIELDS:
            number = _number(fields[0])
            if number >= 0:
                lines_of.setdefault(int(number), b" ".join(fields).decode("utf-8", "surrogateescape"))
    return header, lines_of


def _columns_at_once(body: bytes) -> dict[str, FloatArray] | None:
    """All lines, by numpy's parser; None: a line is not 18 finite numbers."""
    try:
        table = np.loadtxt(io.BytesIO(body), comments=";", ndmin=2, encoding="latin-1")
    except ValueError:
        return None
    if table.shape[1] != FIELDS:
        return None
    columns = {name: np.ascontiguousarray(table[:, field]) for name, field in USED.items()}
    return columns if all(np.isfinite(column).all() for column in columns.values()) else None


def _columns_by_line(body: bytes, dropped: Counter[str]) -> dict[str, FloatArray]:
    """Line by line; lines without a job are counted."""
    numbers = array("d")  # a list of lists would take ten times the memory of the file
    short = False
    for line in _lines(body):
        tokens = line.partition(b";")[0].split(None, FIELDS)
        short = 0 < len(tokens) < FIELDS
        if not tokens:
            continue
        if short:
            dropped["short_lines_dropped"] += 1
            continue
        if len(tokens) > FIELDS:
            dropped["long_lines_dropped"] += 1
            continue
        row = [_number(tokens[field]) for field in USED.values()]
        if any(isnan(row[k]) for k in NEEDED):
            dropped["not_numeric_dropped"] += 1
            continue
        numbers.extend(row)
    if short and not body.endswith((b"\n", b"\r")):
        dropped["truncated_line_dropped"] += 1
        dropped["short_lines_dropped"] -= 1
    table = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(USED))
    return {name: np.ascontiguousarray(table[:, k]) for k, name in enumerate(USED)}


def _lines(body: bytes) -> Iterator[bytes]:
    """The lines of a text, one at a time."""
    for part in io.BytesIO(body):
        yield from part.splitlines()


def _number(token: bytes) -> float:
    """The number; nan if the token is not a finite number."""
    try:
        value = float(token)
    except ValueError:
        return np.nan
    return value if np.isfinite(value) and b"_" not in token else np.nan
