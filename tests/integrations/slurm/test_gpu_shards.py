"""GPUs and their shards are the same devices, whether a policy counts the one or the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlsched.integrations.slurm.advice_settings import AdviceSettings

from .samples import job_on, running, small_cluster, view_of, waiting

GPU, SHARD = AdviceSettings(("cpu", "gpu")), AdviceSettings(("cpu", "shard"))
NODE: dict[str, Any] = {
    "name": "n1",
    "state": ["MIXED"],
    "alloc_cpus": 8,
    "gres": "gpu:a100:4(S:0-1),shard:a100:16(S:0-1)",
}


def shards(nodes: str, count: int, cpus: int = 8, **more: Any) -> dict[str, Any]:
    held = {"tres_req_str": f"cpu={cpus},node=1,gres/shard={count}"}
    return job_on(nodes, cpus) | held | ({"tres_alloc_str": held["tres_req_str"]} if nodes else {}) | more


USED = [None, "gpu:a100:0(IDX:N/A),shard:a100:3(3/4,0/4,0/4,0/4)", "gpu:a100:0(IDX:N/A),shard:a100:3"]


@pytest.mark.parametrize("used", USED)
def test_a_gpu_with_a_shard_in_use_is_not_free(tmp_path: Path, used: str | None) -> None:
    nodes = [NODE | {"gres_used": used}]
    view = view_of(*small_cluster(tmp_path, nodes, [shards("n1", 3), job_on("", 8, 4)]), GPU)
    assert (view.request.units, view.request.free, view.out_of_service) == ([16, 4], [8, 3], [0, 0])
    assert running(view)[1][0] == [8, 1]
    assert view.unexplained == [0, 0]


def test_jobs_with_shards_of_one_gpu_hold_it_together(tmp_path: Path) -> None:
    jobs = [shards("n1", 2, 1), shards("n1", 2, 1), shards("n1", 1, 1)]
    view = view_of(*small_cluster(tmp_path, [NODE | {"alloc_cpus": 3}], jobs), GPU)
    assert sum(job.demand[1] for job in view.request.running) == 2
    assert view.request.free[1] == 2


def test_shards_are_on_the_gpus_that_sinfo_names(tmp_path: Path) -> None:
    nodes = [NODE | {"alloc_cpus": 2, "gres_used": "gpu:a100:0(IDX:N/A),shard:a100:2(1/4,0/4,1/4,0/4)"}]
    view = view_of(*small_cluster(tmp_path, nodes, [shards("n1", 1, 1), shards("n1", 1, 1)]), GPU)
    assert (view.request.free, view.unexplained) == ([14, 2], [0, 0])


def test_shards_that_sinfo_alone_has_in_use_hold_their_gpus(tmp_path: Path) -> None:
    nodes = [NODE | {"gres_used": "gpu:a100:1(IDX:3),shard:a100:2(1/4,0/4,1/4,0/4)"}]
    view = view_of(*small_cluster(tmp_path, nodes, [job_on("n1", 8)]), GPU)
    assert (view.request.free, view.unexplained) == ([8, 1], [0, 3])


def test_shards_of_a_whole_gpu_are_not_free(tmp_path: Path) -> None:
    nodes = [NODE | {"gres_used": "gpu:a100:2(IDX:0-1),shard:a100:0(0/4,0/4,0/4,0/4)"}]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("n1", 8, 2), job_on("", 8, 1), shards("", 3)]), SHARD
    )
    assert (view.request.units, view.request.free) == ([16, 16], [8, 8])
    assert running(view)[1][0] == [8, 8]
    assert [demand for demand, *_ in waiting(view).values()] == [[8, 4], [8, 3]]


def test_jobs_that_wait_for_shards_need_a_gpu_on_each_node(tmp_path: Path) -> None:
    wide = shards("", 2, 2, node_count=2)
    view = view_of(*small_cluster(tmp_path, [NODE, NODE | {"name": "n2"}], [shards("", 5), wide]), GPU)
    assert [demand for demand, *_ in waiting(view).values()] == [[8, 2], [2, 2]]
    assert not any("gres/shard (" in note for note in view.notes)


def test_shards_of_jobs_on_unknown_nodes(tmp_path: Path) -> None:
    view = view_of(*small_cluster(tmp_path, [NODE], [shards("n[1-", 5)]), GPU)
    assert running(view)[1][0] == [8, 2]
    assert view.request.free[1] == 2


def test_gpus_without_shards_leave_those_of_other_nodes(tmp_path: Path) -> None:
    nodes = [NODE, {"name": "n2", "gres": "gpu:v100:4", "state": ["ALLOCATED"], "alloc_cpus": 16}]
    jobs = [job_on("n2", 16, 4), job_on("", 8, 8)]
    view = view_of(*small_cluster(tmp_path, nodes, jobs), SHARD)
    assert (view.request.free[1], running(view)[1][0], waiting(view)[2][0]) == (16, [16, 0], [8, 0])
    assert any("gres/gpu (1: 2)" in note for note in view.notes)


def test_drained_gpus_take_their_shards(tmp_path: Path) -> None:
    nodes = [NODE | {"gres_drained": "gpu:a100:1(IDX:0)", "alloc_cpus": 0, "state": ["IDLE"]}]
    view = view_of(*small_cluster(tmp_path, nodes, []), AdviceSettings(("gpu", "shard")))
    assert (view.request.free, view.out_of_service) == ([3, 12], [1, 4])


GRES_LISTS = st.builds("gpu:{},shard:{}".format, st.integers(1, 8), st.integers(1, 20))
WHERE = st.sampled_from(["", "n0", "n1", "n[0-1]", "n["])
LISTS = st.builds(
    "gpu:{}(IDX:0),shard:{}({}/4,1/4,0/4)".format, st.integers(0, 9), st.integers(0, 20), st.integers(0, 4)
)


@given(
    nodes=st.lists(st.tuples(GRES_LISTS, LISTS, LISTS), min_size=2, max_size=3),
    jobs=st.lists(st.tuples(WHERE, st.integers(0, 20), st.integers(0, 9), st.booleans()), max_size=6),
    resources=st.sampled_from([("cpu", "gpu"), ("shard",), ("gpu", "shard")]),
)
@settings(max_examples=150)
def test_units_add_up(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: list[tuple[str, str, str]],
    jobs: list[tuple[str, int, int, bool]],
    resources: tuple[str, ...],
) -> None:
    names = ("gres", "gres_used", "gres_drained")
    records = [
        NODE | {"name": f"n{k}"} | dict(zip(names, lists, strict=True)) for k, lists in enumerate(nodes)
    ]
    job_fields = []
    for where, count, gpus, wide in jobs:
        text = f"cpu=8,node=1,gres/shard={count},gres/gpu={gpus}"
        job_fields.append(
            job_on(where, 8) | {"tres_req_str": text, "tres_alloc_str": text, "node_count": 1 + wide}
        )
    view = view_of(
        *small_cluster(tmp_path_factory.getbasetemp(), records, job_fields), AdviceSettings(resources)
    )
    request = view.request
    for r, counts in enumerate(zip(request.free, view.unexplained, view.out_of_service, strict=True)):
        assert min(counts) >= 0
        assert sum(counts) + sum(job.demand[r] for job in request.running) == request.units[r]
