"""Clusters as clients sent them: state by state, or as columns. Both say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, fields

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray
from rlsched.serve.schema import (
    Cluster,
    ClusterColumns,
    ClusterState,
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
"""Lists of a state, and what they hold."""

TURNED: tuple[type[Jobs], ...] = (RunningJobs, PlannedJobs, WaitingJobs, WaitingJobs)
"""The same as columns."""

HEAD = Cluster.__struct_fields__


class Listed(NamedTuple):
    """The jobs in one list of all clusters.

    Attributes:
        counts: (cluster,) jobs of each.
        told: field -> (job,) values; fields that are left out of all are not there.
    """

    counts: IntArray
    told: Mapping[str, Sequence[Any]]


class Sent(Protocol):
    """Clusters in the order in which they were sent."""

    @property
    def heads(self) -> Sequence[Cluster]:
        """(cluster,) at least without their jobs."""

    @property
    def where(self) -> Sequence[str]:
        """(cluster,) what stands before its fields in messages."""

    def listed(self) -> Iterator[Listed]:
        """Jobs of all clusters, in the order of `LISTS`."""

    def state(self, k: int) -> ClusterState:
        """One of them."""


@dataclass(frozen=True, eq=False)
class States:
    """State by state; see `Sent`.

    Attributes:
        heads: with their jobs.
        where: see `Sent`.
    """

    heads: Sequence[ClusterState]
    where: Sequence[str]

    def listed(self) -> Iterator[Listed]:
        """See `Sent`; no line of Python is run for a job, since batches wait for this."""
        for name, kind in LISTS.items():
            lists: list[Sequence[Struct]] = [getattr(state, name) for state in self.heads]
            flat = [*chain.from_iterable(map(astuple, chain.from_iterable(lists)))]
            names = kind.__struct_fields__
            told = {field: flat[k :: len(names)] for k, field in enumerate(names)}
            yield Listed(np.fromiter(map(len, lists), np.int64, len(lists)), told)

    def state(self, k: int) -> ClusterState:
        """See `Sent`."""
        return self.heads[k]

    @classmethod
    def joined(cls, parts: Sequence[States]) -> States:
        """One after the other."""
        heads = [state for part in parts for state in part.heads]
        return cls(heads, [place for part in parts for place in part.where])


@dataclass(frozen=True, eq=False)
class Table:
    """As columns.

    Attributes:
        columns: as they were sent.
        where: see `Sent`.

    Raises:
        BadInputError: a column has not an entry for each.
    """

    columns: ClusterColumns
    where: Sequence[str]

    def __post_init__(self) -> None:
        clusters = len(self.where)
        _check(self.columns, HEAD, clusters, "columns", "clusters")
        for name, kind in LISTS.items():
            jobs: Jobs | None = getattr(self.columns, name)
            if jobs is not None:
                _check(jobs, ("jobs",), clusters, f"columns.{name}", "clusters")
                _check(jobs, kind.__struct_fields__, sum(jobs.jobs), f"columns.{name}", "jobs")

    @cached_property
    def heads(self) -> Sequence[Cluster]:
        """See `Sent`."""
        told = {name: column for name in HEAD if (column := getattr(self.columns, name)) is not None}
        return [Cluster(**dict(zip(told, row, strict=True))) for row in zip(*told.values(), strict=True)]

    def listed(self) -> Iterator[Listed]:
        """See `Sent`."""
        for name, kind in LISTS.items():
            jobs: Jobs | None = getattr(self.columns, name)
            if jobs is None:
                yield Listed(
                    np.zeros(len(self.where), np.int64), {field: () for field in kind.__struct_fields__}
                )
            else:
                yield Listed(np.array(jobs.jobs, np.int64), _told(jobs, kind))

    def state(self, k: int) -> ClusterState:
        """See `Sent`."""
        head = self.heads[k]
        lists: dict[str, Any] = {name: self._jobs(name, k) for name in LISTS}
        return ClusterState(**{name: getattr(head, name) for name in HEAD}, **lists)

    def _jobs(self, name: str, k: int) -> list[Job]:
        jobs: Jobs | None = getattr(self.columns, name)
        if jobs is None:
            return []
        begin, end = self._bounds[name][k : k + 2]
        told = {field: column[begin:end] for field, column in _told(jobs, LISTS[name]).items()}
        return [LISTS[name](**dict(zip(told, row, strict=True))) for row in zip(*told.values(), strict=True)]

    @cached_property
    def _bounds(self) -> dict[str, list[int]]:
        """Where the jobs of each cluster begin and end, in each list."""
        given = {name: getattr(self.columns, name) for name in LISTS}
        return {name: [*accumulate(jobs.jobs, initial=0)] for name, jobs in given.items() if jobs is not None}


def _told(jobs: Jobs, kind: type[Job]) -> dict[str, Sequence[Any]]:
    """Field -> (job,) of the columns that are there."""
    given = {field: getattr(jobs, field) for field in kind.__struct_fields__}
    return {field: column for field, column in given.items() if column is not None}


def _check(columns: Struct, names: Sequence[str], count: int, at: str, things: str) -> None:
    for name in names:
        column = getattr(columns, name)
        if column is not None and len(column) != count:
            problem = f"{len(column)} entries for {count} {things}"
            raise BadInputError(f"{at}.{name}", problem, "send one for each")


def turned(states: Sequence[ClusterState]) -> ClusterColumns:
    """States as columns; fields that are at their default in all are left out."""
    lists: dict[str, Any] = {}
    for (name, kind), turn in zip(LISTS.items(), TURNED, strict=True):
        found: list[Sequence[Job]] = [getattr(state, name) for state in states]
        if any(found):
            jobs = _columns([*chain.from_iterable(found)], kind)
            lists[name] = turn(jobs=[*map(len, found)], **jobs)
    return ClusterColumns(**_columns(states, Cluster), **lists)


def _columns(rows: Sequence[Struct], kind: type[Struct]) -> dict[str, Any]:
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(kind)}
    usual = {field.name: field.default for field in fields(kind)}
    return {name: told for name, told in columns.items() if any(value != usual[name] for value in told)}
