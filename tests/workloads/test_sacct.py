"""Imports of Slurm accounting: which records are jobs, and what they become."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.workloads import sacct, swf
from rlsched.workloads.sacct import import_sacct
from tests.workloads.sacct_output import COLUMNS, LATER, import_lines, line


def test_a_job(tmp_path: Path) -> None:
    result, rows = import_lines(tmp_path, [line("7")])
    assert rows == ["1 0 600 60 4 -1 -1 2 1800 -1 1 1 1 -1 1 1 -1 -1"]
    assert (result.lines, result.jobs, dict(result.counts), result.unused) == (1, 1, {}, ["Eligible"])
    trace = swf.read(tmp_path / "site.swf")
    assert trace.processors == 4
    assert trace.header["UnixStartTime"] == "1738324800"  # 31 January 2025, noon
    assert trace.header["Queue"] == "1 batch"
    assert trace.repairs == {}
    _, rows = import_lines(tmp_path, [line("7")], eligible=True)
    assert rows[0].startswith("1 0 300 60")


def test_lines_that_are_no_jobs_are_counted(tmp_path: Path) -> None:
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
    result, rows = import_lines(tmp_path, lines)
    assert len(rows) == result.jobs == 2
    assert result.lines == 18
    assert result.counts == {
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
    assert set(result.counts) <= set(sacct.DROPPED)
    assert result.jobs + sum(result.counts.values()) == result.lines


def test_a_job_that_runs_again_has_not_ended(tmp_path: Path) -> None:
    running = line("1", State="RUNNING", End="Unknown", **(LATER | {"ElapsedRaw": "5"}))
    result, _ = import_lines(tmp_path, [line("1", State="NODE_FAIL"), line("2"), running])
    assert result.jobs == 1
    assert result.counts == {"earlier_dropped": 1, "still_running_dropped": 1}


def test_limits_states_and_unknown_fields(tmp_path: Path) -> None:
    states = ["COMPLETED", "CANCELLED by 0", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED"]
    limits = ["1440", "UNLIMITED", "Partition_Limit", "", "1"]
    lines = [
        line(str(k), State=state, TimelimitRaw=limit, User="" if k else "u9")
        for k, (state, limit) in enumerate(zip(states, limits, strict=True))
    ]
    result, rows = import_lines(tmp_path, lines)
    assert [row.split()[8] for row in rows] == ["86400", "-1", "-1", "-1", "60"]
    assert [row.split()[10] for row in rows] == ["1", "5", "0", "0", "5"]
    assert [row.split()[11] for row in rows] == ["1", "-1", "-1", "-1", "-1"]
    assert result.counts == {"limit_missing": 3}
    early, rows = import_lines(tmp_path, [line("1", Start="2025-01-31T11:59:00")])
    assert early.counts == {"start_before_submit": 1}
    assert rows[0].split()[2] == "0"


def test_the_end_time_replaces_a_blank_runtime(tmp_path: Path) -> None:
    result, rows = import_lines(tmp_path, [line("1", ElapsedRaw="")])
    assert rows[0].split()[1:5] == ["0", "600", "60", "4"]
    without = "jobid|submit|start|elapsed|ncpus|state"
    known, blank = ("1|10|20|00:30|8|FAILED", "2|10|20||8|FAILED")
    result, rows = import_lines(tmp_path, [known, blank], without)
    assert (len(rows), result.counts) == (1, {"not_numeric_dropped": 1, "limit_missing": 1})


def test_the_folder_of_a_trace_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for out in (Path("a/b/site.swf"), Path("site.swf")):
        import_sacct([COLUMNS, line("1")], "test", out)
        assert swf.read(out).jobs.id.tolist() == [1]
    assert {path.name for path in tmp_path.iterdir()} == {"a", "site.swf"}


def test_processors_are_those_in_use_at_full_hours(tmp_path: Path) -> None:
    noon = 1738324800
    lines = [
        line("1", Submit=str(noon), Start=str(noon - 60), ElapsedRaw="120", AllocCPUS="30"),
        line("2", Submit=str(noon), Start=str(noon), ElapsedRaw="3600", AllocCPUS="20"),
        line("3", Submit=str(noon), Start=str(noon + 60), ElapsedRaw="3540", AllocCPUS="500"),
        line("4", Submit=str(noon), Start=str(noon + 3600), ElapsedRaw="60", AllocCPUS="9"),
    ]
    result, _ = import_lines(tmp_path, [lines[0], lines[1], lines[3]])
    assert result.processors == 50
    result, _ = import_lines(tmp_path, lines)
    assert result.processors == 500  # of the largest job, which no full hour saw
    result, _ = import_lines(tmp_path, lines, processors=1024)
    assert (result.processors, result.most_in_use) == (1024, 500)
    assert swf.read(tmp_path / "site.swf").processors == 1024


def test_an_imported_trace_has_the_same_jobs(tmp_path: Path) -> None:
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
    import_lines(tmp_path, lines)
    jobs = swf.read(tmp_path / "site.swf").jobs
    rows = {(s, r, p) for s, r, p in zip(submit - submit[0], runtime, size, strict=True)}
    assert {(s, r, p) for s, r, p in zip(jobs.submit, jobs.runtime, jobs.demand[:, 0], strict=True)} == rows
    assert (jobs.start == jobs.submit + 7).all()


def test_reused_job_ids_are_different_jobs(tmp_path: Path) -> None:
    def at(day: str, state: str = "COMPLETED", user: str = "u1") -> str:
        times = {"Submit": f"{day}T12:00:00", "Start": f"{day}T12:10:00", "End": f"{day}T12:11:00"}
        return line("7", State=state, User=user, **times)

    lines = [at("2017-10-03"), at("2025-08-21", user="u2"), at("2025-08-22", "NODE_FAIL"), line("8")]
    again = {"Submit": "2025-08-22T12:11:30", "Start": "2025-08-22T12:20:00", "End": "2025-08-22T12:21:00"}
    lines.append(line("7", **again))  # put back when its node failed
    for order in (lines, lines[::-1]):
        result, rows = import_lines(tmp_path, order)
        assert (result.jobs, result.counts) == (4, {"earlier_dropped": 1})
        assert sorted(int(row.split()[2]) for row in rows) == [510, 600, 600, 600]
    # A run that was suspended ends later than it ran; a job that is put back may be rows_in_memory for long.
    suspended = line("7", State="NODE_FAIL", End="2025-01-31T17:11:00")
    later = {"Submit": "2025-01-31T17:11:30", "Eligible": "2025-02-01T08:00:00"}
    later |= {"Start": "2025-02-01T08:10:00", "End": "2025-02-01T08:11:00"}
    for eligible in (False, True):
        result, rows = import_lines(tmp_path, [suspended, line("7", **later)], eligible=eligible)
        assert (result.jobs, result.counts) == (1, {"earlier_dropped": 1})
    # A job that waits for long is in many months, and is the same one.
    waits = line("9", State="PENDING", Start="Unknown", End="Unknown", ElapsedRaw="0")
    ran = line("9", Start="2025-03-31T12:10:00", End="2025-03-31T12:11:00")
    runs = line("9", State="RUNNING", Start="2025-03-31T12:10:00", End="Unknown", ElapsedRaw="5")
    for order in ([waits, waits, runs, ran], [ran, runs, waits, waits]):
        result, rows = import_lines(tmp_path, order)
        assert (result.jobs, result.counts) == (1, {"earlier_dropped": 3})


def test_one_of_several_clusters_must_be_named(tmp_path: Path) -> None:
    columns, lines = f"{COLUMNS}|Cluster", [f"{line('1')}|alpha", f"{line('1')}|beta", f"{line('2')}|beta"]
    with pytest.raises(
        BadInputError, match="test: holds jobs of 2 clusters: alpha, beta; name one with --cl"
    ):
        import_lines(tmp_path, lines, columns)
    result, _ = import_lines(tmp_path, lines, columns, cluster="beta")
    assert (result.jobs, result.counts) == (2, {"other_cluster_dropped": 1})
    with pytest.raises(BadInputError, match="--cluster: value 'beta', and test does not say"):
        import_lines(tmp_path, [line("1")], cluster="beta")
    with pytest.raises(BadInputError, match="'gamma', and test holds jobs of alpha, beta only"):
        import_lines(tmp_path, lines, columns, cluster="gamma")
