"""Power files: the CSV of a grid or a site, read as it is and checked row by row.

Rows are counted as a spreadsheet shows them, from 1, with those above the header.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray
from rlsched.reading import encoding_of, read_data

BLANK_ROWS_FILLED, NEGATIVES_ZEROED = "blank_rows_filled", "small_negatives_zeroed"
THOUSANDS_REMOVED = "thousands_marks_removed"
"""What is counted as put right."""

SUPPLY = ("wind", "solar")
"""Roles of columns in which a small negative value is what a plant draws when it yields nothing."""

SMALL = 0.05
"""Share of the highest value of such a column."""

DELIMITERS = ",;\t"

SHORTEST_STEP_S = 60
LONGEST_STEP_S = 86_400
FILE_BYTES = 2**27
"""Read of a file where `LIMIT_VARIABLE` does not say it; ten years of minutes are fewer."""
MOST_ROWS = 5_300_000
"""Ten years of minutes, which are the shortest steps."""
MOST_COLUMNS = 10_000
LARGEST = 1e12
"""A larger value is no measurement, and sums of such lose digits."""

_HEAD_ROWS = 64
"""Among these the header is looked for."""
_SAYS_DELIMITER = re.compile(rb"sep=([!#-/:-@[-`{-~\t])\r?\n", re.IGNORECASE)
"""A first line for spreadsheets, which show no row of it."""
_REMEDY = "give a CSV with a column of times and columns of wind, sun and carbon intensity"
_OTHER = {".": ",", ",": "."}
"""Decimal mark -> the mark between thousands."""
_WRITTEN = {
    decimal: re.compile(
        rf"[-+]?([0-9]*([{decimal}][0-9]*)?(e[-+]?[0-9]+)?"
        rf"|[1-9][0-9]{{,2}}([{mark}][0-9]{{3}})+([{decimal}][0-9]*)?)",
        re.IGNORECASE,
    )
    for decimal, mark in _OTHER.items()
}
"""Decimal mark -> numbers that are written with it; a group of thousands begins with no 0."""
_UNITS_S = (("h", 3600), ("min", 60), ("s", 1))

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PowerTable:
    """The columns of a power file that were asked for.

    Attributes:
        start: of the first step, in UTC.
        step_s: seconds of each step.
        steps: number of steps; more than rows where those are divided, as clocks change.
        columns: role -> (steps,) values as written, all finite and >= 0; not to be written to.
        repairs: what was put right -> count; only counts above 0.
    """

    start: pd.Timestamp
    step_s: int
    steps: int
    columns: dict[str, FloatArray]
    repairs: dict[str, int]


@dataclass(frozen=True)
class _Rows:
    """What errors call the rows of a file.

    Attributes:
        file: its name.
        first: number of the first row below the header.
        delimiter: between its cells.
    """

    file: str
    first: int
    delimiter: str

    def refuse(self, k: int, column: str, problem: str, remedy: str) -> BadInputError:
        """The error of a cell, k rows below the first one."""
        return BadInputError(self.file, f"{self.at(k)}, column {column!r}: {problem}", remedy)

    def at(self, k: int) -> str:
        return f"row {k + self.first}"


def read(path: str | Path, *, time: str, columns: Mapping[str, str], zone: str | None = None) -> PowerTable:
    """Read a power file, plain or gzip.

    Grids leave a row without any value where they did not report. One such row between two full ones
    becomes their mean. What a plant draws at night is a small negative value, and becomes 0. Both are
    counted; nothing else is put right. Rows of a day, or of hours, by a clock that changes are divided into
    steps of one length.

    Args:
        path: a CSV with a header, below any other lines, separated by commas, semicolons or tabs, and times
            in one constant step: ISO 8601, digits from the year to the hour or on, or seconds or milliseconds
            since 1970. Decimal commas are read, too, and marks between thousands where a column, or else the
            file, shows which of the two a mark is.
        time: name of the column of times.
        columns: role (the key of `power.columns`) -> name of a column to read; others are ignored.
        zone: of times that do not say it, as Europe/Stockholm; None: UTC.

    Raises:
        BadInputError: the file is no such CSV, lacks a column, or a cell is not what it should be; with
            the row and column of the first one.
    """
    name = str(path)
    roles = {"time": time, **columns}
    rows, cells = _cells(Path(path), roles)
    times = cells["time"]
    if len(times) < 2:
        raise BadInputError(name, f"has {len(times)} rows below its header, too few for a step", _REMEDY)
    start, step_s, counts = _steps(rows, time, times, zone)
    filled = _lone(np.array([not any(row) for row in zip(*(cells[role] for role in columns), strict=True)]))
    decimals = _decimal_marks(rows, columns, cells)
    values, zeroed, thousands = {}, 0, 0
    for role in columns:
        numbers, count = _numbers(
            rows, columns[role], cells[role], filled, decimal=decimals[role], supply=role in SUPPLY
        )
        values[role] = numbers.repeat(counts)
        values[role].setflags(write=False)  # shared by all who read the file
        zeroed += count
        thousands += sum(_OTHER[decimals[role]] in cell for cell in cells[role])
    repairs = {BLANK_ROWS_FILLED: int(filled.sum()), NEGATIVES_ZEROED: zeroed, THOUSANDS_REMOVED: thousands}
    return PowerTable(
        start=start,
        step_s=step_s,
        steps=int(counts.sum()),
        columns=values,
        repairs={name: count for name, count in repairs.items() if count},
    )


def _cells(path: Path, roles: Mapping[str, str]) -> tuple[_Rows, dict[str, list[str]]]:
    """The columns that are asked for, without blanks around cells.

    Args:
        path: of the file.
        roles: role -> name of its column; no others are kept.
    """
    data = read_data(path, _REMEDY, FILE_BYTES).rstrip()
    encoding = encoding_of(data)
    delimiters = DELIMITERS
    if said := _SAYS_DELIMITER.match(data):
        delimiters, data = said[1].decode(encoding), data[said.end() :]

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
            raise BadInputError(str(path), problem, f"{_REMEDY}, separated by commas")
        if len(header) > MOST_COLUMNS:
            problem = f"has {len(header):,} columns"
            raise BadInputError(str(path), problem, f"leave at most {MOST_COLUMNS:,}")
        places = {role: _place(str(path), above, header, role, column) for role, column in roles.items()}
        found: dict[str, list[str]] = {role: [] for role in roles}
        first = above + 2
        for row, cells in enumerate(lines, start=first):
            if len(cells) != len(header):
                problem = f"row {row} has {len(cells)} cells where the header has {len(header)}"
                raise BadInputError(str(path), problem, "mend the row")
            if row - first >= MOST_ROWS:
                raise BadInputError(
                    str(path), f"has more than {MOST_ROWS:,} rows", "give fewer, of longer steps"
                )
            for role, place in places.items():
                found[role].append(cells[place].strip())
    except csv.Error as error:
        raise BadInputError(str(path), f"is not CSV ({error})", _REMEDY) from None
    return _Rows(str(path), first, delimiter), found


def _head(lines: Iterator[list[str]]) -> list[list[str]]:
    """The first rows, up to one that cannot be split in this way."""
    head: list[list[str]] = []
    try:
        for cells in itertools.islice(lines, _HEAD_ROWS):
            head.append([cell.strip() for cell in cells])
    except csv.Error:
        return head  # an error only where the file turns out to be split so
    return head


def _header(heads: Mapping[str, list[list[str]]], columns: set[str]) -> tuple[str, int]:
    """Delimiter and number of rows above the header, which is the first row with all of these columns.

    Where no row has them, it is the first of those with the most common number of cells.

    Args:
        heads: delimiter -> the first rows, split by it.
        columns: that are asked for.
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
        """How many rows have the most common number of cells from 2 on, and that number."""
        widths = Counter(len(cells) for cells in heads[delimiter] if len(cells) > 1)
        return max(((count, width) for width, count in widths.items()), default=(0, 0))

    delimiter = max(heads, key=common)
    width = common(delimiter)[1]
    return delimiter, next((row for row, cells in enumerate(heads[delimiter]) if len(cells) == width), 0)


