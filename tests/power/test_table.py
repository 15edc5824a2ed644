"""Power files that are read as they are, and those that are refused with the row."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlsched.errors import BadInputError
from rlsched.power import table
from rlsched.power.table import PowerTable
from tests.power.files import HEADER, five_hours, power_file, rows_of, time_at

COLUMNS = {"wind": "WND", "solar": "SUN", "carbon": "avg_CI"}


def read(path: Path, time: str = "timestamp", **columns: str) -> PowerTable:
    return table.read(path, time=time, columns=columns or COLUMNS)


def refused(path: Path, time: str = "timestamp", **columns: str) -> BadInputError:
    """The refusal, which is one line and names the file and what to do."""
    with pytest.raises(BadInputError) as caught:
        read(path, time, **columns)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return caught.value


def test_columns_are_read_by_role(tmp_path: Path) -> None:
    got = read(power_file(tmp_path, *five_hours()))
    assert (got.start, got.step_s, got.steps) == (pd.Timestamp("2022-01-01", tz="UTC"), 3600, 5)
    assert {role: values.tolist() for role, values in got.columns.items()} == {
        "wind": [1, 2, 3, 4, 5],
        "solar": [0, 0, 10, 20, 10],
        "carbon": [400, 300, 200, 100, 200],
    }
    assert got.repairs == {}


def test_other_columns_are_ignored_whatever_they_hold(tmp_path: Path) -> None:
    path = power_file(tmp_path, "note,sun,t", "a,1,2022-01-01 00:00", "-3,2,2022-01-01 01:00")
    got = read(path, "t", solar="sun")
    assert {role: values.tolist() for role, values in got.columns.items()} == {"solar": [1, 2]}


@pytest.mark.parametrize(
    "content",
    [
        "\r\n".join(five_hours()),
        "\ufeff" + "\n".join(five_hours()) + "\n\n  \n",
        "\n".join(line.replace(",", " , ") for line in five_hours()),
        "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in five_hours()),
    ],
    ids=["CRLF", "byte order mark and blank end", "blanks around cells", "quotes"],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_ways_to_write_the_same(tmp_path: Path, content: str, compress: type[bytes]) -> None:
    path = tmp_path / "power.csv"
    path.write_bytes(compress(content.encode()))
    assert read(path).columns["wind"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("times", "start", "step_s"),
    [
        (["2022-03-13 00:00", "2022-03-13 01:00"], "2022-03-13T00:00Z", 3600),
        (["2022-03-13T00:00:00Z", "2022-03-13T00:30:00Z"], "2022-03-13T00:00Z", 1800),
        (
            ["2022-03-13 01:00-08:00", "2022-03-13 03:00-07:00"],
            "2022-03-13T09:00Z",
            3600,
        ),  # clocks go forward
        (["2022-11-06 01:00-07:00", "2022-11-06 01:00-08:00"], "2022-11-06T08:00Z", 3600),  # and back
        (["2022-01-01", "2022-01-02", "2022-01-03"], "2022-01-01T00:00Z", 86_400),
        (["2022-01-01 00:00:30", "2022-01-01 00:01:30"], "2022-01-01T00:00:30Z", 60),
    ],
)
def test_times_are_aligned_to_utc(tmp_path: Path, times: list[str], start: str, step_s: int) -> None:
    got = read(power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times)), solar="SUN")
    assert (got.start, got.step_s) == (pd.Timestamp(start), step_s)


def test_lone_blank_rows_get_the_mean_of_their_neighbours(tmp_path: Path) -> None:
    lines = rows_of([1, "", 4, "", 6], [0, "", 10, " ", 30], [400, "", 200, "", 300])
    got = read(power_file(tmp_path, *lines))
    assert {role: values.tolist() for role, values in got.columns.items()} == {
        "wind": [1, 2.5, 4, 5, 6],
        "solar": [0, 5, 10, 20, 30],
        "carbon": [400, 300, 200, 250, 300],
    }
    assert got.repairs == {table.BLANK_ROWS_FILLED: 2}


def test_blank_rows_are_those_of_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    lines = rows_of([1, "", 4], [0, "", 10], [400, "", 200])
    path = power_file(tmp_path, *(f"{line},{k or 'OIL'}" for k, line in enumerate(lines)))
    assert read(path).columns["wind"].tolist() == [1, 2.5, 4]
    lines = rows_of([1, "", 4], [0, "", 10], [400, 300, 200])
    path = power_file(tmp_path, *lines)
    assert read(path, wind="WND", solar="SUN").repairs == {table.BLANK_ROWS_FILLED: 1}
    assert refused(path).problem == "row 3, column 'WND': is blank"


def test_what_plants_draw_at_night_is_nothing(tmp_path: Path) -> None:
    got = read(power_file(tmp_path, *rows_of([-0.2, 2, 4], [-0.5, 10, -0.01], [0, 1, 2])))
    assert got.columns["solar"].tolist() == [0, 10, 0]
    assert got.columns["wind"].tolist() == [0, 2, 4]
    assert got.repairs == {table.NEGATIVES_ZEROED: 3}
    error = refused(power_file(tmp_path, *rows_of([0, 2, 4], [-0.51, 10, 0], [0, 1, 2])))
    assert error.problem == "row 2, column 'SUN': '-0.51' is negative"
    error = refused(power_file(tmp_path, *rows_of([0, 2, 4], [0, 10, 0], [-0.01, 1, 2])))
    assert error.problem == "row 2, column 'avg_CI': '-0.01' is negative"


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
        ("1,5 1,2,3", "0", "300", "row 3, column 'WND': '1,2,3' is no number"),
        ("1,5 0.123.456", "0", "300", "row 3, column 'WND': '0.123.456' is no number"),
        (
            "1.5 1,23",
            "0.5",
            "300",
            "row 3, column 'WND': '1,23' has a decimal comma, row 2 a decimal point ('1.5')",
        ),
        ("1.5 2", "0.5", "1,23,456", "row 2, column 'avg_CI': '1,23,456' is no number"),
    ],
)
def test_numbers_that_may_be_two_are_refused(
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
def test_points_that_may_be_two_are_refused_where_no_commas_stand_between_cells(
    tmp_path: Path, wind: str, sun: str, carbon: str, problem: str
) -> None:
    for mark in (";", "\t"):
        assert refused(columns_of(tmp_path, wind, sun, carbon, mark)).problem == problem


def test_points_are_decimal_where_commas_stand_between_cells(tmp_path: Path) -> None:
    got = read(columns_of(tmp_path, "1.234 12 3.456", "0", mark=","))
    assert (got.columns["wind"].tolist(), got.repairs) == ([1.234, 12, 3.456], {})


def test_marks_between_thousands_are_counted(tmp_path: Path) -> None:
    got = read(columns_of(tmp_path, "987 1.002 12.345", "0,5 1,5 2,5", mark=";"))
    assert got.columns["wind"].tolist() == [987, 1002, 12345]
    assert got.repairs == {table.THOUSANDS_REMOVED: 2}


def test_one_cell_that_is_written_as_it_is_meant_settles_a_column(tmp_path: Path) -> None:
    error = refused(columns_of(tmp_path, "987 1.002 12.345", "0", mark=";"))
    assert error.remedy == "write it as 1002, or as 1.0020"
    assert read(columns_of(tmp_path, "987 1.0020 12.345", "0")).columns["wind"].tolist() == [
        987,
        1.002,
        12.345,
    ]


@pytest.mark.parametrize("unit", [1, 1000])
def test_times_may_be_seconds_or_milliseconds_since_1970(tmp_path: Path, unit: int) -> None:
    times = [(1_704_067_200 + 3600 * k) * unit for k in range(3)]
    got = read(power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times)), solar="SUN")
    assert (got.start, got.step_s) == (pd.Timestamp("2024-01-01", tz="UTC"), 3600)
    # Days without marks between their parts are no such numbers.
    got = read(power_file(tmp_path, "timestamp,SUN", "20240101,1", "20240102,1"), solar="SUN")
    assert (got.start, got.step_s) == (pd.Timestamp("2024-01-01", tz="UTC"), 86_400)


@pytest.mark.parametrize(
    ("times", "start", "step_s"),
    [
        ("2024030100 2024030200 2024030300", "2024-03-01T00:00", 86_400),
        ("2024022923 2024030100 2024030101", "2024-02-29T23:00", 3600),
        ("202403010000 202403010015", "2024-03-01T00:00", 900),
        ("20240301000000 20240301000500", "2024-03-01T00:00", 300),
        ("1901010100 1901010101", "1901-01-01T00:00", 3600),
        ("1900000000 1900003600", "2030-03-17T17:46:40", 3600),  # seconds since 1970: no month 00
        ("2024010100 2024013700", "2034-02-20T01:01:40", 3600),  # no day 37
    ],
)
def test_times_may_be_the_digits_of_a_day_and_an_hour(
    tmp_path: Path, times: str, start: str, step_s: int
) -> None:
    got = read(power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times.split())), solar="SUN")
    assert (got.start, got.step_s) == (pd.Timestamp(start, tz="UTC"), step_s)


def test_digits_of_an_hour_that_is_none_are_refused(tmp_path: Path) -> None:
    path = power_file(tmp_path, "timestamp,SUN", *(f"202403{day:02}24,1" for day in range(1, 20)))
    assert refused(path, solar="SUN").problem == "row 2, column 'timestamp': '2024030124' is no ISO 8601 time"


def hours(zone: str, start: str, count: int) -> list[str]:
    """Local times of a clock, an hour after the other, without their zone."""
    return [str(at)[:19] for at in pd.date_range(start, periods=count, freq="h", tz="UTC").tz_convert(zone)]


@pytest.mark.parametrize("day", ["2024-03-30", "2024-10-26"])
def test_local_times_of_a_named_zone_go_over_changes_of_the_clock(tmp_path: Path, day: str) -> None:
    times = hours("Europe/Stockholm", day, 48)
    path = power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times))
    got = table.read(path, time="timestamp", columns={"solar": "SUN"}, zone="Europe/Stockholm")
    assert (got.start, got.step_s, got.steps) == (pd.Timestamp(day, tz="UTC"), 3600, 48)
    assert "power.time_zone" in (refused(path, solar="SUN").remedy or "")
    # What says its own zone has that one.
    path = power_file(tmp_path, "timestamp,SUN", *(f"{time_at(k)},1" for k in range(3)))
    got = table.read(path, time="timestamp", columns={"solar": "SUN"}, zone="America/Lima")
    assert got.start == pd.Timestamp("2022-01-01", tz="UTC")


def local(folder: Path, times: list[str], zone: str | None) -> PowerTable:
    """A file of these times, with values 1, 2, ..."""
    path = power_file(folder, "timestamp,SUN", *(f"{at},{k}" for k, at in enumerate(times, start=1)))
    return table.read(path, time="timestamp", columns={"solar": "SUN"}, zone=zone)


def on_clock(start: str, count: int, freq: str) -> list[str]:
    return [str(at) for at in pd.date_range(start, periods=count, freq=freq)]


@pytest.mark.parametrize(
    ("zone", "times", "start", "hours"),
    [
        ("Europe/Berlin", on_clock("2024-03-30", 3, "D"), "2024-03-29T23:00", [24, 23, 24]),
        ("Europe/Berlin", on_clock("2024-10-26", 3, "D"), "2024-10-25T22:00", [24, 25, 24]),
        ("Europe/Berlin", on_clock("2024-10-27", 3, "D"), "2024-10-26T22:00", [25, 24, 24]),
        ("Europe/Berlin", ["2024033000", "2024033100", "2024040100"], "2024-03-29T23:00", [24, 23, 24]),
        ("Europe/Berlin", on_clock("2024-10-26 18:00", 4, "6h"), "2024-10-26T16:00", [6, 7, 6, 6]),
        ("Europe/Berlin", on_clock("2024-03-31 00:00", 3, "3h"), "2024-03-30T23:00", [2, 3, 3]),
        ("America/Santiago", on_clock("2024-09-07", 3, "D"), "2024-09-07T04:00", [24, 23, 24]),  # at midnight
        ("America/Havana", on_clock("2024-11-02", 3, "D"), "2024-11-02T04:00", [24, 25, 24]),
        (
            "Europe/Berlin",
            ["2024-10-26T00:00+02:00", "2024-10-27T00:00+02:00", "2024-10-28T00:00+01:00"],
            "2024-10-25T22:00",
            [24, 25, 24],
        ),
        ("Europe/Berlin", ["1729893600", "1729980000", "1730070000"], "2024-10-25T22:00", [24, 25, 24]),
    ],
)
def test_days_of_a_clock_that_changes_last_as_long_as_they_do(
    tmp_path: Path, zone: str, times: list[str], start: str, hours: list[int]
) -> None:
    got = local(tmp_path, times, zone)
    assert (got.start, got.step_s, got.steps) == (pd.Timestamp(start, tz="UTC"), 3600, sum(hours))
    assert got.columns["solar"].tolist() == np.arange(1.0, len(times) + 1).repeat(hours).tolist()


def test_days_without_a_change_of_the_clock_stay_days(tmp_path: Path) -> None:
    got = local(tmp_path, on_clock("2024-05-01", 3, "D"), "Europe/Berlin")
    assert (got.step_s, got.columns["solar"].tolist()) == (86_400, [1, 2, 3])


@pytest.mark.parametrize(
    ("zone", "times", "message"),
    [
        (
            "Europe/Berlin",
            on_clock("2024-03-29", 5, "D") + on_clock("2024-04-04", 2, "D"),
            r"row 7, .* comes 48 h after row 6, where the first step is 24 h; fill in the rows .* missing$",
        ),
        ("Europe/Berlin", ["2024-03-01", "2024-03-02", "2024-03-02"], "row 4, .* again; leave one row$"),
        (
            None,
            ["2024-03-30T00:00+01:00", "2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00"],
            "comes 23 h after .*; keep to one step; where clocks change, set power.time_zone$",
        ),
        (
            "Europe/Berlin",
            ["2024-10-27T01:40+02:00", "2024-10-27T02:10+01:00", "2024-10-27T02:40+02:00"],
            "row 4, .* is before row 3",
        ),
        # Clocks of places changed by seconds once.
        (
            "Europe/Berlin",
            on_clock("1893-03-30", 4, "D"),
            "by the clock of Europe/Berlin, .* or times in UTC$",
        ),
    ],
)
def test_a_remedy_names_no_time_zone_that_is_set(
    tmp_path: Path, zone: str | None, times: list[str], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        local(tmp_path, times, zone)


@pytest.mark.parametrize("at", ["2024-03-31 02:30:00", "2024-10-27 02:00:00"])
def test_local_times_that_are_never_or_twice_are_refused(tmp_path: Path, at: str) -> None:
    path = power_file(tmp_path, "timestamp,SUN", f"{at},1", "2024-12-01 00:00:00,1")
    with pytest.raises(BadInputError, match=f"row 2, column 'timestamp': '{at}' is there never, or twice"):
        table.read(path, time="timestamp", columns={"solar": "SUN"}, zone="Europe/Stockholm")


@pytest.mark.parametrize(("blank", "row"), [([0], 2), ([4], 6), ([1, 2], 3), ([1, 3, 4], 5)])
def test_blank_rows_without_full_neighbours_are_refused(tmp_path: Path, blank: list[int], row: int) -> None:
    values = ["" if k in blank else 1 for k in range(5)]
    error = refused(power_file(tmp_path, *rows_of(values, values, values)))
    assert error.problem == f"row {row}, column 'WND': is blank"


CELLS = {
    "negative": ("-1.5", "'-1.5' is negative"),
    "nan": ("NaN", "'NaN' is no number"),
    "blank": ("", "is blank"),
    "spaces": ("  ", "is blank"),
    "text": ("n/a", "'n/a' is no number"),
    "two commas": ('"1,5,0"', "'1,5,0' is no number"),
    "underscore": ("1_000", "'1_000' is no number"),
    "infinite": ("inf", "'inf' is more than 1e+12"),
    "too large": ("1e13", "'1e13' is more than 1e+12"),
}


@pytest.mark.parametrize("case", CELLS)
@pytest.mark.parametrize(("column", "name"), [(1, "WND"), (2, "SUN"), (3, "avg_CI")])
def test_a_cell_that_is_no_measurement_is_refused(tmp_path: Path, column: int, name: str, case: str) -> None:
    cell, problem = CELLS[case]
    lines = five_hours()
    cells = lines[3].split(",")
    cells[column] = cell
    lines[3] = ",".join(cells)
    error = refused(power_file(tmp_path, *lines))
    assert error.problem == f"row 4, column {name!r}: {problem}"
    assert error.remedy == "give a number from 0 on"


TIMES = {
    "missing hour": (
        [0, 1, 3, 4],
        f"row 4, column 'timestamp': {time_at(3)!r} comes 2 h after row 3, where the first step is 1 h",
        "fill in the rows that are missing; where clocks change, set power.time_zone",
    ),
    "missing second hour": (
        [0, 2, 3],
        f"row 4, column 'timestamp': {time_at(3)!r} comes 1 h after row 3, where the first step is 2 h",
        "keep to one step; where clocks change, set power.time_zone",
    ),
    "missing days": (
        [0, 1, 49],
        f"row 4, column 'timestamp': {time_at(49)!r} comes 48 h after row 3, where the first step is 1 h",
        "fill in the rows that are missing; where clocks change, set power.time_zone",
    ),
    "repeated hour": (
        [0, 1, 2, 2, 3],
        f"row 5, column 'timestamp': {time_at(2)!r} is the time of row 4 again",
        "leave one row; where clocks change, write times with their zone, or set power.time_zone",
    ),
    "repeated first hour": (
        [0, 0, 1],
        f"row 3, column 'timestamp': {time_at(0)!r} is the time of row 2 again",
        "leave one row; where clocks change, write times with their zone, or set power.time_zone",
    ),
    "out of order": (
        [0, 1, 3, 2],
        f"row 5, column 'timestamp': {time_at(2)!r} is before row 4",
        "put the rows in order of time",
    ),
    "local times of a spring and an autumn": (
        [0, 1, 3, 4, 5, 5, 6],
        f"row 7, column 'timestamp': {time_at(5)!r} is the time of row 6 again",
        "leave one row; where clocks change, write times with their zone, or set power.time_zone",
    ),
    "an earlier row": (
        [0, 1, 2, 1],
        f"row 5, column 'timestamp': {time_at(1)!r} is before row 4",
        "put the rows in order of time",
    ),
    "newest first": (
        [3, 2, 1],
        f"row 3, column 'timestamp': {time_at(2)!r} is before row 2",
        "put the rows in order of time",
    ),
    "step of two days": (
        [0, 48, 96],
        f"row 3, column 'timestamp': {time_at(48)!r} comes 48 h after row 2",
        "give whole seconds, from 1 min to 1 day",
    ),
}


@pytest.mark.parametrize("case", TIMES)
def test_times_without_one_step_are_refused(tmp_path: Path, case: str) -> None:
    steps, problem, remedy = TIMES[case]
    error = refused(power_file(tmp_path, HEADER, *(f"{time_at(step)},1,1,1" for step in steps)))
    assert (error.problem, error.remedy) == (problem, remedy)


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        (["2022-01-01 00:00:00", "2022-01-01 00:00:30"], "'2022-01-01 00:00:30' comes 30 s after row 2"),
        (
            ["2022-01-01 00:00:00", "2022-01-01 00:01:30.5"],
            "'2022-01-01 00:01:30.5' comes 90.5 s after row 2",
        ),
        (["2022-01-01 00:00", "2022-13-01 01:00"], "'2022-13-01 01:00' is no ISO 8601 time"),
        (["2022-01-01 00:00", "01/01/2022 01:00"], "'01/01/2022 01:00' is no ISO 8601 time"),
        (["2022-01-01 00:00", "now"], "'now' is no ISO 8601 time"),
        (["2022-01-01 00:00", "1640998800"], "'1640998800' is no ISO 8601 time"),
        (["2022-01-01 00:00", ""], "is blank"),
    ],
)
def test_times_that_cannot_be_steps_are_refused(tmp_path: Path, times: list[str], problem: str) -> None:
    error = refused(power_file(tmp_path, HEADER, *(f"{at},1,1,1" for at in times)))
    assert error.problem == f"row 3, column 'timestamp': {problem}"


@pytest.mark.parametrize(
    ("wrong", "role"),
    [({"time": "time"}, "time"), ({"wind": "wnd"}, "wind"), ({"wind": "WND", "carbon": "CI"}, "carbon")],
)
def test_a_wrong_column_name_is_refused_with_the_right_ones(
    tmp_path: Path, wrong: dict[str, str], role: str
) -> None:
    error = refused(power_file(tmp_path, *five_hours()), **wrong)
    assert error.problem == f"has no column {wrong[role]!r}, but timestamp, WND, SUN, avg_CI"
    assert error.remedy == f"set power.columns.{role} to the one that is meant"


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = power_file(tmp_path, "timestamp,SUN,SUN", f"{time_at(0)},1,1", f"{time_at(1)},1,1")
    assert refused(path, solar="SUN").problem == "has 2 columns 'SUN'"


@pytest.mark.parametrize("above", [[], ["# Source: x, y; z"], ["Power", "", "MW,MW", 'of 2"', ""]])
def test_lines_above_the_header_are_passed_over(tmp_path: Path, above: list[str]) -> None:
    assert read(power_file(tmp_path, *above, *five_hours())).columns["wind"].tolist() == [1, 2, 3, 4, 5]
    bad = rows_of([1, "n/a"], [0, 0], [400, 300])
    error = refused(power_file(tmp_path, *above, *bad))
    assert error.problem == f"row {3 + len(above)}, column 'WND': 'n/a' is no number"


def test_a_header_may_hold_the_marks_between_columns(tmp_path: Path) -> None:
    names = {"wind": "WND, MW", "solar": "SUN, MW", "carbon": "CI, g"}
    lines = (";".join(line.split(",")) for line in five_hours()[1:])
    path = power_file(tmp_path, ";".join(["timestamp", *names.values()]), *lines)
    assert read(path, **names).columns["wind"].tolist() == [1, 2, 3, 4, 5]
    # A name over two lines is one cell.
    head, *rows = five_hours()
    got = read(power_file(tmp_path, f'{head},"OIL,\n(MW)"', *(f"{row},7" for row in rows)))
    assert got.columns["wind"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_first_line_for_spreadsheets_says_the_mark_between_columns(tmp_path: Path, mark: str) -> None:
    lines = [line.replace(",", mark) for line in five_hours()]
    assert read(power_file(tmp_path, f"sep={mark}", *lines)).columns["carbon"].tolist()[-1] == 200
    error = refused(power_file(tmp_path, f"SEP={mark}", *lines[:2], lines[2].replace("Z", "?")))
    assert error.problem.startswith("row 3, column 'timestamp'")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{time_at(5)},1", "row 7 has 2 cells where the header has 4"),
        (f"{time_at(5)},1,1,1,1", "row 7 has 5 cells where the header has 4"),
        (f"\n{time_at(5)},1,1,1", "row 7 has 0 cells where the header has 4"),
    ],
    ids=["cut off", "too long", "blank line between"],
)
def test_rows_unlike_the_header_are_refused(tmp_path: Path, line: str, problem: str) -> None:
    assert refused(power_file(tmp_path, *five_hours(), line)).problem == problem


CONTENT = gzip.compress("\n".join(rows_of(*[range(2000)] * 3)).encode())
UNREADABLE = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "byte order mark only": (b"\xef\xbb\xbf", "is empty"),
    "binary": (b"PK\3\4\0\0\1\2" * 100, "is binary, not text"),
    "utf-16": (HEADER.encode("utf-16-le"), "is binary, not text"),
    "binary in gzip": (gzip.compress(b"\0\1\2" * 9), "is binary, not text"),
    "gzip cut off": (CONTENT[: len(CONTENT) // 2], "gzip data ends early"),
    "gzip with a hole": (CONTENT[:40] + bytes(40) + CONTENT[80:], "gzip data is damaged"),
    "a trace": (b"; MaxNodes: 4\n1 0 -1 10 1\n", "has no column 'timestamp', but , MaxNodes: 4"),
    "words": (b"timestamp WND SUN\n", "has no commas, semicolons or tabs ('timestamp WND SUN')"),
    "wrong columns below other lines": (
        b"sep=,\n# MW\nt,WND\n1,2\n",
        "has no column 'timestamp' in row 2, but t, WND",
    ),
    "marks in the header": (
        b"t;a, b;c, d;e, f\n1;2;3;4\n1;2;3;4\n",
        "has no column 'timestamp', but t, 'a, b', 'c, d', 'e, f'",
    ),
    "a cell of a megabyte": (f"{HEADER}\n{'1' * 1_000_000}".encode(), "is not CSV (field larger"),
    "header only": (HEADER.encode(), "has 0 rows below its header"),
    "one row": ("\n".join(five_hours()[:2]).encode(), "has 1 rows below its header"),
    "latin-1": ("timestamp,Höhe\n1,1".encode("latin-1"), "has no column 'WND', but timestamp, Höhe"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_power_file_is_refused(tmp_path: Path, case: str) -> None:
    content, problem = UNREADABLE[case]
    path = tmp_path / "power.csv"
    path.write_bytes(content)
    assert problem in refused(path).problem


@pytest.mark.parametrize(
    ("name", "problem"), [("none.csv", "no such file"), ("", "cannot be read"), ("\0", "cannot be read")]
)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        read(tmp_path / name)


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
    got = read(data_dir / "power" / f"{grid}-2022-hourly.csv")
    assert time.perf_counter() - begin < 2  # 0.05 s on an idle core
    assert (got.start, got.step_s, got.steps) == (pd.Timestamp("2022-01-01", tz="UTC"), 3600, 8760)
    assert got.repairs == repairs
    assert {role: values.max() for role, values in got.columns.items()} == pytest.approx(highest)


def test_rows_are_counted_as_a_spreadsheet_shows_them_in_real_files(data_dir: Path, tmp_path: Path) -> None:
    lines = (data_dir / "power" / "CISO-2022-hourly.csv").read_text().splitlines()
    path = power_file(tmp_path, *lines[:5000], *lines[5001:])
    assert "row 5001, column 'timestamp'" in refused(path).problem
    lines[107] = lines[107].replace(",,,", ",1,2,", 1)  # one of the blank rows, in part
    assert refused(power_file(tmp_path, *lines)).problem.startswith("row 108, column 'avg_CI': is blank")


def test_what_was_read_cannot_be_written_to(tmp_path: Path) -> None:
    values = read(power_file(tmp_path, *five_hours())).columns["wind"]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 7
    assert values.dtype == np.float64
