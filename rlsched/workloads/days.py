"""Traces resampled: days of a trace put together anew, and arrivals brought to another load.

Days keep what models lose: the daily cycle, users who submit the same job again and again, and how sizes,
runtimes and requests go together (N. Zakay and D. G. Feitelson, "Workload resampling for performance
evaluation of parallel job schedulers", 2014; theirs is of users, this one of days).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rlsched.jobs import IntArray, JobTable

DAY_S = 86_400

Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Days:
    """The days of a trace, counted from its first submit.

    Attributes:
        jobs: of the trace, in submit order.
        ticks: of a day.
    """

    jobs: JobTable
    ticks: int

    @cached_property
    def edges(self) -> IntArray:
        """(days + 1,) rows at which the days begin; the last day may not be over."""
        submit = self.jobs.submit
        count = int(submit[-1] - submit[0]) // self.ticks + 1
        return np.searchsorted(submit, submit[0] + self.ticks * np.arange(count + 1))

    @cached_property
    def busiest(self) -> int:
        """Jobs of the day that has the most."""
        return int(np.diff(self.edges).max())

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
        place = int(rng.integers(before[-1] + end[-1] - begin[-1]))  # any job begins with the same chance
        drawn = int(np.searchsorted(before, place, side="right")) - 1
        first = int(begin[drawn] + place - before[drawn])
        time = (self.jobs.submit - self.jobs.submit[0]) % self.ticks
        rows, found = [np.arange(first, end[drawn])], int(end[drawn]) - first
        while found < jobs if jobs is not None else len(rows) * self.ticks < time[first] + (ticks or 0):
            drawn = int(rng.integers(len(days)))
            rows.append(np.arange(begin[drawn], end[drawn]))
            found += len(rows[-1])
        table = self.jobs.take(np.concatenate(rows))
        day = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
        submit = day * self.ticks + (table.submit - self.jobs.submit[0]) % self.ticks
        count = jobs if jobs is not None else int(np.searchsorted(submit, submit[0] + (ticks or 0)))
        table = table.take(slice(count))
        return replace(table, submit=submit[:count], id=np.arange(1, count + 1), start=np.full(count, -1))


def with_load(jobs: JobTable, units: int, load: float) -> JobTable:
    """The same jobs with arrivals drawn closer together, or apart, until they bring this load.

    The load is what they ask for of the first resource while they run, over what there is of it between the
    first submit and the last.

    Args:
        jobs: in submit order.
        units: of the first resource.
        load: to bring it to.
    """
    span = int(jobs.submit[-1] - jobs.submit[0])
    stretch = natural_load(jobs, units) / load
    submit = jobs.submit[0] + np.floor((jobs.submit - jobs.submit[0]) * stretch).astype(np.int64)
    return replace(jobs, submit=submit, start=np.full(len(jobs), -1)) if span else jobs


def natural_load(jobs: JobTable, units: int) -> float:
    """Offered work / capacity between the first submit and the last; infinite where all come at once."""
    span = float(jobs.submit[-1] - jobs.submit[0])
    return float(jobs.area.sum()) / (units * span) if span else np.inf
