"""Forms of sacct's output: columns, separators, quotes, JSON, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from rlsched.workloads import sacct_records
from rlsched.workloads.sacct import import_sacct
from tests.workloads.sacct_output import COLUMNS, import_lines, line


def test_alternative_columns_give_the_same_jobs(tmp_path: Path) -> None:
    columns = "JobID|Submit|Start|End|Timelimit|AllocTRES"
    words = [
        "1|1738324800|1738325400|1738325460|1-00:30:00|billing=9,cpu=64,mem=4G,node=2",
        "2|0|1|2|5:00|cpu=1",
    ]
    result, rows = import_lines(tmp_path, words, columns)
    assert rows == [f"1 0 600 60 64 -1 -1 64 {86400 + 1800} -1 -1 -1 -1 -1 -1 -1 -1 -1"]
    assert result.counts == {"submit_missing_dropped": 1}  # Slurm's time 0 is never
    _, rows = import_lines(
        tmp_path,
        ["9|2025-01-31T12:00:00|2025-01-31T12:10:00|01:02:03|8|FAILED|"],
        "jobid|submit|start|elapsed|ncpus|state|",
    )
    assert rows[0].split()[1:5] == ["0", "600", "3723", "8"]


@pytest.mark.parametrize(
    ("columns", "lines", "message"),
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
        (
            '{"jobs": [',
            [],
            "test: is not JSON from line 2, column 1 on (Expecting value); give the output of",
        ),
        ('{"job": []}', [], "test: is JSON without a list of jobs; give the output of sacct --json"),
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
            "test: holds no job that ran (3 jobs without a submit time",
        ),
        (
            '{"jobs": [{}], "errors": [{"description": "Query failed", "error": "Lost\\u001b"}]}',
            [],
            "test: errors[0]: Slurm answered with 1 errors, first: Query failed: Lost?; run again: SLURM",
        ),
        ('{"errors": ["gone", 7]}', [], "test: errors[0]: Slurm answered with 2 errors, first: gone; run"),
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
def test_what_cannot_be_imported(tmp_path: Path, columns: str, lines: list[str], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        import_lines(tmp_path, lines, columns)
    assert str(caught.value).startswith(message)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInputError):
        import_sacct([columns, *lines], "test", tmp_path / "a" / "b" / "site.swf")
    assert list(tmp_path.iterdir()) == []


def test_joined_files_may_have_different_columns(tmp_path: Path) -> None:
    reordered = COLUMNS.replace("Submit|Eligible|Start", "Start|Submit|Eligible")
    reordered = reordered.replace("TimelimitRaw", "Timelimit")
    values = line("2", TimelimitRaw="1:00").split("|")
    values[6:9] = [values[8], values[6], values[7]]
    result, rows = import_lines(
        tmp_path, [line("1", TimelimitRaw="60"), COLUMNS, reordered, "|".join(values)]
    )
    assert (result.lines, result.jobs, result.counts) == (2, 2, {})
    assert [row.split()[2] for row in rows] == ["600", "600"]
    assert [row.split()[8] for row in rows] == ["3600", "60"]
    fewer = "JobID|Submit|Start|End|NCPUS|State"
    result, rows = import_lines(tmp_path, [line("1"), fewer, "2|1738324800|1738324900|1738325000|8|FAILED"])
    assert [row.split()[2:5] for row in rows] == [["600", "60", "4"], ["100", "100", "8"]]
    with pytest.raises(BadInputError, match="has no column submit in its first line"):
        import_lines(tmp_path, [line("1"), "JobID|Start|End|NCPUS"])


def test_byte_order_marks_and_users_called_jobid_are_no_headers(tmp_path: Path) -> None:
    result, _ = import_lines(
        tmp_path, [COLUMNS, line("1"), "\ufeff" + COLUMNS, line("2", User="jobid") + "|x"], "\ufeff"
    )
    assert (result.jobs, result.counts) == (1, {"long_lines_dropped": 1})


def test_another_separator_can_be_given(tmp_path: Path) -> None:
    _, rows = import_lines(
        tmp_path, [line("7").replace("|", ";;")], COLUMNS.replace("|", ";;"), delimiter=";;"
    )
    assert rows == ["1 0 600 60 4 -1 -1 2 1800 -1 1 1 1 -1 1 1 -1 -1"]


def test_fields_may_stand_in_quotes(tmp_path: Path) -> None:
    def quoted(text: str, separator: str) -> str:
        return separator.join(f'"{value}"' for value in text.split("|"))

    _, plain = import_lines(tmp_path, [line("7"), line("8")])
    for separator in (",", ";", "\t", "|"):
        lines = [quoted(line("7"), separator), line("8").replace("|", separator)]
        _, rows = import_lines(tmp_path, lines, quoted(COLUMNS, separator), delimiter=separator)
        assert rows == plain
    # As pandas and Excel write it: what holds the separator is in quotes.
    columns = "JobID,JobName,Submit,Start,End,AllocTRES"
    text = '1,"a ""big"" one, or two",1738324800,1738325400,1738325460,"billing=9,cpu=64"'
    # As sacct writes it, a quote is an ordinary character.
    name = '1,"big,1738324800,1738325400,1738325460,cpu=64'
    _, rows = import_lines(tmp_path, [name], columns, delimiter=",")
    assert rows[0].split()[1:5] == ["0", "600", "60", "64"]
    result, rows = import_lines(tmp_path, [text], columns, delimiter=",")
    assert (rows[0].split()[1:5], result.counts) == (["0", "600", "60", "64"], {"limit_missing": 1})
    broken = [text.replace("a ", "a" * 200_000), text.replace('two"', "two"), text]
    result, rows = import_lines(tmp_path, broken, columns, delimiter=",")
    assert (len(rows), sum(result.counts.values()), result.lines) == (1, 3, 3)
    # What sacct prints has quotes of its own.
    columns = columns.replace(",", "|")
    result, rows = import_lines(tmp_path, ['1|"a|1738324800|1738325400|1738325460|cpu=64'], columns)
    assert len(rows) == 1


def test_json_gives_the_same_jobs(tmp_path: Path) -> None:
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
    result, rows = import_lines(tmp_path, lines, first)
    assert rows == [
        "1 0 600 60 4 -1 -1 2 1800 -1 1 1 1 -1 1 1 -1 -1",
        "2 0 600 60 2 -1 -1 2 -1 -1 0 1 1 -1 1 1 -1 -1",
    ]
    assert result.counts == {
        "never_started_dropped": 1,
        "still_running_dropped": 1,
        "submit_missing_dropped": 1,
        "limit_missing": 1,
    }


def test_lines_in_a_row_that_are_no_jobs_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sacct_records, "MOST_IDLE_LINES", 3)
    broken = ["", "1|", line("2") + "|", line("3", Submit="x")]
    steps = [line("1.0"), line("1.1"), line("1.2"), line("1.3"), line("4", State="REQUEUED")]
    for bad in broken:
        result, _ = import_lines(tmp_path, [line("1"), *[bad] * 3, *steps, line("5"), *[bad] * 3])
        assert result.jobs == 2
        with pytest.raises(
            BadInputError, match="test: holds more than 1,000,000 lines that are blank or no jobs"
        ):
            import_lines(tmp_path, [line("1"), *[bad] * 4, line("5")])
