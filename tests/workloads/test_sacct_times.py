"""Times of sacct's output: time zones, clock changes and durations."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rlsched.workloads import sacct, swf
from rlsched.workloads.slurm_output import Clock, span_s
from tests.workloads.sacct_output import import_lines, line


def test_hours_are_those_of_the_site(tmp_path: Path) -> None:
    # Noon in Stockholm, in winter and in summer; both are printed the same, or in seconds.
    winter, summer = "2025-01-31T12:00:00", "2025-06-30T12:00:00"
    zone = ZoneInfo("Europe/Stockholm")
    lines = [line(str(k), Submit=text, Start=text) for k, text in enumerate((winter, summer))]
    result, rows = import_lines(tmp_path, lines, zone=zone)
    trace = swf.read(tmp_path / "site.swf")
    assert (trace.header["UnixStartTime"], trace.header["TimeZone"]) == ("1738321200", "3600")
    assert trace.header["TimeZoneString"] == "Europe/Stockholm"
    assert int(rows[1].split()[1]) == 150 * 86_400 - 3600
    assert result.zone_known
    lines_in_seconds = [
        line(str(k), Submit=str(text), Start=str(text)) for k, text in enumerate((1738321200, 1751277600))
    ]
    _, same = import_lines(tmp_path, lines_in_seconds, zone=zone)
    assert same == rows
    unknown, same = import_lines(tmp_path, lines_in_seconds)
    assert not unknown.zone_known
    assert same == rows


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("59", 59),
        ("02:03", 123),
        ("01:02:03", 3723),
        ("1-02:03:04", 93784),
        ("2-00", 172_800),
        ("00:01.500", 1),
    ],
)
def test_durations(text: str, seconds: int) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "1:2:3:4", "1-", "-1"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"int\(\)|^" + text):
        span_s(text)


def test_times_with_their_offset_need_no_zone(tmp_path: Path) -> None:
    # Before, in and after the hours at which clocks in Stockholm change.
    times = [
        ("2025-01-10T10:00:00+0100", "2025-01-10T10:05:00+0100", 300),
        ("2025-03-30T01:50:00+0100", "2025-03-30T03:10:00+0200", 1200),
        ("2025-10-26T02:50:00+0200", "2025-10-26T02:10:00+0100", 1200),
        ("2025-10-26T02:50:00+0530", "2025-10-25T21:21:00Z", 60),
        ("2025-11-01T10:20:30+01:00", "2025-11-01T10:50:30+01:00", 1800),
        ("2025-11-01T10:20:30.250+0100", "2025-11-01T10:21:30+0100", 60),
    ]
    lines = [line(str(k), Submit=submit, Start=start) for k, (submit, start, _) in enumerate(times)]
    for zone in (None, ZoneInfo("Europe/Stockholm"), ZoneInfo("America/Lima")):
        result, rows = import_lines(tmp_path, lines, zone=zone)
        assert sorted(int(row.split()[2]) for row in rows) == sorted(wait for *_, wait in times)
        assert result.zone_known == (zone is not None)
    # From 10 January, 9:00, to 30 March, 0:50, both of UTC.
    assert int(rows[1].split()[1]) == 79 * 86_400 - (8 * 3600 + 600)


STOCKHOLM = ZoneInfo("Europe/Stockholm")


def at(submit: str, start: str, end: str, ran: int | str, day: str = "2025-10-26", **changes: str) -> str:
    """A line of hours and minutes of a day on which clocks in Stockholm are changed."""
    texts = {"Submit": submit, "Eligible": submit, "Start": start, "End": end}
    return line("1", ElapsedRaw=str(ran), **({k: f"{day}T{text}:00" for k, text in texts.items()} | changes))


@pytest.mark.parametrize(
    ("text", "wait", "undecided"),
    [
        (
            at("01:50", "02:10", "03:10", 3600),
            4800,
            0,
        ),  # 02:10 came twice: an hour before 03:10 is the second
        (at("01:50", "02:10", "03:10", 7200), 1200, 0),
        (at("02:50", "02:10", "04:00", 6600), 1200, 0),
        (at("02:10", "02:20", "02:30", 4200), 600, 0),
        (at("02:20", "04:00", "04:10", 600), 6000 + 3600, 1),
        (at("01:50", "02:10", "02:20", 600), 1200, 1),
        (at("01:50", "02:10", "02:20", ""), 1200, 1),
        (at("02:20", "02:10", "03:10", 3600), 3000, 0),
        (at("01:00", "01:10", "02:10", 7200), 600, 0),
        (at("01:00", "01:10", "01:20", 600), 600, 0),
        (at("03:00", "03:10", "03:20", 600), 600, 0),
        (at("01:50", "02:10", "03:20", 3600), 1200, 1),  # suspended for ten minutes, or for seventy
    ],
)
@pytest.mark.parametrize("eligible", [False, True])
def test_repeated_hours_are_resolved_by_what_agrees(
    tmp_path: Path, text: str, wait: int, undecided: int, eligible: bool
) -> None:
    result, rows = import_lines(tmp_path, [text], zone=STOCKHOLM, eligible=eligible)
    assert int(rows[0].split()[2]) == wait
    assert result.counts == ({"time_undecided": 1} if undecided else {})
    assert set(result.counts) <= set(sacct.REPAIRED)


def test_a_skipped_hour_is_not_a_time(tmp_path: Path) -> None:
    skipped = at("01:50", "02:10", "03:10", 3600, "2025-03-30")
    result, rows = import_lines(
        tmp_path, [skipped, at("01:50", "03:10", "04:10", 3600, "2025-03-30")], zone=STOCKHOLM
    )
    assert result.counts == {"no_such_time_dropped": 1}
    assert [int(row.split()[2]) for row in rows] == [1200]
    assert import_lines(tmp_path, [skipped])[0].counts == {}
    # Clocks of this island are changed by half an hour, in the middle of one.
    lord_howe = ZoneInfo("Australia/Lord_Howe")
    texts = [
        at("01:10", "01:29", "04:10", 60, "2025-04-06"),
        at("01:29", "01:40", "02:10", 3600, "2025-04-06"),
    ]
    assert [row.split()[2] for row in import_lines(tmp_path, texts[:1], zone=lord_howe)[1]] == ["1140"]
    result, rows = import_lines(tmp_path, texts[1:], zone=lord_howe)
    assert (rows[0].split()[2], result.counts) == ("660", {})


def test_cached_hours_accept_only_minutes_and_seconds() -> None:
    clock = Clock(None)
    assert clock("2025-01-10T10:00:00") == clock("2025-01-10T10:05:00") - 300 == 1736503200  # type: ignore[operator]
    assert clock("2025-01-10T10:05") == clock("2025-01-10 10:05:00") == 1736503500
    for text in (
        "10:99:77",
        "10:-5:00",
        "10: 5:00",
        "10:05:60",
        "10:05:0",
        "10.05.00",
        "10:05:00x",
        "10:1e:00",
    ):
        with pytest.raises(ValueError, match=r"2025-01-10T|minute|second"):
            clock(f"2025-01-10T{text}")
