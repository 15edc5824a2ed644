"""Units that squeue and sinfo count differently: free, held, unexplained and out of service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.advice_settings import AdviceSettings

from .samples import job_on, sample, small_cluster, view_of, write_json

CPU_AND_GPU = AdviceSettings(("cpu", "gpu"))
GPUS = "gpu:a100:4(S:0-1)"
BUSY = {"name": "n1", "state": ["MIXED"], "alloc_cpus": 8, "gres": GPUS}


def test_gpus_that_sinfo_has_in_use_are_not_free(tmp_path: Path) -> None:
    nodes = [BUSY | {"gres_used": "gpu:a100:4(IDX:0-3)"}]
    view = view_of(*small_cluster(tmp_path, nodes, [job_on("", 8, 4)]), CPU_AND_GPU)
    assert (view.request.free, view.unexplained, view.out_of_service) == ([8, 0], [8, 4], [0, 0])
    (note,) = (note for note in view.notes if note.startswith("gpu: "))
    assert "sinfo has 4 in use that no job of squeue holds: take squeue and sinfo at one time" in note


def test_gpus_in_use_of_records_by_partition(tmp_path: Path) -> None:
    content = sample("sinfo")
    content["sinfo"][5]["gres"]["used"] = "gpu:a100:3(IDX:0-2)"  # of gn01, where jobs hold two
    view = view_of(sinfo=write_json(tmp_path, "n", content), settings=CPU_AND_GPU)
    assert (view.request.free, view.unexplained) == ([48, 1], [0, 1])


@pytest.mark.parametrize("used", ["gpu:a100:2(IDX:0-1)", "gpu:a100:0(IDX:N/A)", "", None])
def test_gpus_that_jobs_hold_are_held_whatever_sinfo_has(tmp_path: Path, used: str | None) -> None:
    view = view_of(*small_cluster(tmp_path, [BUSY | {"gres_used": used}], [job_on("n1", 8, 2)]), CPU_AND_GPU)
    assert (view.request.free, view.unexplained, view.out_of_service) == ([8, 2], [0, 0], [0, 0])
    assert any("gpu: sinfo has 4 idle, and jobs hold 2" in note for note in view.notes) == (
        used == "gpu:a100:0(IDX:N/A)"
    )


def test_units_in_use_in_sinfo_explain_jobs_on_unknown_nodes(tmp_path: Path) -> None:
    nodes = [BUSY | {"gres_used": "gpu:a100:2(IDX:0-1)"}]
    view = view_of(*small_cluster(tmp_path, nodes, [job_on("n[1-", 8, 2)]), CPU_AND_GPU)
    assert (view.request.free, view.unexplained, view.out_of_service) == ([8, 2], [0, 0], [0, 0])


def test_gpus_in_use_of_one_node_of_several_say_nothing_of_the_others(tmp_path: Path) -> None:
    content = sample("sinfo")
    content["sinfo"][5]["nodes"] |= {"nodes": ["gn[01-02]"], "total": 2}
    content["sinfo"][5]["gres"]["used"] = "gpu:a100:4(IDX:0-3)"
    assert view_of(sinfo=write_json(tmp_path, "n", content), settings=CPU_AND_GPU).request.free[1] == 6


def test_drained_gpus_are_out_of_service(tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [{"name": "n1", "gres": GPUS, "gres_drained": "gpu:a100:3(IDX:1-3)"}]
    view = view_of(*small_cluster(tmp_path, nodes, [job_on("", 8, 4)]), CPU_AND_GPU)
    assert (view.request.units, view.request.free, view.out_of_service) == ([16, 4], [16, 1], [0, 3])


def test_allocated_cpus_of_nodes_in_service_are_not_out_of_service(tmp_path: Path) -> None:
    nodes = [BUSY, {"name": "n2", "state": ["DOWN"]}]
    view = view_of(*small_cluster(tmp_path, nodes, []), AdviceSettings(("cpu",)))
    assert (view.request.free, view.unexplained, view.out_of_service) == ([8], [8], [16])


def test_cpus_reserved_for_the_system_are_not_counted_though_a_job_has_them(tmp_path: Path) -> None:
    nodes = [
        {"name": "n1", "state": ["ALLOCATED"], "alloc_cpus": 16, "effective_cpus": 14},
        {"name": "n2", "effective_cpus": 14},
    ]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("n1", 16), job_on("", 14)]), AdviceSettings(("cpu",))
    )
    assert (view.request.units, view.request.free, view.out_of_service) == ([28], [14], [0])
    assert [job.demand for job in view.request.running] == [[14]]
    notes = "\n".join(view.notes)
    assert "1 node with jobs on CPUs reserved for the system" in notes
    assert "at one time" not in notes


def test_more_cpus_in_use_than_a_node_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"nodes\[0\]\.alloc_cpus: value 17 is more than the 16 in all"):
        view_of(*small_cluster(tmp_path, [BUSY | {"alloc_cpus": 17, "effective_cpus": 14}], []))


def test_a_job_holds_no_more_than_its_nodes_have(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "state": ["ALLOCATED"], "alloc_cpus": 16}, {"name": "n2"}]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("n1", 20), job_on("", 16)]), AdviceSettings(("cpu",))
    )
    assert (view.request.free, view.out_of_service) == ([16], [0])
    assert any("1 time a job holds more" in note for note in view.notes)


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"gres_detail": ["gpu:a100:4(IDX:0-3)", "gpu:a100:2(IDX:0,2)"]}, 6),
        ({"gres_detail": ["gpu:a100:4(IDX:0-3)"], "tres_per_node": "gres/gpu:1"}, 4),  # whole nodes
        ({"gres_detail": [], "tres_per_node": "gres/gpu:1"}, 2),
        ({"gres_detail": ["gpu:2(IDX:0-1)"], "tres_alloc_str": "cpu=16,node=2,gres/gpu=3"}, 3),
    ],
)
def test_gpus_that_jobs_have_on_each_node(tmp_path: Path, fields: dict[str, Any], gpus: int) -> None:
    nodes = [BUSY, BUSY | {"name": "n2"}]
    view = view_of(
        *small_cluster(tmp_path, nodes, [job_on("n[1-2]", 16, node_count=2) | fields]), CPU_AND_GPU
    )
    assert (view.request.running[0].demand, view.request.free[1]) == ([16, gpus], 8 - gpus)
