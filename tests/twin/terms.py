"""What a tick is rewarded for: one function per term that is booked at its end. Costs count below zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .jobs import Units
from .pools import Places
from .power import Energy
from .task import Task, added


@dataclass(frozen=True)
class Tick:
    """What stands still while a tick passes.

    Attributes:
        in_scope: the waiting jobs whose slowdown and wait count.
        running_in_scope: the running jobs whose slowdown counts.
        may_starve: the waiting jobs whose starvation counts.
        threshold: of the bounded slowdown, ticks.
        starvation: longest wait that does not count as starvation, ticks.
    """

    now: int
    places: Places
    units: Units
    energy: Energy
    in_scope: list[Task]
    running_in_scope: list[Task]
    may_starve: list[Task]
    threshold: float
    starvation: float


RATES: dict[str, Callable[[Tick], float]] = {}


def rate(term: Callable[[Tick], float]) -> Callable[[Tick], float]:
    """Add a term to the table of those that each tick adds to."""
    RATES[term.__name__] = term
    return term


@rate
def slowdown(tick: Tick) -> float:
    return -added(1 / task.job.runtime for task in [*tick.in_scope, *tick.running_in_scope])


@rate
def bounded_slowdown(tick: Tick) -> float:
    return -added(1 / max(task.job.runtime, tick.threshold) for task in tick.in_scope)


@rate
def wait_time(tick: Tick) -> float:
    return -len(tick.in_scope)


@rate
def utilization(tick: Tick) -> float:
    shares = [
        held / total
        for held, total in zip(units_of(tick.places.running, tick.units), tick.units, strict=True)
    ]
    return added(shares) / len(shares)


@rate
def makespan(tick: Tick) -> float:
    """A tick passes only while a job is neither finished nor rejected."""
    return -1.0


@rate
def running_value(tick: Tick) -> float:
    return added(task.rate for task in tick.places.running)


@rate
def qos_violation(tick: Tick) -> float:
    return -sum(tick.now > task.due for task in tick.places.waiting + tick.places.running)


@rate
def ready_waiting(tick: Tick) -> float:
    return -len(tick.places.ready)


@rate
def wait_waiting(tick: Tick) -> float:
    return -len(tick.places.wait)


@rate
def long_running(tick: Tick) -> float:
    return -len(tick.places.running)


@rate
def energy(tick: Tick) -> float:
    return -tick.energy.used


@rate
def brown_energy(tick: Tick) -> float:
    return -tick.energy.brown


@rate
def carbon(tick: Tick) -> float:
    return -tick.energy.carbon_kg


@rate
def curtailment(tick: Tick) -> float:
    return -tick.energy.curtailed


@rate
def delayed_jobs(tick: Tick) -> float:
    return -len(tick.places.waiting)


@rate
def waiting_value(tick: Tick) -> float:
    return -added(task.value for task in tick.places.waiting)


@rate
def job_starvation(tick: Tick) -> float:
    return -added(beyond(tick.now, task.job.submit, tick.starvation) for task in tick.may_starve)


@rate
def unused_capacity(tick: Tick) -> float:
    return utilization(tick) - 1


def beyond(now: int, submit: int, longest: float) -> float:
    """Which part of the tick that begins now lies beyond the longest wait."""
    return min(1.0, max(0.0, now + 1 - submit - longest))


EVENTS = (
    "throughput",
    "finished_value",
    "started_value",
    "on_time_value",
    "suspension",
    "rejected",
    "lost_value",
    "terminal_bsld",
    "long_waits",
)


def units_of(tasks: Sequence[Task], units: Units) -> list[int]:
    """Units of slowdowns resource that these jobs hold together."""
    return [sum(task.job.demand[r] for task in tasks) for r in range(len(units))]


def mean_bounded_slowdown(finished: Sequence[tuple[Task, int]], threshold: float) -> float:
    """Of (job, tick at which it ended): how much longer it was there than it ran, all its breaks included."""
    slowdowns = [
        max(1.0, (end - task.job.submit) / max(task.job.runtime, threshold)) for task, end in finished
    ]
    return added(slowdowns) / len(slowdowns)
