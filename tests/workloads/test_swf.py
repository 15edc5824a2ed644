"""What the lines of a trace mean, and traces written and read again."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.workloads import swf, swf_text
from tests.workloads.swf_files import job_line, trace_file

RULES: tuple[Literal["standard", "rlscheduler"], ...] = ("standard", "rlscheduler")


def same(actual: JobTable, expected: JobTable) -> None:
    for column in fields(JobTable):
        np.testing.assert_array_equal(
            getattr(actual, column.name), getattr(expected, column.name), column.name
        )


def test_fields_of_a_line(tmp_path: Path) -> None:
    path = trace_file(tmp_path, "; MaxProcs: 8", job_line(3, 7, 20, 2, 4, 60, user=5, queue=2))
    trace = swf.read(path)
    same(
        trace.jobs,
        JobTable.build(id=[3], submit=[7], runtime=[20], requested=[60], demand=[[4]], user=[5], queue=[2]),
    )
    assert (trace.processors, trace.nodes, trace.repairs) == (8, None, {})


@pytest.mark.parametrize(
    ("header", "processors", "nodes"),
    [
        (["; MaxNodes: 338 (batch partition; 512 total)"], 338, 338),
        (["; MaxNodes: 64", "; MaxProcs: 128"], 128, 64),
        (["; maxprocs: 16"], 16, None),
        (["; MaxProcs: -1", "; MaxNodes: unknown"], None, None),
        (["; MaxProcs: 0", "; MaxNodes: 4"], 4, 4),
        (["; MaxProcs: 1,024", "; MaxNodes: 12'288'000"], 1024, 12_288_000),
        (["; MaxProcs: 128, of which 8 serve"], 128, None),
        (["; MaxProcs: 128.0"], 128, None),
        (["; MaxProcs: 1024", "; MaxNodes: 64-way SMP"], 1024, None),
        (["; MaxProcs = 1024"], 1024, None),
        (["; Max Procs: 1024", "; max_nodes : 64"], 1024, 64),
        (["; MaxProcs: 128 processors, all alike"], 128, None),
        (["; MaxProcs: 128 (8 racks)", "; MaxNodes: 32; 16 of them large"], 128, 32),
        (["; MaxProcs: -1 (nobody knows)", "; MaxNodes: 4"], 4, 4),
        (["; MaxProcs:", "; MaxNodes: 4"], 4, 4),
        (["; MaxProcs: 1024 processors (2 per node)", "; MaxNodes: 512 [of 2 kinds]"], 1024, 512),
        (["; MaxProcs: 512 PEs of T3D", "; MaxNodes: -1 (unknown since 1996)"], 512, None),
        ([], None, None),
    ],
)
def test_size_of_the_machine(tmp_path: Path, header: list[str], processors: int, nodes: int) -> None:
    trace = swf.read(trace_file(tmp_path, *header, job_line()))
    assert (trace.processors, trace.nodes) == (processors, nodes)


@pytest.mark.parametrize(
    "value",
    [
        "1.024",
        "1,02",
        "4x16",
        "2e3",
        "12,3456",
        "128.5",
        "64/65",
        "1 024",
        "9" * 50,
        "128 x 8",
        "1024 + 64",
        "approx. 1024",
        *("~1024", "-5", "128 nodes x 8", "128*8", "=1024", "0x400", "128 k", "-1 or 2"),
    ],
)
def test_numbers_of_a_header_that_go_on_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(f"MaxProcs: value '{value}' is not a whole number")):
        swf.read(trace_file(tmp_path, f"; MaxProcs: {value}", "; MaxNodes: 128", job_line()))


def test_jobs_that_name_a_job_before_them_are_counted(tmp_path: Path) -> None:
    lines = [job_line(k).split() for k in range(1, 5)]
    for fields_, preceding in zip(lines, ("18446744073709551615", "1", "9", "x"), strict=True):
        fields_[16] = preceding
    trace = swf.read(trace_file(tmp_path, *map(" ".join, lines)))
    assert (len(trace.jobs), trace.repairs["dependencies_ignored"]) == (4, 1)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("bad", "repair"),
    [
        (job_line(2, runtime=0), "zero_runtime_dropped"),
        (job_line(2, submit=-1), "negative_submit_dropped"),
        (job_line(2, allocated=-1, processors=0), "processors_missing_dropped"),
        (job_line(1, runtime=99), "repeated_id_dropped"),
        (job_line(2, runtime=1e300), "out_of_range_dropped"),
        (job_line(2, allocated=2**40), "out_of_range_dropped"),
        ("1 2 3 4", "short_lines_dropped"),
        (job_line(2) + " 1", "long_lines_dropped"),
        (job_line(2, runtime="-"), "not_numeric_dropped"),
    ],
)
def test_what_means_nothing_is_dropped_and_counted(
    tmp_path: Path, bad: str, repair: str, rules: Literal["standard", "rlscheduler"]
) -> None:
    trace = swf.read(
        trace_file(tmp_path, job_line(1, requested=9), bad, job_line(3, requested=9)), rules=rules
    )
    assert trace.jobs.id.tolist() == [1, 3]
    assert trace.jobs.runtime.tolist() == [10, 10]
    assert trace.repairs == {repair: 1}
    assert repair in swf.REPAIRS


def test_negative_runtimes(tmp_path: Path) -> None:
    path = trace_file(tmp_path, job_line(1, runtime=-1, requested=60), job_line(2, requested=60))
    standard, compat = swf.read(path), swf.read(path, rules="rlscheduler")
    assert (standard.jobs.id.tolist(), standard.repairs) == ([2], {"negative_runtime_dropped": 1})
    assert (compat.jobs.runtime.tolist(), compat.repairs) == ([10, 10], {"negative_runtime_set_to_10s": 1})


@pytest.mark.parametrize("rules", RULES)
def test_unknown_fields_are_filled(tmp_path: Path, rules: Literal["standard", "rlscheduler"]) -> None:
    lines = [
        job_line(1),
        job_line(-1, submit=2, requested=0),
        job_line(-1, submit=3, requested=5, user="bob"),
    ]
    trace = swf.read(trace_file(tmp_path, *lines), rules=rules)
    assert trace.jobs.id.tolist() == [1, 2, 3]
    assert trace.jobs.requested.tolist() == [10, 10, 5]
    assert trace.jobs.user.tolist() == [-1, -1, -1]
    assert trace.repairs == {"missing_id_numbered": 2, "requested_missing_filled": 2}


def test_order(tmp_path: Path) -> None:
    lines = [job_line(k, submit=s, requested=1) for k, s in [(4, 9), (2, 5), (3, 5), (1, 7)]]
    path = trace_file(tmp_path, *lines)
    standard, compat = swf.read(path), swf.read(path, rules="rlscheduler")
    assert standard.jobs.id.tolist() == [2, 3, 1, 4]
    assert standard.repairs == {"resorted": 1}
    assert compat.jobs.id.tolist() == [1, 2, 3, 4]
    assert compat.jobs.submit.tolist() == [7, 5, 5, 9]
    assert compat.repairs == {"resorted": 2}


def test_fractions_and_ticks(tmp_path: Path) -> None:
    path = trace_file(
        tmp_path, job_line(1, 119.9, 0.2, 1.5, requested=60.5), job_line(2, 120, 61, requested=60)
    )
    seconds, minutes = swf.read(path), swf.read(path, tick_s=60)
    assert seconds.jobs.submit.tolist() == [119, 120]
    assert seconds.jobs.runtime.tolist() == [1, 61]
    assert seconds.jobs.requested.tolist() == [61, 60]
    assert seconds.jobs.demand.tolist() == [[2], [1]]
    assert seconds.repairs == {"fractions_rounded": 1}
    assert minutes.jobs.submit.tolist() == [1, 2]
    assert minutes.jobs.runtime.tolist() == [1, 2]
    assert minutes.jobs.requested.tolist() == [2, 1]


def test_rlscheduler_takes_whole_nodes(tmp_path: Path) -> None:
    lines = [job_line(k, allocated=k, requested=1) for k in (1, 2, 3, 8)]
    path = trace_file(tmp_path, "; MaxNodes: 4", "; MaxProcs: 8", *lines)
    assert swf.read(path, rules="rlscheduler").jobs.demand[:, 0].tolist() == [2, 2, 4, 8]
    assert swf.read(path).jobs.demand[:, 0].tolist() == [1, 2, 3, 8]


def test_a_trace_without_a_usable_job_is_refused_with_the_reasons(tmp_path: Path) -> None:
    path = trace_file(tmp_path, job_line(1, runtime=0), job_line(2, runtime=-1), "hello")
    with pytest.raises(BadInputError, match="no usable job") as caught:
        swf.read(path)
    for reason in ("1 lines with fewer than 18 fields", "1 jobs that never ran", "1 jobs without a runtime"):
        assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["HPC2N_slice10000", "lublin_256"])
def test_rows_are_those_of_the_recorded_replay(data_dir: Path, name: str) -> None:
    oracle = json.loads((data_dir.parent / "oracle" / f"{name}.json").read_text())
    trace = swf.read(data_dir / "swf" / f"{oracle['trace']}.gz", rules="rlscheduler")
    # HPC2N was loaded whole; the name of its record means that the offsets lie in its first 10,000 rows
    assert len(trace.jobs) == oracle["n_jobs"]
    assert trace.jobs.id[oracle["offsets"]].tolist() == oracle["first_job_ids"]
    assert (trace.nodes, trace.processors) == (oracle["max_nodes"], oracle["max_procs"])


def test_real_traces(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> None:
        raise AssertionError("read line by line, which takes four times as long")

    monkeypatch.setattr(swf_text, "_columns_by_line", slow)
    trace = swf.read(data_dir / "swf" / "HPC2N-2002-2.2-cln.swf.gz")
    assert (len(trace.jobs), trace.processors, trace.repairs) == (202_871, 240, {})
    trace = swf.read(data_dir / "swf" / "CTC-SP2-1996-3.1-cln.swf.gz")
    assert (len(trace.jobs), trace.processors, trace.nodes) == (77_205, 338, 338)
    assert trace.repairs == {"zero_runtime_dropped": 17, "requested_missing_filled": 6}


TIMES = st.integers(1, 10**9)
JOB = st.tuples(
    st.integers(0, 50), TIMES, TIMES, st.integers(1, 2**30 - 1), st.integers(-1, 9), st.integers(-1, 9)
)


@given(jobs=st.lists(JOB, min_size=1, max_size=20), tick_s=st.integers(1, 4000), packed=st.booleans())
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, ...]], tick_s: int, packed: bool
) -> None:
    submit, runtime, requested, demand, user, queue = map(list, zip(*sorted(jobs), strict=True))
    table = JobTable.build(
        submit=submit, runtime=runtime, requested=requested, demand=demand, user=user, queue=queue
    )
    path = tmp_path_factory.getbasetemp() / ("round.swf.gz" if packed else "round.swf")
    swf.write(path, table, processors=2**30, header={"Note": "one\ntwo"}, tick_s=tick_s)
    assert path.read_bytes().startswith(b"\x1f\x8b") == packed
    trace = swf.read(path, tick_s=tick_s)
    same(trace.jobs, table)
    assert (trace.processors, trace.header["Note"], trace.repairs) == (2**30, "one\ntwo", {})


def test_starts_make_the_wait_field(tmp_path: Path) -> None:
    table = JobTable.build(submit=[1, 2, 3], runtime=[5, 5, 5], demand=[1, 1, 1])
    path = tmp_path / "replay.swf"
    swf.write(path, table, processors=4, starts=np.array([1, 6, -1]), tick_s=10)
    lines = [line.split() for line in path.read_text().splitlines() if not line.startswith(";")]
    assert [line[2] for line in lines] == ["0", "40", "-1"]
    assert [line[10] for line in lines] == ["1", "1", "-1"]


def test_written_files_are_whole_and_reproducible(tmp_path: Path) -> None:
    table = JobTable.build(submit=[1], runtime=[5], demand=[1])
    first, second = tmp_path / "a.swf.gz", tmp_path / "b.swf.gz"
    swf.write(first, table, processors=4)
    second.write_bytes(gzip.compress(b"old"))
    swf.write(second, table, processors=4)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    table = JobTable.build(submit=[1], runtime=[5], demand=[[1]])
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="cannot be written"):
        swf.write(tmp_path / "file" / "a.swf", table, processors=4)
    (tmp_path / "folder.swf").mkdir()
    with pytest.raises(BadInputError, match="cannot be written"):
        swf.write(tmp_path / "folder.swf", table, processors=4)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder.swf"}
    two = JobTable.build(submit=[1], runtime=[5], demand=[[1, 1]])
    with pytest.raises(BadInputError, match="2 resource types"):
        swf.write(tmp_path / "a.swf", two, processors=4)
