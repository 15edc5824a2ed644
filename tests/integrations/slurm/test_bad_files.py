"""Files that are not what squeue and sinfo print, or too much of it: one line each."""

from __future__ import annotations

import gzip
import io
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.advice_settings import AdviceSettings
from rlsched.integrations.slurm.command_output import read_output

from .samples import NOW, job, sample, view_of, write_json

Change = Callable[[dict[str, Any]], None]


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
    "negative": (
        changed("jobs", 7, "cpus", "number", to=-4),
        r"jobs\[7\]\.cpus: value -4 is not a whole number",
    ),
    "absurd": (changed("jobs", 7, "cpus", "number", to=10**15), r"cpus: value 1000000000000000 "),
    "fraction": (changed("jobs", 7, "cpus", "number", to=1.5), r"jobs\[7\]\.cpus: value 1\.5 "),
    "words": (
        changed("jobs", 7, "time_limit", to="1-00:00:00"),
        r'jobs\[7\]\.time_limit: value "1-00:00:00"',
    ),
    "missing": (without("jobs", 7, "job_state"), r"jobs\[7\]\.job_state: is missing"),
    "state": (changed("jobs", 7, "job_state", to=["DREAMING"]), r"jobs\[7\]\.job_state: value 'DREAMING'"),
    "twice": (changed("jobs", 7, "job_id", to=101), r"job_id: value 101 occurs twice"),
    "no id": (changed("jobs", 7, "job_id", to=0), r"jobs\[7\]\.job_id: value 0"),
    "no job": (changed("jobs", 7, to=[1]), r"jobs\[7\]: value \[1\]"),
    "later": (changed("jobs", 7, "submit_time", "number", to=NOW + 86_400), "later than now.*--at"),
    "no time": (changed("jobs", 7, "submit_time", "set", to=False), r"submit_time: is not set"),
    "tres": (changed("jobs", 7, "tres_req_str", to="cpu=many"), "tres_req_str: value 'cpu=many'"),
    "tasks": (changed("jobs", 5, "array_task_string", to="9-2"), "array_task_string: value '9-2'"),
    "same tasks": (changed("jobs", 5, "array_task_string", to="3-5,4"), "task 200_4 occurs twice"),
    "errors": (changed("errors", to=[{"description": "gone"}]), "Slurm answered with 1 error.*gone"),
    "no list": (changed("jobs", to={}), "jobs: value {}"),
    "another": (without("jobs"), "has no 'jobs' .Slurm 24.11.5 data_parser/v0.0.42"),
    "sacct": (changed("jobs", 0, to={"job_id": 1, "state": {"current": []}}), "the output of sacct"),
}


@pytest.mark.parametrize("name", BAD_JOBS)
def test_bad_jobs_are_one_line(tmp_path: Path, name: str) -> None:
    change, message = BAD_JOBS[name]
    content = sample("squeue")
    change(content)
    if name == "same tasks":
        content["jobs"][5]["array_max_tasks"]["number"] = 0
    path = write_json(tmp_path, "q", content)
    with pytest.raises(BadInputError, match=message) as caught:
        view_of(path)
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
    "count": (
        changed("sinfo", 2, "nodes", "total", to=2),
        r"nodes\.total: value 2, but nodes\.nodes has 1 names",
    ),
    "gres": (changed("sinfo", 5, "gres", "total", to="gpu:a100:x"), r"gres\.total: value 'gpu:a100:x'"),
    "none": (changed("sinfo", to=[]), "sinfo: has no node"),
    "no partition": (without("sinfo", 2, "partition"), r"sinfo\[2\]\.partition: is missing"),
}


@pytest.mark.parametrize("name", BAD_NODES)
def test_bad_nodes_are_one_line(tmp_path: Path, name: str) -> None:
    change, message = BAD_NODES[name]
    content = sample("sinfo")
    change(content)
    path = write_json(tmp_path, "n", content)
    with pytest.raises(BadInputError, match=message) as caught:
        view_of(sinfo=path)
    assert str(caught.value).startswith(str(path))


