"""Slurm's accounting as a trace: every kind of line, order, size, and what cannot be read."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.workloads import sacct, spill, swf
from rlsched.workloads.sacct import Imported, import_sacct
from rlsched.workloads.slurm_times import Clock, span_s

COLUMNS = (
    "JobID|JobIDRaw|User|Account|Partition|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|"
    "ReqCPUS|AllocCPUS"
)


def line(number: str, raw: str | None = None, **changes: str) -> str:
    """A job of u1 that waited ten minutes and ran for one on 4 of 2 requested processors."""
    values = {
        "JobID": number,
        "JobIDRaw": raw or number,
        "User": "u1",
        "Account": "physics",
        "Partition": "batch",
        "State": "COMPLETED",
        "Submit": "2025-01-31T12:00:00",
        "Eligible": "2025-01-31T12:05:00",
        "Start": "2025-01-31T12:10:00",
        "End": "2025-01-31T12:11:00",
        "ElapsedRaw": "60",
        "TimelimitRaw": "30",
        "ReqCPUS": "2",
        "AllocCPUS": "4",
    }
    assert set(changes) <= set(values)
    return "|".join((values | changes)[name] for name in COLUMNS.split("|"))


def imported(
    tmp: Path, lines: Iterable[str], columns: str = COLUMNS, **options: object
) -> tuple[Imported, list[str]]:
    out = tmp / "site.swf"
    text = [columns, *lines]
    found = import_sacct((f"{one}\n" for one in text), "test", out, **options)  # type: ignore[arg-type]
    rows = [row for row in out.read_text().splitlines() if not row.startswith(";")]
    return found, rows


def test_a_job(tmp_path: Path) -> None:
    found, rows = imported(tmp_path, [line("7")])
    assert rows == ["1 0 600 60 4 -1 -1 2 1800 -1 1 1 1 -1 1 1 -1 -1"]
    assert (found.lines, found.jobs, dict(found.counts), found.unused) == (1, 1, {}, ["Eligible"])
    trace = swf.read(tmp_path / "site.swf")
    assert trace.processors == 4
    assert trace.header["UnixStartTime"] == "1738324800"  # 31 January 2025, noon
    assert trace.header["Queue"] == "1 batch"
    assert trace.repairs == {}
    _, rows = imported(tmp_path, [line("7")], eligible=True)
    assert rows[0].startswith("1 0 300 60")


def test_what_is_no_job_is_counted(tmp_path: Path) -> None:
    lines = [
        line("1"),
        line("1.batch"),
        line("1.extern"),
        line("1.0"),
        line("2", State="PENDING", Start="Unknown", End="Unknown", ElapsedRaw="0"),
        line("3_[4-9%2]", "3", State="CANCELLED by 1000", Start="None", End="2025-01-31T13:00:00"),
        line("4", State="RUNNING", End="Unknown"),
        line("13", State="RESIZING"),
        line("5", ElapsedRaw="0"),
        line("6", AllocCPUS="0", ReqCPUS="0"),
        line("7", ElapsedRaw="a minute"),
        line("8", Submit="31.1.2025"),
        line("9", Submit="Unknown", End="later"),
        line("14", State="PENDING", Start="Unknown", End="later"),
        line("10") + "|more",
        "11|11|u1",
        "",
        line("12", State="REQUEUED"),
        line("12"),
    ]
    found, rows = imported(tmp_path, lines)
    assert len(rows) == found.jobs == 2
    assert found.lines == 18
    assert found.counts == {
        "steps_dropped": 3,
        "never_started_dropped": 3,
        "still_running_dropped": 1,
        "zero_runtime_dropped": 1,
        "processors_missing_dropped": 1,
        "not_numeric_dropped": 2,
        "submit_missing_dropped": 1,
        "long_lines_dropped": 1,
        "short_lines_dropped": 1,
        "resized_dropped": 1,
        "earlier_dropped": 1,
    }
    assert set(found.counts) <= set(sacct.DROPPED)
    assert found.jobs + sum(found.counts.values()) == found.lines


LATER = {"Submit": "2025-01-31T12:11:00", "Start": "2025-01-31T12:20:00", "ElapsedRaw": "90"}


@pytest.mark.parametrize("held", [1, 3, 50_000])
def test_the_last_run_of_a_job_counts_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    for name in ("ROWS", "SORTED"):
        monkeypatch.setattr(spill, name, held)
    again = line("5_1", "6", **LATER)
    others = [line(str(k)) for k in range(10, 14)]
    # As sacct lists a whole site with --duplicates: earlier runs before all others.
    lines = [line("5_1", "6", State="NODE_FAIL"), *others, line("5_1.batch", "6.batch"), again]
    for order in (lines, lines[::-1]):
        found, rows = imported(tmp_path, order)
        assert found.counts == {"earlier_dropped": 1, "steps_dropped": 1}
        assert [row.split()[1:4] for row in rows] == [["0", "600", "60"]] * 4 + [["660", "540", "90"]]
    # The same line twice, as from two months that it touches.
    found, rows = imported(tmp_path, [again, *others, again])
    assert (found.jobs, found.counts) == (5, {"earlier_dropped": 1})
    # Tasks of an array are jobs of their own.
    found, rows = imported(tmp_path, [line(f"5_{k}", str(10 + k)) for k in range(4)])
    assert (found.jobs, found.counts) == (4, {})


def test_what_runs_again_has_not_ended(tmp_path: Path) -> None:
    running = line("1", State="RUNNING", End="Unknown", **(LATER | {"ElapsedRaw": "5"}))
    found, _ = imported(tmp_path, [line("1", State="NODE_FAIL"), line("2"), running])
    assert found.jobs == 1
    assert found.counts == {"earlier_dropped": 1, "still_running_dropped": 1}


def test_hours_are_those_of_the_site(tmp_path: Path) -> None:
    # Noon in Stockholm, in winter and in summer; both are printed the same, or in seconds.
    winter, summer = "2025-01-31T12:00:00", "2025-06-30T12:00:00"
    zone = ZoneInfo("Europe/Stockholm")
    lines = [line(str(k), Submit=text, Start=text) for k, text in enumerate((winter, summer))]
    found, rows = imported(tmp_path, lines, zone=zone)
    trace = swf.read(tmp_path / "site.swf")
    assert (trace.header["UnixStartTime"], trace.header["TimeZone"]) == ("1738321200", "3600")
    assert trace.header["TimeZoneString"] == "Europe/Stockholm"
    assert int(rows[1].split()[1]) == 150 * 86_400 - 3600
    assert found.zone_known
    told = [
        line(str(k), Submit=str(text), Start=str(text)) for k, text in enumerate((1738321200, 1751277600))
    ]
    _, same = imported(tmp_path, told, zone=zone)
    assert same == rows
    unknown, same = imported(tmp_path, told)
    assert not unknown.zone_known
    assert same == rows


def test_limits_states_and_what_is_not_known(tmp_path: Path) -> None:
    states = ["COMPLETED", "CANCELLED by 0", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED"]
    limits = ["1440", "UNLIMITED", "Partition_Limit", "", "1"]
    lines = [
        line(str(k), State=state, TimelimitRaw=limit, User="" if k else "u9")
        for k, (state, limit) in enumerate(zip(states, limits, strict=True))
    ]
    found, rows = imported(tmp_path, lines)
    assert [row.split()[8] for row in rows] == ["86400", "-1", "-1", "-1", "60"]
    assert [row.split()[10] for row in rows] == ["1", "5", "0", "0", "5"]
    assert [row.split()[11] for row in rows] == ["1", "-1", "-1", "-1", "-1"]
    assert found.counts == {"limit_missing": 3}
    early, rows = imported(tmp_path, [line("1", Start="2025-01-31T11:59:00")])
    assert early.counts == {"start_before_submit": 1}
    assert rows[0].split()[2] == "0"


def test_an_end_says_what_a_blank_runtime_does_not(tmp_path: Path) -> None:
    found, rows = imported(tmp_path, [line("1", ElapsedRaw="")])
    assert rows[0].split()[1:5] == ["0", "600", "60", "4"]
    without = "jobid|submit|start|elapsed|ncpus|state"
    known, blank = ("1|10|20|00:30|8|FAILED", "2|10|20||8|FAILED")
    found, rows = imported(tmp_path, [known, blank], without)
    assert (len(rows), found.counts) == (1, {"not_numeric_dropped": 1, "limit_missing": 1})


def test_other_columns_say_the_same(tmp_path: Path) -> None:
    columns = "JobID|Submit|Start|End|Timelimit|AllocTRES"
    words = [
        "1|1738324800|1738325400|1738325460|1-00:30:00|billing=9,cpu=64,mem=4G,node=2",
        "2|0|1|2|5:00|cpu=1",
    ]
    found, rows = imported(tmp_path, words, columns)
    assert rows == [f"1 0 600 60 64 -1 -1 64 {86400 + 1800} -1 -1 -1 -1 -1 -1 -1 -1 -1"]
    assert found.counts == {"submit_missing_dropped": 1}  # Slurm's time 0 is never
    _, rows = imported(
        tmp_path,
        ["9|2025-01-31T12:00:00|2025-01-31T12:10:00|01:02:03|8|FAILED|"],
        "jobid|submit|start|elapsed|ncpus|state|",
    )
    assert rows[0].split()[1:5] == ["0", "600", "3723", "8"]


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
def test_spans(text: str, seconds: int) -> None:
    assert span_s(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "1:2:3:4", "1-", "-1"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ValueError, match=r"int\(\)|^" + text):
        span_s(text)


@pytest.mark.parametrize(
    ("columns", "lines", "told"),
    [
        ("", [], "test: is empty; run: SLURM_TIME_FORMAT=%s sacct --allusers"),
        ("JobID|Start|End|NCPUS", [], "test: has no column submit in its first line; run: "),
        ("JobID|Submit|Start|NCPUS", [], "test: has no column end in its first line"),
        ("JobID|Submit|Start|ElapsedRaw|NCPUS", [], "test: has no column end in its first line"),
        ("JobID|Submit|Start|End", [], "test: has no column alloccpus in its first line"),
        ("number|Submit|Start", [], "test: has no column jobid in its first line"),
        ("12|2025|3", [], "test: begins with a job, not with the names of columns; print it without --noh"),
        (
            "JobID,Submit,Start",
            [],
            "test: has columns separated by commas, not by '|'; add --delimiter \",\"",
        ),
        ("JobID\tSubmit", [], "test: has columns separated by tabs, not by '|'; add --delimiter \"\\t\""),
        ("       JobID     Submit", ["-----"], "test: has columns of fixed width; print it with --parsable2"),
        ("<html>", ["<p>"], "test: is a web page, or XML; run: "),
        ("; Version: 2.2", ["1 0"], "test: is a trace (SWF) already; use it as it is"),
        ('{"jobs": [', [], "test: is no JSON from line 2, column 1 on (Expecting value); give what sacct"),
        ('{"job": []}', [], "test: is JSON without a list of jobs; give what sacct --json printed"),
        ('{"jobs": ' + "[" * 100_000, [], "test: is JSON that cannot be read (nested too deeply)"),
        (
            '{"jobs": ' + "1" * 5000,
            [],
            "test: is JSON that cannot be read (a number has more than 4,300 digits)",
        ),
        ('"JobID","Submit"', [], "test: has columns separated by commas, not by '|'; add --delimiter \",\""),
        ('{"jobs": [], "jobs": []}', [], "test: is JSON that cannot be read (key 'jobs' stands twice"),
        (
            '{"jobs": [{}, 7, {"job_id": true}]}',
            [],
            "test: holds no job that ran (3 jobs without a time",
        ),
        (
            '{"jobs": [{}], "errors": [{"description": "Query failed", "error": "Lost\\u001b"}]}',
            [],
            "test: errors[0]: Slurm answered with 1 errors, first: Query failed: Lost?; ask again: SLURM",
        ),
        ('{"errors": ["gone", 7]}', [], "test: errors[0]: Slurm answered with 2 errors, first: gone; ask"),
        (
            '{"jobs": [], "errors": {"error": "no"}}',
            [],
            "test: errors[0]: Slurm answered with 1 errors, first: no",
        ),
        ('{"jobs": [], "errors": []}', [], "test: holds no job that ran (no line)"),
        (COLUMNS, [], "test: holds no job that ran (no line)"),
        (COLUMNS, [line("1.batch")], "test: holds no job that ran (1 steps of jobs (123.batch"),
    ],
)
def test_what_cannot_be_imported(tmp_path: Path, columns: str, lines: list[str], told: str) -> None:
    with pytest.raises(BadInputError) as caught:
        imported(tmp_path, lines, columns)
    assert str(caught.value).startswith(told)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInputError):
        import_sacct([columns, *lines], "test", tmp_path / "a" / "b" / "site.swf")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_trace_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for out in (Path("a/b/site.swf"), Path("site.swf")):
        import_sacct([COLUMNS, line("1")], "test", out)
        assert swf.read(out).jobs.id.tolist() == [1]
    assert {path.name for path in tmp_path.iterdir()} == {"a", "site.swf"}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 7))
def test_jobs_stand_in_the_order_of_their_submit_times(
    tmp_path_factory: pytest.TempPathFactory, submits: list[int], held: int
) -> None:
    folder = tmp_path_factory.mktemp("sacct")
    lines = [
        line(str(k), Submit=str(10**9 + s), Start=str(10**9 + 60), ReqCPUS=str(k + 1))
        for k, s in enumerate(submits)
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ROWS", "SORTED"):
            patch.setattr(spill, name, held)
        _, rows = imported(folder, lines)
    found = [tuple(map(int, (row.split()[1], row.split()[7]))) for row in rows]
    assert found == sorted((s - min(submits), k + 1) for k, s in enumerate(submits))
    assert [int(row.split()[0]) for row in rows] == list(range(1, len(rows) + 1))
    assert [path.name for path in folder.iterdir()] == ["site.swf"]


def test_processors_are_those_in_use_at_full_hours(tmp_path: Path) -> None:
    noon = 1738324800
    lines = [
        line("1", Submit=str(noon), Start=str(noon - 60), ElapsedRaw="120", AllocCPUS="30"),
        line("2", Submit=str(noon), Start=str(noon), ElapsedRaw="3600", AllocCPUS="20"),
        line("3", Submit=str(noon), Start=str(noon + 60), ElapsedRaw="3540", AllocCPUS="500"),
        line("4", Submit=str(noon), Start=str(noon + 3600), ElapsedRaw="60", AllocCPUS="9"),
    ]
    found, _ = imported(tmp_path, [lines[0], lines[1], lines[3]])
    assert found.processors == 50
    found, _ = imported(tmp_path, lines)
    assert found.processors == 500  # of the largest job, which no full hour saw
    found, _ = imported(tmp_path, lines, processors=1024)
    assert (found.processors, found.seen) == (1024, 500)
    assert swf.read(tmp_path / "site.swf").processors == 1024


MEASURE = """
import resource, sys
from pathlib import Path
from rlsched.workloads import sacct, spill
spill.ROWS = spill.SORTED = 2_000
with open(sys.argv[1]) as lines:
    found = sacct.import_sacct(lines, "test", Path(sys.argv[1]).with_suffix(".swf"))
