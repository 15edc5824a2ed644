"""Rows of units for the jobs of Gantt charts: neither simulator nor clients name the units of a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rlsched.jobs import IntArray, JobTable


class JobBar(NamedTuple):
    """A rectangle of a job: rows [low, high) of the first resource, from its start to its end."""

    job: int  # row of the job table
    low: int
    high: int


def pack(jobs: JobTable, start: IntArray, processors: int) -> list[JobBar]:
    """Assign rows to every started job: the lowest gap that holds it, or else the lowest free rows.

    Args:
        jobs: the jobs of the episode; their demand of the first resource is drawn.
        start: (jobs,) ticks, -1 where a job never started.
        processors: units of the first resource.

    Raises:
        ValueError: the schedule uses more processors than there are.
    """
    started = np.flatnonzero((start >= 0) & (jobs.demand[:, 0] > 0))
    end = (start + jobs.runtime).tolist()
    bars: list[JobBar] = []
    active: list[JobBar] = []
    for job in started[np.argsort(start[started], kind="stable")].tolist():
        active = [bar for bar in active if end[bar.job] > start[job]]
        need = int(jobs.demand[job, 0])
        rows = lowest_rows(need, [(bar.low, bar.high) for bar in active], processors)
        if not rows:
            free = processors - sum(bar.high - bar.low for bar in active)
            raise ValueError(f"job in row {job} needs {need} of {free} free processors at tick {start[job]}")
        active += (new := [JobBar(job, low, high) for low, high in rows])
        bars += new
    return bars


def lowest_rows(need: int, occupied: Iterable[tuple[int, int]], total: int) -> list[tuple[int, int]]:
    """Free rows [low, high): the lowest gap that holds all, else the lowest rows; empty: too few are free.

    `occupied` has rows [low, high) of the `total`.
    """
    gaps, row = [], 0
    for low, high in (*sorted(occupied), (total, total)):
        if low > row:
            gaps.append((row, low))
        row = max(row, high)
    pieces = []
    for low, high in [gap for gap in gaps if gap[1] - gap[0] >= need][:1] or gaps:
        pieces.append((low, min(high, low + need)))
        need -= pieces[-1][1] - low
        if need == 0:
            return pieces
    return []
