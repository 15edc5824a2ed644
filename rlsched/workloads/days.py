"""Traces resampled: days of a trace put together anew, and arrivals brought to another load.

Days keep what models lose: the daily cycle, users who submit the same job again and again, and how sizes,
runtimes and requests go together (N. Zakay and D. G. Feitelson, "Workload resampling for performance
evaluation of parallel job schedulers", 2014; theirs is of users, this one of days).
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
"""Ticks that the last job may come after the first."""

Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Days:
    """The days of a trace, counted from its first submit; what is left at the end is no day.

    Attributes:
        jobs: of the trace, in submit order.
        ticks: of a day.
        stretch: factor on times between arrivals once days are put together; their cycle is as much longer.
    """

    jobs: JobTable
    ticks: int
    stretch: float = 1.0

    @cached_property
    def edges(self) -> IntArray:
        """(days + 1,) rows at which the days begin."""
        submit = self.jobs.submit
        count = (int(submit[-1] - submit[0]) + 1) // self.ticks
        return np.searchsorted(submit, submit[0] + self.ticks * np.arange(count + 1))

    @cached_property
    def time(self) -> IntArray:
        """(jobs,) ticks of its day at which each comes."""
        return (self.jobs.submit - self.jobs.submit[0]) % self.ticks

    @cached_property
    def busiest(self) -> int:
        """Jobs of the day that has the most."""
        return int(np.diff(self.edges).max(initial=0))

    def most_jobs(self, ticks: int) -> int:
        """Of an episode of so many ticks."""
        return self.busiest * (ceil(ticks / self.stretch) // self.ticks + 2)

    def within(self, spans: list[Span]) -> IntArray:
        """(day,) those all of whose jobs are in one of the spans of rows, in order."""
        begin, end = self.edges[:-1], self.edges[1:]
        return np.flatnonzero(np.any([(first <= begin) & (end <= last) for first, last in spans], axis=0))

    def draw(self, rng: np.random.Generator, days: IntArray, jobs: int | None, ticks: int | None) -> JobTable:
        """An episode of days drawn with replacement, which begins at any job of its first day.

        Args:
            rng: where all randomness comes from.
            days: (day,) to draw from, at least one of them with a job.
            jobs: in the episode; None: all that come in `ticks`.
            ticks: from the first submit on, where `jobs` is None.

        Returns:
            Jobs in submit order, numbered anew, which no scheduler has started.
        """
        begin, end = self.edges[days], self.edges[days + 1]
        before = np.cumsum(end - begin) - (end - begin)
        room = 0 if ticks is None else ceil(ticks / self.stretch)
        place = int(rng.integers(before[-1] + end[-1] - begin[-1]))  # any job begins with the same chance
        drawn = int(np.searchsorted(before, place, side="right")) - 1
        first = int(begin[drawn] + place - before[drawn])
        rows, found = [np.arange(first, end[drawn])], int(end[drawn]) - first
        while found < jobs if jobs is not None else len(rows) * self.ticks < self.time[first] + room:
            drawn = int(rng.integers(len(days)))
            rows.append(np.arange(begin[drawn], end[drawn]))
            found += len(rows[-1])
        chosen = np.concatenate(rows)
        day = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
        submit = np.floor((day * self.ticks + self.time[chosen]) * self.stretch).astype(np.int64)
        count = jobs if jobs is not None else int(np.searchsorted(submit, submit[0] + (ticks or 0)))
        table = self.jobs.take(chosen[:count])
        return replace(table, submit=submit[:count], id=np.arange(1, count + 1), start=np.full(count, -1))


def stretched(jobs: JobTable, stretch: float) -> JobTable:
    """The same jobs with so many times the time between arrivals; who started them when, counts no more.

    Args:
        jobs: in submit order.
        stretch: above 0.
    """
    submit = jobs.submit[0] + np.floor((jobs.submit - jobs.submit[0]) * stretch).astype(np.int64)
    return replace(jobs, submit=submit, start=np.full(len(jobs), -1))


def stretch_to(jobs: JobTable, units: int, load: float, where: str) -> float:
    """By which times between arrivals must be multiplied for this load.

    The load is what jobs hold of the first resource while they run, over what there is of it between the
    first submit and the last.

    Args:
        jobs: in submit order.
        units: of the first resource.
        load: to bring it to.
        where: what errors call the load.

    Raises:
        BadInputError: all jobs come at once, or they would come for ever.
    """
    natural = natural_load(jobs, units)
    if natural == np.inf:
        raise BadInputError(
            where, f"value {load:g}: all jobs come at once", "leave it out, or name another trace"
        )
    span = float(jobs.submit[-1] - jobs.submit[0])
    if span * natural / load > LONGEST:
        raise BadInputError(where, f"value {load:g}: the last job would never come", "set a higher one")
    return natural / load


def natural_load(jobs: JobTable, units: int) -> float:
    """Offered work / capacity between the first submit and the last; infinite where all come at once."""
    span = float(jobs.submit[-1] - jobs.submit[0])
    return float(jobs.area.sum()) / (units * span) if span else np.inf
