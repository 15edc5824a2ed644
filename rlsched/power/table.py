"""Power files: the CSV of a grid or a site, read as it is and checked row by row.

Rows are counted as a spreadsheet shows them: the header is row 1.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray
from rlsched.reading import as_text, read_data

BLANK_ROWS_FILLED = "blank_rows_filled"
"""What rows that were filled in are counted as."""

SHORTEST_STEP_S = 60
LONGEST_STEP_S = 86_400
LARGEST = 1e12
"""A larger value is no measurement, and sums of such lose digits."""

_FIRST_ROW = 2
_REMEDY = "give a CSV with a column of times and columns of wind, sun and carbon intensity"
_UNITS_S = (("h", 3600), ("min", 60), ("s", 1))

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PowerTable:
    """The columns of a power file that were asked for.

    Attributes:
        start: of the first step, in UTC.
        step_s: seconds from each row to the next.
        steps: number of rows.
        columns: role -> (steps,) values as written, all finite and >= 0; not to be written to.
        repairs: what was put right -> count; only counts above 0.
    """

    start: pd.Timestamp
    step_s: int
    steps: int
    columns: dict[str, FloatArray]
    repairs: dict[str, int]


def read(path: str | Path, *, time: str, columns: Mapping[str, str]) -> PowerTable:
    """Read a power file, plain or gzip.

    Grids leave a row without any value where they did not report. One such row between two full ones
    becomes their mean and is counted; nothing else is put right.

    Args:
        path: a CSV with a header and ISO 8601 times in one constant step; times without a zone are UTC.
        time: name of the column of times.
        columns: role (the key of `power.columns`) -> name of a column to read; others are ignored.

    Raises:
        BadInputError: the file is no such CSV, lacks a column, or a cell is not what it should be; with
            the row and column of the first one.
    """
    name = str(path)
    header, rows = _cells(Path(path))
    places = {role: _place(name, header, role, column) for role, column in {"time": time, **columns}.items()}
    for row, cells in enumerate(rows, start=_FIRST_ROW):
        if len(cells) != len(header):
            raise BadInputError(
                name, f"row {row} has {len(cells)} cells where the header has {len(header)}", "mend the row"
            )
    if len(rows) < 2:
        raise BadInputError(name, f"has {len(rows)} rows below its header, too few for a step", _REMEDY)
    at = places.pop("time")
    start, step_s = _steps(name, time, [cells[at] for cells in rows])
    empty = np.array([not any(cells[:at] + cells[at + 1 :]) for cells in rows])
    filled = _lone(empty)
    values = {
        role: _numbers(name, columns[role], [cells[place] for cells in rows], filled)
        for role, place in places.items()
    }
    return PowerTable(
        start=start,
        step_s=step_s,
        steps=len(rows),
        columns=values,
        repairs={BLANK_ROWS_FILLED: int(filled.sum())} if filled.any() else {},
    )


def _cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows, cells without the blanks around them."""
    text = as_text(read_data(path, _REMEDY)).rstrip()
    try:
        lines = [[cell.strip() for cell in cells] for cells in csv.reader(io.StringIO(text, newline=""))]
    except csv.Error as error:
        raise BadInputError(str(path), f"is not CSV ({error})", _REMEDY) from None
    header, *rows = lines
    if len(header) < 2:
        first = "".join(header)[:60]
        raise BadInputError(
            str(path),
            f"is not CSV: its first row has no commas ({first!r})",
            f"{_REMEDY}, separated by commas",
        )
    return header, rows


def _place(where: str, header: list[str], role: str, column: str) -> int:
    count = header.count(column)
    if not count:
        raise BadInputError(
            where,
            f"has no column {column!r}, but {', '.join(header)}",
            f"set power.columns.{role} to the one that is meant",
        )
    if count > 1:
        raise BadInputError(where, f"has {count} columns {column!r}", "leave one of them")
    return header.index(column)


def _steps(where: str, column: str, cells: list[str]) -> tuple[pd.Timestamp, int]:
    """Start and seconds of the constant step of a column of times."""

    def refuse(k: int, problem: str, remedy: str) -> BadInputError:
        return BadInputError(where, f"row {k + _FIRST_ROW}, column {column!r}: {problem}", remedy)

    # pandas also takes words like now
    texts = pd.Series([cell if cell[:1].isdecimal() else "" for cell in cells], dtype=object)
    times = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    unknown = times.isna().to_numpy()
    if unknown.any():
        k = int(unknown.argmax())
        problem = f"{cells[k]!r} is no ISO 8601 time" if cells[k] else "is blank"
        raise refuse(k, problem, "write times like 2022-01-31 23:00:00+00:00")
    micros: IntArray = times.dt.tz_localize(None).to_numpy("datetime64[us]").astype(np.int64)
    gaps = np.diff(micros)
    first = int(gaps[0])
    # Order before step: where rows are out of order, the step is wrong in places that are no fault.
    odd = gaps <= 0 if (gaps <= 0).any() else gaps != first
    k = int(odd.argmax()) + 1 if odd.any() else 1  # the first step is judged by itself
    gap, above = int(gaps[k - 1]), f"row {k - 1 + _FIRST_ROW}"
    if gap == 0:
        raise refuse(
            k,
            f"{cells[k]!r} is the time of {above} again",
            "leave one row; write local times with their zone",
        )
    if gap < 0:
        raise refuse(k, f"{cells[k]!r} is before {above}", "put the rows in order of time")
    if gap != first:
        problem = f"{cells[k]!r} comes {_span(gap)} after {above}, where the first step is {_span(first)}"
        raise refuse(k, problem, "fill in the rows that are missing" if gap > first else "keep to one step")
    if not SHORTEST_STEP_S <= first / 1e6 <= LONGEST_STEP_S or first % 1_000_000:
        raise refuse(
            k, f"{cells[k]!r} comes {_span(first)} after {above}", "give whole seconds, from 1 min to 1 day"
        )
    return times.iloc[0], first // 1_000_000


def _span(micros: int) -> str:
    """A time span in its largest whole unit."""
    for unit, seconds in _UNITS_S:
        if micros % (seconds * 1_000_000) == 0:
            return f"{micros // (seconds * 1_000_000)} {unit}"
    return f"{micros / 1e6:g} s"


def _lone(empty: BoolArray) -> BoolArray:
    """Empty rows whose neighbours on both sides are not."""
    lone = empty.copy()
    lone[[0, -1]] = False
    lone[1:] &= ~empty[:-1]
    lone[:-1] &= ~empty[1:]
    return lone


def _numbers(where: str, column: str, cells: list[str], filled: BoolArray) -> FloatArray:
    """(steps,) values; rows that are `filled` get the mean of their neighbours."""
    values = pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").to_numpy(np.float64, copy=True)
    bad = ~((values >= 0) & (values <= LARGEST)) & ~filled  # nan fails both
    if bad.any():
        k = int(bad.argmax())
        if not cells[k]:
            problem = "is blank"
        elif np.isnan(values[k]):
            problem = f"{cells[k]!r} is no number"
        else:
            problem = (
                f"{cells[k]!r} is negative" if values[k] < 0 else f"{cells[k]!r} is more than {LARGEST:g}"
            )
        raise BadInputError(
            where, f"row {k + _FIRST_ROW}, column {column!r}: {problem}", "give a number from 0 on"
        )
    lone = np.flatnonzero(filled)
    values[lone] = (values[lone - 1] + values[lone + 1]) / 2
    values.setflags(write=False)  # shared by all who read the file
    return values
