"""Job records of squeue: the fields that are read, and their meaning."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct

from rlsched.integrations.slurm.values import (
    MAX_ID,
    Location,
    Number,
    OptionalNumber,
    Words,
    printable,
    upper_words,
)

_TASKS = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?")
Text = str | None


class JobRecord(Struct, frozen=True, gc=False):
    """The fields of a job that are read; all versions have the same names."""

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
    contiguous: bool | OptionalNumber | None = None
    features: Text = None
    cluster_features: Text = None
    required_nodes: Text = None
    excluded_nodes: Text = None
    licenses: Text = None
    burst_buffer: Text = None
    resv_name: Text = None
    required_switches: Number = None
    minimum_switches: Number = None


def job_label(record: JobRecord, location: Location) -> int | str:
    """The job id as squeue and scontrol print it: 12, array task 12_3, heterogeneous component 12+1."""
    array = location.integer("array_job_id", record.array_job_id, MAX_ID)
    task = location.integer("array_task_id", record.array_task_id, MAX_ID)
    if array and task is not None:
        return f"{array}_{task}"
    if het := location.integer("het_job_id", record.het_job_id, MAX_ID):
        return f"{het}+{location.integer('het_job_offset', record.het_job_offset) or 0}"
    return record.job_id


def pending_tasks(record: JobRecord, location: Location) -> tuple[range, ...]:
    """Pending array tasks of a record, as in 1-100:2,205%5; empty for one job, or one task.

    Where Slurm has truncated the list, only the tasks in it count.
    """
    text = record.array_task_string
    if not text or location.integer("array_task_id", record.array_task_id) is not None:
        return ()
    ranges = []
    for part in text.partition("%")[0].split(","):
        if part.strip(".") == "" and part:  # Slurm ends a truncated list with dots
            continue
        match = _TASKS.fullmatch(part.removesuffix("..."))
        first, last, step = (
            (0, -1, 0) if match is None else (int(match[1]), int(match[2] or match[1]), int(match[3] or 1))
        )
        if last < first or step < 1:
            location.refuse("array_task_string", f"value {printable(text)[:60]!r} is not a list of tasks")
        ranges.append(range(first, last + 1, step))
    return tuple(ranges)


def needs_whole_nodes(record: JobRecord) -> bool:
    """Whether the job shares its nodes with no other: 'shared' is 'none', or 'exclusive' 'true' (v0.0.39)."""
    shared = [] if isinstance(record.shared, int) else upper_words(record.shared)
    if isinstance(record.exclusive, bool):
        return record.exclusive
    return "NONE" in shared or "TRUE" in upper_words(record.exclusive)


def unsupported_requests(record: JobRecord, location: Location) -> tuple[str, ...]:
    """The job's requests that counts of units do not cover, for people."""
    requests = {
        "features": record.features or record.cluster_features,
        "nodes by name": record.required_nodes,
        "excluded nodes": record.excluded_nodes,
        "licences": record.licenses,
        "a burst buffer": record.burst_buffer,
        "contiguous nodes": record.contiguous is True,
        "whole nodes": needs_whole_nodes(record),
        "switches": location.integer("required_switches", record.required_switches)
        or location.integer("minimum_switches", record.minimum_switches),
    }
    return tuple(name for name, value in requests.items() if value)
