"""Power files: values by role, repairs, and real files."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlsched.power import table
from tests.power.files import five_hours, power_file, read, refused, rows_of


def test_columns_are_read_by_role(tmp_path: Path) -> None:
    power_table = read(power_file(tmp_path, *five_hours()))
    assert (power_table.start, power_table.step_s, power_table.steps) == (
        pd.Timestamp("2022-01-01", tz="UTC"),
        3600,
        5,
    )
    assert {role: values.tolist() for role, values in power_table.columns.items()} == {
        "wind": [1, 2, 3, 4, 5],
        "solar": [0, 0, 10, 20, 10],
        "carbon": [400, 300, 200, 100, 200],
    }
    assert power_table.repairs == {}


def test_unused_columns_may_hold_anything(tmp_path: Path) -> None:
    path = power_file(tmp_path, "note,sun,t", "a,1,2022-01-01 00:00", "-3,2,2022-01-01 01:00")
    power_table = read(path, "t", solar="sun")
    assert {role: values.tolist() for role, values in power_table.columns.items()} == {"solar": [1, 2]}


def test_lone_blank_rows_get_the_mean_of_their_neighbours(tmp_path: Path) -> None:
    lines = rows_of([1, "", 4, "", 6], [0, "", 10, " ", 30], [400, "", 200, "", 300])
    power_table = read(power_file(tmp_path, *lines))
    assert {role: values.tolist() for role, values in power_table.columns.items()} == {
        "wind": [1, 2.5, 4, 5, 6],
        "solar": [0, 5, 10, 20, 30],
        "carbon": [400, 300, 200, 250, 300],
    }
    assert power_table.repairs == {table.BLANK_ROWS_FILLED: 2}


def test_only_requested_columns_make_a_row_blank(tmp_path: Path) -> None:
    lines = rows_of([1, "", 4], [0, "", 10], [400, "", 200])
    path = power_file(tmp_path, *(f"{line},{k or 'OIL'}" for k, line in enumerate(lines)))
    assert read(path).columns["wind"].tolist() == [1, 2.5, 4]
    lines = rows_of([1, "", 4], [0, "", 10], [400, 300, 200])
    path = power_file(tmp_path, *lines)
    assert read(path, wind="WND", solar="SUN").repairs == {table.BLANK_ROWS_FILLED: 1}
    assert refused(path).problem == "row 3, column 'WND': is blank"


def test_the_draw_of_idle_plants_becomes_zero(tmp_path: Path) -> None:
    power_table = read(power_file(tmp_path, *rows_of([-0.2, 2, 4], [-0.5, 10, -0.01], [0, 1, 2])))
    assert power_table.columns["solar"].tolist() == [0, 10, 0]
    assert power_table.columns["wind"].tolist() == [0, 2, 4]
    assert power_table.repairs == {table.NEGATIVES_ZEROED: 3}
    error = refused(power_file(tmp_path, *rows_of([0, 2, 4], [-0.51, 10, 0], [0, 1, 2])))
    assert error.problem == "row 2, column 'SUN': '-0.51' is negative"
    error = refused(power_file(tmp_path, *rows_of([0, 2, 4], [0, 10, 0], [-0.01, 1, 2])))
    assert error.problem == "row 2, column 'avg_CI': '-0.01' is negative"


@pytest.mark.parametrize(("blank", "row"), [([0], 2), ([4], 6), ([1, 2], 3), ([1, 3, 4], 5)])
def test_blank_rows_without_full_neighbours_are_refused(tmp_path: Path, blank: list[int], row: int) -> None:
    values = ["" if k in blank else 1 for k in range(5)]
    error = refused(power_file(tmp_path, *rows_of(values, values, values)))
    assert error.problem == f"row {row}, column 'WND': is blank"


@pytest.mark.parametrize(
    ("grid", "repairs", "highest"),
    [
        ("BPAT", {}, {"wind": 2621, "solar": 135, "carbon": 113.70386182987134}),
        ("CISO", {table.BLANK_ROWS_FILLED: 3}, {"wind": 5393, "solar": 13713, "carbon": 449.03303796725544}),
        ("ERCO", {}, {"wind": 26871, "solar": 10039, "carbon": 516.6858725048294}),
    ],
)
def test_real_files(data_dir: Path, grid: str, repairs: dict[str, int], highest: dict[str, float]) -> None:
    begin = time.perf_counter()
    power_table = read(data_dir / "power" / f"{grid}-2022-hourly.csv")
    assert time.perf_counter() - begin < 2  # 0.05 s on an idle core
    assert (power_table.start, power_table.step_s, power_table.steps) == (
        pd.Timestamp("2022-01-01", tz="UTC"),
        3600,
        8760,
    )
    assert power_table.repairs == repairs
    assert {role: values.max() for role, values in power_table.columns.items()} == pytest.approx(highest)


def test_rows_are_counted_as_a_spreadsheet_shows_them_in_real_files(data_dir: Path, tmp_path: Path) -> None:
    lines = (data_dir / "power" / "CISO-2022-hourly.csv").read_text().splitlines()
    path = power_file(tmp_path, *lines[:5000], *lines[5001:])
    assert "row 5001, column 'timestamp'" in refused(path).problem
    lines[107] = lines[107].replace(",,,", ",1,2,", 1)  # one of the blank rows, in part
    assert refused(power_file(tmp_path, *lines)).problem.startswith("row 108, column 'avg_CI': is blank")


def test_columns_are_read_only(tmp_path: Path) -> None:
    values = read(power_file(tmp_path, *five_hours())).columns["wind"]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 7
    assert values.dtype == np.float64
