"""The columns of a power file: its delimiter, the lines above its header, and the cells of its rows."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.reading import encoding_of, read_data

DELIMITERS = ",;\t"

FILE_BYTES = 2**27
"""Largest file, unless `LIMIT_VARIABLE` is set; ten years of minutes are smaller."""
MAX_ROWS = 5_300_000
"""Ten years of minutes, which are the shortest steps."""
MAX_COLUMNS = 10_000
REMEDY = "give a CSV with a column of times and columns of wind, solar and carbon intensity"

_HEAD_ROWS = 64
"""First rows in which the header is searched."""
_SEP_LINE = re.compile(rb"sep=([!#-/:-@[-`{-~\t])\r?\n", re.IGNORECASE)
"""A first line for spreadsheets with the delimiter; they do not count it as a row."""


@dataclass(frozen=True)
class Rows:
    """The rows of a file, for error messages.

    Attributes:
        first: number of the first row below the header.
    """

    file: str
    first: int
    delimiter: str

    def cell_error(self, k: int, column: str, problem: str, remedy: str) -> BadInputError:
        """The error of a cell, k rows below the first one."""
        return BadInputError(self.file, f"{self.label(k)}, column {column!r}: {problem}", remedy)

    def label(self, k: int) -> str:
        """Name of the row k rows below the first one."""
        return f"row {k + self.first}"


def read_columns(path: Path, roles: Mapping[str, str]) -> tuple[Rows, dict[str, list[str]]]:
    """Read columns, without blanks around cells.

    Args:
        path: of the file.
        roles: role -> name of its column; others are skipped.

    Returns:
        The rows, for messages, and role -> cells.

    Raises:
        BadInputError: the file is not a CSV, lacks a column, or is too large.
    """
    data = read_data(path, REMEDY, FILE_BYTES).rstrip()
    encoding = encoding_of(data)
    delimiters = DELIMITERS
    if sep_line := _SEP_LINE.match(data):
        delimiters, data = sep_line[1].decode(encoding), data[sep_line.end() :]

    def split(delimiter: str) -> Iterator[list[str]]:
        text = io.TextIOWrapper(io.BytesIO(data), encoding, newline="")
        return csv.reader(text, delimiter=delimiter)

    heads = {delimiter: _head(split(delimiter)) for delimiter in delimiters}
    delimiter, above = _header(heads, set(roles.values()))
    lines = split(delimiter)
    try:
        header = [cell.strip() for cell in next(itertools.islice(lines, above, None))]
        if len(header) < 2:
            begin = "".join(header)[:60]
            problem = f"is not CSV: its first row has no commas, semicolons or tabs ({begin!r})"
            raise BadInputError(str(path), problem, f"{REMEDY}, separated by commas")
        if len(header) > MAX_COLUMNS:
            problem = f"has {len(header):,} columns"
            raise BadInputError(str(path), problem, f"leave at most {MAX_COLUMNS:,}")
        places = {role: _place(str(path), above, header, role, column) for role, column in roles.items()}
        columns: dict[str, list[str]] = {role: [] for role in roles}
        first = above + 2
        for row, cells in enumerate(lines, start=first):
            if len(cells) != len(header):
                problem = f"row {row} has {len(cells)} cells where the header has {len(header)}"
                raise BadInputError(str(path), problem, "correct the row")
            if row - first >= MAX_ROWS:
                problem = f"has more than {MAX_ROWS:,} rows"
                raise BadInputError(str(path), problem, "give fewer, of longer steps")
            for role, place in places.items():
                columns[role].append(cells[place].strip())
    except csv.Error as error:
        raise BadInputError(str(path), f"is not CSV ({error})", REMEDY) from None
    return Rows(str(path), first, delimiter), columns


def _head(lines: Iterator[list[str]]) -> list[list[str]]:
    """The first rows, up to one that this delimiter cannot split."""
    head: list[list[str]] = []
    try:
        for cells in itertools.islice(lines, _HEAD_ROWS):
            head.append([cell.strip() for cell in cells])
    except csv.Error:
        return head  # an error only where this turns out to be the delimiter
    return head


def _header(heads: Mapping[str, list[list[str]]], columns: set[str]) -> tuple[str, int]:
    """Delimiter and number of rows above the header, which is the first row with all of these columns.

    Where no row has them, it is the first row with the most common number of cells.
    """
    named = [
        (row, delimiter)
        for delimiter, head in heads.items()
        for row, cells in enumerate(head)
        if columns.issubset(cells)
    ]
    if named:
        above, delimiter = min(named)
        return delimiter, above

    def common(delimiter: str) -> tuple[int, int]:
        """Count of rows with the most common number of cells (2 or more), and that number."""
        widths = Counter(len(cells) for cells in heads[delimiter] if len(cells) > 1)
        return max(((count, width) for width, count in widths.items()), default=(0, 0))

    delimiter = max(heads, key=common)
    width = common(delimiter)[1]
    return delimiter, next((row for row, cells in enumerate(heads[delimiter]) if len(cells) == width), 0)


def _place(where: str, above: int, header: list[str], role: str, column: str) -> int:
    count = header.count(column)
    if not count:
        names = ", ".join(repr(name) if "," in name else name for name in header)
        problem = f"has no column {column!r}{f' in row {above + 1}' if above else ''}, but {names}"
        raise BadInputError(where, problem, f"set power.columns.{role} to one of these")
    if count > 1:
        raise BadInputError(where, f"has {count} columns {column!r}", "keep one of them")
    return header.index(column)
