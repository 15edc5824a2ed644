"""Units that squeue and sinfo tell of differently: what is free, held, unexplained and out of service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.asked import Asked

from .recorded import cluster, mapped, on, recorded, written

BOTH = Asked(("cpu", "gpu"))
GPUS = "gpu:a100:4(S:0-1)"
BUSY = {"name": "n1", "state": ["MIXED"], "alloc_cpus": 8, "gres": GPUS}


def test_gpus_that_sinfo_has_in_use_are_not_free(tmp_path: Path) -> None:
    nodes = [BUSY | {"gres_used": "gpu:a100:4(IDX:0-3)"}]
    found = mapped(*cluster(tmp_path, nodes, [on("", 8, 4)]), BOTH)
    assert (found.request.free, found.unexplained, found.out) == ([8, 0], [8, 4], [0, 0])
    (note,) = (note for note in found.notes if note.startswith("gpu: "))
    assert "4 are in use for sinfo, but held by no job of squeue: take squeue and sinfo at one time" in note


def test_gpus_in_use_of_records_by_partition(tmp_path: Path) -> None:
    content = recorded("sinfo")
    content["sinfo"][5]["gres"]["used"] = "gpu:a100:3(IDX:0-2)"  # of gn01, where jobs hold two
    found = mapped(sinfo=written(tmp_path, "n", content), asked=BOTH)
    assert (found.request.free, found.unexplained) == ([48, 1], [0, 1])


@pytest.mark.parametrize("used", ["gpu:a100:2(IDX:0-1)", "gpu:a100:0(IDX:N/A)", "", None])
def test_gpus_that_jobs_hold_are_held_whatever_sinfo_says(tmp_path: Path, used: str | None) -> None:
    found = mapped(*cluster(tmp_path, [BUSY | {"gres_used": used}], [on("n1", 8, 2)]), BOTH)
    assert (found.request.free, found.unexplained, found.out) == ([8, 2], [0, 0], [0, 0])
    assert any("gpu: 4 are idle beside 2" in note for note in found.notes) == (used == "gpu:a100:0(IDX:N/A)")


def test_what_sinfo_has_in_use_is_that_of_jobs_whose_nodes_are_not_told(tmp_path: Path) -> None:
    nodes = [BUSY | {"gres_used": "gpu:a100:2(IDX:0-1)"}]
    found = mapped(*cluster(tmp_path, nodes, [on("n[1-", 8, 2)]), BOTH)
    assert (found.request.free, found.unexplained, found.out) == ([8, 2], [0, 0], [0, 0])


def test_gpus_in_use_of_one_node_of_several_say_nothing_of_the_others(tmp_path: Path) -> None:
    content = recorded("sinfo")
    content["sinfo"][5]["nodes"] |= {"nodes": ["gn[01-02]"], "total": 2}
    content["sinfo"][5]["gres"]["used"] = "gpu:a100:4(IDX:0-3)"
    assert mapped(sinfo=written(tmp_path, "n", content), asked=BOTH).request.free[1] == 6


def test_drained_gpus_are_out_of_service(tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [{"name": "n1", "gres": GPUS, "gres_drained": "gpu:a100:3(IDX:1-3)"}]
    found = mapped(*cluster(tmp_path, nodes, [on("", 8, 4)]), BOTH)
    assert (found.request.units, found.request.free, found.out) == ([16, 4], [16, 1], [0, 3])


def test_allocated_cpus_of_nodes_in_service_are_not_out_of_service(tmp_path: Path) -> None:
    nodes = [BUSY, {"name": "n2", "state": ["DOWN"]}]
    found = mapped(*cluster(tmp_path, nodes, []), Asked(("cpu",)))
    assert (found.request.free, found.unexplained, found.out) == ([8], [8], [16])


def test_cpus_kept_for_the_system_are_not_counted_though_a_job_has_them(tmp_path: Path) -> None:
    nodes = [
        {"name": "n1", "state": ["ALLOCATED"], "alloc_cpus": 16, "effective_cpus": 14},
        {"name": "n2", "effective_cpus": 14},
    ]
    found = mapped(*cluster(tmp_path, nodes, [on("n1", 16), on("", 14)]), Asked(("cpu",)))
    assert (found.request.units, found.request.free, found.out) == ([28], [14], [0])
    assert [job.demand for job in found.request.running] == [[14]]
    notes = "\n".join(found.notes)
    assert "1 node with jobs on CPUs kept for the system" in notes
    assert "at one time" not in notes


def test_more_cpus_in_use_than_a_node_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"nodes\[0\]\.alloc_cpus: value 17 is more than the 16 in all"):
        mapped(*cluster(tmp_path, [BUSY | {"alloc_cpus": 17, "effective_cpus": 14}], []))


def test_a_job_holds_no_more_than_its_nodes_have(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "state": ["ALLOCATED"], "alloc_cpus": 16}, {"name": "n2"}]
    found = mapped(*cluster(tmp_path, nodes, [on("n1", 20), on("", 16)]), Asked(("cpu",)))
    assert (found.request.free, found.out) == ([16], [0])
    assert any("1 time a job holds more" in note for note in found.notes)


@pytest.mark.parametrize(
    ("told", "gpus"),
    [
        ({"gres_detail": ["gpu:a100:4(IDX:0-3)", "gpu:a100:2(IDX:0,2)"]}, 6),
        ({"gres_detail": ["gpu:a100:4(IDX:0-3)"], "tres_per_node": "gres/gpu:1"}, 4),  # whole nodes
        ({"gres_detail": [], "tres_per_node": "gres/gpu:1"}, 2),
        ({"gres_detail": ["gpu:2(IDX:0-1)"], "tres_alloc_str": "cpu=16,node=2,gres/gpu=3"}, 3),
    ],
)
def test_gpus_that_jobs_have_on_each_node(tmp_path: Path, told: dict[str, Any], gpus: int) -> None:
    nodes = [BUSY, BUSY | {"name": "n2"}]
    found = mapped(*cluster(tmp_path, nodes, [on("n[1-2]", 16, node_count=2) | told]), BOTH)
    assert (found.request.running[0].demand, found.request.free[1]) == ([16, gpus], 8 - gpus)
