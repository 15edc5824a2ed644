"""A job of a scenario with a horizon: what it is worth, when it is due, what of it is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor

from .jobs import Job


def added(numbers: Iterable[float]) -> float:
    """Their sum, from left to right; the built-in one compensates for rounding from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total


@dataclass(eq=False)
class Task:
    """A job on its way through the places.

    Attributes:
        worth: its value per tick if its qos were 1.
        ran: ticks that it ran before it was suspended.
        begin: the tick at which it (re)started, or is planned to; without meaning elsewhere.
    """

    job: Job
    worth: float
    ran: int = 0
    begin: int = -1

    # the whole job

    @property
    def rate(self) -> float:
        """Its value per tick."""
        return self.worth * self.job.qos

    @property
    def value(self) -> float:
        return self.rate * self.job.runtime

    @property
    def due(self) -> int:
        """The last tick at which it may end on time."""
        return self.job.submit + floor(self.job.requested / self.job.qos + 1e-9)

    @property
    def per_unit_tick(self) -> float:
        """Value per unit and tick."""
        return self.worth / sum(self.job.demand) * self.job.qos

    # what is left of it

    @property
    def runtime(self) -> int:
        return self.job.runtime - self.ran

    @property
    def requested(self) -> int:
        return max(1, self.job.requested - self.ran)

    @property
    def end(self) -> int:
        """The tick at which it really ends, if it runs on."""
        return self.begin + self.runtime

    def expected_end(self, now: int) -> int:
        """The tick at which it is expected to end: an overdue one, at the next."""
        return max(self.begin + self.requested, now + 1)


def worth(job: Job, prices: Sequence[float], value_scale: float) -> float:
    """Sum over the resources of units x price x scale."""
    return added(need * (price * value_scale) for need, price in zip(job.demand, prices, strict=True))


def least_worth(tasks: Iterable[Task]) -> Task:
    """The one with the least value per unit-tick; among equals the last to begin, then the last to arrive."""
    return min(tasks, key=lambda task: (task.per_unit_tick, -task.begin, -task.job.index))
