"""Rows of units for the jobs of Gantt charts: neither simulator nor clients name the units of a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rlsched.jobs import IntArray, JobTable

Rows = tuple[int, int]
"""Rows [low, high)."""


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
    end = start + jobs.runtime
    ends = started[np.argsort(end[started], kind="stable")].tolist()
    gaps = [(0, processors)]  # free rows [low, high), in order, separate
    rows_of: dict[int, list[Rows]] = {}
    bars: list[JobBar] = []
    over = 0
    for job in started[np.argsort(start[started], kind="stable")].tolist():
        while over < len(ends) and end[ends[over]] <= start[job]:  # ends come before starts
            gaps = _merge(gaps + rows_of.pop(ends[over]))
            over += 1
        need = int(jobs.demand[job, 0])
        rows_of[job], gaps = _take(gaps, need)
        if not rows_of[job]:
            free = sum(high - low for low, high in gaps)
            raise ValueError(f"job in row {job} needs {need} of {free} free processors at tick {start[job]}")
        bars += [JobBar(job, low, high) for low, high in rows_of[job]]
    return bars


def lowest_rows(need: int, occupied: Iterable[Rows], total: int) -> list[Rows]:
    """Free rows [low, high): the lowest gap that holds all, else the lowest rows; empty: too few are free.

    `occupied` has rows [low, high) of the `total`.
    """
    gaps, row = [], 0
    for low, high in (*sorted(occupied), (total, total)):
        if low > row:
            gaps.append((row, low))
        row = max(row, high)
    return _take(gaps, need)[0]


def _take(gaps: list[Rows], need: int) -> tuple[list[Rows], list[Rows]]:
    """Rows for a job, and the remaining gaps; no rows and all gaps where too few are free."""
    for k, (low, high) in enumerate(gaps):
        if high - low >= need:
            rest = [(low + need, high)] if high - low > need else []
            return [(low, low + need)], gaps[:k] + rest + gaps[k + 1 :]
    rows: list[Rows] = []
    for k, (low, high) in enumerate(gaps):
        size = min(need, high - low)
        rows.append((low, low + size))
        need -= size
        if need == 0:
            rest = [(low + size, high)] if low + size < high else []
            return rows, rest + gaps[k + 1 :]
    return [], gaps


def _merge(gaps: list[Rows]) -> list[Rows]:
    merged: list[Rows] = []
    for low, high in sorted(gaps):
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged
