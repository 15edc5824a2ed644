"""From a scenario to episodes: splits, seeds, sizes, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.workloads import swf
from rlsched.workloads.source import ModelSource, Source, TraceSource, open_source
from tests.workloads.swf_files import job_line, trace_file

JOBS = 100


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """100 jobs, one submitted every 10 s, on 8 processors."""
    lines = [job_line(k, submit=10 * k, requested=10, allocated=1 + k % 8) for k in range(JOBS)]
    return trace_file(tmp_path, "; MaxProcs: 8", *lines)


def opened(path: Path, *overrides: str, jobs: int | None = 10, **workload: Any) -> TraceSource:
    values = {"workload": {"kind": "swf", "file": str(path), **workload}, "episode": {"jobs": jobs}}
    source = open_source(scenario.parse(values, "test", overrides))
    assert isinstance(source, TraceSource)
    return source


def model(*overrides: str) -> Source:
    values = {
        "cluster": {"resources": [{"units": 64}]},
        "workload": {"kind": "lublin", "load": 0.9},
        "episode": {"jobs": 50},
    }
    return open_source(scenario.parse(values, "test", overrides))


def test_training_windows_lie_in_the_first_four_fifths(trace: Path) -> None:
    source, rng = opened(trace), np.random.default_rng(0)
    offsets = set()
    for _ in range(2000):
        episode = source.training(rng)
        assert episode.jobs.id.tolist() == list(range(episode.offset, episode.offset + 10))
        offsets.add(episode.offset)
    assert offsets == set(range(71))


def test_training_rows_may_be_given_and_evaluation_takes_the_others(trace: Path) -> None:
    source, rng = opened(trace, training_jobs=[20, 70]), np.random.default_rng(0)
    assert {source.training(rng).offset for _ in range(1000)} == set(range(20, 61))
    evaluated = {source.evaluation(k, seed=0).offset for k in range(1000)}
    assert evaluated == set(range(11)) | set(range(70, 91))


def test_evaluation_takes_the_last_fifth(trace: Path) -> None:
    source = opened(trace)
    assert {source.evaluation(k, seed=0).offset for k in range(300)} == set(range(80, 91))


def test_evaluation_is_the_same_at_every_call(trace: Path) -> None:
    first, second = opened(trace), opened(trace)
    offsets = [first.evaluation(k, seed=3).offset for k in range(50)]
    second.training(np.random.default_rng(3))
    assert [second.evaluation(k, seed=3).offset for k in reversed(range(50))][::-1] == offsets
    assert [second.evaluation(k, seed=4).offset for k in range(50)] != offsets


def test_listed_offsets(trace: Path) -> None:
    source = opened(trace, "episode.offsets=[5, 90, 0]")
    assert [source.evaluation(k, seed=k).offset for k in range(3)] == [5, 90, 0]
    assert source.evaluation(0, seed=0).jobs.id.tolist() == list(range(5, 15))
    with pytest.raises(BadInputError, match="has 3 episodes, and number 4 is requested"):
        source.evaluation(3, seed=0)


def test_no_number_of_jobs_is_the_whole_trace(trace: Path) -> None:
    source = opened(trace, jobs=None)
    episode = source.evaluation(7, seed=0)
    assert (episode.offset, len(episode.jobs)) == (0, JOBS)
    trained = source.training(np.random.default_rng(0))
    assert (trained.offset, len(trained.jobs)) == (0, source.training_rows[1]) == (0, 80)


def test_a_short_trace_leaves_evaluation_one_episode(trace: Path) -> None:
    source, rng = opened(trace, jobs=40), np.random.default_rng(0)
    assert max(source.training(rng).offset or 0 for _ in range(500)) == 20
    assert {source.evaluation(k, seed=0).offset for k in range(20)} == {60}


def test_too_few_jobs_for_two_episodes(trace: Path) -> None:
    source = opened(trace, jobs=90)
    with pytest.raises(BadInputError, match="for training are less than an episode of 90"):
        opened(trace, jobs=90).training(np.random.default_rng(0))
    with pytest.raises(BadInputError, match="for evaluation are less than an episode of 90"):
        source.evaluation(0, seed=0)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["episode.jobs=101"], "100 jobs that fit the machine are less than an episode of 101"),
        (["episode.offsets=[91]"], "value 91: no 10 jobs from there on"),
        (["episode.offsets=[-1]"], "value -1"),
        (["workload.training_jobs=[50, 101]"], r"value \[50, 101\] for 100 jobs"),
        (["workload.training_jobs=[50, 50]"], r"value \[50, 50\]"),
        (["workload.training_jobs=[100, null]"], r"value \[100, None\]"),
        (["cluster.resources=[{units: 8}, {name: memory, units: 4}]"], "2 types"),
        (["cluster.resources=[{units_per_node: 9}]"], "more than the 8 units"),
        (["workload.file=none.swf"], "none.swf: no such file"),
    ],
)
def test_what_does_not_fit_is_refused_on_opening(trace: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        opened(trace, *overrides)


def test_size_of_the_machine_comes_from_the_header_or_the_scenario(trace: Path, tmp_path: Path) -> None:
    assert opened(trace).cluster.resources[0].units == 8
    assert opened(trace, "cluster.resources=[{units: 9}]").cluster.resources[0].units == 9
    unknown = trace_file(tmp_path, job_line(), name="unknown.swf")
    with pytest.raises(BadInputError, match=r"--set cluster.resources.0.units=N"):
        opened(unknown, jobs=1)
    with pytest.raises(BadInputError, match=r"--set cluster.resources.0.units=N"):
        model("cluster.resources=[{}]")


def test_jobs_over_the_machine_are_dropped_and_counted(trace: Path) -> None:
    source = opened(trace, "cluster.resources=[{units: 7}]")
    assert source.repairs == {"oversized_dropped": 12}
    assert "oversized_dropped" in swf.REPAIRS
    assert len(source.trace.jobs) == 88
    assert opened(trace).repairs == {}
    with pytest.raises(BadInputError, match="no job fits 1 processors"):
        opened(
            trace_file(trace.parent, job_line(allocated=2), name="wide.swf"), "cluster.resources=[{units: 1}]"
        )


def test_whole_nodes(trace: Path) -> None:
    source = opened(trace, "cluster.resources=[{units: 8, units_per_node: 3}]", jobs=None)
    assert set(source.training(np.random.default_rng(0)).jobs.demand[:, 0].tolist()) == {3, 6}
    assert source.repairs == {"oversized_dropped": 24}  # 7 and 8 processors are 9 in whole nodes
    quads = opened(trace, "cluster.resources=[{units: 8, units_per_node: 4}]", jobs=None)
    assert (set(quads.trace.jobs.demand[:, 0].tolist()), quads.repairs) == ({4, 8}, {})


def test_times_are_in_ticks(trace: Path) -> None:
    jobs = opened(trace, "cluster.tick_s=60", jobs=None).evaluation(0, seed=0).jobs
    assert jobs.submit[-1] == 990 // 60
    assert set(jobs.runtime.tolist()) == {1}


def test_rlscheduler_windows_are_cut_in_number_order_and_shown_in_submit_order(tmp_path: Path) -> None:
    lines = [job_line(k, submit=s, requested=1) for k, s in [(1, 30), (2, 10), (3, 20), (4, 0)]]
    path = trace_file(tmp_path, "; MaxNodes: 4", *lines)
    source = opened(path, "episode.offsets=[0]", jobs=3, rules="rlscheduler")
    assert source.rows(0, 3).id.tolist() == [1, 2, 3]
    assert source.evaluation(0, seed=0).jobs.id.tolist() == [2, 3, 1]
    assert opened(path, "episode.offsets=[0]", jobs=3).evaluation(0, seed=0).jobs.id.tolist() == [4, 2, 3]


def test_a_trace_is_read_once_until_it_changes(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = swf.read
    monkeypatch.setattr(swf, "read", lambda *args, **kwargs: reads.append(args) or read(*args, **kwargs))
    opened(trace)
    opened(trace, jobs=None)
    assert len(reads) == 1
    trace.write_text(trace.read_text() + job_line(JOBS, submit=5000) + "\n")
    os.utime(trace, ns=(1, 1))
    assert len(opened(trace).trace.jobs) == JOBS + 1
    assert len(reads) == 2


def test_model_episodes() -> None:
    source = model()
    assert isinstance(source, ModelSource)
    assert (source.repairs, source.cluster.resources[0].units) == ({}, 64)
    first, again, second = (source.evaluation(k, seed=1).jobs for k in (0, 0, 1))
    np.testing.assert_array_equal(first.submit, again.submit)
    assert (first.runtime != second.runtime).any()
    trained = source.training(np.random.default_rng(1))
    assert (trained.offset, len(trained.jobs)) == (None, 50)
    assert (trained.jobs.runtime != first.runtime).any()


def test_model_with_nodes_and_ticks() -> None:
    source = model(
        "cluster.resources=[{units: 62, units_per_node: 4}]", "cluster.tick_s=60", "episode.jobs=2000"
    )
    jobs = source.training(np.random.default_rng(0)).jobs
    assert (jobs.demand % 4 == 0).all()
    assert jobs.demand.max() == 60
    assert jobs.runtime.max() <= np.exp(12) // 60 + 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("episode.jobs=null", "a model draws any number of jobs"),
        ("episode.offsets=[1]", "rows of a trace"),
        ("cluster.resources=[{units: 4, units_per_node: 8}]", "more than the 4 units"),
        ("cluster.resources=[{units: 4}, {name: memory, units: 4}]", "2 types, but this workload has proc"),
        (
            "episode={jobs: null, end: max_ticks, max_ticks: 9}",
            "value None: the Lublin model draws a number of jobs",
        ),
    ],
)
def test_what_a_model_does_not_have_is_refused(override: str, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        model(override)
