"""Jobs in squeue's words: what is looked at of a record, and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from rlsched.integrations.slurm.values import ID_MOST, Number, Numbered, Place, Words, plain, words

_TASKS = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?")
Text = str | None


class Record(Struct, frozen=True, gc=False):
    """What is looked at of a job, in the names that all versions share."""

    job_id: Annotated[int, Meta(ge=1, lt=1 << 32)]
    job_state: str | list[str]
    submit_time: Number
    cluster: Text = None
    partition: Text = None
    user_name: Text = None
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: Text = None
    array_max_tasks: Number = None
    het_job_id: Number = None
    het_job_offset: Number = None
    start_time: Number = None
    end_time: Number = None
    eligible_time: Number = None
    time_limit: Number = None
    cpus: Number = None
    node_count: Number = None
    tasks: Number = None
    nodes: Text = None
    tres_req_str: Text = None
    tres_alloc_str: Text = None
    gres_detail: str | list[str] | None = None
    tres_per_job: Text = None
    tres_per_node: Text = None
    tres_per_socket: Text = None
    tres_per_task: Text = None
    sockets_per_node: Number = None
    state_reason: Text = None
    dependency: Text = None
    hold: bool | None = None
    priority: Number = None
    nice: Number = None
    shared: Words | int = None
    exclusive: Words | bool = None
    contiguous: bool | Numbered | None = None
    features: Text = None
    cluster_features: Text = None
    required_nodes: Text = None
    excluded_nodes: Text = None
    licenses: Text = None
    burst_buffer: Text = None
    resv_name: Text = None
    required_switches: Number = None
    minimum_switches: Number = None


def label_of(record: Record, place: Place) -> int | str:
    """As squeue and scontrol write it."""
    array = place.whole("array_job_id", record.array_job_id, ID_MOST)
    task = place.whole("array_task_id", record.array_task_id, ID_MOST)
    if array and task is not None:
        return f"{array}_{task}"
    if het := place.whole("het_job_id", record.het_job_id, ID_MOST):
        return f"{het}+{place.whole('het_job_offset', record.het_job_offset) or 0}"
    return record.job_id


def tasks_of(record: Record, place: Place) -> tuple[range, ...]:
    """Pending tasks that a record stands for, as in 1-100:2,205%5; none where it is one job, or one task.

    Of a list that Slurm has cut short, those that it names.
    """
    text = record.array_task_string
    if not text or place.whole("array_task_id", record.array_task_id) is not None:
        return ()
    found = []
    for part in text.partition("%")[0].split(","):
        if part.strip(".") == "" and part:  # Slurm ends a list that is too long by dots
            continue
        match = _TASKS.fullmatch(part.removesuffix("..."))
        first, last, step = (
            (0, -1, 0) if match is None else (int(match[1]), int(match[2] or match[1]), int(match[3] or 1))
        )
        if last < first or step < 1:
            place.refuse("array_task_string", f"value {plain(text)[:60]!r} is no list of tasks")
        found.append(range(first, last + 1, step))
    return tuple(found)


def whole_nodes(record: Record) -> bool:
    """Whether it shares nodes with none: 'shared' is 'none' then, and 'exclusive' is 'true' in v0.0.39."""
    shared = [] if isinstance(record.shared, int) else words(record.shared)
    if isinstance(record.exclusive, bool):
        return record.exclusive
    return "NONE" in shared or "TRUE" in words(record.exclusive)


def unknown_of(record: Record, place: Place) -> tuple[str, ...]:
    """What it asks for that counts of units do not tell."""

    def named() -> Iterator[str]:
        if record.features or record.cluster_features:
            yield "features"
        if record.required_nodes:
            yield "nodes by name"
        if record.excluded_nodes:
            yield "nodes it excludes"
        if record.licenses:
            yield "licences"
        if record.burst_buffer:
            yield "a burst buffer"
        if record.contiguous is True:
            yield "contiguous nodes"
        if whole_nodes(record):
            yield "whole nodes"
        switches = place.whole("required_switches", record.required_switches)
        if switches or place.whole("minimum_switches", record.minimum_switches):
            yield "switches"

    return tuple(named())
