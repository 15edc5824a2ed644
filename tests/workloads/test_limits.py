"""Jobs of a trace that are too large or too long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.workloads import swf
from rlsched.workloads.source import TraceSource, open_source
from tests.workloads.swf_files import job_line, trace_file

EVENTS: dict[str, Any] = {}
HEADER: dict[str, Any] = {}
PLANNED: dict[str, Any] = {"horizon": 20, "action_rule": "fit"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """On 10 processors: a small job, a wide, a huge and a slow one, and one that asks for too much."""
    return trace_file(
        tmp_path,
        "; MaxProcs: 10",
        job_line(1, 0, runtime=5, allocated=2, requested=6),
        job_line(2, 1, runtime=5, allocated=7, requested=6),
        job_line(3, 2, runtime=5, allocated=12, requested=6),
        job_line(4, 3, runtime=30, allocated=2, requested=18),
        job_line(5, 4, runtime=25, allocated=7, requested=40),
    )


def opened(path: Path, decision: Any = EVENTS, *, resource: Any = HEADER, **workload: Any) -> TraceSource:
    values = {
        "cluster": {"resources": [resource]},
        "workload": {"kind": "swf", "file": str(path), **workload},
        "decision": decision,
        "episode": {"jobs": None},
    }
    source = open_source(scenario.parse(values, "test"))
    assert isinstance(source, TraceSource)
    return source


def rows(source: TraceSource) -> dict[int, tuple[int, int, int]]:
    """Job number -> runtime, requested time and processors."""
    jobs = source.trace.jobs
    columns = (jobs.id, jobs.runtime, jobs.requested, jobs.demand[:, 0])
    return {k: (r, t, d) for k, r, t, d in zip(*(column.tolist() for column in columns), strict=True)}


@pytest.mark.parametrize(
    ("decision", "settings", "remaining", "repairs"),
    [
        ({}, {}, {1, 2, 4, 5}, {"oversized_dropped": 1}),
        (
            {},
            {"max_job_demand": 0.65},
            {1, 4},
            {"oversized_dropped": 1, "larger_than_limit_dropped": 2},
        ),
        ({}, {"max_job_duration": 30}, {1, 2, 4}, {"oversized_dropped": 1, "longer_than_limit_dropped": 1}),
        ({}, {"max_job_duration": 29}, {1, 2}, {"oversized_dropped": 1, "longer_than_limit_dropped": 2}),
        (PLANNED, {}, {1, 2, 4}, {"oversized_dropped": 1, "beyond_horizon_dropped": 1}),
        (
            PLANNED,
            {"max_job_duration": 30, "max_job_demand": 0.3},
            {1, 4},
            {"oversized_dropped": 1, "larger_than_limit_dropped": 2},
        ),
    ],
)
def test_jobs_over_a_limit_are_dropped_and_counted_once(
    trace: Path, decision: Any, settings: Any, remaining: set[int], repairs: dict[str, int]
) -> None:
    source = opened(trace, decision, **settings)
    assert (set(rows(source)), source.repairs) == (remaining, repairs)
    assert set(source.repairs) <= set(swf.REPAIRS)


@pytest.mark.parametrize(
    ("decision", "settings", "changed", "repairs"),
    [
        ({}, {}, {3: (5, 6, 10)}, {"larger_than_limit_scaled": 1}),
        (
            {},
            {"max_job_demand": 0.65},
            {2: (5, 6, 6), 3: (5, 6, 6), 5: (25, 40, 6)},
            {"larger_than_limit_scaled": 3},
        ),
        (
            {},
            {"max_job_duration": 22},
            {3: (5, 6, 10), 4: (22, 18, 2), 5: (22, 22, 7)},
            {"larger_than_limit_scaled": 1, "longer_than_limit_scaled": 2},
        ),
        (  # job 4 asks for 18 of the 20 ticks and so can be planned; that it overruns is its own affair
            PLANNED,
            {},
            {3: (5, 6, 10), 5: (20, 20, 7)},
            {"larger_than_limit_scaled": 1, "beyond_horizon_scaled": 1},
        ),
        (
            PLANNED,
            {"max_job_duration": 22},
            {3: (5, 6, 10), 4: (22, 18, 2), 5: (20, 20, 7)},
            {"larger_than_limit_scaled": 1, "longer_than_limit_scaled": 2, "beyond_horizon_scaled": 1},
        ),
    ],
)
def test_jobs_over_a_limit_are_cut_down_and_counted_for_every_limit(
    trace: Path, decision: Any, settings: Any, changed: dict[int, Any], repairs: dict[str, int]
) -> None:
    source = opened(trace, decision, oversized="scale", **settings)
    whole = {1: (5, 6, 2), 2: (5, 6, 7), 3: (5, 6, 12), 4: (30, 18, 2), 5: (25, 40, 7)}
    assert (rows(source), source.repairs) == (whole | changed, repairs)
    assert set(source.repairs) <= set(swf.REPAIRS)


def test_limits_are_of_whole_nodes_and_ticks(trace: Path) -> None:
    """Of 10 processors in nodes of 3 nine can be had, and 4 of them are one node."""
    nodes = {"units": 10, "units_per_node": 3}
    source = opened(trace, resource=nodes, oversized="scale")
    assert [row[2] for row in rows(source).values()] == [3, 9, 9, 3, 9]
    assert source.repairs == {"larger_than_limit_scaled": 1}
    source = opened(trace, resource=nodes, oversized="scale", max_job_demand=0.5)
    assert [row[2] for row in rows(source).values()] == [3] * 5
    slow = open_source(
        scenario.parse(
            {
                "workload": {"kind": "swf", "file": str(trace), "max_job_duration": 3},
                "cluster": {"tick_s": 10},
                "episode": {"jobs": None},
            },
            "test",
        )
    )
    assert slow.repairs == {"oversized_dropped": 1, "longer_than_limit_dropped": 1}


def test_the_trace_itself_is_not_changed(trace: Path) -> None:
    opened(trace, oversized="scale", max_job_demand=0.1, max_job_duration=1)
    assert rows(opened(trace))[5] == (25, 40, 7)


@pytest.mark.parametrize(
    ("decision", "settings", "message"),
    [
        (
            {},
            {"resource": {"units": 1}},
            "no job fits 1 processors; set a larger cluster.resources.0.units, or",
        ),
        (
            {},
            {"max_job_demand": 0.1},
            "no job requests at most 1 processors, the workload.max_job_demand; set",
        ),
        (
            {},
            {"max_job_duration": 5},
            "no job runs for and requests at most 5 ticks, the workload.max_job_duration",
        ),
        (
            {**PLANNED, "horizon": 5},
            {},
            "no job requests at most 5 ticks, the decision.horizon, so none could be planned; set a "
            "longer one, a longer cluster.tick_s, or set workload.oversized=scale to cut jobs down to it",
        ),
        (
            {},
            {"max_job_demand": 0.09},
            "workload.max_job_demand: value 0.09 is less than one unit of 10 proc",
        ),
        (
            {},
            {"max_job_demand": 0.4, "resource": {"units_per_node": 5}},
            "workload.max_job_demand: value 0.4 is less than one node of 5 of 10 processors",
        ),
    ],
)
def test_a_limit_without_jobs_is_named(trace: Path, decision: Any, settings: Any, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        opened(trace, decision, **settings)
    assert message in str(caught.value)
    if "value" not in message:
        assert rows(opened(trace, decision, oversized="scale", **settings))


def test_too_few_jobs_are_explained_by_the_limits(trace: Path) -> None:
    values = {
        "workload": {"kind": "swf", "file": str(trace), "max_job_duration": 20},
        "episode": {"jobs": 3},
    }
    with pytest.raises(BadInputError) as caught:
        open_source(scenario.parse(values, "test"))
    assert (
        "2 jobs that fit the machine are less than an episode of 3, oversized_dropped 1, "
        "longer_than_limit_dropped 2; set episode.jobs to at most 2" in str(caught.value)
    )


def test_lublin_jobs_must_fit_the_horizon() -> None:
    values = {
        "cluster": {"tick_s": 3600, "resources": [{"units": 8}]},
        "workload": {"kind": "lublin"},
        "decision": {**PLANNED, "horizon": 48},
    }
    assert open_source(scenario.parse(values, "test")).max_jobs == 1024  # 162,754 s are 46 hours
    for override, message in [
        (
            "decision.horizon=45",
            "jobs of up to 162754 s do not fit decision.horizon 45 of 3600 s each; set at m",
        ),
        ("cluster.tick_s=60", "set at most 2880, or a longer horizon or cluster.tick_s"),
    ]:
        with pytest.raises(BadInputError) as caught:
            open_source(scenario.parse(values, "test", [override]))
        assert "workload.max_runtime_s" in str(caught.value)
        assert message in str(caught.value)
    open_source(scenario.parse(values, "test", ["decision.horizon=2", "workload.max_runtime_s=7200"]))
