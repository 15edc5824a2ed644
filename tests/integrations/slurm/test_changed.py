"""Random changes of the files give a consistent view, or a refusal, and nothing else."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.advice_settings import AdviceSettings
from rlsched.integrations.slurm.cluster_view import SlurmView

from .samples import FILES, NEWEST, VERSIONS, view_of, write_json


def paths(content: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Of all values."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(content, dict):
        inner = list(content.items())
    elif isinstance(content, list):
        inner = list(enumerate(content))
    below = [view for name, value in inner for view in paths(value, (*path, name))]
    return [path, *below] if path else below


READ_FIELDS = frozenset(
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
        *("gres_used", "gres_drained", "used", "gres_detail", "cluster", "sockets_per_node"),
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
    st.sampled_from(
        ["gpu:4(IDX:0-3),shard:8(3/4,0/4)", "gpu:a100:2,shard:9,mps:300", "cpu=4,gres/shard=3,gres/mps=40"]
    ),
    st.lists(st.sampled_from(["PENDING", "RUNNING", "COMPLETING", "IDLE", "DRAIN", "cn001", ""]), max_size=3),
    st.just({}),
    st.just({"set": True, "infinite": True, "number": 1e308}),
)


def view_or_refusal(*files: Path, **more: Any) -> SlurmView | None:
    """A view, or None where it is refused; any other error fails the test."""
    with suppress(BadInputError):
        return view_of(*files, **more)
    return None


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_gives_an_answer_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, version: str, data: st.DataObject
) -> None:
    commands = ("squeue", "sinfo")
    contents = {name: json.loads((FILES / f"{name}-{version}.json").read_text()) for name in commands}
    for _ in range(data.draw(st.integers(1, 3))):
        content = contents[data.draw(st.sampled_from(["squeue", "sinfo"]))]
        known = [path for path in paths(content) if path[-1] in READ_FIELDS or isinstance(path[-1], int)]
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
    files = [write_json(folder, name, content) for name, content in contents.items()]
    settings = AdviceSettings(
        data.draw(st.sampled_from([("processors",), ("nodes",), ("cpu", "gpu")])),
        partition=data.draw(st.sampled_from([None, "batch"])),
        default_limit_s=60,
    )
    view = view_or_refusal(*files, settings=settings)
    if view is None:
        return
    request = view.request
    counts = zip(request.free, view.unexplained, view.out_of_service, request.units, strict=True)
    for r, (*rest, total) in enumerate(counts):
        held = sum(job.demand[r] for job in request.running)
        assert min(rest) >= 0
        assert sum(rest) + held == total
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
        view_or_refusal(**{name: path})
