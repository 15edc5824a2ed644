"""Clusters of a request and their jobs as arrays.

Batches wait for this, so no line of Python runs per job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import DemandArray, FloatArray, IntArray
from rlsched.serve.api.requests import LISTS, JobColumns, Request, cluster_fields, job_lists
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, SUSPENDED, WAITING

Id = int | str

PLACES = {"running": RUNNING, "planned": PLANNED, "suspended": SUSPENDED, "waiting": WAITING}
"""Place in the core of the jobs of each of `LISTS`."""

LIST_NAMES = tuple(LISTS)

PRECEDENCE = np.zeros(len({RUNNING, PLANNED, SUSPENDED, READY, WAITING}), np.int64)
PRECEDENCE[[RUNNING, PLANNED, SUSPENDED, READY, WAITING]] = range(len(PRECEDENCE))
"""By place: the order of a cluster's jobs; running jobs take their units first."""

NOT_GIVEN = -1

JOB_ARRAYS = (
    "cluster",
    "place",
    "list_number",
    "list_index",
    "ids",
    "submit",
    "requested",
    "ran",
    "at",
    "start",
    "expected_end",
    "qos",
    "demand",
    "entries",
    "queue_at_submit",
    "work_at_submit",
    "free_at_submit",
)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters and their jobs; times in seconds.

    Attributes:
        rows: (cluster,) number of each cluster in its request.
        path: prefix of the fields of a row in error messages.
        fields: field of `Cluster` -> (cluster,) values; without the fields that no cluster gives.
        now: (cluster,)
        cluster: (job,) index of its cluster.
        place: (job,) RUNNING, ... of the core.
        list_number: (job,) index in `LISTS` of the list that holds it.
        list_index: (job,) index in that list.
        ids: (job,)
        submit: (job,) its start if not given.
        requested: (job,) requested time in all.
        ran: (job,) run time before a suspension, else 0.
        at: (job,) planned start, else 0.
        start: (job,) of a running job, else 0.
        expected_end: (job,) of a running job, else 0.
        qos: (job,)
        demand: (job, resource) units; 0 if the job has `entries` of another cluster.
        entries: (job,) resources that its demand names.
        queue_at_submit: (job,) or `NOT_GIVEN`, like the next two.
        work_at_submit: (job,)
        free_at_submit: (job,)
    """

    rows: IntArray
    path: Callable[[int], str]
    fields: Mapping[str, Sequence[Any]]
    now: IntArray
    cluster: IntArray
    place: NDArray[np.int8]
    list_number: NDArray[np.int8]
    list_index: IntArray
    ids: NDArray[np.object_]
    submit: IntArray
    requested: IntArray
    ran: IntArray
    at: IntArray
    start: IntArray
    expected_end: IntArray
    qos: FloatArray
    demand: DemandArray
    entries: IntArray
    queue_at_submit: IntArray
    work_at_submit: IntArray
    free_at_submit: IntArray

    @classmethod
    def of(cls, request: Request, path: Callable[[int], str], resources: int) -> Clusters:
        """All clusters of a request, their jobs list by list.

        Args:
            request: states or columns.
            path: see `Clusters`.
            resources: length of each demand; `entries` tells the jobs with another length.
        """
        parts = [
            _job_arrays(jobs, k, place, resources)
            for k, (jobs, place) in enumerate(zip(job_lists(request), PLACES.values(), strict=True))
        ]
        arrays: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in JOB_ARRAYS}
        values = cluster_fields(request)
        now = np.array(values["now"], np.int64)
        return cls(np.arange(len(now)), path, values, now, **arrays)

    def __len__(self) -> int:
        return len(self.rows)

    def path_to(self, k: int) -> str:
        """Prefix of the fields of cluster k in error messages."""
        return self.path(int(self.rows[k]))

    def optional(self, name: str) -> list[tuple[int, Any]]:
        """Clusters that give an optional field, with its value."""
        return [(k, value) for k, value in enumerate(self.fields.get(name, ())) if value is not None]

    @property
    def first(self) -> IntArray:
        """(cluster + 1,) first job of each cluster, for jobs sorted by cluster."""
        return np.concatenate(([0], self.counts.cumsum()))

    @property
    def counts(self) -> IntArray:
        """(cluster,) jobs of each cluster."""
        return np.bincount(self.cluster, minlength=len(self))

    @property
    def held(self) -> IntArray:
        """(cluster, resource) units that running jobs hold."""
        running = self.place == RUNNING
        units = np.zeros((len(self), self.demand.shape[1]), np.int64)
        np.add.at(units, self.cluster[running], self.demand[running])
        return units

    def split(self, parts: Sequence[Sequence[int]]) -> list[Clusters]:
        """Divide clusters into parts; each cluster is in one part."""
        if len(parts) == 1:
            return [self]
        number, part_of = np.empty((2, len(self)), np.int64)
        for k, rows in enumerate(parts):
            number[rows], part_of[rows] = np.arange(len(rows)), k
        order = np.argsort(part_of[self.cluster], kind="stable")
        ends = np.bincount(part_of[self.cluster], minlength=len(parts)).cumsum().tolist()
        divided = []
        for rows, (begin, end) in zip(parts, pairwise([0, *ends]), strict=True):
            part = self.take(order[begin:end])
            divided.append(
                replace(
                    part,
                    rows=self.rows[rows],
                    fields={name: [column[k] for k in rows] for name, column in self.fields.items()},
                    now=self.now[rows],
                    cluster=number[part.cluster],
                )
            )
        return divided

    def with_running(
        self, clusters: IntArray, name: Id, demand: IntArray, start: IntArray, long_s: int
    ) -> Clusters:
        """Add a running job to some clusters.

        Args:
            clusters: (job,) cluster of each.
            name: of all of them.
            demand: (job, resource) units.
            start: (job,) submit and start time.
            long_s: run time.
        """
        count = len(clusters)
        zeros, unknown = np.zeros(count, np.int64), np.full(count, NOT_GIVEN)
        added: dict[str, NDArray[Any]] = {
            "cluster": clusters,
            "place": np.full(count, RUNNING, np.int8),
            "list_number": np.full(count, LIST_NAMES.index("running"), np.int8),
            "list_index": zeros,
            "ids": np.full(count, name, np.object_),
            "submit": start,
            "requested": zeros + long_s,
            "ran": zeros,
            "at": zeros,
            "start": start,
            "expected_end": start + long_s,
            "qos": np.ones(count),
            "demand": demand.astype(self.demand.dtype),
            "entries": zeros + demand.shape[1],
            "queue_at_submit": unknown,
            "work_at_submit": unknown,
            "free_at_submit": unknown,
        }
        arrays: dict[str, Any] = {
            field: np.concatenate((getattr(self, field), added[field])) for field in JOB_ARRAYS
        }
        return replace(self, **arrays)

    def sorted(self, *, by_submit: bool) -> Clusters:
        """Sort jobs by cluster and by `PRECEDENCE`.

        Args:
            by_submit: sort waiting jobs by submit time instead of keeping the order of their list.
        """
        precedence = PRECEDENCE[self.place]
        submit = np.where(self.place == WAITING, self.submit, 0) if by_submit else precedence
        return self.take(np.lexsort((submit, precedence, self.cluster)))

    def take(self, jobs: IntArray | NDArray[np.bool_]) -> Clusters:
        """Copy of the clusters with these jobs, in this order."""
        arrays: dict[str, Any] = {name: getattr(self, name)[jobs] for name in JOB_ARRAYS}
        return replace(self, **arrays)

    def refuse_job(self, row: int, field: str, problem: str, remedy: str) -> NoReturn:
        """Refuse a job at its place in the request.

        Raises:
            BadInputError: always.
        """
        list_name = LIST_NAMES[self.list_number[row]]
        path = f"{self.path_to(self.cluster[row])}{list_name}[{self.list_index[row]}].{field}"
        raise BadInputError(path, f"of job {self.ids[row]!r} {problem}", remedy)


def _job_arrays(jobs: JobColumns, number: int, place: int, resources: int) -> dict[str, NDArray[Any]]:
    """Arrays of the jobs of one list."""
    values, sizes = jobs.values, jobs.counts
    count = int(sizes.sum())
    begins = sizes.cumsum() - sizes
    start, expected_end = _integers(values, "start", count), _integers(values, "expected_end", count)
    demand, entries = _demands(values["demand"], resources)
    places = np.full(count, place, np.int8)
    if any(values.get("ready", ())):
        places[np.fromiter(values["ready"], np.bool_, count)] = READY
    return {
        "cluster": np.repeat(np.arange(len(sizes)), sizes),
        "place": places,
        "list_number": np.full(count, number, np.int8),
        "list_index": np.arange(count) - np.repeat(begins, sizes),
        "ids": np.fromiter(values["id"], np.object_, count),
        "submit": _integers(values, "submit", count, start),
        "requested": _integers(values, "requested", count, expected_end - start),
        "ran": _integers(values, "ran", count),
        "at": _integers(values, "at", count),
        "start": start,
        "expected_end": expected_end,
        "qos": np.fromiter(values["qos"], np.float64, count) if "qos" in values else np.ones(count),
        "demand": demand,
        "entries": entries,
        "queue_at_submit": _integers(values, "queue_at_submit", count, NOT_GIVEN),
        "work_at_submit": _integers(values, "work_at_submit", count, NOT_GIVEN),
        "free_at_submit": _integers(values, "free_at_submit", count, NOT_GIVEN),
    }


def _demands(demands: Sequence[Sequence[int]], resources: int) -> tuple[DemandArray, IntArray]:
    """(job, resource) units, 0 for jobs with other entries; and (job,) entries."""
    count = len(demands)
    if set(map(len, demands)) <= {resources}:
        flat: Iterable[int] = chain.from_iterable(demands)
        units = np.fromiter(flat, np.int32, count * resources).reshape(count, resources)
        return units, np.full(count, resources, np.int64)
    entries = np.fromiter(map(len, demands), np.int64, count)
    none = [0] * resources
    fitting = [demand if len(demand) == resources else none for demand in demands]
    return np.array(fitting, np.int32), entries


def _integers(
    columns: Mapping[str, Sequence[int | None]], name: str, count: int, default: IntArray | int = 0
) -> IntArray:
    """(job,) whole numbers, with a default for missing ones."""
    values = columns.get(name)
    if values is None:
        return np.full(count, default, np.int64)
    try:
        return np.fromiter(values, np.int64, count)
    except TypeError:  # some are None
        known = np.array(values, np.float64)  # exact: all are below FAR
    missing = np.isnan(known)
    return np.where(missing, default, np.where(missing, 0, known).astype(np.int64))
