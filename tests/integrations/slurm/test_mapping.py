"""What squeue and sinfo say of one cluster in four versions, and what is made of it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.asked import Asked

from .recorded import (
    FILES,
    NEWEST,
    NOW,
    VERSIONS,
    cluster,
    job,
    mapped,
    on,
    recorded,
    running,
    waiting,
    written,
)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_versions_tell_of_the_same_cluster(version: str) -> None:
    found = mapped(FILES / f"squeue-{version}.json", FILES / f"sinfo-{version}.json")
    assert (found.request.units, found.request.free, found.out) == ([96], [48], [16])
    assert running(found) == {
        101: ([8], -3600, 3600),
        "200_1": ([16], -1800, 1800),
        103: ([8], -86_400, 31_536_000 - 86_400),
    }
    assert waiting(found) == {
        "200_2": ([16], 3600, NOW - 9000),
        301: ([64], 14_400, NOW - 7200),
        302: ([4], 1800, NOW - 3000),
        303: ([2], 86_400, NOW - 600),
        311: ([8], 3600, NOW - 100),
        312: ([16], 600, NOW - 50),  # a whole node
    }
    assert {reason: left.count for reason, left in found.left_out.items()} == {
        "JobArrayTaskLimit": 7,
        "Dependency": 1,
        "JobHeldUser": 1,
        "BeginTime": 1,
        "QOSMaxCpuPerUserLimit": 1,
        "Licenses": 1,
        "part of a heterogeneous job, whose parts start together": 2,
    }
    assert [found.rows[name].job.priority for name in (301, 302, 311)] == [5000, 4000, 2000]
    assert [found.rows[name].job.nice for name in (301, 311)] == [0, 50]


def test_records_of_several_nodes_count_them_once() -> None:
    grouped = mapped(sinfo=FILES / f"sinfo-{NEWEST}-grouped.json")
    assert (grouped.request.units, grouped.request.free, grouped.out) == ([96], [48], [16])


def test_several_resources_go_by_their_names() -> None:
    found = mapped(asked=Asked(("cpu", "gpu")))
    assert (found.request.units, found.request.free, found.out) == ([96, 4], [48, 2], [16, 0])
    assert running(found)[103][0] == [8, 2]
    assert waiting(found)[311][0] == [8, 2]
    assert waiting(found)[302][0] == [4, 0]


def test_gpus_that_slurm_does_not_track_are_told_by_what_jobs_ask_for(tmp_path: Path) -> None:
    content = recorded("squeue")
    for record in content["jobs"]:
        for name in ("tres_req_str", "tres_alloc_str"):
            record[name] = record[name].partition(",gres")[0]
    found = mapped(written(tmp_path, "q", content), asked=Asked(("cpu", "gpu")))
    assert found.request.free == [48, 2]
    assert waiting(found)[311][0] == [8, 2]


def test_nodes_count_once_however_many_jobs_share_them(tmp_path: Path) -> None:
    content = recorded("squeue")
    shared = deepcopy(job(content, 101)) | {"job_id": 102}
    content["jobs"].append(shared | {"end_time": {"set": True, "infinite": False, "number": NOW + 7200}})
    found = mapped(written(tmp_path, "q", content), asked=Asked(("nodes",), partition="batch"))
    # cn001 is free when job 102 ends, cn002 is held, cn003 idle, cn004 drained.
    assert (found.request.units, found.request.free, found.out) == ([4], [1], [1])
    assert running(found) == {102: ([1], -3600, 7200), "200_1": ([1], -1800, 1800)}
    assert waiting(found)[301][0] == [4]


def test_a_partition_has_its_own_jobs_and_nodes() -> None:
    found = mapped(asked=Asked(("processors",), partition="gpu"))
    assert (found.request.units, found.request.free, found.out) == ([32], [24], [0])
    assert set(running(found)) == {103}
    assert set(waiting(found)) == {302, 311}
    assert found.request.cluster == "hpc/gpu"


def test_jobs_of_other_partitions_hold_shared_nodes() -> None:
    found = mapped(asked=Asked(("processors",), partition="debug"))
    assert (found.request.units, found.request.free) == ([16], [8])
    assert set(running(found)) == {101}  # of batch, on cn001
    assert any("shared with other partitions" in note for note in found.notes)


def test_of_jobs_inside_and_outside_their_share_counts(tmp_path: Path) -> None:
    content = recorded("squeue")
    wide = job(content, 101)
    wide |= {"nodes": "cn[001-002]", "node_count": {"set": True, "infinite": False, "number": 2}}
    found = mapped(written(tmp_path, "q", content), asked=Asked(("processors",), partition="debug"))
    assert running(found)[101][0] == [4]


def test_what_is_idle_beside_what_jobs_hold_is_not_counted_twice(tmp_path: Path) -> None:
    content = recorded("sinfo")
    content["sinfo"][2]["cpus"] |= {"allocated": 0, "idle": 16}  # cn002, whose job is told of as running
    content["sinfo"][4]["node"]["state"] = ["IDLE"]
    found = mapped(sinfo=written(tmp_path, "n", content))
    assert (found.request.free, found.out) == ([64], [0])
    assert any("are idle beside 32" in note for note in found.notes)


def test_cpus_that_jobs_share_are_held_once(tmp_path: Path) -> None:
    content = recorded("squeue")
    for k in range(9):
        content["jobs"].append(deepcopy(job(content, 201)) | {"job_id": 900 + k, "array_job_id": 0})
        content["jobs"][-1]["array_task_id"] = {"set": False, "infinite": False, "number": 0}
    found = mapped(written(tmp_path, "q", content))
    assert sum(running.demand[0] for running in found.request.running) == 96
    assert any("OverSubscribe" in note for note in found.notes)


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
    content = recorded("sinfo")
    content["sinfo"][4]["node"]["state"] = state  # cn004, with 16 idle CPUs
    assert mapped(sinfo=written(tmp_path, "n", content)).request.free == [free]


def test_nodes_of_a_partition_that_is_down_start_nothing(tmp_path: Path) -> None:
    content = recorded("sinfo")
    content["sinfo"][5]["partition"]["partition"]["state"] = ["DOWN"]  # gpu
    content["sinfo"][1]["partition"]["partition"]["state"] = ["DOWN"]  # debug, whose node batch has, too
    assert mapped(sinfo=written(tmp_path, "n", content)).request.free == [24]


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
    content = recorded("squeue")
    job(content, 313)["job_state"] = states
    found = mapped(written(tmp_path, "q", content))
    assert running(found).get(313, (None,))[0] == holds
    assert 313 not in waiting(found)


def test_a_completing_job_is_over(tmp_path: Path) -> None:
    content = recorded("squeue")
    job(content, 313)["job_state"] = ["TIMEOUT", "COMPLETING"]
    found = mapped(written(tmp_path, "q", content))
    assert running(found)[313][2] < 0


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
    content = recorded("squeue")
    job(content, 200)["array_task_string"] = tasks
    job(content, 200)["array_max_tasks"]["number"] = at_once
    found = waiting(mapped(written(tmp_path, "q", content)))
    assert [name for name in found if isinstance(name, str)] == started


def test_jobs_without_a_limit_get_that_of_their_partition(tmp_path: Path) -> None:
    content = recorded("sinfo")
    for record in content["sinfo"]:
        record["partition"]["defaults"]["time"] = {"set": True, "infinite": False, "number": 5}
    queue = recorded("squeue")
    for name in (302, 311):
        job(queue, name)["time_limit"] = {"set": False, "infinite": False, "number": 0}
    found = waiting(mapped(written(tmp_path, "q", queue), written(tmp_path, "n", content)))
    assert [found[name][1] for name in (302, 303, 311)] == [300, 86_400, 300]  # 303 asks for no limit


def test_no_limit_anywhere_is_refused(tmp_path: Path) -> None:
    queue = recorded("squeue")
    job(queue, 311)["time_limit"] = {"set": False, "infinite": True, "number": 0}
    with pytest.raises(BadInputError, match=r"jobs\[16\]\.time_limit: of job 311 .*--default-limit 1440"):
        mapped(written(tmp_path, "q", queue), asked=Asked(("processors",)))


def test_whole_nodes_where_the_partition_says_so(tmp_path: Path) -> None:
    content = recorded("sinfo")
    for record in content["sinfo"]:
        record["partition"]["maximums"]["shares"] = 0
    found = waiting(mapped(sinfo=written(tmp_path, "n", content)))
    assert [found[name][0] for name in (302, 311, 301)] == [[16], [32], [64]]


def test_waiting_begins_when_a_job_could_have_started(tmp_path: Path) -> None:
    queue = recorded("squeue")
    job(queue, 302)["eligible_time"]["number"] = NOW - 1000
    assert waiting(mapped(written(tmp_path, "q", queue)))[302][2] == NOW - 1000


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
    queue = recorded("squeue")
    job(queue, 302).update(change)
    found = mapped(written(tmp_path, "q", queue))
    assert 302 not in waiting(found)
    assert 302 in found.left_out[reason].jobs


def test_what_a_policy_does_not_know_is_said() -> None:
    notes = "\n".join(mapped(asked=Asked(("processors",), units=(256,), default_limit_s=60)).notes)
    assert "features (1: 303)" in notes
    assert "gres/gpu (1: 311)" in notes
    assert "whole nodes (1: 312)" in notes
    assert "trained for 256 units, and this cluster has 96" in notes
    assert "3 partitions count as one cluster, 1 node of which several have" in notes


def test_old_answers_are_called_old() -> None:
    assert any("20 minutes old" in note for note in mapped(now=NOW + 1200).notes)


def test_clocks_may_differ_a_little() -> None:
    assert mapped(now=NOW - 1000).request.now == NOW - 50  # the newest job


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(("processors",), horizon=24), "plans 24 ticks ahead"),
        (Asked(("memory",), counted="nodes"), "--units: value 'nodes', but the policy counts memory"),
        (Asked(("cpu", "processors")), "would both count cpus"),
        (Asked(("cpu", "memory"), default_limit_s=1), "its nodes have 0 gres/memory in all"),
        (Asked(("cpu",), partition="none"), "--partition: value 'none' .* name one of batch, debug, gpu"),
    ],
)
def test_policies_that_slurm_cannot_serve(asked: Asked, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        mapped(asked=asked)


GPUS = "gpu:a100:4(S:0-1)"
DRAINING = {"name": "n1", "state": ["MIXED", "DRAIN"], "alloc_cpus": 8, "gres": GPUS}


def test_units_that_jobs_hold_on_nodes_out_of_service_are_taken_off_once(tmp_path: Path) -> None:
    nodes = [DRAINING, {"name": "n2", "gres": GPUS}]
    found = mapped(*cluster(tmp_path, nodes, [on("n1", 8, 4), on("", 8, 4)]), Asked(("cpu", "gpu")))
    assert (found.request.units, found.request.free, found.out) == ([32, 8], [16, 4], [8, 0])


def test_of_jobs_on_nodes_in_service_and_out_of_it_their_share_counts(tmp_path: Path) -> None:
    nodes = [DRAINING, {"name": "n2", "alloc_cpus": 8, "state": ["MIXED"], "gres": GPUS}]
    jobs = [on("n[1-2]", 16, 8, node_count=2)]
    found = mapped(*cluster(tmp_path, nodes, jobs), Asked(("cpu", "gpu")))
    assert (found.request.free, found.out) == ([8, 0], [8, 0])


@pytest.mark.parametrize("kind", ["cpu", "nodes"])
def test_a_node_that_is_idle_for_sinfo_and_held_for_squeue_is_held(tmp_path: Path, kind: str) -> None:
    nodes = [{"name": "n1"}, {"name": "n2", "state": ["DOWN"]}]
    found = mapped(*cluster(tmp_path, nodes, [on("n1", 16), on("", 16)]), Asked((kind,)))
    assert found.request.free == [0]
    assert any("take squeue and sinfo at one time" in note for note in found.notes)


def test_one_node_that_came_free_does_not_make_up_for_one_that_was_taken(tmp_path: Path) -> None:
    # sinfo is older: n1 has a job since, and that of n2 has ended.
    nodes = [{"name": "n1"}, {"name": "n2", "alloc_cpus": 16, "state": ["ALLOCATED"]}]
    found = mapped(*cluster(tmp_path, nodes, [on("n1", 16)]), Asked(("cpu",)))
    assert (found.request.free, found.unexplained, found.out) == ([0], [16], [0])


def test_jobs_that_spread_unevenly_leave_what_sinfo_calls_idle(tmp_path: Path) -> None:
    nodes = [
        {"name": "n1", "alloc_cpus": 16, "state": ["ALLOCATED"]},
        {"name": "n2", "alloc_cpus": 4, "state": ["MIXED"]},
    ]
    found = mapped(*cluster(tmp_path, nodes, [on("n[1-2]", 20, node_count=2)]), Asked(("cpu",)))
    assert (found.request.free, found.out) == ([12], [0])
    assert not any("at one time" in note for note in found.notes)


def test_jobs_hold_what_their_nodes_have(tmp_path: Path) -> None:
    # All GPUs are on n1: the job's are there, though it has n2, which is drained, too.
    nodes = [{"name": "n1", "gres": "gpu:8"}, {"name": "n2", "cpus": 4, "state": ["IDLE", "DRAIN"]}]
    jobs = [on("n[1-2]", 20, 8, node_count=2)]  # newer than what sinfo says
    found = mapped(*cluster(tmp_path, nodes, jobs), Asked(("cpu", "gpu")))
    assert (found.request.units, found.request.free, found.out) == ([20, 8], [0, 0], [0, 0])


def test_jobs_that_fill_several_nodes_hold_each_of_them(tmp_path: Path) -> None:
    busy = {"cpus": 4, "alloc_cpus": 4, "state": ["ALLOCATED"]}
    nodes = [{"name": "a", "cpus": 4}, {"name": "b", "cpus": 4}, busy | {"name": "c"}, busy | {"name": "d"}]
    found = mapped(*cluster(tmp_path, nodes, [on("a,b", 8, node_count=2)]), Asked(("cpu",)))
    assert (found.request.free, found.unexplained, found.out) == ([0], [8], [0])


def test_jobs_on_nodes_that_are_not_told_take_from_what_is_free(tmp_path: Path) -> None:
    nodes = [{"name": "n1", "gres": GPUS}, {"name": "n2", "gres": GPUS}]
    found = mapped(*cluster(tmp_path, nodes, [on("n[1-", 8, 4)]), Asked(("cpu", "gpu")))
    assert found.request.free == [24, 4]


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({"tres_per_socket": "gres/gpu:1", "sockets_per_node": 2}, 4),
        ({"tres_per_node": "gres/gpu:2"}, 4),
        ({"tres_per_task": "cpu:4,gres/gpu:1", "tasks": 3}, 3),
        ({"tres_per_job": "gres:gpu:5,license/matlab:2"}, 5),
    ],
)
def test_gpus_per_node_socket_task_and_job(tmp_path: Path, asked: dict[str, Any], gpus: int) -> None:
    nodes = [{"name": f"n{k}", "gres": GPUS} for k in range(4)]
    wanted = on("", 16, node_count=2) | {"tres_req_str": "cpu=16,node=2"} | asked
    found = mapped(*cluster(tmp_path, nodes, [wanted]), Asked(("cpu", "gpu")))
    assert waiting(found)[1][0] == [16, gpus]
    assert not any("gres/cpu" in note or "matlab" in note for note in found.notes)
