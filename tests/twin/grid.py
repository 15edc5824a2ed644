"""The grid of the next ticks: who holds what, what fits, what is too much.

Row k is tick now + k; a grid is a list of rows, a row has one number of units per resource.
"""

from __future__ import annotations

from collections.abc import Iterable

from .task import Task

Grid = list[list[int]]


def rows_of(task: Task, now: int, horizon: int) -> range:
    """The rows that a running or planned job holds."""
    return range(max(0, task.begin - now), min(horizon, task.expected_end(now) - now))


def used_by(tasks: Iterable[Task], now: int, horizon: int, num_resources: int) -> Grid:
    """What these running and planned jobs hold."""
    used = [[0] * num_resources for _ in range(horizon)]
    for task in tasks:
        for k in rows_of(task, now, horizon):
            for r, need in enumerate(task.job.demand):
                used[k][r] += need
    return used


def fits_at(task: Task, row: int, used: Grid, on: Grid) -> bool:
    """Whether the job could hold its units from this row on for its requested time."""
    end = row + task.requested
    return end <= len(on) and all(
        held + need <= units
        for k in range(row, end)
        for held, need, units in zip(used[k], task.job.demand, on[k], strict=True)
    )


def first_row(task: Task, used: Grid, on: Grid) -> int | None:
    """The first row at which it fits."""
    return next((row for row in range(len(on)) if fits_at(task, row, used, on)), None)


def overfull(used: Grid, on: Grid) -> list[tuple[int, int]]:
    """(row, resource) where more is held than is on."""
    return [
        (k, r)
        for k, (held, units) in enumerate(zip(used, on, strict=True))
        for r in range(len(units))
        if held[r] > units[r]
    ]


def holders(tasks: Iterable[Task], cells: Iterable[tuple[int, int]], now: int, horizon: int) -> list[Task]:
    """Those of the jobs that hold units in any of these cells."""
    wanted = list(cells)
    return [
        task
        for task in tasks
        if any(task.job.demand[r] > 0 and k in rows_of(task, now, horizon) for k, r in wanted)
    ]
