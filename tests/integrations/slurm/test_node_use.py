"""Units that jobs hold, node by node: in service, out of service, idle in sinfo, or on unknown nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched.integrations.slurm.advice_settings import AdviceSettings

from .samples import job_on, small_cluster, view_of, waiting

CPU_AND_GPU = AdviceSettings(("cpu", "gpu"))
GPUS = "gpu:a100:4(S:0-1)"
DRAINING = {"name": "n1", "state": ["MIXED", "DRAIN"], "alloc_cpus": 8, "gres": GPUS}


def test_units_that_jobs_hold_on_nodes_out_of_service_are_taken_off_once(tmp_path: Path) -> None:
    nodes = [DRAINING, {"name": "n2", "gres": GPUS}]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("n1", 8, 4), job_on("", 8, 4)]),
        CPU_AND_GPU,
    )
    assert (view.request.units, view.request.free, view.out_of_service) == ([32, 8], [16, 4], [8, 0])


def test_jobs_partly_on_nodes_in_service_count_with_their_share(tmp_path: Path) -> None:
    nodes = [DRAINING, {"name": "n2", "alloc_cpus": 8, "state": ["MIXED"], "gres": GPUS}]
    jobs = [job_on("n[1-2]", 16, 8, node_count=2)]
    view = view_of(*small_cluster(tmp_path, nodes, jobs), CPU_AND_GPU)
    assert (view.request.free, view.out_of_service) == ([8, 0], [8, 0])


@pytest.mark.parametrize("kind", ["cpu", "nodes"])
def test_a_node_that_is_idle_for_sinfo_and_held_for_squeue_is_held(tmp_path: Path, kind: str) -> None:
    nodes = [{"name": "n1"}, {"name": "n2", "state": ["DOWN"]}]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("n1", 16), job_on("", 16)]), AdviceSettings((kind,))
    )
    assert view.request.free == [0]
    assert any("take squeue and sinfo at one time" in note for note in view.notes)


def test_one_node_that_came_free_does_not_make_up_for_one_that_was_taken(tmp_path: Path) -> None:
    # sinfo is older: n1 has a job since, and that of n2 has ended.
    nodes = [{"name": "n1"}, {"name": "n2", "alloc_cpus": 16, "state": ["ALLOCATED"]}]
    view = view_of(*small_cluster(tmp_path, nodes, [job_on("n1", 16)]), AdviceSettings(("cpu",)))
    assert (view.request.free, view.unexplained, view.out_of_service) == ([0], [16], [0])


def test_jobs_that_spread_unevenly_leave_idle_units_of_sinfo(tmp_path: Path) -> None:
    nodes = [
        {"name": "n1", "alloc_cpus": 16, "state": ["ALLOCATED"]},
        {"name": "n2", "alloc_cpus": 4, "state": ["MIXED"]},
    ]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("n[1-2]", 20, node_count=2)]), AdviceSettings(("cpu",))
    )
    assert (view.request.free, view.out_of_service) == ([12], [0])
    assert not any("at one time" in note for note in view.notes)


def test_jobs_hold_what_their_nodes_have(tmp_path: Path) -> None:
    # All GPUs are on n1: the job's are there, though it has n2, which is drained, too.
    nodes = [{"name": "n1", "gres": "gpu:8"}, {"name": "n2", "cpus": 4, "state": ["IDLE", "DRAIN"]}]
    jobs = [job_on("n[1-2]", 20, 8, node_count=2)]  # newer than the output of sinfo
    view = view_of(*small_cluster(tmp_path, nodes, jobs), CPU_AND_GPU)
    assert (view.request.units, view.request.free, view.out_of_service) == ([20, 8], [0, 0], [0, 0])


def test_jobs_that_fill_several_nodes_hold_each_of_them(tmp_path: Path) -> None:
    busy = {"cpus": 4, "alloc_cpus": 4, "state": ["ALLOCATED"]}
    nodes = [{"name": "a", "cpus": 4}, {"name": "b", "cpus": 4}, busy | {"name": "c"}, busy | {"name": "d"}]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("a,b", 8, node_count=2)]), AdviceSettings(("cpu",))
    )
    assert (view.request.free, view.unexplained, view.out_of_service) == ([0], [8], [0])


def test_jobs_on_unknown_nodes_reduce_free_units(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "gres": GPUS}, {"name": "n2", "gres": GPUS}]
    view = view_of(*small_cluster(tmp_path, nodes, [job_on("n[1-", 8, 4)]), CPU_AND_GPU)
    assert view.request.free == [24, 4]


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ({"tres_per_socket": "gres/gpu:1", "sockets_per_node": 2}, 4),
        ({"tres_per_node": "gres/gpu:2"}, 4),
        ({"tres_per_task": "cpu:4,gres/gpu:1", "tasks": 3}, 3),
        ({"tres_per_job": "gres:gpu:5,license/matlab:2"}, 5),
    ],
)
def test_gpus_per_node_socket_task_and_job(tmp_path: Path, tres: dict[str, Any], gpus: int) -> None:
    nodes = [{"name": f"n{k}", "gres": GPUS} for k in range(4)]
    pending = job_on("", 16, node_count=2) | {"tres_req_str": "cpu=16,node=2"} | tres
    view = view_of(*small_cluster(tmp_path, nodes, [pending]), CPU_AND_GPU)
    assert waiting(view)[1][0] == [16, gpus]
    assert not any("gres/cpu" in note or "matlab" in note for note in view.notes)
