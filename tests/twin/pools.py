"""The places of a job, and the rules of the two pools of waiting jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .task import Task


@dataclass
class Places:
    """Every job is in exactly one of these.

    Attributes:
        coming: jobs that have not arrived.
        ready: jobs that may be chosen, by position.
        wait: jobs behind them, the head first.
        suspended: jobs that ran and wait to enter the ready pool, first in, first out.
    """

    coming: list[Task]
    window: int
    wait_pool: int | None
    ready: list[Task] = field(default_factory=list)
    wait: list[Task] = field(default_factory=list)
    suspended: list[Task] = field(default_factory=list)
    planned: list[Task] = field(default_factory=list)
    running: list[Task] = field(default_factory=list)
    finished: list[Task] = field(default_factory=list)
    rejected: list[Task] = field(default_factory=list)

    @property
    def waiting(self) -> list[Task]:
        return self.ready + self.wait + self.planned + self.suspended

    @property
    def ready_has_room(self) -> bool:
        return len(self.ready) < self.window

    @property
    def wait_has_room(self) -> bool:
        return self.wait_pool is None or len(self.wait) < self.wait_pool


Key = Callable[[Task], float]  # the smallest enters first; among equals the one nearest to the head


def fcfs(task: Task) -> float:
    return 0


def sjf(task: Task) -> float:
    return task.requested


def qos(task: Task) -> float:
    return -task.job.qos


def hvf(task: Task) -> float:
    return -(task.rate * task.requested)


ADMISSION: dict[str, Key] = {key.__name__: key for key in (fcfs, sjf, qos, hvf)}


def refill(places: Places, admission: str) -> None:
    """Fill the ready pool: suspended jobs first, then the best of the wait pool."""
    while places.ready_has_room and (places.suspended or places.wait):
        if places.suspended:
            task = places.suspended.pop(0)
        else:
            task = min(places.wait, key=ADMISSION[admission])
            places.wait.remove(task)
        places.ready.append(task)


def arrive(task: Task, places: Places) -> None:
    """To the ready pool, else the wait pool, else nowhere."""
    places.coming.remove(task)
    if places.ready_has_room:
        places.ready.append(task)
    elif places.wait_has_room:
        places.wait.append(task)
    else:
        places.rejected.append(task)


def take_back(task: Task, places: Places) -> None:
    """A planned job returns to the pools, to the head of the wait pool even where that is full."""
    places.planned.remove(task)
    if places.ready_has_room:
        places.ready.append(task)
    else:
        places.wait.insert(0, task)


def suspend(task: Task, places: Places, now: int) -> None:
    """A running job stops; what it has done is kept."""
    task.ran += now - task.begin
    places.running.remove(task)
    places.suspended.append(task)
