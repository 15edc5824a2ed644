"""What squeue and sinfo say of one cluster in four versions, what is made of it, and bad files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.serve.schema import Answer, Decision, Reason
from rlsched.serve.slurm.answers import read_answer
from rlsched.serve.slurm.asked import Asked
from rlsched.serve.slurm.commands import changes, script
from rlsched.serve.slurm.hostlist import expand
from rlsched.serve.slurm.mapping import Mapped, map_cluster

FILES = Path(__file__).parent / "slurm"
NOW = 1_760_000_000
VERSIONS = ("22.05.9", "23.02.6", "23.11.10", "24.11.5")
CPUS = Asked(("processors",), default_limit_s=86_400)
NEWEST = "24.11.5"

Change = Callable[[dict[str, Any]], None]


def mapped(
    squeue: Path | str = FILES / f"squeue-{NEWEST}.json",
    sinfo: Path | str = FILES / f"sinfo-{NEWEST}.json",
    asked: Asked = CPUS,
    now: int = NOW,
) -> Mapped:
    found = read_answer("--squeue", str(squeue)), read_answer("--sinfo", str(sinfo))
    return map_cluster(*found, asked, now)


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / f"{name}-{NEWEST}.json").read_text())
    return found


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / f"{name}.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def job(content: dict[str, Any], job_id: int) -> dict[str, Any]:
    (found,) = (record for record in content["jobs"] if record["job_id"] == job_id)
    return found


def waiting(found: Mapped) -> dict[int | str, tuple[list[int], int, int]]:
    """Job -> demand, requested seconds, submit."""
    return {job.id: (job.demand, job.requested, job.submit) for job in found.request.waiting}


def running(found: Mapped) -> dict[int | str, tuple[list[int], int, int]]:
    """Job -> demand, start and expected end, both from now."""
    return {job.id: (job.demand, job.start - NOW, job.expected_end - NOW) for job in found.request.running}


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


def changed(*path: str | int, to: object) -> Change:
    """Another value at a path."""

    def change(content: Any) -> None:
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = to

    return change


def without(*path: str | int) -> Change:
    """Nothing at a path."""

    def change(content: Any) -> None:
        for name in path[:-1]:
            content = content[name]
        del content[path[-1]]

    return change


BAD_JOBS: dict[str, tuple[Change, str]] = {
    "negative": (changed("jobs", 7, "cpus", "number", to=-4), r"jobs\[7\]\.cpus: value -4 is no number"),
    "absurd": (changed("jobs", 7, "cpus", "number", to=10**15), r"cpus: value 1000000000000000 "),
    "fraction": (changed("jobs", 7, "cpus", "number", to=1.5), r"jobs\[7\]\.cpus: value 1\.5 "),
    "words": (
        changed("jobs", 7, "time_limit", to="1-00:00:00"),
        r'jobs\[7\]\.time_limit: value "1-00:00:00"',
    ),
    "missing": (without("jobs", 7, "job_state"), r"jobs\[7\]\.job_state: is missing"),
    "state": (changed("jobs", 7, "job_state", to=["DREAMING"]), r"jobs\[7\]\.job_state: value 'DREAMING'"),
    "twice": (changed("jobs", 7, "job_id", to=101), r"job_id: value 101 stands there twice"),
    "no id": (changed("jobs", 7, "job_id", to=0), r"jobs\[7\]\.job_id: value 0"),
    "no job": (changed("jobs", 7, to=[1]), r"jobs\[7\]: value \[1\]"),
    "later": (changed("jobs", 7, "submit_time", "number", to=NOW + 86_400), "later than now.*--at"),
    "no time": (changed("jobs", 7, "submit_time", "set", to=False), r"submit_time: is not set"),
    "tres": (changed("jobs", 7, "tres_req_str", to="cpu=many"), "tres_req_str: value 'cpu=many'"),
    "tasks": (changed("jobs", 5, "array_task_string", to="9-2"), "array_task_string: value '9-2'"),
    "same tasks": (changed("jobs", 5, "array_task_string", to="3-5,4"), "task 200_4 stands there twice"),
    "errors": (changed("errors", to=[{"description": "gone"}]), "Slurm answered with 1 error.*gone"),
    "no list": (changed("jobs", to={}), "jobs: value {}"),
    "another": (without("jobs"), "has no 'jobs' .Slurm 24.11.5 data_parser/v0.0.42"),
    "sacct": (changed("jobs", 0, to={"job_id": 1, "state": {"current": []}}), "what sacct prints"),
}


@pytest.mark.parametrize("name", BAD_JOBS)
def test_bad_jobs_are_one_line(tmp_path: Path, name: str) -> None:
    change, message = BAD_JOBS[name]
    content = recorded("squeue")
    change(content)
    if name == "same tasks":
        content["jobs"][5]["array_max_tasks"]["number"] = 0
    path = written(tmp_path, "q", content)
    with pytest.raises(BadInputError, match=message) as caught:
        mapped(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


BAD_NODES: dict[str, tuple[Change, str]] = {
    "negative": (changed("sinfo", 2, "cpus", "total", to=-1), r"sinfo\[2\]\.cpus\.total: value -1"),
    "more": (
        changed("sinfo", 2, "cpus", "allocated", to=17),
        r"cpus\.allocated: value 17 is more than the 16",
    ),
    "state": (changed("sinfo", 2, "node", "state", to=["SLEEPY"]), r"node\.state: value 'SLEEPY'"),
    "names": (changed("sinfo", 2, "nodes", "nodes", to=["cn[1-"]), r"nodes\.nodes: brackets do not match"),
    "count": (changed("sinfo", 2, "nodes", "total", to=2), r"nodes\.total: value 2 beside 1 names"),
    "gres": (changed("sinfo", 5, "gres", "total", to="gpu:a100:x"), r"gres\.total: value 'gpu:a100:x'"),
    "none": (changed("sinfo", to=[]), "sinfo: holds no node"),
    "no partition": (without("sinfo", 2, "partition"), r"sinfo\[2\]\.partition: is missing"),
}


@pytest.mark.parametrize("name", BAD_NODES)
def test_bad_nodes_are_one_line(tmp_path: Path, name: str) -> None:
    change, message = BAD_NODES[name]
    content = recorded("sinfo")
    change(content)
    path = written(tmp_path, "n", content)
    with pytest.raises(BadInputError, match=message) as caught:
        mapped(sinfo=path)
    assert str(caught.value).startswith(str(path))


def test_nodes_that_are_only_partly_told_of_elsewhere_need_a_record_each(tmp_path: Path) -> None:
    content = recorded("sinfo")
    both = deepcopy(content["sinfo"][2])
    both["nodes"] |= {"nodes": ["cn001", "cn002"], "total": 2}
    both["cpus"] |= {"allocated": 24, "total": 32}
    content["sinfo"] = [both, *content["sinfo"][1:2], *content["sinfo"][3:]]
    with pytest.raises(BadInputError, match=r"give what sinfo --all --Node --json printed"):
        mapped(sinfo=written(tmp_path, "n", {"sinfo": [content["sinfo"][1], both]}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("   \n", "is empty"),
        ("<html><body>502</body></html>", "is HTML or XML"),
        ("             JOBID PARTITION     NAME     USER ST\n", "is a table for people"),
        ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n", "is a table for people"),
        ("---\njobs: []\n", "is YAML"),
        ('{"jobs": [{"job_id": 1, "job_', "is no whole JSON"),
        ('{"jobs": [], "x": NaN}', "is no whole JSON"),
        ('{"jobs": [' + "[" * 100_000, "nested too deeply"),
        ("slurm_load_jobs error: Unable to contact slurm controller", "is no whole JSON"),
        ("[]", r"its top: value \[\]"),
        ("7", "its top: value 7"),
        ("{}", "has no 'jobs'"),
        ('{"jobs": null}', "has no 'jobs'"),
        ('{"nodes": []}', "has 'nodes', which sinfo prints; give it as --sinfo"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: str, message: str) -> None:
    path = written(tmp_path, "q", content)
    with pytest.raises(BadInputError, match=message) as caught:
        mapped(path)
    assert str(caught.value).startswith(str(path))
    assert "squeue --all --json printed" in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such file"):
        mapped(tmp_path / "q.json")


def test_the_newest_of_too_many_jobs_are_left_out(tmp_path: Path) -> None:
    content = {"jobs": [], "meta": {}}
    one = job(recorded("squeue"), 302)
    keep = ("job_state", "state_reason", "partition", "cpus", "node_count", "time_limit", "priority")
    small = {name: one[name] for name in keep}
    content["jobs"] = [small | {"job_id": k, "submit_time": NOW - k} for k in range(1, 50_001)]
    path = written(tmp_path, "q", content)
    began = time.perf_counter()
    found = mapped(path, asked=Asked(("processors",), most=1000))
    assert time.perf_counter() - began < 10
    assert [job.id for job in found.request.waiting] == list(range(50_000, 49_000, -1))
    assert any(note.startswith("49,000 jobs that wait, the newest ones") for note in found.notes)


def test_a_huge_array_needs_no_room(tmp_path: Path) -> None:
    content = recorded("squeue")
    job(content, 200)["array_task_string"] = "2-4000000"
    job(content, 200)["array_max_tasks"]["number"] = 0
    asked = Asked(("processors",), most=100, default_limit_s=60)
    found = mapped(written(tmp_path, "q", content), asked=asked)
    assert len(found.request.waiting) + len(found.request.running) == 100


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cn1", ["cn1"]),
        ("cn[001-003,7],gn[9-10]", ["cn001", "cn002", "cn003", "cn7", "gn9", "gn10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a[08-11]-ib", ["a08-ib", "a09-ib", "a10-ib", "a11-ib"]),
        ("", []),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["cn[1-", "cn]1[", "cn[2-1]", "cn[a-b]", "a,,b", "cn[0-999999999]", "a b", "$(x)"]
)
def test_lists_of_nodes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|range|name|stands"):
        expand(text)


def answer(*decisions: tuple[int | str, str]) -> Answer:
    return Answer([Decision(job, action, NOW, 0.5) for job, action in decisions], "policy")


def run_of(text: str) -> list[str]:
    """What a shell would run."""
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_commands_put_the_queue_in_order() -> None:
    found, problems = changes(mapped(), answer((302, "start"), (301, "reserve"), (311, "start")))
    # Above the highest of the others, 200_2 with 4500, comes 311 with 5500, above it 301, above it 302.
    assert [(change.job, change.nice, change.before) for change in found] == [
        ("302", -3500, 0),
        ("301", -1500, 0),
        ("311", -3450, 50),
    ]
    assert not problems
    # What they come to: priority + old nice - new nice.
    assert [4000 + 3500, 5000 + 1500, 2000 + 50 + 3450] == [7500, 6500, 5500]


def test_nothing_is_commanded_where_the_order_is_right() -> None:
    text = script(mapped(), answer((301, "start")), [])
    assert "Nothing to do" in text
    assert "scontrol update" not in text


def test_commands_may_be_run_and_taken_back() -> None:
    text = script(mapped(), answer(("200_2", "start")), ["be careful\nrm -rf /"])
    lines = text.splitlines()
    assert run_of(text) == ["scontrol update JobId=200_2 Nice=-1500"]
    assert "# scontrol update JobId=200_2 Nice=0" in lines


def test_what_slurm_starts_anyway_is_said() -> None:
    let_wait = Answer([], "policy", waiting=[Reason(302, "may_start", "")])
    assert "lets wait what could start: 302" in script(mapped(), let_wait, [])


def test_names_cannot_leave_a_comment(tmp_path: Path) -> None:
    queue = recorded("squeue")
    job(queue, 302).update(user_name="eve\nscancel 1 `reboot` $(x)", partition="batch,\nx")
    text = script(mapped(written(tmp_path, "q", queue)), answer((302, "start")), [])
    assert run_of(text) == ["scontrol update JobId=302 Nice=-2000"]
    assert "`" not in text
    assert "$" not in text


def test_jobs_whose_priority_is_not_told_stay_where_they_are(tmp_path: Path) -> None:
    queue = recorded("squeue")
    job(queue, 302)["priority"] = {"set": False, "infinite": False, "number": 0}
    found, problems = changes(mapped(written(tmp_path, "q", queue)), answer((302, "start")))
    assert (found, len(problems)) == ([], 1)


def paths(content: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Of all values."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(content, dict):
        inner = list(content.items())
    elif isinstance(content, list):
        inner = list(enumerate(content))
    below = [found for name, value in inner for found in paths(value, (*path, name))]
    return [path, *below] if path else below


LOOKED_AT = frozenset(
    (
        *(
            "job_id",
            "job_state",
            "submit_time",
            "start_time",
            "end_time",
            "eligible_time",
            "time_limit",
            "cpus",
        ),
        *("node_count", "tasks", "nodes", "nice", "priority", "partition", "state_reason", "array_job_id"),
        *(
            "array_task_id",
            "array_task_string",
            "array_max_tasks",
            "het_job_id",
            "tres_req_str",
            "tres_alloc_str",
            "tres_per_node",
            "shared",
        ),
        *("exclusive", "hold", "dependency", "number", "set", "infinite", "state", "total"),
        *("allocated", "minimum", "maximum", "gres", "name", "node", "defaults", "maximums"),
        *("time", "shares", "jobs", "sinfo", "errors", "meta", "last_update"),
    )
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False),
    st.text(max_size=12),
    st.sampled_from(
        ["", "1-5%2", "cpu=4,gres/gpu:a=2", "gpu:2", "cn[1-3]", "PENDING", "RUNNING", "DOWN", "x,y"]
    ),
    st.lists(st.sampled_from(["PENDING", "RUNNING", "COMPLETING", "IDLE", "DRAIN", "cn001", ""]), max_size=3),
    st.just({}),
    st.just({"set": True, "infinite": True, "number": 1e308}),
)


def mapped_or_refused(*files: Path, **more: Any) -> Mapped | None:
    """A cluster, or nothing where it is refused; whatever else happens is a failure."""
    with suppress(BadInputError):
        return mapped(*files, **more)
    return None


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_gives_an_answer_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, version: str, data: st.DataObject
) -> None:
    both = ("squeue", "sinfo")
    contents = {name: json.loads((FILES / f"{name}-{version}.json").read_text()) for name in both}
    for _ in range(data.draw(st.integers(1, 3))):
        content = contents[data.draw(st.sampled_from(["squeue", "sinfo"]))]
        known = [path for path in paths(content) if path[-1] in LOOKED_AT or isinstance(path[-1], int)]
        if not known:
            continue
        *above, last = data.draw(st.sampled_from(known))
        node = content
        for name in above:
            node = node[name]
        if data.draw(st.booleans()) and isinstance(node, dict):
            del node[last]
        else:
            node[last] = deepcopy(data.draw(VALUES))  # which may be changed again
    folder = tmp_path_factory.getbasetemp() / "changed"
    folder.mkdir(exist_ok=True)
    files = [written(folder, name, content) for name, content in contents.items()]
    asked = Asked(
        data.draw(st.sampled_from([("processors",), ("nodes",), ("cpu", "gpu")])),
        partition=data.draw(st.sampled_from([None, "batch"])),
        default_limit_s=60,
    )
    found = mapped_or_refused(*files, asked=asked)
    if found is None:
        return
    request = found.request
    for r, (free, there, gone) in enumerate(zip(request.free, request.units, found.out, strict=True)):
        held = sum(job.demand[r] for job in request.running)
        assert min(free, gone) >= 0
        assert free + gone + held == there
    for job in request.waiting:
        assert job.submit <= request.now
        assert job.requested > 0
    for job in request.running:
        assert job.submit <= job.start <= request.now
        assert job.start < job.expected_end


@given(cut=st.integers(0, 1 << 16), name=st.sampled_from(["squeue", "sinfo"]), flip=st.integers(0, 255))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_one_line_or_none(
    tmp_path_factory: pytest.TempPathFactory, cut: int, name: str, flip: int
) -> None:
    data = bytearray((FILES / f"{name}-{NEWEST}.json").read_bytes())
    at = cut % len(data)
    data[at] = flip
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    path = folder / "changed.json"
    for content in (data, data[:at]):
        path.write_bytes(content)
        mapped_or_refused(**{name: path})
