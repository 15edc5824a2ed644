"""The jobs of many clusters as arrays, checked to the last field.

Batches wait for this, so no line of Python is run for a job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import DemandArray, FloatArray, IntArray
from rlsched.serve.api.requests import LISTS, Listed, Sent
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, SUSPENDED, WAITING

Id = int | str

PLACES = {"running": RUNNING, "planned": PLANNED, "suspended": SUSPENDED, "waiting": WAITING}
"""Where the jobs of each of `LISTS` are."""

NAMES = tuple(LISTS)

TURN = np.zeros(len({RUNNING, PLANNED, SUSPENDED, READY, WAITING}), np.int64)
TURN[[RUNNING, PLANNED, SUSPENDED, READY, WAITING]] = range(len(TURN))
"""By place: the order in which the jobs of a cluster stand; those that run take their units first."""

NOT_GIVEN = -1


@dataclass(frozen=True, eq=False)
class Columns:
    """Jobs of clusters; times in seconds.

    Attributes:
        where: (cluster,) what stands before its fields in messages.
        whose: (job,) which cluster.
        place: (job,) RUNNING, ... of the core.
        listed: (job,) in which of `LISTS` it was sent.
        within: (job,) where in that list.
        ids: (job,)
        submit: (job,) its start, where it is not given.
        requested: (job,) what it asked for in all.
        ran: (job,) before it was suspended; 0 where it was not.
        at: (job,) when it is planned to start; 0 where it is not.
        start: (job,) of one that runs; else 0.
        expected_end: (job,) likewise.
        qos: (job,)
        demand: (job, resource) units; 0 where it has `entries` of another cluster.
        entries: (job,) of its demand, as it was sent.
        queue_at_submit: (job,) or `NOT_GIVEN`, as the next two.
        work_at_submit: (job,)
        free_at_submit: (job,)
    """

    where: Sequence[str]
    whose: IntArray
    place: NDArray[np.int8]
    listed: NDArray[np.int8]
    within: IntArray
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
    def of(cls, sent: Sent, resources: int) -> Columns:
        """Of all jobs of all clusters, list by list.

        Args:
            sent: the clusters.
            resources: of each demand; what has others is told by its `entries`.
        """
        parts = [
            _part(listed, k, place, resources)
            for k, (listed, place) in enumerate(zip(sent.listed(), PLACES.values(), strict=True))
        ]
        return cls(sent.where, **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    @property
    def first(self) -> IntArray:
        """(cluster + 1,) where the jobs of each begin, where they stand one after the other."""
        return np.concatenate(([0], self.counts.cumsum()))

    @property
    def counts(self) -> IntArray:
        """(cluster,) jobs of each."""
        return np.bincount(self.whose, minlength=len(self.where))

    @property
    def held(self) -> IntArray:
        """(cluster, resource) units that running jobs hold."""
        running = self.place == RUNNING
        found = np.zeros((len(self.where), self.demand.shape[1]), np.int64)
        np.add.at(found, self.whose[running], self.demand[running])
        return found

    def split(self, parts: Sequence[Sequence[int]]) -> list[Columns]:
        """The jobs of these clusters, and of those, and so on: each cluster is in one part."""
        if len(parts) == 1:
            return [self]
        whose, part_of = np.empty((2, len(self.where)), np.int64)
        for k, rows in enumerate(parts):
            whose[rows], part_of[rows] = np.arange(len(rows)), k
        order = np.argsort(part_of[self.whose], kind="stable")
        ends = np.bincount(part_of[self.whose], minlength=len(parts)).cumsum().tolist()
        found = []
        for rows, (begin, end) in zip(parts, pairwise([0, *ends]), strict=True):
            jobs = self.take(order[begin:end])
            found.append(replace(jobs, where=[self.where[k] for k in rows], whose=whose[jobs.whose]))
        return found

    def with_running(
        self, clusters: IntArray, name: Id, demand: IntArray, start: IntArray, long_s: int
    ) -> Columns:
        """With another running job in some clusters.

        Args:
            clusters: (job,) whose it is.
            name: of all of them.
            demand: (job, resource) units; 0 where it has `entries` of another cluster.
        entries: (job,) of its demand, as it was sent.
            start: (job,) when they were submitted and started.
            long_s: how long they take.
        """
        many = len(clusters)
        zeros, unknown = np.zeros(many, np.int64), np.full(many, NOT_GIVEN)
        more: dict[str, NDArray[Any]] = {
            "whose": clusters,
            "place": np.full(many, RUNNING, np.int8),
            "listed": np.full(many, NAMES.index("running"), np.int8),
            "within": zeros,
            "ids": np.full(many, name, np.object_),
            "submit": start,
            "requested": zeros + long_s,
            "ran": zeros,
            "at": zeros,
            "start": start,
            "expected_end": start + long_s,
            "qos": np.ones(many),
            "demand": demand.astype(self.demand.dtype),
            "entries": zeros + demand.shape[1],
            "queue_at_submit": unknown,
            "work_at_submit": unknown,
            "free_at_submit": unknown,
        }
        joined: dict[str, Any] = {
            field: np.concatenate((getattr(self, field), more[field])) for field in more
        }
        return replace(self, **joined)

    def in_turn(self, *, queued: bool) -> Columns:
        """Cluster by cluster, by `TURN`.

        Args:
            queued: jobs that wait stand in the order of their submit times, not in that of their lists.
        """
        turn = TURN[self.place]
        by_submit = np.where(self.place == WAITING, self.submit, 0) if queued else turn
        return self.take(np.lexsort((by_submit, turn, self.whose)))

    def take(self, rows: IntArray | NDArray[np.bool_]) -> Columns:
        """These jobs, in this order."""
        chosen = {field.name: getattr(self, field.name)[rows] for field in fields(self)[1:]}
        return replace(self, **chosen)

    def refuse(self, row: int, field: str, problem: str, remedy: str) -> NoReturn:
        """Say which job of which list is wrong, as the client sent it."""
        at = f"{self.where[self.whose[row]]}{NAMES[self.listed[row]]}[{self.within[row]}].{field}"
        raise BadInputError(at, f"of job {self.ids[row]!r} {problem}", remedy)

    def check_demands(self) -> None:
        """What must hold of demands before anything is made of them.

        Raises:
            BadInputError: one is of a cluster with other resources.
        """
        resources = self.demand.shape[1]
        short = self.entries != resources
        if short.any():
            row = int(short.argmax())
            problem = f"{self.entries[row]} entries for {resources} resources"
            self.refuse(row, "demand", problem, "send one for each")

    def check_names(self) -> None:
        """What must hold of names, where jobs are in turn.

        Raises:
            BadInputError: a job stands there twice.
        """
        ids = self.ids.tolist()
        for c, (begin, end) in enumerate(pairwise(self.first.tolist())):
            if len({*ids[begin:end]}) < end - begin:
                (twice, _), *_ = Counter(ids[begin:end]).most_common(1)
                problem = f"job {twice!r} stands there twice"
                raise BadInputError(f"{self.where[c]}waiting", problem, "name each once")

    def check(self, now: IntArray, units: IntArray, tick_s: int, horizon: int) -> None:
        """What must hold of every job, and of those that run together.

        Args:
            now: (cluster,) seconds.
            units: (resource,) of all of them.
            tick_s: seconds per tick.
            horizon: ticks that are planned ahead.

        Raises:
            BadInputError: it does not.
        """
        now = now[self.whose]
        running, planned = self.place == RUNNING, self.place == PLANNED
        longest = f"is longer than the {horizon} ticks that are planned"
        most = f"asks for more than the {units.tolist()} units of the cluster"
        run_time = "send start + requested time"
        wrong = (
            (running & (self.start > now), "start", "is later than now", "list it as waiting"),
            (self.submit > now, "submit", "is later than now", "send jobs that were submitted"),
            (
                running & (self.submit > self.start),
                "submit",
                "is later than its start",
                "send its submit time",
            ),
            (
                running & (self.expected_end <= self.start),
                "expected_end",
                "is not later than its start",
                run_time,
            ),
            (planned & (self.at <= now), "at", "is not later than now", "list it as running, or as waiting"),
            (planned & (-(-self.requested // tick_s) > horizon), "requested", longest, "list it as waiting"),
            (
                self.ran > self.requested,
                "ran",
                "is longer than it asked for",
                "send what it asked for in all",
            ),
            (self.demand.sum(axis=1) < 1, "demand", "asks for nothing", "ask for a unit"),
            ((self.demand > units).any(axis=1), "demand", most, "send the cluster's units"),
        )
        for bad, field, problem, remedy in wrong:
            if bad.any():
                self.refuse(int(bad.argmax()), field, problem, remedy)
        held = self.held
        if (held > units).any():
            c, r = np.argwhere(held > units)[0].tolist()
            problem = f"hold {held[c, r]} of {units[r]} units"
            raise BadInputError(f"{self.where[c]}running", problem, "send the cluster's units")


def _part(listed: Listed, number: int, place: int, resources: int) -> dict[str, NDArray[Any]]:
    """Columns of the jobs of one list."""
    told, sizes = listed.told, listed.counts
    count = int(sizes.sum())
    begins = sizes.cumsum() - sizes
    start, expected_end = _column(told, "start", count), _column(told, "expected_end", count)
    demand, entries = _demands(told["demand"], resources)
    placed = np.full(count, place, np.int8)
    if any(told.get("ready", ())):
        placed[np.fromiter(told["ready"], np.bool_, count)] = READY
    return {
        "whose": np.repeat(np.arange(len(sizes)), sizes),
        "place": placed,
        "listed": np.full(count, number, np.int8),
        "within": np.arange(count) - np.repeat(begins, sizes),
        "ids": np.fromiter(told["id"], np.object_, count),
        "submit": _column(told, "submit", count, start),
        "requested": _column(told, "requested", count, expected_end - start),
        "ran": _column(told, "ran", count),
        "at": _column(told, "at", count),
        "start": start,
        "expected_end": expected_end,
        "qos": np.fromiter(told["qos"], np.float64, count) if "qos" in told else np.ones(count),
        "demand": demand,
        "entries": entries,
        "queue_at_submit": _column(told, "queue_at_submit", count, NOT_GIVEN),
        "work_at_submit": _column(told, "work_at_submit", count, NOT_GIVEN),
        "free_at_submit": _column(told, "free_at_submit", count, NOT_GIVEN),
    }


def _demands(demands: Sequence[Sequence[int]], resources: int) -> tuple[DemandArray, IntArray]:
    """(job, resource), 0 of those that have other entries; and (job,) how many they have."""
    count = len(demands)
    if set(map(len, demands)) <= {resources}:
        flat: Iterable[int] = chain.from_iterable(demands)
        units = np.fromiter(flat, np.int32, count * resources).reshape(count, resources)
        return units, np.full(count, resources, np.int64)
    entries = np.fromiter(map(len, demands), np.int64, count)
    none = [0] * resources
    fitting = [demand if len(demand) == resources else none for demand in demands]
    return np.array(fitting, np.int32), entries


def _column(
    told: Mapping[str, Sequence[int | None]], name: str, count: int, usual: IntArray | int = 0
) -> IntArray:
    """Whole numbers; where there is none, what is usual there."""
    values = told.get(name)
    if values is None:
        return np.full(count, usual, np.int64)
    try:
        return np.fromiter(values, np.int64, count)
    except TypeError:  # some are None
        known = np.array(values, np.float64)  # exact: all are below FAR
    missing = np.isnan(known)
    return np.where(missing, usual, np.where(missing, 0, known).astype(np.int64))
