"""Episodes of a trace that are all jobs of so many ticks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.workloads.source import TraceSource, open_source
from rlsched.workloads.traces import Windows
from tests.workloads.opening import for_ticks
from tests.workloads.swf_files import job_line, trace_file

JOBS = 100


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """100 jobs, one submitted every 10 s, the last 20 every 5 s: the last comes at 890 s."""
    submit = [10 * k if k < 80 else 795 + 5 * (k - 80) for k in range(JOBS)]
    lines = [job_line(k, submit=s, requested=10) for k, s in enumerate(submit)]
    return trace_file(tmp_path, "; MaxProcs: 8", *lines)


def opened(path: Path, *overrides: str, ticks: int = 50, **workload: Any) -> TraceSource:
    values = {"workload": {"kind": "swf", "file": str(path), **workload}}
    source = open_source(scenario.parse(values, "test", [*for_ticks(ticks), *overrides]))
    assert isinstance(source, TraceSource)
    return source


def test_by_hand() -> None:
    windows = Windows(np.array([0, 4, 4, 5, 9, 20]), None, 5)
    assert [windows.end(row) for row in range(6)] == [3, 4, 4, 5, 5, 6]
    # Ticks 0..4, 4..8 (twice) and 5..9 are over before the job at 9, and all of them before tick 21.
    assert [windows.starts(end) for end in range(7)] == [0, 0, 0, 1, 3, 5, 5]
    assert windows.most == 3
    assert windows.length(1, 4) == 5
    assert windows.length(1, 6) == 17
    assert windows.length(6, 6) == 0
    assert [windows.last(count) for count in (0, 1, 2, 9)] == [[], [4], [2, 4], [2, 4]]
    assert Windows(np.arange(7), 3).last(9) == [1, 4]
    assert Windows(np.arange(7), None).last(2) == [0]


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(1, 5)),
    st.integers(1, 15),
)
def test_starts_are_those_of_whole_windows(gaps: list[int], jobs: int | None, ticks: int) -> None:
    submit = np.cumsum(gaps)
    windows = Windows(submit, jobs, None if jobs else ticks)
    over = [*submit.tolist(), int(submit[-1]) + 1]
    for end in range(len(submit) + 1):
        if jobs:
            whole = [row for row in range(end) if row + jobs <= end]
        else:
            whole = [row for row in range(end) if submit[row] + ticks <= over[end]]
        assert list(range(windows.starts(end))) == whole
        assert all(windows.end(row) <= end for row in whole)
    last = windows.last(len(submit))
    assert all(windows.end(row) <= end for row, end in pairwise([*last, len(submit)]))
    assert windows.starts(last[0] if last else len(submit)) == 0
    if not jobs:
        assert windows.most == max(np.sum((submit >= s) & (submit < s + ticks)) for s in submit)


def test_training_windows_are_whole_and_in_the_training_rows(trace: Path) -> None:
    source, rng = opened(trace), np.random.default_rng(0)
    windows = {}
    for _ in range(1500):
        episode = source.training(rng)
        windows[episode.offset] = episode.jobs.id.tolist()
    assert source.training_rows == (0, 80)
    # the window from row 75 on would hold row 80, submitted at 795
    assert windows == {row: list(range(row, row + 5)) for row in range(75)}


def test_evaluation_windows_are_those_outside(trace: Path) -> None:
    source = opened(trace)
    windows = {(e := source.evaluation(k, seed=0)).offset: len(e.jobs) for k in range(400)}
    assert windows == dict.fromkeys(range(80, 90), 10)  # of ticks 840..889; the trace ends with tick 890
    assert source.max_jobs == 10
    again = opened(trace)
    assert [again.evaluation(k, 3).offset for k in range(9)] == [
        source.evaluation(k, 3).offset for k in range(9)
    ]


def test_training_rows_may_be_given(trace: Path) -> None:
    source = opened(trace, training_jobs=[20, 40])
    rng = np.random.default_rng(0)
    assert {source.training(rng).offset for _ in range(300)} == set(range(20, 36))
    outside = {source.evaluation(k, 0).offset for k in range(1500)}
    assert outside == set(range(16)) | set(range(40, 90))


def test_listed_offsets(trace: Path) -> None:
    source = opened(trace, "episode.offsets=[0, 89]")
    assert [(e := source.evaluation(k, 0)).offset + len(e.jobs) for k in range(2)] == [5, 99]
    with pytest.raises(
        BadInputError, match=r"episode.offsets: value 90: no 50 ticks from there on .* use 0..89"
    ):
        opened(trace, "episode.offsets=[90]")


def test_a_short_trace_leaves_evaluation_one_episode(trace: Path) -> None:
    source = opened(trace, ticks=150)
    assert source.training_rows == (0, 74)  # 740..889 is whole: the last job comes at 890
    assert {source.evaluation(k, 0).offset for k in range(9)} == {74}
    assert source.training(np.random.default_rng(0)).offset < 60


def test_a_number_of_jobs_and_an_end_by_ticks_are_that_many_jobs(trace: Path) -> None:
    source = opened(trace, "episode.jobs=7")
    assert source.max_jobs == len(source.training(np.random.default_rng(0)).jobs) == 7


def test_without_an_end_by_ticks_an_episode_is_everything(trace: Path) -> None:
    source = opened(trace, "episode={jobs: null}")
    assert source.max_jobs == len(source.evaluation(0, 0).jobs) == JOBS
    assert len(source.training(np.random.default_rng(0)).jobs) == 80


def test_a_trace_of_one_job(tmp_path: Path) -> None:
    source = opened(trace_file(tmp_path, "; MaxProcs: 8", job_line()), "episode={jobs: null}")
    assert len(source.training(np.random.default_rng(0)).jobs) == source.max_jobs == 1


def test_what_is_too_short_is_refused(trace: Path) -> None:
    message = (
        "891 ticks from its first to its last submit are less than an episode of 892; set episode.max_ticks"
    )
    with pytest.raises(BadInputError, match=message):
        opened(trace, ticks=892)
    source = opened(trace, ticks=800)
    with pytest.raises(
        BadInputError, match="795 ticks in a row for training are less than an episode of 800 tic"
    ):
        source.training(np.random.default_rng(0))
    message = "96 ticks in a row for evaluation .* smaller episode.max_ticks or other workload.training_jobs"
    with pytest.raises(BadInputError, match=message):
        source.evaluation(0, 0)


def test_rows_by_number_have_no_windows_by_time(trace: Path) -> None:
    with pytest.raises(BadInputError, match=r"jobs: value None means max_ticks, but under workload.rules"):
        opened(trace, rules="rlscheduler")
    assert opened(trace, "episode.jobs=7", rules="rlscheduler").max_jobs == 7
