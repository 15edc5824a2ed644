"""Clusters of a request and their jobs as arrays.

Batches wait for this, so no line of Python runs per job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import DemandArray, FloatArray, IntArray
from rlsched.serve.api.requests import LISTS, cluster_fields, job_lists
from rlsched.serve.api.schema import BatchRequest
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, SUSPENDED, WAITING

Id = int | str

PLACES = {"running": RUNNING, "planned": PLANNED, "suspended": SUSPENDED, "waiting": WAITING}
"""Place in the core of the jobs of each of `LISTS`."""

LIST_NAMES = tuple(LISTS)

PRECEDENCE = np.zeros(len({RUNNING, PLANNED, SUSPENDED, READY, WAITING}), np.int64)
PRECEDENCE[[RUNNING, PLANNED, SUSPENDED, READY, WAITING]] = range(len(PRECEDENCE))
"""By place: the order of a cluster's jobs; running jobs take their units first."""

NOT_GIVEN = -1


class JobArrays(NamedTuple):
    """Jobs of clusters; times in seconds."""

    cluster: IntArray  # (job,) index of its cluster
    place: NDArray[np.int8]  # (job,) RUNNING, ... of the core
    list_number: NDArray[np.int8]  # (job,) index in `LISTS` of the list that holds it
    list_index: IntArray  # (job,) index in that list
    ids: NDArray[np.object_]  # (job,)
    submit: IntArray  # (job,) its start if not given
    requested: IntArray  # (job,) requested time in all
    ran: IntArray  # (job,) run time before a suspension, else 0
    at: IntArray  # (job,) planned start, else 0
    start: IntArray  # (job,) of a running job, else 0
    expected_end: IntArray  # (job,) of a running job, else 0
    qos: FloatArray  # (job,)
    demand: DemandArray  # (job, resource) units; 0 if the job has `entries` of another cluster
    entries: IntArray  # (job,) resources that its demand names
    queue_at_submit: IntArray  # (job,) or `NOT_GIVEN`, like the next two
    work_at_submit: IntArray  # (job,) unit-seconds
    free_at_submit: IntArray  # (job,) units

    def take(self, rows: IntArray | NDArray[np.bool_]) -> JobArrays:
        """Copy of these jobs, in this order."""
        arrays: Iterator[Any] = (array[rows] for array in self)
        return JobArrays(*arrays)

    @classmethod
    def joined(cls, parts: Iterable[JobArrays]) -> JobArrays:
        """Jobs of several parts, one part after the other."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters and their jobs."""

    rows: IntArray  # (cluster,) number of each cluster in its request
    path: Callable[[int], str]  # prefix of the fields of a row in error messages
    fields: Mapping[str, Sequence[Any]]  # field of `Cluster` that some cluster gives -> (cluster,) values
    now: IntArray  # (cluster,) seconds
    jobs: JobArrays  # of all clusters

    @classmethod
    def of(cls, request: BatchRequest, path: Callable[[int], str], resources: int) -> Clusters:
        """All clusters of a request, their jobs list by list.

        Args:
            request: states or columns.
            path: see `Clusters`.
            resources: length of each demand; `entries` tells the jobs with another length.
        """
        lists = zip(job_lists(request), LISTS, strict=True)
        jobs = JobArrays.joined(_job_arrays(name, *columns, resources) for columns, name in lists)
        values = cluster_fields(request)
        now = np.array(values["now"], np.int64)
        return cls(np.arange(len(now)), path, values, now, jobs)

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
        return np.bincount(self.jobs.cluster, minlength=len(self))

    @property
    def held(self) -> IntArray:
        """(cluster, resource) units that running jobs hold."""
        running = self.jobs.place == RUNNING
        units = np.zeros((len(self), self.jobs.demand.shape[1]), np.int64)
        np.add.at(units, self.jobs.cluster[running], self.jobs.demand[running])
        return units

    def split(self, parts: Sequence[Sequence[int]]) -> list[Clusters]:
        """Divide clusters into parts; each cluster is in one part."""
        if len(parts) == 1:
            return [self]
        divided = []
        for rows in parts:
            number = np.full(len(self), -1)
            number[rows] = np.arange(len(rows))
            cluster = number[self.jobs.cluster]
            inside = np.flatnonzero(cluster >= 0)
            jobs = self.jobs.take(inside)._replace(cluster=cluster[inside])
            fields = {name: [column[k] for k in rows] for name, column in self.fields.items()}
            divided.append(Clusters(self.rows[rows], self.path, fields, self.now[rows], jobs))
        return divided

    def with_running(self, units: IntArray, name: Id, seconds: int) -> Clusters:
        """Add a running job that begins now to the clusters with such units.

        Args:
            units: (cluster, resource) that the job holds; nothing: there is no job.
            name: of all of them.
            seconds: requested time.
        """
        new = np.flatnonzero(units.any(axis=1))
        now, sizes = self.now[new], np.bincount(new, minlength=len(self))
        values = {
            "id": [name] * len(now),
            "demand": units[new].tolist(),
            "start": now,
            "expected_end": now + seconds,
        }
        added = _job_arrays("running", sizes, values, units.shape[1])
        return replace(self, jobs=JobArrays.joined((self.jobs, added)))

    def sorted(self, *, by_submit: bool) -> Clusters:
        """Sort jobs by cluster and by `PRECEDENCE`.

        Args:
            by_submit: sort waiting jobs by submit time instead of keeping the order of their list.
        """
        jobs = self.jobs
        precedence = PRECEDENCE[jobs.place]
        submit = np.where(jobs.place == WAITING, jobs.submit, 0) if by_submit else precedence
        return self.take(np.lexsort((submit, precedence, jobs.cluster)))

    def take(self, rows: IntArray | NDArray[np.bool_]) -> Clusters:
        """Copy of the clusters with these jobs, in this order."""
        return replace(self, jobs=self.jobs.take(rows))

    def refuse(self, k: int, field: str, problem: str, remedy: str) -> NoReturn:
        """Refuse a field of cluster k by a `BadInputError`."""
        raise BadInputError(f"{self.path_to(k)}{field}", problem, remedy)

    def refuse_job(self, row: int, field: str, problem: str, remedy: str) -> NoReturn:
        """Refuse a job, at its place in the request, by a `BadInputError`."""
        jobs = self.jobs
        field = f"{LIST_NAMES[jobs.list_number[row]]}[{jobs.list_index[row]}].{field}"
        self.refuse(int(jobs.cluster[row]), field, f"of job {jobs.ids[row]!r} {problem}", remedy)


