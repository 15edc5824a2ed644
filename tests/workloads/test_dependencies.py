"""Preceding jobs and think times of a trace: read, written, counted, followed on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.workloads import swf
from rlsched.workloads.source import TraceSource, open_source
from tests.workloads.swf_files import trace_file

FOLLOW = "workload.dependencies=follow"


def line(number: int, submit: int, runtime: int, processors: int, preceding: object, think: object) -> str:
    known = [number, submit, -1, runtime, processors, -1, -1, processors, runtime, *[-1] * 7]
    return " ".join(map(str, [*known, preceding, think]))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Jobs 3 and 4 follow 1 and 2, and 5 follows a job that is not there."""
    return trace_file(
        tmp_path,
        "; MaxProcs: 4",
        line(1, 0, 10, 2, -1, -1),
        line(2, 1, 10, 4, -1, -1),
        line(3, 2, 5, 2, 1, 7),
        line(4, 3, 5, 4, 2, -1),
        line(5, 30, 5, 1, 9, 0),
    )


def opened(path: Path, *overrides: str) -> TraceSource:
    values = {"workload": {"kind": "swf", "file": str(path)}, "episode": {"jobs": None}}
    source = open_source(scenario.parse(values, "test", overrides))
    assert isinstance(source, TraceSource)
    return source


def test_they_are_read_and_written(trace: Path, tmp_path: Path) -> None:
    jobs = swf.read(trace, tick_s=2).jobs
    assert jobs.preceding.tolist() == [-1, -1, 1, 2, 9]
    assert jobs.think.tolist() == [-1, -1, 4, -1, 0]  # rounded up, as all lengths
    swf.write(tmp_path / "again.swf", jobs, processors=4, tick_s=2)
    again = swf.read(tmp_path / "again.swf").jobs
    assert (again.preceding.tolist(), again.think.tolist()) == ([-1, -1, 1, 2, 9], [-1, -1, 8, -1, 0])


@pytest.mark.parametrize("bad", ["x", "-1", "1e300", "nan", "0"])
def test_numbers_that_mean_nothing_are_no_dependencies(tmp_path: Path, bad: str) -> None:
    jobs = swf.read(trace_file(tmp_path, line(1, 0, 5, 1, -1, -1), line(2, 1, 5, 1, bad, bad))).jobs
    assert jobs.preceding.tolist() == [-1, -1]
    assert jobs.think.tolist() in ([-1, -1], [-1, 0])


def test_they_count_only_where_they_are_followed(trace: Path) -> None:
    ignored = opened(trace)
    assert ignored.repairs == {"dependencies_ignored": 2}
    assert (ignored.trace.jobs.preceding < 0).all()
    followed = opened(trace, FOLLOW)
    assert followed.repairs == {"dependencies_unknown": 1}
    assert followed.trace.jobs.predecessors().tolist() == [-1, -1, 0, 1, -1]


def test_who_follows_a_job_before_the_episode_comes_at_its_submit_time(trace: Path) -> None:
    cut = opened(trace, FOLLOW, "episode.jobs=2", "episode.offsets=[1]").evaluation(0, 0)
    assert cut.jobs.id.tolist() == [2, 3]
    assert cut.jobs.predecessors().tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("decision.horizon=50", "value 'follow' does not go with decision.horizon"),
        ("workload.resample=training", "value 'follow' does not go with workload.resample"),
        ("workload.rules=rlscheduler", "does not go with workload.rules rlscheduler"),
    ],
)
def test_what_they_do_not_go_with(trace: Path, override: str, message: str) -> None:
    with pytest.raises(BadInputError, match="dependencies.*" + message):
        opened(trace, FOLLOW, "decision.action_rule=fit", override)