def test_nodes_with_a_second_record_need_a_record_each(tmp_path: Path) -> None:
    content = sample("sinfo")
    pair = deepcopy(content["sinfo"][2])
    pair["nodes"] |= {"nodes": ["cn001", "cn002"], "total": 2}
    pair["cpus"] |= {"allocated": 24, "total": 32}
    content["sinfo"] = [pair, *content["sinfo"][1:2], *content["sinfo"][3:]]
    with pytest.raises(BadInputError, match=r"give the output of sinfo --all --Node --json"):
        view_of(sinfo=write_json(tmp_path, "n", {"sinfo": [content["sinfo"][1], pair]}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("   \n", "is empty"),
        ("<html><body>502</body></html>", "is HTML or XML"),
        ("             JOBID PARTITION     NAME     USER ST\n", "is a text table"),
        ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n", "is a text table"),
        ("---\njobs: []\n", "is YAML"),
        ('{"jobs": [{"job_id": 1, "job_', "is not complete JSON"),
        ('{"jobs": [], "x": NaN}', "is not complete JSON"),
        ('{"jobs": [' + "[" * 100_000, "nested too deeply"),
        ("slurm_load_jobs error: Unable to contact slurm controller", "is not complete JSON"),
        ("[]", r"top level: value \[\]"),
        ("7", "top level: value 7"),
        ("{}", "has no 'jobs'"),
        ('{"jobs": null}', "has no 'jobs'"),
        ('{"nodes": []}', "has 'nodes', which sinfo prints; give it as --sinfo"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: str, message: str) -> None:
    path = write_json(tmp_path, "q", content)
    with pytest.raises(BadInputError, match=message) as caught:
        view_of(path)
    assert str(caught.value).startswith(str(path))
    assert "output of squeue --all --json" in str(caught.value)


def test_stdin_has_the_limits_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"jobs": []}'
    for data, message in [
        (content + b" " * 20, "stdin: holds more than 20 bytes, unpacked"),
        (gzip.compress(b" " * 2**20), "stdin: holds more than 20 bytes, unpacked"),
        (content + b"\0", "stdin: is binary, not text"),
        (b" \n", "stdin: is empty"),
    ]:
        monkeypatch.setenv("RLSCHED_MAX_INPUT_BYTES", "20")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(BadInputError, match=message):
            read_output("--squeue", "-")
    for data in (content, gzip.compress(content), b"\xef\xbb\xbf" + content):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert read_output("--squeue", "-").records == []


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such file"):
        view_of(tmp_path / "q.json")


def test_the_newest_of_too_many_jobs_are_left_out(tmp_path: Path) -> None:
    content = {"jobs": [], "meta": {}}
    record = job(sample("squeue"), 302)
    keep = ("job_state", "state_reason", "partition", "cpus", "node_count", "time_limit", "priority")
    small = {name: record[name] for name in keep}
    seconds = []
    for count in (5_000, 50_000):
        content["jobs"] = [small | {"job_id": k, "submit_time": NOW - k} for k in range(1, count + 1)]
        path = write_json(tmp_path, "q", content)
        elapsed = []
        for _ in range(2):
            began = time.perf_counter()
            view = view_of(path, settings=AdviceSettings(("processors",), max_jobs=1000))
            elapsed.append(time.perf_counter() - began)
        seconds.append(min(elapsed))
    assert seconds[1] < 40 * seconds[0]
    assert [job.id for job in view.request.waiting] == list(range(50_000, 49_000, -1))
    assert any(note.startswith("49,000 jobs that wait, the newest ones") for note in view.notes)


def test_a_huge_array_needs_no_room(tmp_path: Path) -> None:
    content = sample("squeue")
    job(content, 200)["array_task_string"] = "2-4000000"
    job(content, 200)["array_max_tasks"]["number"] = 0
    settings = AdviceSettings(("processors",), max_jobs=100, default_limit_s=60)
    view = view_of(write_json(tmp_path, "q", content), settings=settings)
    assert len(view.request.waiting) + len(view.request.running) == 100


@pytest.mark.parametrize("key", ["jobs", "job_state"])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, key: str) -> None:
    path = write_json(tmp_path, "q", sample("squeue"))
    text = path.read_text("utf-8")
    at = text.index(f'"{key}":')
    path.write_text(f'{text[:at]}"{key}": [], {text[at:]}', "utf-8")
    with pytest.raises(
        BadInputError, match=f"q.*: key '{key}' stands twice in an object; give the output of squeue"
    ):
        view_of(path, write_json(tmp_path, "n", sample("sinfo")))
