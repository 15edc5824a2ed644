"""The column of times: formats, time zones, clock changes and constant steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlsched.errors import BadInputError
from rlsched.power import table
from rlsched.power.table import PowerTable
from tests.power.files import HEADER, power_file, read, refused, time_at


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
    power_table = read(power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times)), solar="SUN")
    assert (power_table.start, power_table.step_s) == (pd.Timestamp(start), step_s)


@pytest.mark.parametrize("unit", [1, 1000])
def test_times_may_be_seconds_or_milliseconds_since_1970(tmp_path: Path, unit: int) -> None:
    times = [(1_704_067_200 + 3600 * k) * unit for k in range(3)]
    power_table = read(power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times)), solar="SUN")
    assert (power_table.start, power_table.step_s) == (pd.Timestamp("2024-01-01", tz="UTC"), 3600)
    # Days without marks between their parts are no such numbers.
    power_table = read(power_file(tmp_path, "timestamp,SUN", "20240101,1", "20240102,1"), solar="SUN")
    assert (power_table.start, power_table.step_s) == (pd.Timestamp("2024-01-01", tz="UTC"), 86_400)


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
    power_table = read(
        power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times.split())), solar="SUN"
    )
    assert (power_table.start, power_table.step_s) == (pd.Timestamp(start, tz="UTC"), step_s)


def test_digits_without_a_valid_hour_are_refused(tmp_path: Path) -> None:
    path = power_file(tmp_path, "timestamp,SUN", *(f"202403{day:02}24,1" for day in range(1, 20)))
    assert (
        refused(path, solar="SUN").problem
        == "row 2, column 'timestamp': '2024030124' is not an ISO 8601 time"
    )


def hours(zone: str, start: str, count: int) -> list[str]:
    """Local times of a clock, an hour after the other, without their zone."""
    return [str(at)[:19] for at in pd.date_range(start, periods=count, freq="h", tz="UTC").tz_convert(zone)]


@pytest.mark.parametrize("day", ["2024-03-30", "2024-10-26"])
def test_local_times_of_a_named_zone_go_over_changes_of_the_clock(tmp_path: Path, day: str) -> None:
    times = hours("Europe/Stockholm", day, 48)
    path = power_file(tmp_path, "timestamp,SUN", *(f"{at},1" for at in times))
    power_table = table.read(path, time="timestamp", columns={"solar": "SUN"}, zone="Europe/Stockholm")
    assert (power_table.start, power_table.step_s, power_table.steps) == (
        pd.Timestamp(day, tz="UTC"),
        3600,
        48,
    )
    assert "power.time_zone" in (refused(path, solar="SUN").remedy or "")
    # What says its own zone has that one.
    path = power_file(tmp_path, "timestamp,SUN", *(f"{time_at(k)},1" for k in range(3)))
    power_table = table.read(path, time="timestamp", columns={"solar": "SUN"}, zone="America/Lima")
    assert power_table.start == pd.Timestamp("2022-01-01", tz="UTC")


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
def test_days_with_a_clock_change_have_their_true_length(
    tmp_path: Path, zone: str, times: list[str], start: str, hours: list[int]
) -> None:
    power_table = local(tmp_path, times, zone)
    assert (power_table.start, power_table.step_s, power_table.steps) == (
        pd.Timestamp(start, tz="UTC"),
        3600,
        sum(hours),
    )
    assert power_table.columns["solar"].tolist() == np.arange(1.0, len(times) + 1).repeat(hours).tolist()


def test_days_without_a_change_of_the_clock_stay_days(tmp_path: Path) -> None:
    power_table = local(tmp_path, on_clock("2024-05-01", 3, "D"), "Europe/Berlin")
    assert (power_table.step_s, power_table.columns["solar"].tolist()) == (86_400, [1, 2, 3])


@pytest.mark.parametrize(
    ("zone", "times", "message"),
    [
        (
            "Europe/Berlin",
            on_clock("2024-03-29", 5, "D") + on_clock("2024-04-04", 2, "D"),
            r"row 7, .* comes 48 h after row 6, where the first step is 24 h; add the missing rows$",
        ),
        ("Europe/Berlin", ["2024-03-01", "2024-03-02", "2024-03-02"], "row 4, .* again; keep one row$"),
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
def test_skipped_and_repeated_local_times_are_refused(tmp_path: Path, at: str) -> None:
    path = power_file(tmp_path, "timestamp,SUN", f"{at},1", "2024-12-01 00:00:00,1")
    with pytest.raises(
        BadInputError, match=f"row 2, column 'timestamp': '{at}' is skipped or repeated by a clock change"
    ):
        table.read(path, time="timestamp", columns={"solar": "SUN"}, zone="Europe/Stockholm")


TIMES = {
    "missing hour": (
        [0, 1, 3, 4],
        f"row 4, column 'timestamp': {time_at(3)!r} comes 2 h after row 3, where the first step is 1 h",
        "add the missing rows; where clocks change, set power.time_zone",
    ),
    "missing second hour": (
        [0, 2, 3],
        f"row 4, column 'timestamp': {time_at(3)!r} comes 1 h after row 3, where the first step is 2 h",
        "keep to one step; where clocks change, set power.time_zone",
    ),
    "missing days": (
        [0, 1, 49],
        f"row 4, column 'timestamp': {time_at(49)!r} comes 48 h after row 3, where the first step is 1 h",
        "add the missing rows; where clocks change, set power.time_zone",
    ),
    "repeated hour": (
        [0, 1, 2, 2, 3],
        f"row 5, column 'timestamp': {time_at(2)!r} is the time of row 4 again",
        "keep one row; where clocks change, write times with their zone, or set power.time_zone",
    ),
    "repeated first hour": (
        [0, 0, 1],
        f"row 3, column 'timestamp': {time_at(0)!r} is the time of row 2 again",
        "keep one row; where clocks change, write times with their zone, or set power.time_zone",
    ),
    "out of order": (
        [0, 1, 3, 2],
        f"row 5, column 'timestamp': {time_at(2)!r} is before row 4",
        "put the rows in order of time",
    ),
    "local times of a spring and an autumn": (
        [0, 1, 3, 4, 5, 5, 6],
        f"row 7, column 'timestamp': {time_at(5)!r} is the time of row 6 again",
        "keep one row; where clocks change, write times with their zone, or set power.time_zone",
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
        (["2022-01-01 00:00", "2022-13-01 01:00"], "'2022-13-01 01:00' is not an ISO 8601 time"),
        (["2022-01-01 00:00", "01/01/2022 01:00"], "'01/01/2022 01:00' is not an ISO 8601 time"),
        (["2022-01-01 00:00", "now"], "'now' is not an ISO 8601 time"),
        (["2022-01-01 00:00", "1640998800"], "'1640998800' is not an ISO 8601 time"),
        (["2022-01-01 00:00", ""], "is blank"),
    ],
)
def test_times_that_cannot_be_steps_are_refused(tmp_path: Path, times: list[str], problem: str) -> None:
    error = refused(power_file(tmp_path, HEADER, *(f"{at},1,1,1" for at in times)))
    assert error.problem == f"row 3, column 'timestamp': {problem}"
