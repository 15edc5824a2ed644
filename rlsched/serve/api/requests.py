"""Clusters of a decoded batch: states or columns, which say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, fields

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray
from rlsched.serve.api.schema import (
    BatchRequest,
    Cluster,
    ClusterColumns,
    ClusterState,
    DecisionRequest,
    PlannedJob,
    PlannedJobs,
    RunningJob,
    RunningJobs,
    WaitingJob,
    WaitingJobs,
)

Job = RunningJob | WaitingJob | PlannedJob
Jobs = RunningJobs | WaitingJobs | PlannedJobs

LISTS: dict[str, type[Job]] = {
    "running": RunningJob,
    "planned": PlannedJob,
    "suspended": WaitingJob,
    "waiting": WaitingJob,
}
"""Job lists of a state, with the type of their jobs."""

COLUMN_LISTS: dict[str, type[Jobs]] = {
    "running": RunningJobs,
    "planned": PlannedJobs,
    "suspended": WaitingJobs,
    "waiting": WaitingJobs,
}
"""Job lists of a batch as columns."""

CLUSTER_FIELDS = Cluster.__struct_fields__


def batch_of_one(request: DecisionRequest) -> BatchRequest:
    """The only form of a request behind the HTTP API; see `path_of` for its fields in error messages."""
    return BatchRequest(states=[request], explain=request.explain)


def num_clusters(request: BatchRequest) -> int:
    """Clusters of a request."""
    return len(request.states) if request.columns is None else len(request.columns.now)


def path_of(request: BatchRequest) -> Callable[[int], str]:
    """Prefix of the fields of cluster k in error messages; none for those of a `DecisionRequest`."""
    if request.columns is not None:
        return "columns[{}].".format
    states = request.states
    return lambda k: "" if isinstance(states[k], DecisionRequest) else f"states[{k}]."


def cluster_fields(request: BatchRequest) -> dict[str, Sequence[Any]]:
    """Field of `Cluster` -> (cluster,) values; without the fields that no cluster gives."""
    if request.columns is not None:
        return _present(request.columns, CLUSTER_FIELDS)
    rows = {name: [getattr(state, name) for state in request.states] for name in CLUSTER_FIELDS}
    return {name: values for name, values in rows.items() if any(value is not None for value in values)}


def cluster_names(request: BatchRequest) -> Sequence[str]:
    """(cluster,) names."""
    if request.columns is None:
        return [state.cluster for state in request.states]
    return request.columns.cluster or [Cluster(now=0).cluster] * num_clusters(request)


def job_counts(request: BatchRequest) -> IntArray:
    """(list, cluster) jobs, in the order of `LISTS`."""
    if request.columns is None:
        return np.array([[len(getattr(state, name)) for state in request.states] for name in LISTS], np.int64)
    none = [0] * num_clusters(request)
    lists = [getattr(request.columns, name) for name in LISTS]
    return np.array([none if jobs is None else jobs.jobs for jobs in lists], np.int64)


def job_lists(request: BatchRequest) -> Iterator[tuple[IntArray, Mapping[str, Sequence[Any]]]]:
    """Jobs of all clusters, list by list; no line of Python runs per job, since batches wait for this.

    Yields:
        (cluster,) jobs of each cluster, and field -> (job,) values; without the fields that no job gives.
    """
    for counts, (name, kind) in zip(job_counts(request), LISTS.items(), strict=True):
        names = kind.__struct_fields__
        if request.columns is None:
            lists: list[Sequence[Struct]] = [getattr(state, name) for state in request.states]
            flat = [*chain.from_iterable(map(astuple, chain.from_iterable(lists)))]
            yield counts, {field: flat[k :: len(names)] for k, field in enumerate(names)}
        else:
            jobs: Jobs | None = getattr(request.columns, name)
            yield counts, dict.fromkeys(names, ()) if jobs is None else _present(jobs, names)


def state_getter(request: BatchRequest) -> Callable[[int], ClusterState]:
    """A function from the number of a cluster to its state."""
    if request.columns is None:
        return request.states.__getitem__
    values = cluster_fields(request)
    lists: dict[str, tuple[type[Job], list[Any], list[int]]] = {}
    for name, kind in LISTS.items():
        jobs: Jobs | None = getattr(request.columns, name)
        if jobs is not None:
            columns = _present(jobs, kind.__struct_fields__)
            # A repeated default has no end; a given column ends it.
            job_values = [columns.get(field.name, repeat(field.default)) for field in fields(kind)]
            lists[name] = kind, job_values, [*accumulate(jobs.jobs, initial=0)]

    def state(k: int) -> ClusterState:
        jobs_of: dict[str, Any] = {}
        for name, (kind, job_values, bounds) in lists.items():
            part = slice(bounds[k], bounds[k + 1])
            rows = [column if isinstance(column, repeat) else column[part] for column in job_values]
            jobs_of[name] = [*map(kind, *rows)]
        return ClusterState(**{name: column[k] for name, column in values.items()}, **jobs_of)

    return state


def joined(requests: Sequence[BatchRequest]) -> tuple[BatchRequest, Callable[[int], str]]:
    """One request with the clusters of several, and the prefixes of their fields in error messages."""
    if len(requests) == 1:
        return requests[0], path_of(requests[0])
    states: list[ClusterState] = []
    paths: list[str] = []
    for request in requests:
        numbers = range(num_clusters(request))
        states += map(state_getter(request), numbers)
        paths += map(path_of(request), numbers)
    return BatchRequest(states=states), paths.__getitem__


def check_batch(request: BatchRequest, max_clusters: int) -> None:
    """Check that a batch is not empty or too large, and that all its columns have the same length.

    Raises:
        BadInputError: it is, or a column has not one entry for each cluster or job.
    """
    columns, clusters = request.columns, num_clusters(request)
    if columns is not None and request.states:
        raise BadInputError("columns", "cannot be combined with states", "send one of them")
    if not clusters:
        raise BadInputError("states", "are missing", "send some, or columns")
    if clusters > max_clusters:
        name = "states" if columns is None else "columns.now"
        raise BadInputError(name, f"{clusters} of them", f"send at most {max_clusters}")
    if columns is None:
        return
    _check_lengths(columns, CLUSTER_FIELDS, clusters, "columns", "clusters")
    for name, kind in LISTS.items():
        jobs: Jobs | None = getattr(columns, name)
        if jobs is not None:
            _check_lengths(jobs, ("jobs",), clusters, f"columns.{name}", "clusters")
            _check_lengths(jobs, kind.__struct_fields__, sum(jobs.jobs), f"columns.{name}", "jobs")


def _check_lengths(columns: Struct, names: Sequence[str], count: int, path: str, things: str) -> None:
    for name in names:
        column = getattr(columns, name)
        if column is not None and len(column) != count:
            problem = f"{len(column)} entries for {count} {things}"
            raise BadInputError(f"{path}.{name}", problem, "send one for each")


def _present(columns: Struct, names: Iterable[str]) -> dict[str, Sequence[Any]]:
    """Field -> values, without the columns that are left out."""
    return {name: column for name in names if (column := getattr(columns, name)) is not None}


def to_columns(states: Sequence[ClusterState]) -> ClusterColumns:
    """Turn states into columns; fields that have their default in all states are left out.

    Raises:
        ValueError: there are no states.
    """
    if not states:
        raise ValueError("no states to turn into columns")
    lists: dict[str, Any] = {}
    for name, kind in LISTS.items():
        jobs: list[Sequence[Job]] = [getattr(state, name) for state in states]
        if any(jobs):
            columns = _columns([*chain.from_iterable(jobs)], kind)
            lists[name] = COLUMN_LISTS[name](jobs=[*map(len, jobs)], **columns)
    return ClusterColumns(**_columns(states, Cluster), **lists)


def _columns(rows: Sequence[Struct], kind: type[Struct]) -> dict[str, Any]:
    columns = ((field, [getattr(row, field.name) for row in rows]) for field in fields(kind))
    return {field.name: column for field, column in columns if column.count(field.default) < len(rows)}
