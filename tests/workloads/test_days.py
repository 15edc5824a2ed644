"""Traces resampled by days, and brought to another load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.workloads.days import DAY_S, Days, natural_load, stretch_to, stretched
from rlsched.workloads.source import TraceSource, open_source
from rlsched.workloads.swf import read
from tests.workloads.opening import for_ticks
from tests.workloads.swf_files import job_line, trace_file

DAYS, JOBS_PER_DAY = 20, 5


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Five jobs a day, an hour apart, by one user per day; the 8th day is empty."""
    lines = [
        job_line(100 * d + k, submit=1000 + d * DAY_S + k * 3600, runtime=600 + d, allocated=1 + k, user=d)
        for d in range(DAYS)
        for k in range(JOBS_PER_DAY)
        if d != 7
    ]
    return trace_file(tmp_path, "; MaxProcs: 8", *lines)


def opened(path: Path, *overrides: str, **workload: Any) -> TraceSource:
    values = {"workload": {"kind": "swf", "file": str(path), **workload}}
    source = open_source(scenario.parse(values, "test", overrides))
    assert isinstance(source, TraceSource)
    return source


def test_days_are_put_together_in_whole(trace: Path) -> None:
    source = opened(trace, "episode.jobs=17", resample="training", training_jobs=[0, 60])
    rng, firsts, users_drawn = np.random.default_rng(0), set(), set()
    for _ in range(400):
        jobs = source.training(rng).jobs
        assert len(jobs) == 17
        assert jobs.id.tolist() == list(range(1, 18))
        day, number = np.divmod(jobs.submit, DAY_S)
        # Whole days but for the first, which begins at any of its jobs, and the last, which is cut off.
        firsts.add(int(number[0]) // 3600)
        for k in range(day.max() + 1):
            users = np.unique(jobs.user[day == k])
            assert len(users) <= 1
            if k and k < day.max():
                assert len(users) == 0 or number[day == k].tolist() == [3600 * j for j in range(JOBS_PER_DAY)]
        assert (np.diff(jobs.submit) >= 0).all()
        assert (jobs.start == -1).all()
        users_drawn |= set(jobs.user.tolist())
    assert firsts == set(range(JOBS_PER_DAY))
    assert users_drawn == set(range(13)) - {7}  # 60 rows are the days 0 .. 12 without the empty one


def test_empty_days_are_days(trace: Path) -> None:
    days = Days(read(trace).jobs, DAY_S)
    # The last day ends with its last job: it is none.
    assert np.diff(days.edges).tolist() == [0 if d == 7 else JOBS_PER_DAY for d in range(DAYS - 1)]
    jobs = days.draw(np.random.default_rng(3), np.array([7, 8]), 40, None)
    assert jobs.submit[-1] // DAY_S > 8  # some of the days in between had no job


def test_evaluation_uses_days_outside_training(trace: Path) -> None:
    cut = opened(trace, "episode.jobs=7", resample="training", training_jobs=[0, 60])
    assert cut.evaluation(0, 0).offset >= 60
    source = opened(trace, "episode.jobs=7", resample="always", training_jobs=[0, 60])
    users = {user for k in range(200) for user in source.evaluation(k, 0).jobs.user.tolist()}
    assert users == set(range(13, 19))
    again = source.evaluation(5, 0).jobs
    assert np.array_equal(again.user, source.evaluation(5, 0).jobs.user)


def test_episodes_of_so_many_ticks(trace: Path) -> None:
    source = opened(trace, *for_ticks(3 * DAY_S), resample="training")
    rng = np.random.default_rng(0)
    for _ in range(200):
        jobs = source.training(rng).jobs
        assert jobs.submit[-1] - jobs.submit[0] < 3 * DAY_S
        assert len(jobs) <= source.max_jobs
    assert source.max_jobs == 5 * JOBS_PER_DAY
    for load in (1e-3, 0.005, 0.03):  # days are that much longer, or shorter
        scaled = opened(trace, *for_ticks(3 * DAY_S), resample="training", load=load)
        for _ in range(100):
            jobs = scaled.training(rng).jobs
            assert jobs.submit[-1] - jobs.submit[0] < 3 * DAY_S
            assert len(jobs) <= scaled.max_jobs


def test_resampling_keeps_the_daily_cycle(data_dir: Path) -> None:
    path = data_dir / "swf" / "HPC2N-2002-2.2-cln.swf.gz"
    source = opened(path, "episode.jobs=2000", resample="training")
    rng = np.random.default_rng(0)
    drawn = np.concatenate([source.training(rng).jobs.submit for _ in range(60)])
    jobs = source.trace.jobs.take(slice(*source.training_rows))
    real = (jobs.submit - source.trace.jobs.submit[0]) % DAY_S
    shares = [np.histogram(x % DAY_S, bins=24, range=(0, DAY_S))[0] / len(x) for x in (real, drawn)]
    # A day of thousands of jobs by one user is drawn, or not: hours vary more than counts do.
    assert np.corrcoef(shares)[0, 1] > 0.9
    assert np.abs(shares[0] - shares[1]).max() < 0.03


def test_a_load_keeps_days_as_they_are(data_dir: Path) -> None:
    """Days that are put together anew begin where days begin, however much longer or shorter they become."""
    path = data_dir / "swf" / "CTC-SP2-1996-3.1-cln.swf.gz"
    hours = {}
    for load in (None, 0.4, 1.5):
        source = opened(path, "episode.jobs=2000", resample="training", load=load)
        assert source.days is not None
        rng, day = np.random.default_rng(0), DAY_S * source.days.stretch
        drawn = np.concatenate([source.training(rng).jobs.submit for _ in range(40)])
        hours[load] = np.histogram(drawn % day, bins=24, range=(0, day))[0]
    for load in (0.4, 1.5):
        assert np.corrcoef(hours[None], hours[load])[0, 1] > 0.99


@pytest.mark.parametrize("load", [0.3, 0.7, 1.2])
def test_arrivals_are_brought_to_a_load(data_dir: Path, load: float) -> None:
    path = data_dir / "swf" / "CTC-SP2-1996-3.1-cln.swf.gz"
    source = opened(path, load=load)
    jobs, plain = source.trace.jobs, opened(path).trace.jobs
    units = int(source.cluster.resources[0].units or 0)
    assert natural_load(jobs, units) == pytest.approx(load, rel=1e-3)
    stretch = natural_load(plain, units) / load
    gaps, before = np.diff(jobs.submit), np.diff(plain.submit)
    assert np.abs(gaps - before * stretch).max() <= 1.0
    for name in ("runtime", "requested", "demand", "id"):
        assert np.array_equal(getattr(jobs, name), getattr(plain, name))


def test_by_hand() -> None:
    jobs = JobTable.build(submit=[5, 15, 25], runtime=[10, 20, 10], demand=[2, 1, 4], start=[6, 16, 30])
    assert natural_load(jobs, 8) == 0.5  # 20 + 20 + 40 unit-ticks in 20 ticks of 8 units
    half = stretched(jobs, stretch_to(jobs, 8, 0.25, "load"))
    assert half.submit.tolist() == [5, 25, 45]
    assert half.start.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("overrides", "workload", "line"),
    [
        (
            ["episode.jobs=null"],
            {"resample": "training"},
            "episode.jobs: value None, the whole trace, does not",
        ),
        (
            ["episode.jobs=5"],
            {"resample": "training", "rules": "rlscheduler"},
            "workload.resample: does not go with workload.rules rlscheduler",
        ),
        (
            ["episode.jobs=5", "cluster.kill_at_requested=true"],
            {"rules": "rlscheduler"},
            "cluster.kill_at_requested: does not go with workload.rules rlscheduler",
        ),
        (["episode.jobs=5"], {"load": 0.5, "rules": "rlscheduler"}, "workload.load: does not go with"),
        (
            ["episode.jobs=5", "cluster.tick_s=7"],
            {"resample": "training"},
            "cluster.tick_s: value 7: workload.resample needs a day of whole ticks",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    trace: Path, overrides: list[str], workload: dict[str, Any], line: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        opened(trace, *overrides, **workload)
    assert str(caught.value).startswith(line)


def test_a_trace_without_a_whole_day_is_refused(trace: Path, tmp_path: Path) -> None:
    path = trace_file(
        tmp_path, "; MaxProcs: 8", *[job_line(k, submit=60 * k) for k in range(50)], name="short.swf"
    )
    with pytest.raises(BadInputError, match="has no whole day with a job for training"):
        opened(path, "episode.jobs=5", resample="training")
    with pytest.raises(BadInputError, match="has no whole day with a job for evaluation"):
        opened(trace, "episode.jobs=5", resample="always", training_jobs=[0, 92])
