"""JobTable: the jobs of a trace or an episode, one column per field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
DemandArray = NDArray[np.int32]

UNKNOWN = ("user", "queue", "start", "preceding", "think")
"""Columns that may be unknown: -1."""

LEAST_QOS = 1e-6
"""Replaces a drawn qos of 0; with less, requested / qos could exceed 64 bits."""


@dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs as columns of equal length; row k of every column is the same job.

    Rows are in trace order, which is usually the order of submit times.

    Attributes:
        id: (jobs,) the job's number in its trace.
        submit: (jobs,) ticks, >= 0, when the job enters the system.
        runtime: (jobs,) ticks, >= 1, the true duration; hidden from policies.
        requested: (jobs,) ticks, >= 1, the user's requested time.
        demand: (jobs, resources) units, at least one unit in all.
        qos: (jobs,) in [`LEAST_QOS`, 1]; 1 asks for the expected finish itself.
        user: (jobs,) user number, -1 unknown.
        queue: (jobs,) queue number, -1 unknown.
        start: (jobs,) ticks, start time in the trace, -1 unknown; hidden from policies.
        preceding: (jobs,) number of the job whose end submits it, -1 none; see `predecessors`.
        think: (jobs,) ticks from that end to the submission; -1: not before that end, nor before `submit`.
        units: (resource,) units of their cluster, if it differs from that of the scenario; not a column.
    """

    id: IntArray
    submit: IntArray
    runtime: IntArray
    requested: IntArray
    demand: DemandArray
    qos: FloatArray
    user: IntArray
    queue: IntArray
    start: IntArray
    preceding: IntArray
    think: IntArray
    units: IntArray | None = None

    @classmethod
    def build(
        cls,
        *,
        submit: object,
        runtime: object,
        demand: object,
        requested: object | None = None,
        **optional: object,
    ) -> JobTable:
        """Make a table from array-likes, fill missing columns in, and check it.

        Args:
            submit: (jobs,) ticks.
            runtime: (jobs,) ticks.
            demand: (jobs, resources) or (jobs,) units.
            requested: (jobs,) ticks; default: the runtime (exact estimates).
            optional: further columns by name; defaults: ids 1, 2, ..., qos 1, all others -1.

        Raises:
            BadInputError: a column has the wrong length or a value outside its range.
        """
        submitted = np.asarray(submit, dtype=np.int64)
        n = len(submitted)
        units = np.asarray(demand, dtype=np.int32)
        columns: dict[str, NDArray[Any]] = {name: np.full(n, -1) for name in UNKNOWN}
        columns |= {"id": np.arange(1, n + 1), "qos": np.ones(n)}
        columns |= {name: np.asarray(values, columns[name].dtype) for name, values in optional.items()}
        table = cls(
            submit=submitted,
            runtime=np.asarray(runtime, dtype=np.int64),
            requested=np.asarray(runtime if requested is None else requested, dtype=np.int64),
            demand=np.ascontiguousarray(units[:, None] if units.ndim == 1 else units),
            **columns,
        )
        table._check()
        return table

    def _check(self) -> None:
        n = len(self)
        for name in COLUMNS:
            column: NDArray[np.generic] = getattr(self, name)
            if len(column) != n or column.ndim != (2 if name == "demand" else 1):
                problem = f"shape {column.shape} for {n} jobs"
                raise BadInputError(f"jobs.{name}", problem, "give one row per job")
        rules = {
            "submit": (self.submit >= 0, "use ticks from 0 on"),
            "runtime": (self.runtime >= 1, "round runtimes up to at least one tick"),
            "requested": (self.requested >= 1, "round requested times up to at least one tick"),
            "demand": ((self.demand >= 0).all(axis=1) & (self.demand.sum(axis=1) >= 1), "ask for a unit"),
            "qos": ((self.qos >= LEAST_QOS) & (self.qos <= 1), f"use a share from {LEAST_QOS:g} to 1"),
        }
        for name, (good, remedy) in rules.items():
            if not good.all():
                row = int(np.argmin(good))
                raise BadInputError(f"jobs.{name} row {row}", f"value {getattr(self, name)[row]}", remedy)

    def __len__(self) -> int:
        return len(self.submit)

    def __iter__(self) -> Iterator[int]:  # a table is not a sequence of rows
        raise TypeError("iterate over a column of a JobTable, not over the table")

    def take(self, rows: slice | NDArray[np.generic]) -> JobTable:
        """The jobs of these rows, in that order (a slice gives views, not copies)."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def cluster(self, units: Sequence[int] | IntArray) -> IntArray:
        """(resource,) units of their cluster; `units` if they have none."""
        return np.asarray(units, np.int64) if self.units is None else self.units

    def in_submit_order(self) -> JobTable:
        """Copy sorted by submit time, ties by id: the order in which a cluster sees the jobs."""
        if (np.diff(self.submit) > 0).all():
            return self
        return self.take(np.lexsort((self.id, self.submit)))

    def predecessors(self) -> IntArray:
        """(jobs,) row of the job that each waits for, -1 none.

        A job that is later in the table, or not in it, is no predecessor, so that no job waits forever.
        """
        rows = np.full(len(self), -1)
        waiting = np.flatnonzero(self.preceding >= 0)
        if not len(waiting):
            return rows
        order = np.argsort(self.id, kind="stable")
        place = np.minimum(np.searchsorted(self.id, self.preceding[waiting], sorter=order), len(self) - 1)
        candidates = order[place]
        good = (self.id[candidates] == self.preceding[waiting]) & (candidates < waiting)
        rows[waiting[good]] = candidates[good]
        return rows

    def released(self, start: IntArray) -> JobTable:
        """Copy with submit times that follow from the ends of the jobs' predecessors.

        Args:
            start: (jobs,) ticks, -1 not started. A job whose predecessor never ended is submitted after all
                other events, so that it does not count as waiting.
        """
        before = self.predecessors()
        rows = np.flatnonzero(before >= 0)
        if not len(rows):
            return self
        ended = start[before[rows]] + self.runtime[before[rows]]
        think = self.think[rows]
        submit = self.submit.copy()
        submit[rows] = np.where(think >= 0, ended + think, np.maximum(self.submit[rows], ended))
        waits = start[before[rows]] < 0
        never = rows[waits]
        last = max(np.delete(submit, never).max(), (start + self.runtime)[start >= 0].max(initial=0))
        submit[never] = np.maximum(self.submit[never], last)
        return replace(self, submit=submit)

    def in_ticks(self, tick_s: int) -> JobTable:
        """Jobs of seconds in ticks: submit and start rounded down, lengths up, and so never to 0.

        Args:
            tick_s: seconds per tick, >= 1.
        """
        if tick_s == 1:
            return self
        return replace(
            self,
            submit=self.submit // tick_s,
            start=np.where(self.start < 0, -1, self.start // tick_s),
            runtime=-(-self.runtime // tick_s),
            requested=-(-self.requested // tick_s),
            think=np.where(self.think < 0, -1, -(-self.think // tick_s)),
        )

    @property
    def num_resources(self) -> int:
        """Number of resource types."""
        return self.demand.shape[1]

    @property
    def area(self) -> FloatArray:
        """(jobs,) units x true runtime of the first resource type, unit-ticks."""
        return self.demand[:, 0].astype(np.float64) * self.runtime


COLUMNS = tuple(field.name for field in fields(JobTable) if field.name != "units")
"""Names of the columns of a table."""
