"""Clusters as clients sent them: state by state, or as columns. Both say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, fields

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray
from rlsched.serve.api.schema import (
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


@dataclass(frozen=True, eq=False)
class Clusters:
    """What is told of clusters beside their jobs.

    Attributes:
        where: (cluster,) what stands before its fields in messages.
        told: field of `Cluster` -> (cluster,) values; those that are left out of all are not there.
    """

    where: Sequence[str]
    told: Mapping[str, Sequence[Any]]

    @cached_property
    def now(self) -> IntArray:
        """(cluster,) seconds."""
        return np.array(self.told["now"], np.int64)

    def given(self, name: str) -> list[tuple[int, Any]]:
        """Which clusters say something of a field that may be left out, and what."""
        return [(c, value) for c, value in enumerate(self.told.get(name, ())) if value is not None]

    def of(self, rows: Sequence[int]) -> Clusters:
        """These."""
        if len(rows) == len(self.where):
            return self
        told = {name: [column[k] for k in rows] for name, column in self.told.items()}
        return Clusters([self.where[k] for k in rows], told)

    def __len__(self) -> int:
        return len(self.where)


class Places(Sequence[str]):
    """What stands before the fields of clusters in messages, written where it is asked for.

    Args:
        name: of the list that they are in.
        count: of clusters.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name, self._rows = name, range(count)

    @overload
    def __getitem__(self, k: int) -> str: ...

    @overload
    def __getitem__(self, k: slice) -> Sequence[str]: ...

    def __getitem__(self, k: int | slice) -> str | Sequence[str]:
        if isinstance(k, slice):
            return [self[row] for row in self._rows[k]]
        return f"{self._name}[{self._rows[k]}]."

    def __len__(self) -> int:
        return len(self._rows)


class Sent(Protocol):
    """Clusters in the order in which they were sent."""

    @property
    def clusters(self) -> Clusters:
        """All that is told of them beside their jobs."""

    @property
    def where(self) -> Sequence[str]:
        """(cluster,) what stands before its fields in messages."""

    @property
    def counts(self) -> IntArray:
        """(list, cluster) jobs, in the order of `LISTS`."""

    def listed(self) -> Iterator[Listed]:
        """Jobs of all clusters, in the same order."""

    def state(self, k: int) -> ClusterState:
        """One of them."""


@dataclass(frozen=True, eq=False)
class States:
    """State by state; see `Sent`.

    Attributes:
        states: one of each.
        where: see `Sent`.
    """

    states: Sequence[ClusterState]
    where: Sequence[str]

    @cached_property
    def clusters(self) -> Clusters:
        """See `Sent`."""
        told = {name: [getattr(state, name) for state in self.states] for name in HEAD}
        given = {name: told[name] for name in HEAD if any(value is not None for value in told[name])}
        return Clusters(self.where, given)

    @cached_property
    def counts(self) -> IntArray:
        """See `Sent`."""
        return np.array([[len(getattr(state, name)) for state in self.states] for name in LISTS], np.int64)

    def listed(self) -> Iterator[Listed]:
        """See `Sent`; no line of Python is run for a job, since batches wait for this."""
        for counts, (name, kind) in zip(self.counts, LISTS.items(), strict=True):
            lists: list[Sequence[Struct]] = [getattr(state, name) for state in self.states]
            flat = [*chain.from_iterable(map(astuple, chain.from_iterable(lists)))]
            names = kind.__struct_fields__
            told = {field: flat[k :: len(names)] for k, field in enumerate(names)}
            yield Listed(counts, told)

    def state(self, k: int) -> ClusterState:
        """See `Sent`."""
        return self.states[k]

    @classmethod
    def joined(cls, parts: Sequence[Sent]) -> States:
        """One after the other."""
        states = [part.state(k) for part in parts for k in range(len(part.where))]
        return cls(states, [place for part in parts for place in part.where])


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
    def clusters(self) -> Clusters:
        """See `Sent`."""
        given = {name: getattr(self.columns, name) for name in HEAD}
        return Clusters(self.where, {name: column for name, column in given.items() if column is not None})

    @cached_property
    def counts(self) -> IntArray:
        """See `Sent`."""
        none = [0] * len(self.where)
        given = [getattr(self.columns, name) for name in LISTS]
        return np.array([none if jobs is None else jobs.jobs for jobs in given], np.int64)

    def listed(self) -> Iterator[Listed]:
        """See `Sent`."""
        for counts, (name, kind) in zip(self.counts, LISTS.items(), strict=True):
            jobs: Jobs | None = getattr(self.columns, name)
            if jobs is None:
                yield Listed(counts, {field: () for field in kind.__struct_fields__})
            else:
                yield Listed(counts, _told(jobs, kind))

    def state(self, k: int) -> ClusterState:
        """See `Sent`."""
        lists: dict[str, Any] = {}
        for name, (kind, columns, bounds) in self._lists.items():
            jobs = slice(bounds[k], bounds[k + 1])
            # Of what is left out of all there is no end; a column of what is told ends it.
            given = [column if isinstance(column, repeat) else column[jobs] for column in columns]
            lists[name] = [*map(kind, *given)]
        head: dict[str, Any] = {name: column[k] for name, column in self.clusters.told.items()}
        return ClusterState(**head, **lists)

    @cached_property
    def _lists(self) -> dict[str, tuple[type[Job], list[Any], list[int]]]:
        """Of those that are told: what they hold, all its fields, and where each cluster's jobs begin."""
        found: dict[str, tuple[type[Job], list[Any], list[int]]] = {}
        for name, kind in LISTS.items():
            jobs: Jobs | None = getattr(self.columns, name)
            if jobs is not None:
                told = _told(jobs, kind)
                usual = {field.name: repeat(field.default) for field in fields(kind)}
                columns = [told.get(field, usual[field]) for field in kind.__struct_fields__]
                found[name] = kind, columns, [*accumulate(jobs.jobs, initial=0)]
        return found


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
    """States as columns; fields that are at their default in all are left out.

    Raises:
        ValueError: there are none.
    """
    if not states:
        raise ValueError("no states to turn into columns")
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
