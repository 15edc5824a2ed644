"""Replaying jobs with a priority order and one of four kinds of backfilling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2, log10

import numpy as np

from rlsched.jobs import JobTable

from .jobs import Job, Machine, Units, by_dependency, released_by
from .rules import Profile, admissible, reserve, start_behind, visible

Key = Callable[[Job, int, Units, Units], float]  # (job, now, free units, all units); the smallest goes first


def share(job: Job, units: Units) -> float:
    """Sum over the resources of the share of the machine that the job asks for."""
    return sum(need / total for need, total in zip(job.demand, units, strict=True))


def wait(job: Job, now: int) -> int:
    """Ticks since its submit time."""
    return now - job.submit


def price(job: Job) -> float:
    """Of all its units for a tick, at the default price."""
    return sum(need * 0.5 for need in job.demand)


def violation(job: Job) -> float:
    """Its qos violation time."""
    return job.submit + job.requested / job.qos


def fcfs(job: Job, now: int, free: Units, units: Units) -> float:
    return job.submit


def sjf(job: Job, now: int, free: Units, units: Units) -> float:
    return job.requested


def ljf(job: Job, now: int, free: Units, units: Units) -> float:
    return -job.requested


def smallest(job: Job, now: int, free: Units, units: Units) -> float:
    return share(job, units)


def largest(job: Job, now: int, free: Units, units: Units) -> float:
    return -share(job, units)


def area(job: Job, now: int, free: Units, units: Units) -> float:
    return share(job, units) * job.requested


def qos(job: Job, now: int, free: Units, units: Units) -> float:
    return -job.qos


def hvf(job: Job, now: int, free: Units, units: Units) -> float:
    return -price(job) * job.requested * job.qos


def value_density(job: Job, now: int, free: Units, units: Units) -> float:
    return -sum(need * 0.5 * job.qos for need in job.demand) / share(job, units)


def edf(job: Job, now: int, free: Units, units: Units) -> float:
    return violation(job)


def least_slack(job: Job, now: int, free: Units, units: Units) -> float:
    return violation(job) - job.requested


def xfactor(job: Job, now: int, free: Units, units: Units) -> float:
    return -wait(job, now) / job.requested


def wfp3(job: Job, now: int, free: Units, units: Units) -> float:
    return -((wait(job, now) / job.requested) ** 3) * job.demand[0]


def unicep(job: Job, now: int, free: Units, units: Units) -> float:
    return -wait(job, now) / (log2(job.demand[0] + 1e-15) * job.requested)


def f1(job: Job, now: int, free: Units, units: Units) -> float:
    return log10(job.requested) * job.demand[0] + 870 * log10(max(job.submit, 0.1))


def packing(job: Job, now: int, free: Units, units: Units) -> float:
    # As the simulator multiplies: other roundings would break other ties.
    return -sum(
        (need / total) * (unused / total) for need, unused, total in zip(job.demand, free, units, strict=True)
    )


KEYS: dict[str, Key] = {
    key.__name__: key
    for key in (
        fcfs,
        sjf,
        ljf,
        smallest,
        largest,
        qos,
        hvf,
        value_density,
        edf,
        least_slack,
        area,
        xfactor,
        wfp3,
        unicep,
        f1,
        packing,
    )
}
POLICIES = (*KEYS, "random")


def key_of(policy: str, num_jobs: int, seed: int) -> Key:
    """The policy's key; `random` draws one number per job, in arrival order."""
    if policy != "random":
        return KEYS[policy]
    drawn = np.random.default_rng(seed).random(num_jobs).tolist()
    return lambda job, now, free, units: drawn[job.index]


class Pass:
    """What a scheduler does at one event: who starts now."""

    def __init__(self, now: int, machine: Machine, waiting: list[Job], key: Key, window: int | None) -> None:
        self.now, self.machine, self.waiting, self.key, self.window = now, machine, waiting, key, window

    def candidates(self) -> list[Job]:
        return visible(self.waiting, self.window)

    def best(self, jobs: list[Job], free: Units | None = None) -> Job | None:
        """The job with the smallest key, the earliest arrival among equals."""
        free = self.machine.free if free is None else free
        return min(
            jobs,
            key=lambda job: (self.key(job, self.now, free, self.machine.units), job.submit, job.index),
            default=None,
        )

    def start(self, job: Job) -> None:
        self.machine.start(job, self.now)
        self.waiting.remove(job)

    def start_best_while_it_fits(self) -> Job | None:
        """Start the best job again and again; the first one that does not fit is returned."""
        while (job := self.best(self.candidates())) is not None:
            if not self.machine.fits(job):
                return job
            self.start(job)
        return None

    def none(self) -> None:
        """The head of the queue or nobody."""
        self.start_best_while_it_fits()

    def greedy(self) -> None:
        """The best among those that fit, until none fits."""
        while (job := self.best([c for c in self.candidates() if self.machine.fits(c)])) is not None:
            self.start(job)

    def easy(self) -> None:
        """A reservation for the head only; whoever does not delay it may start."""
        head = self.start_best_while_it_fits()
        if head is None:
            return
        reservation = reserve(head, self.now, self.machine)

        def behind() -> list[Job]:
            return [c for c in self.candidates() if admissible(c, self.now, self.machine, reservation)]

        while (job := self.best(behind())) is not None:
            start_behind(job, self.now, self.machine, reservation)
            self.waiting.remove(job)

    def conservative(self) -> None:
        """A place in the availability profile for every job, in priority order, made anew at every event."""
        profile = Profile.of_running(self.machine, self.now)
        free_at_first = self.machine.free
        placed: set[Job] = set()
        while True:
            job = self.best([c for c in self.candidates() if c not in placed], free_at_first)
            if job is None:
                return
            placed.add(job)
            earliest = profile.earliest(job)
            profile.add(job, earliest)
            if earliest == self.now:
                self.start(job)


def replay(
    table: JobTable,
    units: Sequence[int],
    policy: str,
    backfill: str,
    *,
    window: int | None = None,
    seed: int = 0,
) -> list[int]:
    """Start tick of every job, in the row order of the table."""
    arriving, followers = by_dependency(table)
    key = key_of(policy, len(table), seed)
    machine, waiting = Machine(tuple(units)), list[Job]()
    starts = [-1] * len(table)
    while arriving or waiting or machine.running:
        now = min([running.end for running in machine.running] + [job.submit for job in arriving])
        released, followers = released_by(machine.release(now), followers)
        arriving += released
        waiting += [job for job in arriving if job.submit <= now]
        arriving = [job for job in arriving if job.submit > now]
        getattr(Pass(now, machine, waiting, key, window), backfill)()
        for running in machine.running:
            starts[running.job.row] = running.start
    return starts
