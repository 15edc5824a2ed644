"""The external sort of job records: last records, order, memory and full disks."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.workloads import external_sort
from rlsched.workloads.sacct import import_sacct
from tests.workloads.sacct_output import COLUMNS, LATER, import_lines, line


@pytest.mark.parametrize("rows_in_memory", [1, 3, 50_000])
def test_the_last_record_of_a_job_counts_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_in_memory: int
) -> None:
    monkeypatch.setattr(external_sort, "MEMORY_ROWS", rows_in_memory)
    again = line("5_1", "6", **LATER)
    jobs = [line(str(k)) for k in range(10, 14)]
    # As sacct lists a whole site with --duplicates: earlier runs before all other jobs.
    lines = [line("5_1", "6", State="NODE_FAIL"), *jobs, line("5_1.batch", "6.batch"), again]
    for order in (lines, lines[::-1]):
        result, rows = import_lines(tmp_path, order)
        assert result.counts == {"earlier_dropped": 1, "steps_dropped": 1}
        assert [row.split()[1:4] for row in rows] == [["0", "600", "60"]] * 4 + [["660", "540", "90"]]
    # The same line twice, as from two months that it touches.
    result, rows = import_lines(tmp_path, [again, *jobs, again])
    assert (result.jobs, result.counts) == (5, {"earlier_dropped": 1})
    # Tasks of an array are jobs of their own.
    result, rows = import_lines(tmp_path, [line(f"5_{k}", str(10 + k)) for k in range(4)])
    assert (result.jobs, result.counts) == (4, {})


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 7))
def test_jobs_are_sorted_by_submit_time(
    tmp_path_factory: pytest.TempPathFactory, submits: list[int], rows_in_memory: int
) -> None:
    folder = tmp_path_factory.mktemp("sacct")
    lines = [
        line(str(k), Submit=str(10**9 + s), Start=str(10**9 + 60), ReqCPUS=str(k + 1))
        for k, s in enumerate(submits)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "MEMORY_ROWS", rows_in_memory)
        _, rows = import_lines(folder, lines)
    result = [tuple(map(int, (row.split()[1], row.split()[7]))) for row in rows]
    assert result == sorted((s - min(submits), k + 1) for k, s in enumerate(submits))
    assert [int(row.split()[0]) for row in rows] == list(range(1, len(rows) + 1))
    assert [path.name for path in folder.iterdir()] == ["site.swf"]


MEASURE = """
import resource, sys
from pathlib import Path
from rlsched.workloads import external_sort, sacct
external_sort.MEMORY_ROWS = 2_000
with open(sys.argv[1]) as lines:
    result = sacct.import_sacct(lines, "test", Path(sys.argv[1]).with_suffix(".swf"))
print(result.jobs, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
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
@pytest.mark.parametrize("name", ["records", "jobs"])
def test_a_full_disk_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    """While lines are put down, and while the trace is written."""
    rows = external_sort.ExternalSort.sorted

    def full(sorter: external_sort.ExternalSort) -> Iterator[tuple[Any, ...]]:
        for k, row in enumerate(rows(sorter)):
            if k == after and sorter.name == name:
                raise OSError(28, "No space left on device")
            yield row

    out = tmp_path / "site.swf"
    out.write_text("what was there")
    monkeypatch.setattr(external_sort, "MEMORY_ROWS", 3)
    monkeypatch.setattr(external_sort.ExternalSort, "sorted", full)
    with pytest.raises(OSError, match="No space left"):
        import_sacct([COLUMNS, *(line(str(k)) for k in range(20))], "test", out)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("site.swf", "what was there")]
