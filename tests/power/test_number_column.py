"""Columns of numbers: decimal marks, thousands, and cells that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.power import table
from tests.power.files import HEADER, five_hours, power_file, read, refused, time_at


def columns_of(folder: Path, wind: str, sun: str, carbon: str = "300", mark: str = ";") -> Path:
    """A file of three columns, each with its cells between blanks; the last cell goes on."""
    columns = [cells.split() for cells in (wind, sun, carbon)]
    rows = max(map(len, columns))
    cells = [[f'"{cell}"' for cell in column + column[-1:] * (rows - len(column))] for column in columns]
    lines = (mark.join([time_at(k), *row]) for k, row in enumerate(zip(*cells, strict=True)))
    return power_file(folder, HEADER.replace(",", mark), *lines)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("wind", "sun", "values"),
    [
        ("1,5 2 1,25e1", "0", [1.5, 2, 12.5]),
        ("987 1.002 12.345", "0,5 1,5", [987, 1002, 12345]),  # another column shows the decimal mark
        ("987 1,002 12,345", "0.5 1.5", [987, 1002, 12345]),
        ("987 1.002 12.345", "0,123", [987, 1002, 12345]),  # no group of thousands begins with 0
        ("987 1.234,5 1.234", "0", [987, 1234.5, 1234]),
        ("987 1.234.567 1.234", "0", [987, 1234567, 1234]),
        ("0,123 1,234", "0", [0.123, 1.234]),
        ("1.5 987 1.234", "0,5", [1.5, 987, 1.234]),  # a column is believed before the others
        ("987 1.002 0.5", "0", [987, 1.002, 0.5]),
        ("987 1.002 2.50", "0", [987, 1.002, 2.5]),
        ("987 1.002 1.5e3", "0", [987, 1.002, 1500]),
        ("1.002 0 -0.000 12.345 100.000", "0", [1.002, 0, 0, 12.345, 100]),  # decimals throughout
        ("987 1.002 1234", "0", [987, 1.002, 1234]),  # no marks of thousands here
        ("987 1.002 1234.567", "0", [987, 1.002, 1234.567]),
    ],
)
def test_a_file_shows_its_decimal_mark(
    tmp_path: Path, wind: str, sun: str, values: list[float], mark: str
) -> None:
    assert read(columns_of(tmp_path, wind, sun, mark=mark)).columns["wind"].tolist() == values


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("wind", "sun", "carbon", "problem"),
    [
        ("987 1,002 12,345", "0 5", "300", "row 3, column 'WND': '1,002' may be thousands or decimals"),
        ("1,002 12,345", "0 5", "300", "row 2, column 'WND': '1,002' may be thousands or decimals"),
        (
            "1,5 2,5 1.5",
            "0",
            "300",
            "row 2, column 'WND': '1,5' has a decimal comma, row 4 a decimal point ('1.5')",
        ),
        ("1,5 1,2,3", "0", "300", "row 3, column 'WND': '1,2,3' is not a number"),
        ("1,5 0.123.456", "0", "300", "row 3, column 'WND': '0.123.456' is not a number"),
        (
            "1.5 1,23",
            "0.5",
            "300",
            "row 3, column 'WND': '1,23' has a decimal comma, row 2 a decimal point ('1.5')",
        ),
        ("1.5 2", "0.5", "1,23,456", "row 2, column 'avg_CI': '1,23,456' is not a number"),
    ],
)
def test_ambiguous_numbers_are_refused(
    tmp_path: Path, wind: str, sun: str, carbon: str, problem: str, mark: str
) -> None:
    error = refused(columns_of(tmp_path, wind, sun, carbon, mark))
    assert error.problem == problem


@pytest.mark.parametrize(
    ("wind", "sun", "carbon", "problem"),
    [
        ("987 1.002 12.345", "0 5", "300", "row 3, column 'WND': '1.002' may be thousands or decimals"),
        ("0 -12 1.234", "0 5", "300", "row 4, column 'WND': '1.234' may be thousands or decimals"),
        ("1.5 2.5", "0,5", "1.234", "row 2, column 'avg_CI': '1.234' may be thousands or decimals"),
    ],
)
def test_ambiguous_points_are_refused_unless_commas_separate_cells(
    tmp_path: Path, wind: str, sun: str, carbon: str, problem: str
) -> None:
    for mark in (";", "\t"):
        assert refused(columns_of(tmp_path, wind, sun, carbon, mark)).problem == problem


def test_points_are_decimal_where_commas_separate_cells(tmp_path: Path) -> None:
    power_table = read(columns_of(tmp_path, "1.234 12 3.456", "0", mark=","))
    assert (power_table.columns["wind"].tolist(), power_table.repairs) == ([1.234, 12, 3.456], {})


def test_marks_between_thousands_are_counted(tmp_path: Path) -> None:
    power_table = read(columns_of(tmp_path, "987 1.002 12.345", "0,5 1,5 2,5", mark=";"))
    assert power_table.columns["wind"].tolist() == [987, 1002, 12345]
    assert power_table.repairs == {table.THOUSANDS_REMOVED: 2}


def test_one_unambiguous_cell_settles_a_column(tmp_path: Path) -> None:
    error = refused(columns_of(tmp_path, "987 1.002 12.345", "0", mark=";"))
    assert error.remedy == "write it as 1002, or as 1.0020"
    assert read(columns_of(tmp_path, "987 1.0020 12.345", "0")).columns["wind"].tolist() == [
        987,
        1.002,
        12.345,
    ]


CELLS = {
    "negative": ("-1.5", "'-1.5' is negative"),
    "nan": ("NaN", "'NaN' is not a number"),
    "blank": ("", "is blank"),
    "spaces": ("  ", "is blank"),
    "text": ("n/a", "'n/a' is not a number"),
    "two commas": ('"1,5,0"', "'1,5,0' is not a number"),
    "underscore": ("1_000", "'1_000' is not a number"),
    "infinite": ("inf", "'inf' is more than 1e+12"),
    "too large": ("1e13", "'1e13' is more than 1e+12"),
}


@pytest.mark.parametrize("case", CELLS)
@pytest.mark.parametrize(("column", "name"), [(1, "WND"), (2, "SUN"), (3, "avg_CI")])
def test_an_invalid_cell_is_refused(tmp_path: Path, column: int, name: str, case: str) -> None:
    cell, problem = CELLS[case]
    lines = five_hours()
    cells = lines[3].split(",")
    cells[column] = cell
    lines[3] = ",".join(cells)
    error = refused(power_file(tmp_path, *lines))
    assert error.problem == f"row 4, column {name!r}: {problem}"
    assert error.remedy == "give a number from 0 on"
