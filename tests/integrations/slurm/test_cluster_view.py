"""The view of one cluster, from the output of four versions of Slurm."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.advice_settings import AdviceSettings

from .samples import (
    FILES,
    NEWEST,
    NOW,
    VERSIONS,
    job,
    running,
    sample,
    view_of,
    waiting,
    write_json,
)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_versions_give_the_same_view(version: str) -> None:
    view = view_of(FILES / f"squeue-{version}.json", FILES / f"sinfo-{version}.json")
    assert (view.request.units, view.request.free, view.out_of_service) == ([96], [48], [16])
    assert running(view) == {
        101: ([8], -3600, 3600),
        "200_1": ([16], -1800, 1800),
        103: ([8], -86_400, 31_536_000 - 86_400),
    }
    assert waiting(view) == {
        "200_2": ([16], 3600, NOW - 9000),
        301: ([64], 14_400, NOW - 7200),
        302: ([4], 1800, NOW - 3000),
        303: ([2], 86_400, NOW - 600),
        311: ([8], 3600, NOW - 100),
        312: ([16], 600, NOW - 50),  # a whole node
    }
    assert {reason: excluded.count for reason, excluded in view.excluded.items()} == {
        "JobArrayTaskLimit": 7,
        "Dependency": 1,
        "JobHeldUser": 1,
        "BeginTime": 1,
        "QOSMaxCpuPerUserLimit": 1,
        "Licenses": 1,
        "part of a heterogeneous job, whose parts start together": 2,
    }
    assert [view.rows[name].job.priority for name in (301, 302, 311)] == [5000, 4000, 2000]
    assert [view.rows[name].job.nice for name in (301, 311)] == [0, 50]


def test_records_of_several_nodes_count_them_once() -> None:
    grouped = view_of(sinfo=FILES / f"sinfo-{NEWEST}-grouped.json")
    assert (grouped.request.units, grouped.request.free, grouped.out_of_service) == ([96], [48], [16])


def test_several_resources_go_by_their_names() -> None:
    view = view_of(settings=AdviceSettings(("cpu", "gpu")))
    assert (view.request.units, view.request.free, view.out_of_service) == ([96, 4], [48, 2], [16, 0])
    assert running(view)[103][0] == [8, 2]
    assert waiting(view)[311][0] == [8, 2]
    assert waiting(view)[302][0] == [4, 0]


def test_gpus_that_slurm_does_not_track_count_by_the_requests_of_jobs(tmp_path: Path) -> None:
    content = sample("squeue")
    for record in content["jobs"]:
        for name in ("tres_req_str", "tres_alloc_str"):
            record[name] = record[name].partition(",gres")[0]
    view = view_of(write_json(tmp_path, "q", content), settings=AdviceSettings(("cpu", "gpu")))
    assert view.request.free == [48, 2]
    assert waiting(view)[311][0] == [8, 2]


def test_nodes_count_once_however_many_jobs_share_them(tmp_path: Path) -> None:
    content = sample("squeue")
    shared = deepcopy(job(content, 101)) | {"job_id": 102}
    content["jobs"].append(shared | {"end_time": {"set": True, "infinite": False, "number": NOW + 7200}})
    view = view_of(write_json(tmp_path, "q", content), settings=AdviceSettings(("nodes",), partition="batch"))
    # cn001 is free when job 102 ends, cn002 is held, cn003 idle, cn004 drained.
    assert (view.request.units, view.request.free, view.out_of_service) == ([4], [1], [1])
    assert running(view) == {102: ([1], -3600, 7200), "200_1": ([1], -1800, 1800)}
    assert waiting(view)[301][0] == [4]


def test_only_jobs_and_nodes_of_the_partition_count() -> None:
    view = view_of(settings=AdviceSettings(("processors",), partition="gpu"))
    assert (view.request.units, view.request.free, view.out_of_service) == ([32], [24], [0])
    assert set(running(view)) == {103}
    assert set(waiting(view)) == {302, 311}
    assert view.request.cluster == "hpc/gpu"


def test_jobs_of_other_partitions_hold_shared_nodes() -> None:
    view = view_of(settings=AdviceSettings(("processors",), partition="debug"))
    assert (view.request.units, view.request.free) == ([16], [8])
    assert set(running(view)) == {101}  # of batch, on cn001
    assert any("shared with other partitions" in note for note in view.notes)


def test_jobs_partly_outside_count_with_their_share(tmp_path: Path) -> None:
    content = sample("squeue")
    wide = job(content, 101)
    wide |= {"nodes": "cn[001-002]", "node_count": {"set": True, "infinite": False, "number": 2}}
    view = view_of(
        write_json(tmp_path, "q", content), settings=AdviceSettings(("processors",), partition="debug")
    )
    assert running(view)[101][0] == [4]


def test_idle_units_that_jobs_hold_are_not_counted_twice(tmp_path: Path) -> None:
    content = sample("sinfo")
    content["sinfo"][2]["cpus"] |= {"allocated": 0, "idle": 16}  # cn002, whose job is running
    content["sinfo"][4]["node"]["state"] = ["IDLE"]
    view = view_of(sinfo=write_json(tmp_path, "n", content))
    assert (view.request.free, view.out_of_service) == ([64], [0])
    assert any("idle, and jobs hold 32" in note for note in view.notes)


def test_cpus_that_jobs_share_are_held_once(tmp_path: Path) -> None:
    content = sample("squeue")
    for k in range(9):
        content["jobs"].append(deepcopy(job(content, 201)) | {"job_id": 900 + k, "array_job_id": 0})
        content["jobs"][-1]["array_task_id"] = {"set": False, "infinite": False, "number": 0}
    view = view_of(write_json(tmp_path, "q", content))
    assert sum(running.demand[0] for running in view.request.running) == 96
    assert any("OverSubscribe" in note for note in view.notes)


@pytest.mark.parametrize(
    ("state", "free"),
    [
        ("IDLE", 64),
        ("idle~", 64),
        (["IDLE", "CLOUD", "POWERED_DOWN"], 64),
        (["IDLE", "PLANNED"], 64),
        ("idle*", 48),
        ("down", 48),
        ("draining", 48),
        ("maint", 48),
        (["IDLE", "RESERVED"], 48),
        (["DOWN", "NOT_RESPONDING"], 48),
        (["IDLE", "POWERING_DOWN"], 48),
    ],
)
def test_states_of_nodes(tmp_path: Path, state: object, free: int) -> None:
    content = sample("sinfo")
    content["sinfo"][4]["node"]["state"] = state  # cn004, with 16 idle CPUs
    assert view_of(sinfo=write_json(tmp_path, "n", content)).request.free == [free]


def test_nodes_of_a_partition_that_is_down_start_nothing(tmp_path: Path) -> None:
    content = sample("sinfo")
    content["sinfo"][5]["partition"]["partition"]["state"] = ["DOWN"]  # gpu
    content["sinfo"][1]["partition"]["partition"]["state"] = ["DOWN"]  # debug, whose node batch has, too
    assert view_of(sinfo=write_json(tmp_path, "n", content)).request.free == [24]


@pytest.mark.parametrize(
    ("states", "holds"),
    [
        (["RUNNING"], [16]),
        (["COMPLETED", "COMPLETING"], [16]),
        (["RUNNING", "CONFIGURING"], [16]),
        (["PENDING", "COMPLETING", "REQUEUED"], [16]),
        (["SUSPENDED", "STOPPED"], [16]),
        (["SUSPENDED"], None),
        (["COMPLETED"], None),
        (["NODE_FAIL"], None),
    ],
)
def test_states_of_jobs(tmp_path: Path, states: list[str], holds: list[int] | None) -> None:
    content = sample("squeue")
    job(content, 313)["job_state"] = states
    view = view_of(write_json(tmp_path, "q", content))
    assert running(view).get(313, (None,))[0] == holds
    assert 313 not in waiting(view)


def test_a_completing_job_is_over(tmp_path: Path) -> None:
    content = sample("squeue")
    job(content, 313)["job_state"] = ["TIMEOUT", "COMPLETING"]
    view = view_of(write_json(tmp_path, "q", content))
    assert running(view)[313][2] < 0


@pytest.mark.parametrize(
    ("tasks", "at_once", "started"),
    [
        ("2-9", 0, [f"200_{k}" for k in range(2, 10)]),
        ("2-9%4", 4, ["200_2", "200_3", "200_4"]),
        ("3,7,10-20:5", 0, ["200_3", "200_7", "200_10", "200_15", "200_20"]),
        ("2,3,...", 0, ["200_2", "200_3"]),
        ("2-9%1", 1, []),
    ],
)
def test_tasks_of_arrays(tmp_path: Path, tasks: str, at_once: int, started: list[str]) -> None:
    content = sample("squeue")
    job(content, 200)["array_task_string"] = tasks
    job(content, 200)["array_max_tasks"]["number"] = at_once
    jobs = waiting(view_of(write_json(tmp_path, "q", content)))
    assert [name for name in jobs if isinstance(name, str)] == started


def test_jobs_without_a_limit_get_that_of_their_partition(tmp_path: Path) -> None:
    content = sample("sinfo")
    for record in content["sinfo"]:
        record["partition"]["defaults"]["time"] = {"set": True, "infinite": False, "number": 5}
    queue = sample("squeue")
    for name in (302, 311):
        job(queue, name)["time_limit"] = {"set": False, "infinite": False, "number": 0}
    jobs = waiting(view_of(write_json(tmp_path, "q", queue), write_json(tmp_path, "n", content)))
    assert [jobs[name][1] for name in (302, 303, 311)] == [300, 86_400, 300]  # 303 asks for no limit


def test_no_limit_anywhere_is_refused(tmp_path: Path) -> None:
    queue = sample("squeue")
    job(queue, 311)["time_limit"] = {"set": False, "infinite": True, "number": 0}
    with pytest.raises(BadInputError, match=r"jobs\[16\]\.time_limit: of job 311 .*--default-limit 1440"):
        view_of(write_json(tmp_path, "q", queue), settings=AdviceSettings(("processors",)))


def test_whole_nodes_where_the_partition_says_so(tmp_path: Path) -> None:
    content = sample("sinfo")
    for record in content["sinfo"]:
        record["partition"]["maximums"]["shares"] = 0
    jobs = waiting(view_of(sinfo=write_json(tmp_path, "n", content)))
    assert [jobs[name][0] for name in (302, 311, 301)] == [[16], [32], [64]]


def test_waiting_begins_when_a_job_could_have_started(tmp_path: Path) -> None:
    queue = sample("squeue")
    job(queue, 302)["eligible_time"]["number"] = NOW - 1000
    assert waiting(view_of(write_json(tmp_path, "q", queue)))[302][2] == NOW - 1000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"priority": {"set": True, "infinite": False, "number": 0}}, "held: its priority is 0"),
        ({"hold": True}, "held: its priority is 0"),
        ({"dependency": "singleton(unfulfilled)"}, "Dependency"),
        ({"eligible_time": {"set": True, "infinite": False, "number": NOW + 60}}, "BeginTime"),
        ({"resv_name": "maint"}, "runs in a reservation of its own"),
        ({"job_state": ["PENDING", "SPECIAL_EXIT"]}, "held: requeued"),
        ({"state_reason": "ReqNodeNotAvail"}, "ReqNodeNotAvail"),
    ],
)
def test_jobs_that_may_not_start_are_left_out(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    queue = sample("squeue")
    job(queue, 302).update(change)
    view = view_of(write_json(tmp_path, "q", queue))
    assert 302 not in waiting(view)
    assert 302 in view.excluded[reason].jobs


def test_requests_that_a_policy_does_not_know_get_a_note() -> None:
    notes = "\n".join(
        view_of(settings=AdviceSettings(("processors",), trained_units=(256,), default_limit_s=60)).notes
    )
    assert "features (1: 303)" in notes
    assert "gres/gpu (1: 311)" in notes
    assert "whole nodes (1: 312)" in notes
    assert "trained for 256 units, and this cluster has 96" in notes
    assert "3 partitions count as one cluster, with 1 node in several" in notes


def test_old_output_gets_a_note() -> None:
    assert any("20 minutes old" in note for note in view_of(now=NOW + 1200).notes)


def test_clocks_may_differ_a_little() -> None:
    assert view_of(now=NOW - 1000).request.now == NOW - 50  # the newest job


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (AdviceSettings(("processors",), horizon=24), "plans 24 ticks ahead"),
        (
            AdviceSettings(("memory",), first_resource="nodes"),
            "--units: value 'nodes', but the policy counts memory",
        ),
        (AdviceSettings(("cpu", "processors")), "would both count cpus"),
        (AdviceSettings(("cpu", "memory"), default_limit_s=1), "its nodes have 0 gres/memory in all"),
        (
            AdviceSettings(("cpu",), partition="none"),
            "--partition: value 'none' .* name one of batch, debug, gpu",
        ),
    ],
)
def test_policies_that_slurm_cannot_serve(settings: AdviceSettings, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        view_of(settings=settings)
