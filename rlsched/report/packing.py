"""Assignment of processors to jobs for Gantt charts, since the simulator only counts units."""

from __future__ import annotations

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

    Returns:
        Bars; several of a job if no gap could hold it.

    Raises:
        ValueError: the schedule uses more processors than there are.
    """
    started = np.flatnonzero((start >= 0) & (jobs.demand[:, 0] > 0))
    end = start + jobs.runtime
    # at the same tick, ends come before starts
    ends = started[np.argsort(end[started], kind="stable")]
    begins = started[np.argsort(start[started], kind="stable")]
    gaps = [(0, processors)]  # free rows [low, high), in order, separate
    rows_of: dict[int, list[tuple[int, int]]] = {}
    bars: list[JobBar] = []
    over = 0
    for job in map(int, begins):
        while over < len(ends) and end[ends[over]] <= start[job]:
            gaps = _merge(gaps + rows_of.pop(int(ends[over])))
            over += 1
        need = int(jobs.demand[job, 0])
        free = sum(high - low for low, high in gaps)
        if need > free:
            raise ValueError(f"job in row {job} needs {need} of {free} free processors at tick {start[job]}")
        rows_of[job], gaps = _take(gaps, need)
        bars += [JobBar(job, low, high) for low, high in rows_of[job]]
    return bars


def _take(gaps: list[tuple[int, int]], need: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Rows for a job, and the remaining gaps."""
    for k, (low, high) in enumerate(gaps):
        if high - low >= need:
            rest = [(low + need, high)] if high - low > need else []
            return [(low, low + need)], gaps[:k] + rest + gaps[k + 1 :]
    rows: list[tuple[int, int]] = []
    for k, (low, high) in enumerate(gaps):
        size = min(need, high - low)
        rows.append((low, low + size))
        need -= size
        if need == 0:
            rest = [(low + size, high)] if low + size < high else []
            return rows, rest + gaps[k + 1 :]
    raise AssertionError("the caller has checked that the rows are there")


def _merge(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(gaps):
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged
