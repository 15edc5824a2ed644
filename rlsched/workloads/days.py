"""Resampling of a trace by days, and scaling of its load.

Days keep what models lose: the daily cycle, users who repeat a job, and the correlation of sizes, runtimes
and requested times (N. Zakay and D. G. Feitelson, "Workload resampling for performance evaluation of parallel
job schedulers", 2014; theirs is of users, this one of days).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable

DAY_S = 86_400
LONGEST = 2.0**50
"""Longest time from the first submit to the last, ticks."""

Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Days:
    """The whole days of a trace, from its first submit.

    Attributes:
        jobs: of the trace, in submit order.
        ticks: in a day.
        stretch: factor on times between arrivals of resampled days; it lengthens the daily cycle, too.
    """

    jobs: JobTable
    ticks: int
    stretch: float = 1.0

    @cached_property
    def edges(self) -> IntArray:
        """(days + 1,) first row of each day."""
        submit = self.jobs.submit
        count = (int(submit[-1] - submit[0]) + 1) // self.ticks
        return np.searchsorted(submit, submit[0] + self.ticks * np.arange(count + 1))

    @cached_property
    def time(self) -> IntArray:
        """(jobs,) time of day of each submit, ticks."""
        return (self.jobs.submit - self.jobs.submit[0]) % self.ticks

    @cached_property
    def busiest(self) -> int:
        """Most jobs in a day."""
        return int(np.diff(self.edges).max(initial=0))

    def most_jobs(self, ticks: int) -> int:
        """Bound on the jobs in an episode of `ticks` ticks."""
        return self.busiest * (ceil(ticks / self.stretch) // self.ticks + 2)

    def within(self, spans: list[Span]) -> IntArray:
        """(day,) ascending days with all jobs within one of the spans of rows."""
        begin, end = self.edges[:-1], self.edges[1:]
        return np.flatnonzero(np.any([(first <= begin) & (end <= last) for first, last in spans], axis=0))

    def draw(self, rng: np.random.Generator, days: IntArray, jobs: int | None, ticks: int | None) -> JobTable:
        """Draw an episode of days with replacement, from any job of its first day on.

        Args:
            rng: where all randomness comes from.
            days: (day,) to draw from, at least one with a job.
            jobs: in the episode; None: all within `ticks`.
            ticks: of the episode from its first submit, if `jobs` is None.

        Returns:
            Jobs in submit order, renumbered, without start times.
        """
        begin, end = self.edges[days], self.edges[days + 1]
        before = np.cumsum(end - begin) - (end - begin)
        room = 0 if ticks is None else ceil(ticks / self.stretch)
        place = int(
            rng.integers(before[-1] + end[-1] - begin[-1])
        )  # any job is the first with the same probability
        drawn = int(np.searchsorted(before, place, side="right")) - 1
        first = int(begin[drawn] + place - before[drawn])
        rows, count = [np.arange(first, end[drawn])], int(end[drawn]) - first
        while count < jobs if jobs is not None else len(rows) * self.ticks < self.time[first] + room:
            drawn = int(rng.integers(len(days)))
            rows.append(np.arange(begin[drawn], end[drawn]))
            count += len(rows[-1])
        chosen = np.concatenate(rows)
        day = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
        submit = np.floor((day * self.ticks + self.time[chosen]) * self.stretch).astype(np.int64)
        count = jobs if jobs is not None else int(np.searchsorted(submit, submit[0] + (ticks or 0)))
        table = self.jobs.take(chosen[:count])
        return replace(table, submit=submit[:count], id=np.arange(1, count + 1), start=np.full(count, -1))


def stretched(jobs: JobTable, stretch: float) -> JobTable:
    """Jobs with scaled times between arrivals, and without start times.

    Args:
        jobs: in submit order.
        stretch: factor, above 0.
    """
    submit = jobs.submit[0] + np.floor((jobs.submit - jobs.submit[0]) * stretch).astype(np.int64)
    return replace(jobs, submit=submit, start=np.full(len(jobs), -1))


def stretch_to(jobs: JobTable, units: int, load: float, where: str) -> float:
    """Factor on times between arrivals that gives a load.

    The load is the units x runtime of all jobs over the units x time from the first submit to the last. Units
    are of the first resource.

    Args:
        jobs: in submit order.
        units: of the first resource.
        load: to reach.
        where: name of the load in errors.

    Raises:
        BadInputError: all jobs arrive at once, or the trace would become too long.
    """
    natural = natural_load(jobs, units)
    if natural == np.inf:
        problem = f"value {load:g}: all jobs arrive at once"
        raise BadInputError(where, problem, "remove it, or use another trace")
    span = float(jobs.submit[-1] - jobs.submit[0])
    if span * natural / load > LONGEST:
        raise BadInputError(where, f"value {load:g}: the trace would become too long", "set a higher load")
    return natural / load


def natural_load(jobs: JobTable, units: int) -> float:
    """Offered work / capacity between the first submit and the last; infinite if all jobs arrive at once."""
    span = float(jobs.submit[-1] - jobs.submit[0])
    return float(jobs.area.sum()) / (units * span) if span else np.inf