def _place(where: str, above: int, header: list[str], role: str, column: str) -> int:
    count = header.count(column)
    if not count:
        names = ", ".join(repr(name) if "," in name else name for name in header)
        raise BadInputError(
            where,
            f"has no column {column!r}{f' in row {above + 1}' if above else ''}, but {names}",
            f"set power.columns.{role} to the one that is meant",
        )
    if count > 1:
        raise BadInputError(where, f"has {count} columns {column!r}", "leave one of them")
    return header.index(column)


def _steps(
    rows: _Rows, column: str, cells: list[str], zone: str | None
) -> tuple[pd.Timestamp, int, IntArray]:
    """Start and seconds of the constant step of a column of times, and (rows,) how many steps each row lasts.

    The step is one of time, or else one of the clock in a zone: rows are then divided into equal steps.
    """

    def refuse(k: int, problem: str, remedy: str) -> BadInputError:
        return rows.refuse(k, column, problem, remedy)

    times, clock = _times(cells, zone)
    unknown = times.isna().to_numpy()
    if unknown.any():
        k = int(unknown.argmax())
        problem = f"{cells[k]!r} is no ISO 8601 time" if cells[k] else "is blank"
        if cells[k] and zone is not None and not _times(cells[k : k + 1], None)[0].isna().any():
            problem = f"{cells[k]!r} is there never, or twice, where clocks change in {zone}"
        raise refuse(k, problem, "write times like 2022-01-31 23:00:00+00:00")
    lengths = _gaps(times.dt.tz_localize(None))
    by_clock = _gaps(clock)
    # The one that is nearer to a constant step is meant, also where a row is missing.
    odd_by_clock = int((by_clock != by_clock[0]).sum())
    gaps = by_clock if odd_by_clock < (lengths != lengths[0]).sum() and (lengths >= 0).all() else lengths
    first = int(gaps[0])
    # Order before step: where rows are out of order, the step is wrong in places that are no fault.
    odd = gaps <= 0 if (gaps <= 0).any() else gaps != first
    k = int(odd.argmax()) + 1 if odd.any() else 1  # the first step is judged by itself
    gap, above = int(gaps[k - 1]), rows.at(k - 1)
    if gap == 0:
        remedy = "leave one row"
        if zone is None:
            remedy += "; where clocks change, write times with their zone, or set power.time_zone"
        raise refuse(k, f"{cells[k]!r} is the time of {above} again", remedy)
    if gap < 0:
        raise refuse(k, f"{cells[k]!r} is before {above}", "put the rows in order of time")
    if gap != first:
        problem = f"{cells[k]!r} comes {_span(gap)} after {above}, where the first step is {_span(first)}"
        remedy = "fill in the rows that are missing" if gap > first else "keep to one step"
        if zone is None:
            remedy += "; where clocks change, set power.time_zone"
        raise refuse(k, problem, remedy)
    if not SHORTEST_STEP_S <= first / 1e6 <= LONGEST_STEP_S or first % 1_000_000:
        raise refuse(
            k, f"{cells[k]!r} comes {_span(first)} after {above}", "give whole seconds, from 1 min to 1 day"
        )
    lengths = np.append(lengths, first)
    step = int(np.gcd.reduce(lengths))
    if step < SHORTEST_STEP_S * 1_000_000 or lengths.sum() // step > MOST_ROWS:
        problem = f"has rows of {_span(first)} by the clock of {zone}, with more than {MOST_ROWS:,} steps"
        raise BadInputError(rows.file, f"{problem} of {_span(step)}", "give fewer rows, or times in UTC")
    return times.iloc[0], step // 1_000_000, lengths // step


