"""Traces with further resources and qos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Enrichment
from rlsched.workloads.enrich import enrich
from rlsched.workloads.source import TraceSource, open_source
from tests.workloads.opening import cluster
from tests.workloads.swf_files import job_line, trace_file

GPUS = {"name": "gpus", "units": 6}
DEFAULTS: dict[str, Any] = {}
MEMORY = {"name": "memory", "units": 20}


def plain(jobs: int) -> JobTable:
    return JobTable.build(submit=np.arange(jobs), runtime=np.ones(jobs), demand=np.ones(jobs, dtype=int))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """60 jobs, every second one on all 8 processors, the others on one."""
    lines = [job_line(k, submit=10 * k, allocated=8 if k % 2 else 1) for k in range(60)]
    return trace_file(tmp_path, "; MaxProcs: 8", *lines)


def opened(
    path: Path, *overrides: str, resources: Sequence[Any] = ({}, GPUS), enrich: Any = DEFAULTS
) -> TraceSource:
    values = {
        "cluster": {"resources": list(resources)},
        "workload": {"kind": "swf", "file": str(path), "enrich": enrich},
        "episode": {"jobs": None},
    }
    source = open_source(scenario.parse(values, "test", overrides))
    assert isinstance(source, TraceSource)
    return source


def drawn(source: TraceSource) -> dict[int, tuple[int, float]]:
    """Job number -> what was added to it."""
    jobs = source.trace.jobs
    return {int(k): (int(d), float(q)) for k, d, q in zip(jobs.id, jobs.demand[:, 1], jobs.qos, strict=True)}


def test_demands_are_uniform_from_0_on_and_qos_as_in_the_models() -> None:
    jobs = enrich(plain(30_000), Enrichment(), cluster({"units": 8}, GPUS, MEMORY))
    assert jobs.demand.dtype == np.int32
    assert set(jobs.demand[:, 0].tolist()) == {1}
    for column, most in [(1, 3), (2, 10)]:
        counts = np.bincount(jobs.demand[:, column])
        chance = 1 / (most + 1)
        assert counts / len(jobs) == pytest.approx(chance, abs=4 * np.sqrt(chance / len(jobs)))
        assert len(counts) == most + 1
    assert abs(np.corrcoef(jobs.demand[:, 1], jobs.demand[:, 2])[0, 1]) < 0.02
    assert abs(np.corrcoef(jobs.demand[:, 1], jobs.qos)[0, 1]) < 0.02
    assert np.mean(jobs.qos < 0.6) == pytest.approx(0.4, abs=0.012)


def test_a_job_gets_the_same_whatever_is_around_it(trace: Path) -> None:
    all_jobs = drawn(opened(trace))
    assert drawn(opened(trace)) == all_jobs
    small = drawn(opened(trace, resources=({"units": 7}, GPUS)))  # every second job is left out
    assert len(small) == 30
    assert small.items() <= all_jobs.items()
    episodes = opened(trace, "episode.jobs=5")
    for seed in range(20):
        part = episodes.training(np.random.default_rng(seed)).jobs
        for k, demand, qos in zip(part.id, part.demand[:, 1], part.qos, strict=True):
            assert all_jobs[int(k)] == (demand, qos)
    with_memory = opened(trace, resources=({}, GPUS, MEMORY))
    assert drawn(with_memory) == all_jobs
    trace.write_text(trace.read_text() + job_line(60, submit=600) + "\n")
    longer = drawn(opened(trace))
    assert len(longer) == 61
    assert all_jobs.items() <= longer.items()


def test_seeds_differ(trace: Path) -> None:
    assert drawn(opened(trace, enrich={"seed": 1})) != drawn(opened(trace))


def test_qos_alone(trace: Path) -> None:
    source = opened(trace, resources=({},))
    assert source.trace.jobs.demand.shape == (60, 1)
    assert source.trace.jobs.qos.max() < 1
    assert [qos for _, qos in drawn(opened(trace)).values()] == source.trace.jobs.qos.tolist()


def test_without_enrichment_qos_is_1(trace: Path) -> None:
    source = opened(trace, resources=({},), enrich=None)
    assert set(source.trace.jobs.qos.tolist()) == {1.0}


def test_nodes_are_whole_resource_by_resource(trace: Path) -> None:
    nodes = ({"units": 9, "units_per_node": 3}, {**MEMORY, "units": 19, "units_per_node": 4})
    source = opened(trace, resources=nodes, enrich={"max_demand": 1})
    assert set(source.trace.jobs.demand[:, 0].tolist()) == {3, 9}
    assert set(source.trace.jobs.demand[:, 1].tolist()) == {0, 4, 8, 12, 16}  # 19 units are four nodes
    assert source.cluster.resources[1].units == 19


@pytest.mark.parametrize(
    ("resources", "enriched", "message"),
    [
        (({}, GPUS), None, "cluster.resources: 2 types, but this workload has processors only; keep one"),
        (
            ({}, {"name": "gpus"}),
            {},
            "cluster.resources.1.units: value None: a workload does not say how much gpus",
        ),
        (
            ({}, {**GPUS, "units": 1}),
            {},
            "workload.enrich.max_demand: value 0.5 is less than one unit of 1 gpus",
        ),
    ],
)
def test_what_cannot_be_enriched(trace: Path, resources: Any, enriched: Any, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        opened(trace, resources=resources, enrich=enriched)
    assert message in str(caught.value)