print(found.jobs, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_lines(tmp_path: Path) -> None:
    rng, peaks = random.Random(0), []
    for count in (4_000, 60_000):
        path = tmp_path / f"{count}.txt"
        with path.open("w") as file:
            file.write(COLUMNS + "\n")
            for k in range(count):
                submit = 10**9 + 30 * k + rng.randrange(10_000)
                file.write(line(str(k), Submit=str(submit), Start=str(submit + 5)) + "\n")
        ran = subprocess.run(
            [sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True
        )
        jobs, peak = map(int, ran.stdout.split())
        assert jobs == count
        peaks.append(peak / 1024)
    # 60,000 jobs as objects would be 30 MB.
    assert peaks[1] - peaks[0] < 6.0, peaks


@pytest.mark.parametrize("after", [0, 5])
def test_a_disk_that_is_full_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """While lines are put down, and while the trace is written."""
    rows = spill.Sorter.sorted

    def full(*values: object) -> Iterator[spill.Sorted]:
        for k, row in enumerate(rows(*values)):  # type: ignore[arg-type]
            if k == after:
                raise OSError(28, "No space left on device")
            yield row

    out = tmp_path / "site.swf"
    out.write_text("what was there")
    monkeypatch.setattr(spill, "ROWS", 3)
    monkeypatch.setattr(spill, "SORTED", 3)
    monkeypatch.setattr(spill.Sorter, "sorted", full)
    with pytest.raises(OSError, match="No space left"):
        import_sacct([COLUMNS, *(line(str(k)) for k in range(20))], "test", out)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("site.swf", "what was there")]


def test_what_was_imported_is_read_as_it_was(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    submit = np.sort(rng.integers(10**9, 10**9 + 10**6, 500))
    runtime, size = rng.integers(1, 10**5, 500), rng.integers(1, 64, 500)
    lines = [
        line(
            str(k),
            Submit=str(submit[k]),
            Start=str(submit[k] + 7),
            ElapsedRaw=str(runtime[k]),
            AllocCPUS=str(size[k]),
            ReqCPUS="1",
        )
        for k in rng.permutation(500)
    ]
    imported(tmp_path, lines)
    jobs = swf.read(tmp_path / "site.swf").jobs
    rows = {(s, r, p) for s, r, p in zip(submit - submit[0], runtime, size, strict=True)}
    assert {(s, r, p) for s, r, p in zip(jobs.submit, jobs.runtime, jobs.demand[:, 0], strict=True)} == rows
    assert (jobs.start == jobs.submit + 7).all()


def test_times_that_are_printed_with_their_offset_have_that_one(tmp_path: Path) -> None:
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
        found, rows = imported(tmp_path, lines, zone=zone)
        assert sorted(int(row.split()[2]) for row in rows) == sorted(wait for *_, wait in times)
        assert found.zone_known == (zone is not None)
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
def test_hours_that_come_twice_are_settled_by_what_agrees(
    tmp_path: Path, text: str, wait: int, undecided: int, eligible: bool
) -> None:
    found, rows = imported(tmp_path, [text], zone=STOCKHOLM, eligible=eligible)
    assert int(rows[0].split()[2]) == wait
    assert found.counts == ({"time_undecided": 1} if undecided else {})
    assert set(found.counts) <= set(sacct.REPAIRED)


def test_an_hour_that_does_not_exist_is_no_time(tmp_path: Path) -> None:
    skipped = at("01:50", "02:10", "03:10", 3600, "2025-03-30")
    found, rows = imported(
        tmp_path, [skipped, at("01:50", "03:10", "04:10", 3600, "2025-03-30")], zone=STOCKHOLM
    )
    assert found.counts == {"no_such_time_dropped": 1}
    assert [int(row.split()[2]) for row in rows] == [1200]
    assert imported(tmp_path, [skipped])[0].counts == {}
    # Clocks of this island are changed by half an hour, in the middle of one.
    lord_howe = ZoneInfo("Australia/Lord_Howe")
    texts = [
        at("01:10", "01:29", "04:10", 60, "2025-04-06"),
        at("01:29", "01:40", "02:10", 3600, "2025-04-06"),
    ]
    assert [row.split()[2] for row in imported(tmp_path, texts[:1], zone=lord_howe)[1]] == ["1140"]
    found, rows = imported(tmp_path, texts[1:], zone=lord_howe)
    assert (rows[0].split()[2], found.counts) == ("660", {})


def test_hours_that_are_remembered_take_only_minutes_and_seconds() -> None:
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


def test_lines_in_a_row_that_are_no_jobs_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sacct, "MOST_IDLE_LINES", 3)
    broken = ["", "1|", line("2") + "|", line("3", Submit="x")]
    steps = [line("1.0"), line("1.1"), line("1.2"), line("1.3"), line("4", State="REQUEUED")]
    for bad in broken:
        found, _ = imported(tmp_path, [line("1"), *[bad] * 3, *steps, line("5"), *[bad] * 3])
        assert found.jobs == 2
        with pytest.raises(
            BadInputError, match="test: holds more than 1,000,000 lines that are blank or no jobs"
        ):
            imported(tmp_path, [line("1"), *[bad] * 4, line("5")])


def test_numbers_that_are_used_again_are_other_jobs(tmp_path: Path) -> None:
    def at(day: str, state: str = "COMPLETED", user: str = "u1") -> str:
        times = {"Submit": f"{day}T12:00:00", "Start": f"{day}T12:10:00", "End": f"{day}T12:11:00"}
        return line("7", State=state, User=user, **times)

    lines = [at("2017-10-03"), at("2025-08-21", user="u2"), at("2025-08-22", "NODE_FAIL"), line("8")]
    again = {"Submit": "2025-08-22T12:11:30", "Start": "2025-08-22T12:20:00", "End": "2025-08-22T12:21:00"}
    lines.append(line("7", **again))  # put back when its node failed
    for order in (lines, lines[::-1]):
        found, rows = imported(tmp_path, order)
        assert (found.jobs, found.counts) == (4, {"earlier_dropped": 1})
        assert sorted(int(row.split()[2]) for row in rows) == [510, 600, 600, 600]
    # A run that was suspended ends later than it ran; a job that is put back may be held for long.
    suspended = line("7", State="NODE_FAIL", End="2025-01-31T17:11:00")
    later = {"Submit": "2025-01-31T17:11:30", "Eligible": "2025-02-01T08:00:00"}
    later |= {"Start": "2025-02-01T08:10:00", "End": "2025-02-01T08:11:00"}
    for eligible in (False, True):
        found, rows = imported(tmp_path, [suspended, line("7", **later)], eligible=eligible)
        assert (found.jobs, found.counts) == (1, {"earlier_dropped": 1})
    # A job that waits for long is in many months, and is the same one.
    waits = line("9", State="PENDING", Start="Unknown", End="Unknown", ElapsedRaw="0")
    ran = line("9", Start="2025-03-31T12:10:00", End="2025-03-31T12:11:00")
    runs = line("9", State="RUNNING", Start="2025-03-31T12:10:00", End="Unknown", ElapsedRaw="5")
    for order in ([waits, waits, runs, ran], [ran, runs, waits, waits]):
        found, rows = imported(tmp_path, order)
        assert (found.jobs, found.counts) == (1, {"earlier_dropped": 3})


def test_files_that_were_joined_have_their_own_columns(tmp_path: Path) -> None:
    other = COLUMNS.replace("Submit|Eligible|Start", "Start|Submit|Eligible")
    other = other.replace("TimelimitRaw", "Timelimit")
    values = line("2", TimelimitRaw="1:00").split("|")
    values[6:9] = [values[8], values[6], values[7]]
    found, rows = imported(tmp_path, [line("1", TimelimitRaw="60"), COLUMNS, other, "|".join(values)])
    assert (found.lines, found.jobs, found.counts) == (2, 2, {})
    assert [row.split()[2] for row in rows] == ["600", "600"]
    assert [row.split()[8] for row in rows] == ["3600", "60"]
    fewer = "JobID|Submit|Start|End|NCPUS|State"
    found, rows = imported(tmp_path, [line("1"), fewer, "2|1738324800|1738324900|1738325000|8|FAILED"])
    assert [row.split()[2:5] for row in rows] == [["600", "60", "4"], ["100", "100", "8"]]
    with pytest.raises(BadInputError, match="has no column submit in its first line"):
        imported(tmp_path, [line("1"), "JobID|Start|End|NCPUS"])


def test_marks_of_an_encoding_and_users_called_jobid_are_no_headers(tmp_path: Path) -> None:
    found, _ = imported(
        tmp_path, [COLUMNS, line("1"), "\ufeff" + COLUMNS, line("2", User="jobid") + "|x"], "\ufeff"
    )
    assert (found.jobs, found.counts) == (1, {"long_lines_dropped": 1})


def test_jobs_of_several_clusters_are_of_one_that_is_named(tmp_path: Path) -> None:
    columns, lines = f"{COLUMNS}|Cluster", [f"{line('1')}|alpha", f"{line('1')}|beta", f"{line('2')}|beta"]
    with pytest.raises(
        BadInputError, match="test: holds jobs of 2 clusters: alpha, beta; name one with --cl"
    ):
        imported(tmp_path, lines, columns)
    found, _ = imported(tmp_path, lines, columns, cluster="beta")
    assert (found.jobs, found.counts) == (2, {"other_cluster_dropped": 1})
    with pytest.raises(BadInputError, match="--cluster: value 'beta', and test does not say"):
        imported(tmp_path, [line("1")], cluster="beta")
    with pytest.raises(BadInputError, match="'gamma', and test holds jobs of alpha, beta only"):
        imported(tmp_path, lines, columns, cluster="gamma")


def test_other_separators_are_read_where_they_are_named(tmp_path: Path) -> None:
    _, rows = imported(tmp_path, [line("7").replace("|", ";;")], COLUMNS.replace("|", ";;"), delimiter=";;")
    assert rows == ["1 0 600 60 4 -1 -1 2 1800 -1 1 1 1 -1 1 1 -1 -1"]


def test_fields_may_stand_in_quotes(tmp_path: Path) -> None:
    def quoted(text: str, separator: str) -> str:
        return separator.join(f'"{value}"' for value in text.split("|"))

    _, plain = imported(tmp_path, [line("7"), line("8")])
    for separator in (",", ";", "\t", "|"):
        lines = [quoted(line("7"), separator), line("8").replace("|", separator)]
        _, rows = imported(tmp_path, lines, quoted(COLUMNS, separator), delimiter=separator)
        assert rows == plain
    # As pandas and Excel write it: what holds the separator is in quotes.
    columns = "JobID,JobName,Submit,Start,End,AllocTRES"
    text = '1,"a ""big"" one, or two",1738324800,1738325400,1738325460,"billing=9,cpu=64"'
    # As sacct writes it, a quote is a sign as others.
    name = '1,"big,1738324800,1738325400,1738325460,cpu=64'
    _, rows = imported(tmp_path, [name], columns, delimiter=",")
    assert rows[0].split()[1:5] == ["0", "600", "60", "64"]
    found, rows = imported(tmp_path, [text], columns, delimiter=",")
    assert (rows[0].split()[1:5], found.counts) == (["0", "600", "60", "64"], {"limit_missing": 1})
    broken = [text.replace("a ", "a" * 200_000), text.replace('two"', "two"), text]
    found, rows = imported(tmp_path, broken, columns, delimiter=",")
    assert (len(rows), sum(found.counts.values()), found.lines) == (1, 3, 3)
    # What sacct prints has quotes of its own.
    columns = columns.replace(",", "|")
    found, rows = imported(tmp_path, ['1|"a|1738324800|1738325400|1738325460|cpu=64'], columns)
    assert len(rows) == 1


def test_json_says_the_same(tmp_path: Path) -> None:
    def number(value: int, *, known: bool = True, infinite: bool = False) -> dict[str, object]:
        return {"set": known, "infinite": infinite, "number": value}

    begin = 1738324800
    time = {"submission": begin, "eligible": begin + 300, "start": begin + 600, "end": begin + 660}
    time["elapsed"] = 60
    job: dict[str, object] = {
        "job_id": 7,
        "user": "u1",
        "account": "physics",
        "partition": "batch",
        "cluster": "alpha",
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": time | {"limit": number(30)},
        "required": {"CPUs": 2},
        "tres": {"allocated": [{"type": "mem", "count": 1}, {"type": "cpu", "count": 4}]},
        "array": {"job_id": 0, "task_id": number(0, known=False)},
        "steps": [{"step": {"id": "7.batch"}}],
    }
    old = job | {"state": {"current": "TIMEOUT"}, "required": {"CPUs": number(2)}, "tres": {}}
    old |= {"array": {"job_id": 40, "task_id": number(3)}, "time": time | {"limit": number(0, infinite=True)}}
    waits = job | {"job_id": 9, "state": {"current": ["PENDING"]}, "time": time | {"start": 0, "end": 0}}
    runs = job | {"job_id": 10, "state": {"current": ["RUNNING"]}, "time": time | {"end": 0}}
    text = json.dumps({"jobs": [job, old, waits, runs, job | {"job_id": 11, "time": "now"}]}, indent=1)
    first, *lines = text.splitlines()
    found, rows = imported(tmp_path, lines, first)
    assert rows == [
        "1 0 600 60 4 -1 -1 2 1800 -1 1 1 1 -1 1 1 -1 -1",
        "2 0 600 60 2 -1 -1 2 -1 -1 0 1 1 -1 1 1 -1 -1",
    ]
    assert found.counts == {
        "never_started_dropped": 1,
        "still_running_dropped": 1,
        "submit_missing_dropped": 1,
        "limit_missing": 1,
    }