def _gaps(times: pd.Series[pd.Timestamp]) -> IntArray:
    """(rows - 1,) microseconds from each time to the next."""
    micros: IntArray = times.to_numpy("datetime64[us]").astype(np.int64)
    return np.diff(micros)


def _times(cells: list[str], zone: str | None) -> tuple[pd.Series[pd.Timestamp], pd.Series[pd.Timestamp]]:
    """Times in UTC, and what a clock in the zone shows then; not a time where a cell is none."""
    if all(map(_COMPACT.fullmatch, cells)):
        cells = [f"{cell[:8]}T{cell[8:]}" for cell in cells]
    epoch = _epoch_unit(cells)
    # pandas also takes words like now
    texts = pd.Series([cell if cell[:1].isdecimal() else "" for cell in cells], dtype=object)
    if epoch is not None:
        times = pd.to_datetime(
            pd.Series([int(cell) for cell in cells]), unit=epoch, utc=True, errors="coerce"
        )
    elif zone is None or any(map(_says_its_zone, cells)):
        times = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    else:
        clock = pd.to_datetime(texts, format="ISO8601", errors="coerce")
        return _localized(clock, zone).dt.tz_convert("UTC"), clock
    return times, times.dt.tz_convert(zone or "UTC").dt.tz_localize(None)


def _localized(clock: pd.Series[pd.Timestamp], zone: str) -> pd.Series[pd.Timestamp]:
    """What a clock shows, with its zone; not a time where it never shows it, or twice in no known order."""
    if (clock.diff().iloc[1:] == pd.Timedelta(days=1)).all():
        # A day begins with its first moment, also where clocks change at midnight.
        return clock.dt.tz_localize(zone, ambiguous=np.ones(len(clock), bool), nonexistent="shift_forward")
    try:
        return clock.dt.tz_localize(zone, ambiguous="infer", nonexistent="NaT")
    except ValueError:  # the hour that comes twice is there once, or is no whole hour
        return clock.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")


_COMPACT = re.compile(
    r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])([01][0-9]|2[0-4])([0-5][0-9]){,2}"
)
"""Year to hour, minute or second, without marks. Seconds since 1970 have 10 digits, too, but steps of them
are soon no hour of a day, and up to 2030 no year from 1900 on."""

