"""GPUs and their shards are the same devices, whichever of them a policy counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlsched.integrations.slurm.asked import Asked

from .recorded import cluster, mapped, on, running, waiting

GPU, SHARD = Asked(("cpu", "gpu")), Asked(("cpu", "shard"))
NODE: dict[str, Any] = {
    "name": "n1",
    "state": ["MIXED"],
    "alloc_cpus": 8,
    "gres": "gpu:a100:4(S:0-1),shard:a100:16(S:0-1)",
}


def shards(nodes: str, count: int, cpus: int = 8, **more: Any) -> dict[str, Any]:
    held = {"tres_req_str": f"cpu={cpus},node=1,gres/shard={count}"}
    return on(nodes, cpus) | held | ({"tres_alloc_str": held["tres_req_str"]} if nodes else {}) | more


USED = [None, "gpu:a100:0(IDX:N/A),shard:a100:3(3/4,0/4,0/4,0/4)", "gpu:a100:0(IDX:N/A),shard:a100:3"]


@pytest.mark.parametrize("used", USED)
def test_a_gpu_with_a_shard_in_use_is_not_free(tmp_path: Path, used: str | None) -> None:
    nodes = [NODE | {"gres_used": used}]
    found = mapped(*cluster(tmp_path, nodes, [shards("n1", 3), on("", 8, 4)]), GPU)
    assert (found.request.units, found.request.free, found.out) == ([16, 4], [8, 3], [0, 0])
    assert running(found)[1][0] == [8, 1]
    assert found.unexplained == [0, 0]


def test_jobs_with_shards_of_one_gpu_hold_it_together(tmp_path: Path) -> None:
    jobs = [shards("n1", 2, 1), shards("n1", 2, 1), shards("n1", 1, 1)]
    found = mapped(*cluster(tmp_path, [NODE | {"alloc_cpus": 3}], jobs), GPU)
    assert sum(job.demand[1] for job in found.request.running) == 2
    assert found.request.free[1] == 2


def test_shards_are_on_the_gpus_that_sinfo_names(tmp_path: Path) -> None:
    nodes = [NODE | {"alloc_cpus": 2, "gres_used": "gpu:a100:0(IDX:N/A),shard:a100:2(1/4,0/4,1/4,0/4)"}]
    found = mapped(*cluster(tmp_path, nodes, [shards("n1", 1, 1), shards("n1", 1, 1)]), GPU)
    assert (found.request.free, found.unexplained) == ([14, 2], [0, 0])


def test_shards_that_sinfo_alone_has_in_use_hold_their_gpus(tmp_path: Path) -> None:
    nodes = [NODE | {"gres_used": "gpu:a100:1(IDX:3),shard:a100:2(1/4,0/4,1/4,0/4)"}]
    found = mapped(*cluster(tmp_path, nodes, [on("n1", 8)]), GPU)
    assert (found.request.free, found.unexplained) == ([8, 1], [0, 3])


def test_shards_of_a_whole_gpu_are_not_free(tmp_path: Path) -> None:
    nodes = [NODE | {"gres_used": "gpu:a100:2(IDX:0-1),shard:a100:0(0/4,0/4,0/4,0/4)"}]
    found = mapped(*cluster(tmp_path, nodes, [on("n1", 8, 2), on("", 8, 1), shards("", 3)]), SHARD)
    assert (found.request.units, found.request.free) == ([16, 16], [8, 8])
    assert running(found)[1][0] == [8, 8]
    assert [demand for demand, *_ in waiting(found).values()] == [[8, 4], [8, 3]]


def test_jobs_that_wait_for_shards_need_a_gpu_on_each_node(tmp_path: Path) -> None:
    wide = shards("", 2, 2, node_count=2)
    found = mapped(*cluster(tmp_path, [NODE, NODE | {"name": "n2"}], [shards("", 5), wide]), GPU)
    assert [demand for demand, *_ in waiting(found).values()] == [[8, 2], [2, 2]]
    assert not any("gres/shard (" in note for note in found.notes)


def test_shards_of_jobs_whose_nodes_are_not_told(tmp_path: Path) -> None:
    found = mapped(*cluster(tmp_path, [NODE], [shards("n[1-", 5)]), GPU)
    assert running(found)[1][0] == [8, 2]
    assert found.request.free[1] == 2


def test_gpus_without_shards_leave_those_of_other_nodes(tmp_path: Path) -> None:
    nodes = [NODE, {"name": "n2", "gres": "gpu:v100:4", "state": ["ALLOCATED"], "alloc_cpus": 16}]
    jobs = [on("n2", 16, 4), on("", 8, 8)]
    found = mapped(*cluster(tmp_path, nodes, jobs), SHARD)
    assert (found.request.free[1], running(found)[1][0], waiting(found)[2][0]) == (16, [16, 0], [8, 0])
    assert any("gres/gpu (1: 2)" in note for note in found.notes)


def test_drained_gpus_take_their_shards(tmp_path: Path) -> None:
    nodes = [NODE | {"gres_drained": "gpu:a100:1(IDX:0)", "alloc_cpus": 0, "state": ["IDLE"]}]
    found = mapped(*cluster(tmp_path, nodes, []), Asked(("gpu", "shard")))
    assert (found.request.free, found.out) == ([3, 12], [1, 4])


THERE = st.builds("gpu:{},shard:{}".format, st.integers(1, 8), st.integers(1, 20))
WHERE = st.sampled_from(["", "n0", "n1", "n[0-1]", "n["])
LISTS = st.builds(
    "gpu:{}(IDX:0),shard:{}({}/4,1/4,0/4)".format, st.integers(0, 9), st.integers(0, 20), st.integers(0, 4)
)


@given(
    nodes=st.lists(st.tuples(THERE, LISTS, LISTS), min_size=2, max_size=3),
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
    told = [NODE | {"name": f"n{k}"} | dict(zip(names, lists, strict=True)) for k, lists in enumerate(nodes)]
    asking = []
    for where, count, gpus, wide in jobs:
        text = f"cpu=8,node=1,gres/shard={count},gres/gpu={gpus}"
        asking.append(on(where, 8) | {"tres_req_str": text, "tres_alloc_str": text, "node_count": 1 + wide})
    found = mapped(*cluster(tmp_path_factory.getbasetemp(), told, asking), Asked(resources))
    request = found.request
    for r, counts in enumerate(zip(request.free, found.unexplained, found.out, strict=True)):
        assert min(counts) >= 0
        assert sum(counts) + sum(job.demand[r] for job in request.running) == request.units[r]
