"""Columns of numbers in a power file: decimal marks, marks between thousands, and values."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlsched.jobs import FloatArray
from rlsched.power.csv_columns import Rows

IDLE_DRAW_SHARE = 0.05
"""A negative value up to this share of the highest value is the draw of an idle plant."""

LARGEST = 1e12
"""A larger value is not a measurement, and sums of such values lose digits."""

OTHER_MARK = {".": ",", ",": "."}
"""Decimal mark -> the mark between thousands."""
_NUMBER = {
    decimal: re.compile(
        rf"[-+]?([0-9]*([{decimal}][0-9]*)?(e[-+]?[0-9]+)?"
        rf"|[1-9][0-9]{{,2}}([{mark}][0-9]{{3}})+([{decimal}][0-9]*)?)",
        re.IGNORECASE,
    )
    for decimal, mark in OTHER_MARK.items()
}
"""Decimal mark -> numbers with it; a number with marks between thousands does not begin with 0."""

BoolArray = NDArray[np.bool_]


def decimal_marks(rows: Rows, columns: Mapping[str, str], cells: Mapping[str, list[str]]) -> dict[str, str]:
    """Find the decimal mark of each column, from its numbers or else from the whole file.

    `1.234` is a number with either mark; `1.5`, `0.123` and `1.234.567` have one meaning only.

    Returns:
        Role -> decimal mark.

    Raises:
        BadInputError: a column has both decimal marks, or the mark is ambiguous.
    """
    evidence = {
        role: {mark: k for mark in OTHER_MARK if (k := _first_unambiguous(mark, cells[role])) is not None}
        for role in columns
    }
    of_file = {mark for marks in evidence.values() for mark in marks}
    decimals = {}
    for role, column in columns.items():
        marks = evidence[role] or of_file
        if len(evidence[role]) == 2:
            point, k = evidence[role]["."], evidence[role][","]
            problem = f"{cells[role][k]!r} has a decimal comma, {rows.label(point)} a decimal point"
            problem = f"{problem} ({cells[role][point]!r})"
            remedy = "write numbers with a decimal point, and without other marks"
            raise rows.cell_error(k, column, problem, remedy)
        if len(marks) != 1:
            ambiguous = _first_ambiguous(cells[role], points=rows.delimiter == ",", alone=not marks)
            if ambiguous is not None:
                cell = cells[role][ambiguous]
                whole, part = re.sub("[.,]", "", cell), cell.replace(",", ".")
                remedy = f"write it as {whole}, or as {part}0"
                raise rows.cell_error(ambiguous, column, f"{cell!r} may be thousands or decimals", remedy)
        decimals[role] = next(iter(marks)) if len(marks) == 1 else "."
    return decimals


def _first_unambiguous(mark: str, cells: list[str]) -> int | None:
    """Index of the first number that has a meaning with this decimal mark only; None: there is none."""
    thousands = OTHER_MARK[mark]
    for k, cell in enumerate(cells):
        if (
            (mark in cell or cell.count(thousands) > 1)  # fast, so it comes first
            and _NUMBER[mark].fullmatch(cell)
            and not _NUMBER[thousands].fullmatch(cell)
        ):
            return k
    return None


def _first_ambiguous(cells: list[str], *, points: bool, alone: bool) -> int | None:
    """Index of the first cell with an ambiguous mark, in a column without evidence; None: points are decimal.

    Points are thousands only if the other numbers are whole and below 1,000. A longer number without a point
    shows that the file has no marks between thousands. If all numbers but 0 have three decimals, points are
    decimal.

    Args:
        cells: of the column.
        points: points are decimal, as the delimiter is a comma.
        alone: the rest of the file has no evidence either; otherwise it has both marks.
    """
    unsigned = (cell.lstrip("+-") for cell in cells)
    digits = {len(cell) for cell in unsigned if cell.isdecimal() and cell.strip("0")}
    points = points or (alone and (not digits or max(digits) > 3))
    for k, cell in enumerate(cells):
        if ("," in cell or (not points and "." in cell)) and _NUMBER["."].fullmatch(cell):
            return k
    return None


def parse_numbers(
    rows: Rows, column: str, cells: list[str], filled: BoolArray, *, decimal: str, supply: bool
) -> tuple[FloatArray, int]:
    """Parse the numbers of a column.

    Args:
        rows: of the file, for messages.
        column: its name.
        cells: of the column.
        filled: (rows,) blank rows that get the mean of their neighbours.
        decimal: its decimal mark.
        supply: small negative values become 0.

    Returns:
        (rows,) values, and the number of values that became 0.

    Raises:
        BadInputError: a cell is not a number from 0 to `LARGEST`.
    """
    texts = cells
    if decimal == "," or any("," in cell for cell in cells):
        texts = [
            cell.replace(OTHER_MARK[decimal], "").replace(decimal, ".")
            if _NUMBER[decimal].fullmatch(cell)
            else ""
            for cell in cells
        ]
    values = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64, copy=True)
    zeroed = np.zeros(len(values), bool)
    if supply:
        highest = np.max(values, initial=0.0, where=np.isfinite(values))
        zeroed = (values < 0) & (values >= -IDLE_DRAW_SHARE * highest)
        values[zeroed] = 0.0
    bad = ~((values >= 0) & (values <= LARGEST)) & ~filled  # nan fails both
    if bad.any():
        k = int(bad.argmax())
        if not cells[k]:
            problem = "is blank"
        elif np.isnan(values[k]):
            problem = f"{cells[k]!r} is not a number"
        else:
            problem = (
                f"{cells[k]!r} is negative" if values[k] < 0 else f"{cells[k]!r} is more than {LARGEST:g}"
            )
        raise rows.cell_error(k, column, problem, "give a number from 0 on")
    lone = np.flatnonzero(filled)
    values[lone] = (values[lone - 1] + values[lone + 1]) / 2
    return values, int(zeroed.sum())