_EPOCHS: dict[int, Literal["s", "ms"]] = {10: "s", 13: "ms"}
"""Digits of times since 1970 -> their unit, from 2001 on."""


def _epoch_unit(cells: list[str]) -> Literal["s", "ms"] | None:
    """The unit of times that are numbers; None: they are not."""
    lengths = {len(cell) if cell.isdecimal() else 0 for cell in cells}
    return _EPOCHS.get(lengths.pop()) if len(lengths) == 1 else None


def _says_its_zone(cell: str) -> bool:
    time = cell[10:]
    return time.endswith("Z") or "+" in time or "-" in time


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


def _decimal_marks(rows: _Rows, columns: Mapping[str, str], cells: Mapping[str, list[str]]) -> dict[str, str]:
    """Role -> the decimal mark of its column, by what the column shows, or else the whole file.

    `1.234` is a number with either mark, `1.5`, `0.123` and `1.234.567` are so with one only.

    Raises:
        BadInputError: a column shows both, or neither the column nor the file shows which one it is.
    """
    shown = {
        role: {mark: k for mark in _OTHER if (k := _first_showing(mark, cells[role])) is not None}
        for role in columns
    }
    of_file = {mark for marks in shown.values() for mark in marks}
    decimals = {}
    for role, column in columns.items():
        marks = shown[role] or of_file
        if len(shown[role]) == 2:
            point, k = shown[role]["."], shown[role][","]
            problem = f"{cells[role][k]!r} has a decimal comma, {rows.at(point)} a decimal point"
            raise rows.refuse(
                k,
                column,
                f"{problem} ({cells[role][point]!r})",
                "write numbers with a decimal point, and without other marks",
            )
        if len(marks) != 1:
            unclear = _unclear(cells[role], points=rows.delimiter == ",", alone=not marks)
            if unclear is not None:
                cell = cells[role][unclear]
                whole, part = re.sub("[.,]", "", cell), cell.replace(",", ".")
                remedy = f"write it as {whole}, or as {part}0"
                raise rows.refuse(unclear, column, f"{cell!r} may be thousands or decimals", remedy)
        decimals[role] = next(iter(marks)) if len(marks) == 1 else "."
    return decimals


def _first_showing(mark: str, cells: list[str]) -> int | None:
    """The first number that can be read with this decimal mark only; None: there is none."""
    other = _OTHER[mark]
    for k, cell in enumerate(cells):
        if (
            (mark in cell or cell.count(other) > 1)  # first, as it is fast
            and _WRITTEN[mark].fullmatch(cell)
            and not _WRITTEN[other].fullmatch(cell)
        ):
            return k
    return None


def _unclear(cells: list[str], *, points: bool, alone: bool) -> int | None:
    """The first cell whose mark may be either in a column that does not show it; None: points are decimal.

    A point is no decimal mark only beside whole numbers below 1,000, which have none then, and without
    longer ones, which would have one. Where all but 0 have three decimals, that is how they are written.

    Args:
        cells: of the column.
        points: are decimal, as where commas stand between cells.
        alone: the rest of the file shows no mark either; else it shows both.
    """
    bare = (cell.lstrip("+-") for cell in cells)
    digits = {len(cell) for cell in bare if cell.isdecimal() and cell.strip("0")}
    points = points or (alone and (not digits or max(digits) > 3))
    for k, cell in enumerate(cells):
        if ("," in cell or (not points and "." in cell)) and _WRITTEN["."].fullmatch(cell):
            return k
    return None


def _numbers(
    rows: _Rows, column: str, cells: list[str], filled: BoolArray, *, decimal: str, supply: bool
) -> tuple[FloatArray, int]:
    """(steps,) values, and how many became 0; rows that are `filled` get the mean of their neighbours."""
    texts = cells
    if decimal == "," or any("," in cell for cell in cells):
        texts = [
            cell.replace(_OTHER[decimal], "").replace(decimal, ".")
            if _WRITTEN[decimal].fullmatch(cell)
            else ""
            for cell in cells
        ]
    values = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64, copy=True)
    zeroed = np.zeros(len(values), bool)
    if supply:
        highest = np.max(values, initial=0.0, where=np.isfinite(values))
        zeroed = (values < 0) & (values >= -SMALL * highest)
        values[zeroed] = 0.0
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
        raise rows.refuse(k, column, problem, "give a number from 0 on")
    lone = np.flatnonzero(filled)
    values[lone] = (values[lone - 1] + values[lone + 1]) / 2
    return values, int(zeroed.sum())
