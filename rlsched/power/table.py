"""Power files: the CSV of a grid or a site, read as it is and checked row by row.

Rows count from 1, as a spreadsheet shows them, with the lines above the header.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray
from rlsched.power.csv_columns import REMEDY, read_columns
from rlsched.power.number_column import OTHER_MARK, decimal_marks, parse_numbers
from rlsched.power.time_column import time_steps

BLANK_ROWS_FILLED, NEGATIVES_ZEROED = "blank_rows_filled", "small_negatives_zeroed"
THOUSANDS_REMOVED = "thousands_marks_removed"
"""Repairs that are counted."""

SUPPLY = ("wind", "solar")
"""Columns in which a small negative value is the draw of an idle plant."""

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PowerTable:
    """The requested columns of a power file.

    Attributes:
        start: of the first step, in UTC.
        steps: number of steps; more than rows where a clock change divides rows.
        columns: role -> (steps,) values as written, all finite and >= 0; read-only.
        repairs: kind of repair -> count; only counts above 0.
    """

    start: pd.Timestamp
    step_s: int
    steps: int
    columns: dict[str, FloatArray]
    repairs: dict[str, int]


def read(
    path: str | Path,
    *,
    time: str,
    columns: Mapping[str, str] | tuple[tuple[str, str], ...],
    zone: str | None = None,
) -> PowerTable:
    """Read a power file, plain or gzip.

    Grids leave a row blank where they did not report. One blank row between two full ones becomes their
    mean. An idle plant draws power, a small negative value, which becomes 0. Both repairs are counted; there
    are no others. Rows by the clock of a zone, whose length changes, are divided into steps of one length.

    Args:
        path: a CSV with a header, below any other lines, separated by commas, semicolons or tabs, and times
            in one constant step: ISO 8601, digits from the year to the hour or on, or seconds or milliseconds
            since 1970. Decimal commas are supported, and marks between thousands where the column, or else
            the file, shows which of the two a mark is.
        time: name of the column of times.
        columns: role (the key of `power.columns`) -> name of a column to read; others are ignored.
        zone: of times without one, as Europe/Stockholm; None: UTC.

    Raises:
        BadInputError: the file is not such a CSV, lacks a column, or has an invalid cell; the message names
            the row and column of the first one.
    """
    name, columns = str(path), dict(columns)
    roles = {"time": time, **columns}
    rows, cells = read_columns(Path(path), roles)
    times = cells["time"]
    if len(times) < 2:
        raise BadInputError(name, f"has {len(times)} rows below its header, too few for a step", REMEDY)
    start, step_s, counts = time_steps(rows, time, times, zone)
    blank = [not any(row) for row in zip(*(cells[role] for role in columns), strict=True)]
    filled = _lone_blanks(np.array(blank))
    decimals = decimal_marks(rows, columns, cells)
    values, zeroed, thousands = {}, 0, 0
    for role in columns:
        numbers, count = parse_numbers(
            rows, columns[role], cells[role], filled, decimal=decimals[role], supply=role in SUPPLY
        )
        values[role] = numbers.repeat(counts)
        values[role].setflags(write=False)  # all readers of the file share it
        zeroed += count
        thousands += sum(OTHER_MARK[decimals[role]] in cell for cell in cells[role])
    repairs = {BLANK_ROWS_FILLED: int(filled.sum()), NEGATIVES_ZEROED: zeroed, THOUSANDS_REMOVED: thousands}
    return PowerTable(
        start=start,
        step_s=step_s,
        steps=int(counts.sum()),
        columns=values,
        repairs={name: count for name, count in repairs.items() if count},
    )


def _lone_blanks(blank: BoolArray) -> BoolArray:
    """(rows,) blank rows between two rows that are not."""
    lone = blank.copy()
    lone[[0, -1]] = False
    lone[1:] &= ~blank[:-1]
    lone[:-1] &= ~blank[1:]
    return lone
