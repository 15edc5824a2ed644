from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.jobs import JobTable
from rlsched.report.packing import JobBar, pack
from tests.report.examples import first_fit


def test_rows_by_hand() -> None:
    # job 3 finds rows 0-2 and 4 free: job 1 holds row 3, so it is split
    jobs = JobTable.build(submit=[0, 0, 0, 5], runtime=[5, 20, 5, 5], demand=[3, 1, 1, 4])
    assert pack(jobs, np.array([0, 0, 0, 5]), 5) == [
        JobBar(0, 0, 3),
        JobBar(1, 3, 4),
        JobBar(2, 4, 5),
        JobBar(3, 0, 3),
        JobBar(3, 4, 5),
    ]


def test_a_gap_that_holds_the_job_whole_is_preferred() -> None:
    jobs = JobTable.build(submit=[0, 0, 5], runtime=[5, 20, 5], demand=[2, 1, 3])
    assert pack(jobs, np.array([0, 0, 5]), 6)[-1] == JobBar(2, 3, 6)


def test_jobs_that_never_started_are_not_drawn() -> None:
    jobs = JobTable.build(submit=[0, 0], runtime=[5, 5], demand=[2, 2])
    assert pack(jobs, np.array([-1, 0]), 2) == [JobBar(1, 0, 2)]


def test_an_impossible_schedule_is_refused() -> None:
    jobs = JobTable.build(submit=[0, 0], runtime=[5, 5], demand=[2, 2])
    with pytest.raises(ValueError, match="row 1 needs 2 of 1 free processors at tick 0"):
        pack(jobs, np.array([0, 0]), 3)


def test_time_grows_with_the_jobs_and_not_with_their_square() -> None:
    """A ratio within one run: twenty times the jobs at a time take less than six times as long per job."""

    def seconds(jobs_at_once: int) -> float:
        count = 4 * jobs_at_once
        start = np.arange(count) // 2
        jobs = JobTable.build(submit=start, runtime=[jobs_at_once // 2] * count, demand=[1] * count)
        begin = time.perf_counter()
        pack(jobs, start, jobs_at_once + 2)
        return (time.perf_counter() - begin) / count

    pack(JobTable.build(submit=[0], runtime=[1], demand=[1]), np.array([0]), 1)
    assert min(seconds(2000) for _ in range(2)) < 6 * min(seconds(100) for _ in range(3))


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=40)
)
def test_bars_never_overlap_and_hold_each_job(rows: list[tuple[int, int, int]]) -> None:
    submit, runtime, demand = zip(*rows, strict=True)
    jobs = JobTable.build(submit=submit, runtime=runtime, demand=demand)
    start = first_fit(jobs, 12, np.arange(len(jobs)))
    used = np.zeros((12, int((start + jobs.runtime).max())), dtype=int)
    widths = np.zeros(len(jobs), dtype=int)
    for job, low, high in pack(jobs, start, 12):
        used[low:high, start[job] : start[job] + jobs.runtime[job]] += 1
        widths[job] += high - low
    assert used.max() == 1
    np.testing.assert_array_equal(widths, jobs.demand[:, 0])