def _job_arrays(
    list_name: str, sizes: IntArray, values: Mapping[str, Sequence[Any]], resources: int
) -> JobArrays:
    """Arrays of the jobs of one list; arguments as of `job_lists`."""
    count = int(sizes.sum())

    def integers(name: str, default: IntArray | int = 0) -> IntArray:
        return _integers(values.get(name), count, default)

    start, expected_end = integers("start"), integers("expected_end")
    demand, entries = _demands(values["demand"], resources)
    places = np.full(count, PLACES[list_name], np.int8)
    if any(values.get("ready", ())):
        places[np.fromiter(values["ready"], np.bool_, count)] = READY
    return JobArrays(
        cluster=np.repeat(np.arange(len(sizes)), sizes),
        place=places,
        list_number=np.full(count, LIST_NAMES.index(list_name), np.int8),
        list_index=np.arange(count) - np.repeat(sizes.cumsum() - sizes, sizes),
        ids=np.fromiter(values["id"], np.object_, count),
        submit=integers("submit", start),
        requested=integers("requested", expected_end - start),
        ran=integers("ran"),
        at=integers("at"),
        start=start,
        expected_end=expected_end,
        qos=np.fromiter(values["qos"], np.float64, count) if "qos" in values else np.ones(count),
        demand=demand,
        entries=entries,
        queue_at_submit=integers("queue_at_submit", NOT_GIVEN),
        work_at_submit=integers("work_at_submit", NOT_GIVEN),
        free_at_submit=integers("free_at_submit", NOT_GIVEN),
    )


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


def _integers(values: Sequence[int | None] | None, count: int, default: IntArray | int) -> IntArray:
    """(job,) whole numbers, with a default for missing ones."""
    if values is None:
        return np.full(count, default, np.int64)
    try:
        return np.fromiter(values, np.int64, count)
    except TypeError:  # some are None
        known = np.array(values, np.float64)  # exact: all are below FAR
    missing = np.isnan(known)
    return np.where(missing, default, np.where(missing, 0, known).astype(np.int64))
