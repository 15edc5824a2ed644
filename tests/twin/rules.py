"""Reservations: shadow time, extra units, who may go first, and the availability profile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .jobs import Job, Machine, Units


@dataclass
class Reservation:
    """A promise to a job that does not fit: nobody may push it beyond the shadow time.

    Attributes:
        shadow: the tick at which the job is expected to fit.
        extra: units of each resource that are expected to be left over beside it then.
    """

    job: Job
    shadow: int
    extra: Units


def reserve(job: Job, now: int, machine: Machine) -> Reservation:
    """Let the running jobs go, in the order of their expected ends, until the job fits."""
    expected_ends = sorted({running.expected_end(now) for running in machine.running})
    for shadow in expected_ends:
        free_then = tuple(
            free
            + sum(running.job.demand[r] for running in machine.running if running.expected_end(now) <= shadow)
            for r, free in enumerate(machine.free)
        )
        extra = tuple(free - need for free, need in zip(free_then, job.demand, strict=True))
        if min(extra) >= 0:
            return Reservation(job, shadow, extra)
    raise AssertionError("a job that never fits was let in")


def admissible(job: Job, now: int, machine: Machine, reservation: Reservation) -> bool:
    """It fits, and is expected to be gone by the shadow time or to use only what is left over then."""
    gone_by_then = now + job.requested <= reservation.shadow
    left_over = all(need <= extra for need, extra in zip(job.demand, reservation.extra, strict=True))
    return machine.fits(job) and (gone_by_then or left_over)


def start_behind(job: Job, now: int, machine: Machine, reservation: Reservation) -> None:
    """Start an admissible job; if it is expected to outlast the shadow time it uses up the extra units."""
    assert admissible(job, now, machine, reservation)
    machine.start(job, now)
    if now + job.requested > reservation.shadow:
        reservation.extra = tuple(
            extra - need for extra, need in zip(reservation.extra, job.demand, strict=True)
        )


@dataclass
class Profile:
    """Who is expected to use what and when, from now on: (from, to, units) with `to` excluded."""

    now: int
    units: Units
    uses: list[tuple[int, int, Units]] = field(default_factory=list)

    @classmethod
    def of_running(cls, machine: Machine, now: int) -> Profile:
        """The running jobs, each until its expected end."""
        return cls(now, machine.units, [(now, r.expected_end(now), r.job.demand) for r in machine.running])

    def add(self, job: Job, start: int) -> None:
        """Plan the job at that tick."""
        self.uses.append((start, start + job.requested, job.demand))

    def fits_at(self, job: Job, tick: int) -> bool:
        """Whether the job fits at that one tick."""
        return all(
            need + sum(demand[r] for begin, end, demand in self.uses if begin <= tick < end) <= total
            for r, (need, total) in enumerate(zip(job.demand, self.units, strict=True))
        )

    def earliest(self, job: Job) -> int:
        """The first tick from which the job fits for the whole of its requested time.

        More becomes free only where a use ends, less only where one begins: no other ticks need a look.
        """
        for start in sorted({self.now, *(end for _, end, _ in self.uses)}):
            begins = [begin for begin, _, _ in self.uses if start < begin < start + job.requested]
            if all(self.fits_at(job, tick) for tick in [start, *begins]):
                return start
        raise AssertionError("a job that never fits was let in")


def visible(waiting: Iterable[Job], window: int | None) -> list[Job]:
    """The jobs that may be chosen: the first ones by arrival, all of them without a window."""
    return sorted(waiting, key=lambda job: (job.submit, job.index))[:window]
