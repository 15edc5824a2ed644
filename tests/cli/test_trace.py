"""`rlsched trace` and `rlsched workload`, as a user calls them."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest

from rlsched.workloads import swf
from rlsched.workloads.days import natural_load
from tests.workloads.swf_files import job_line, trace_file
from tests.workloads.test_sacct import COLUMNS, line

from .conftest import JOBS, PROCESSORS, Run


def test_info_says_what_is_in_a_trace(rlsched: Run, trace: Path) -> None:
    values = rlsched("trace", "info", trace, "--json", "-").json
    jobs = swf.read(trace).jobs
    assert (values["jobs"], values["processors"], values["repairs"]) == (JOBS, PROCESSORS, {})
    assert values["load"] == pytest.approx(natural_load(jobs, PROCESSORS))
    ran = rlsched("trace", "info", trace)
    assert ran.code == 0
    assert f"{JOBS:,} jobs in" in ran.out
    assert "MaxProcs" in ran.out


def test_check_and_a_simulation_agree_on_jobs_that_are_too_wide(rlsched: Run, tmp_path: Path) -> None:
    wide = trace_file(tmp_path, "; MaxProcs: 8", job_line(1), job_line(2, allocated=9), job_line(3))
    ran = rlsched("trace", "check", wide, "--json", tmp_path / "figures.json")
    assert (ran.code, ran.err.splitlines()) == (
        2,
        [
            f"error: {wide}: 1 jobs that request more than the cluster has; --processors N names a larger "
            "machine, and --set workload.oversized=scale cuts them down"
        ],
    )
    values = json.loads((tmp_path / "figures.json").read_text())
    assert (values["jobs"], values["repairs"]) == (2, {"requested_missing_filled": 3, "oversized_dropped": 1})
    simulated = rlsched("simulate", "--trace", wide, "--policy", "fcfs", "--json", "-").json
    assert simulated["repairs"]["oversized_dropped"] == 1
    assert rlsched("trace", "info", wide, "--json", "-").json["repairs"]["oversized_dropped"] == 1
    assert rlsched("trace", "check", wide, "--processors", 9).out.splitlines()[-1] == "whole: 3 jobs"


def test_check_is_an_error_where_jobs_are_lost(rlsched: Run, trace: Path, tmp_path: Path) -> None:
    assert rlsched("trace", "check", trace).out == f"whole: {JOBS} jobs\n"
    broken = trace_file(
        tmp_path, "; MaxProcs: 8", job_line(1), job_line(2, runtime=0), job_line(2), "3 4", job_line(4)
    )
    ran = rlsched("trace", "check", broken, "--json", tmp_path / "figures.json")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"error: {broken}: 1 further lines of a job number; in the format, the first line sums up the job",
        f"error: {broken}: 1 jobs that never ran",
        f"error: {broken}: 1 lines with fewer than 18 fields; rlsched trace cut {broken} --out OUT.swf "
        "writes the other 2 jobs",
    ]
    values = json.loads((tmp_path / "figures.json").read_text())
    assert values["repairs"]["zero_runtime_dropped"] == 1


def test_a_part_of_a_trace(rlsched: Run, trace: Path, tmp_path: Path) -> None:
    whole = swf.read(trace)
    out = tmp_path / "parts" / "part.swf.gz"
    ran = rlsched("trace", "cut", trace, "--first", 20, "--jobs", 50, "--out", out)
    assert ran.code == 0
    assert "50 jobs, rows 20 to 69" in ran.out
    part = swf.read(out)
    assert part.processors == PROCESSORS
    for name in ("id", "submit", "runtime", "requested", "demand"):
        assert np.array_equal(getattr(part.jobs, name), getattr(whole.jobs, name)[20:70])
    assert rlsched("trace", "cut", trace, "--days", 1, "--out", out).code == 0
    jobs = swf.read(out).jobs
    assert jobs.submit[-1] - jobs.submit[0] < 86_400
    assert len(jobs) == ((whole.jobs.submit - whole.jobs.submit[0]) < 86_400).sum()


def test_another_load(rlsched: Run, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "busy.swf"
    before = natural_load(swf.read(trace).jobs, PROCESSORS)
    assert rlsched("trace", "scale", trace, "--load", 0.5, "--out", out).code == 0
    assert natural_load(swf.read(out).jobs, PROCESSORS) == pytest.approx(0.5, rel=1e-3)
    assert rlsched("trace", "scale", trace, "--factor", 2, "--out", out).code == 0
    assert natural_load(swf.read(out).jobs, PROCESSORS) == pytest.approx(2 * before, rel=1e-3)
    assert "load" in swf.read(out).header["Note"]


def test_all_else_stays_as_it_was(rlsched: Run, tmp_path: Path) -> None:
    header = ["; Computer: Größe", "; MaxJobs: 9", "; MaxNodes: 4", "; MaxProcs: 16", "; Queue: 1 batch"]
    lines = [f"{k} {100 * k} 7 60 {k} 3.5 2048 {k} -1 4096 {k % 6} 3 4 5 2 1 -1 9" for k in range(1, 8)]
    file = trace_file(tmp_path, *header, *lines)
    assert rlsched("trace", "cut", file, "--first", 2, "--jobs", 3, "--out", tmp_path / "a.swf").code == 0
    written = (tmp_path / "a.swf").read_text("latin-1").splitlines()
    assert written[:5] == [*header[:1], "; MaxJobs: 3", *header[2:]]
    assert written[-3:] == lines[2:5]
    assert rlsched("trace", "scale", file, "--factor", 0.5, "--out", tmp_path / "b.swf").code == 0
    scaled = [row.split() for row in (tmp_path / "b.swf").read_text("latin-1").splitlines()[-7:]]
    assert [int(row[1]) for row in scaled] == [100 + 200 * k for k in range(7)]
    assert [row[2:] for row in scaled] == [row.split()[2:] for row in lines]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["cut", "TRACE", "--first", 300, "--out", "OUT"], "--first: value 300: "),
        (
            ["cut", "TRACE", "--first", 299, "--jobs", 2, "--out", "OUT"],
            "--jobs: value 2: from row 299 on there are 1;",
        ),
        (["cut", "TRACE", "--jobs", 2, "--days", 2, "--out", "OUT"], "--jobs, --days: both are given"),
        (["cut", "TRACE", "--days", -1, "--out", "OUT"], "--days: value -1"),
        (["scale", "TRACE", "--out", "OUT"], "--load, --factor: one of them is needed"),
        (["scale", "TRACE", "--load", 0, "--out", "OUT"], "--load: value 0"),
        (
            ["scale", "TRACE", "--load", 1e-14, "--out", "OUT"],
            "--load: value 1e-14: the trace would become too long",
        ),
        (
            ["import", "sacct", "TRACE", "--out", "OUT", "--time-zone", "Mars/Base"],
            "--time-zone: 'Mars/Base' is unknown",
        ),
        (["scale", "TRACE", "--load", 1, "--out", "TRACE/x"], "--out: cannot write"),
        (["info", "NONE"], "NONE: no such file"),
        (["import", "sacct", "NONE", "--out", "OUT"], "NONE: cannot be read (No such file or directory)"),
        (["import", "sacct", "TRACE", "--out", "OUT"], "TRACE: is a trace (SWF) already"),
        (["import", "sacct", "TRACE", "--out", "OUT", "--delimiter", ""], "--delimiter: is empty"),
        (["import", "sacct", "TRACE", "--out", "TRACE"], "--out: 'TRACE' is also the file of FILE; name"),
        (["cut", "TRACE", "--out", "TRACE"], "--out: 'TRACE' is also the file of FILE"),
        (["cut", "TRACE", "--out", "OUT", "--json", "OUT"], "--json: 'OUT' is also the file of --out"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    rlsched: Run, trace: Path, tmp_path: Path, words: list[object], error: str
) -> None:
    places = {"TRACE": str(trace), "NONE": str(tmp_path / "none"), "OUT": str(tmp_path / "out.swf")}

    def placed(text: object) -> object:
        for name, path in places.items():
            text = text.replace(name, path) if isinstance(text, str) else text
        return text

    ran = rlsched("trace", *map(placed, words))
    assert ran.code == 2
    assert ran.err.startswith(f"error: {placed(error)}")
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "out.swf").exists()


def test_import_from_a_pipe_and_from_gzip(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join([COLUMNS, line("1"), line("1.batch"), line("2", TimelimitRaw="UNLIMITED")]) + "\n"
    zipped = tmp_path / "sacct.gz"
    zipped.write_bytes(gzip.compress(text.encode()))
    out = tmp_path / "site.swf"
    ran = rlsched("trace", "import", "sacct", zipped, "--out", out, "--processors", 64)
    assert ran.code == 0
    assert "3 lines, 2 jobs" in ran.out
    assert "steps of jobs" in ran.out
    assert "jobs without a time limit" in ran.out
    first = out.read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))  # type: ignore[arg-type]
    ran = rlsched("trace", "import", "sacct", "-", "--out", out, "--processors", 64, "--json", "-")
    assert ran.code == 0, ran
    values = ran.json
    assert out.read_bytes() == first
    assert (values["jobs"], values["counts"]) == (2, {"steps_dropped": 1, "limit_missing": 1})
    assert rlsched("simulate", "--trace", out, "--policy", "fcfs").code == 0


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_archive_is_one_line(rlsched: Run, tmp_path: Path, cut: bool) -> None:
    path = tmp_path / "sacct.gz"
    rng = np.random.default_rng(0)
    rows = [line(str(k), User=f"u{rng.integers(10**9)}") for k in range(500)]
    whole = bytearray(gzip.compress("\n".join([COLUMNS, *rows]).encode()))
    whole[len(whole) // 2 : len(whole) // 2 + 200] = bytes(200)
    path.write_bytes(whole[:-9] if cut else whole)
    ran = rlsched("trace", "import", "sacct", path, "--out", tmp_path / "site.swf")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert [row.name for row in tmp_path.iterdir()] == ["sacct.gz"]


def test_workloads_side_by_side(rlsched: Run, trace: Path, tmp_path: Path) -> None:
    picture = tmp_path / "jobs.png"
    words = ("workload", "describe", "--scenario", "lublin-256", "--against", trace, "--jobs", 2000)
    ran = rlsched(*words, "--draw", picture, "--json", tmp_path / "figures.json")
    assert ran.code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    values = json.loads((tmp_path / "figures.json").read_text())
    ours, theirs = values["workloads"]
    jobs = swf.read(trace).jobs
    assert (ours["jobs"], ours["units"], theirs["jobs"], theirs["units"]) == (2000, [256], JOBS, [PROCESSORS])
    assert theirs["serial"] == pytest.approx((jobs.demand == 1).mean())
    assert theirs["runtimes_s"][-1] == jobs.runtime.max()
    assert sum(ours["hourly"]) == pytest.approx(1.0)
    assert "on 2, 4, 8, ... units" in ran.out


@pytest.mark.parametrize("resample", ["training", "always"])
def test_resampled_traces_are_described(rlsched: Run, resample: str) -> None:
    words = ("--trace", "datasets/sample.swf.gz", "--set", f"workload.resample={resample}", "--jobs", 9000)
    (values,) = rlsched("workload", "describe", *words, "--json", "-").json["workloads"]
    assert values["jobs"] == (9000 if resample == "always" else 30_000)


def test_the_sizes_of_clusters_are_described(rlsched: Run) -> None:
    ran = rlsched("workload", "describe", "--scenario", "lublin-sizes", "--jobs", 6400, "--json", "-")
    assert ran.json["workloads"][0]["units"] == [128, 256, 2048]
    assert "128 or 256 or 2,048" in ran.err


def test_mixtures_are_described_by_all_their_parts(rlsched: Run) -> None:
    parts = "[{share: 3, workload: {kind: lublin}}, {workload: {kind: lublin, jobs: interactive}}]"
    words = (
        "--scenario",
        "lublin-256",
        "--set",
        f"workload={{kind: mixture, parts: {parts}}}",
        "--jobs",
        6400,
    )
    (values,) = rlsched("workload", "describe", *words, "--json", "-").json["workloads"]
    assert values["jobs"] == 6400
    assert values["units"] == [256]
    # 24.4 % of all jobs are serial, and 15.4 % of interactive ones.
    assert values["serial"] == pytest.approx(0.75 * 0.244 + 0.25 * 0.154, abs=0.03)
