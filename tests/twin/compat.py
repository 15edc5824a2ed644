"""Replaying jobs by the rules of RLScheduler's simulator (Zhang et al. 2020), as they were recorded.

Ties, the simplest rule that reproduces the recorded results: everywhere by row. The queue by (key, row),
the backfilling scan by (submit, row). Of two jobs that end at the same tick, the one that stands first in
the list of running jobs is released first (one at a time, with a look at the queue between them). That list
is sorted in place and stably: by start + requested when a head begins to wait for others to be backfilled,
by real end at every event.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, log10

from rlsched.jobs import JobTable

from .jobs import Job, Machine, Running, in_row_order


def fcfs(job: Job) -> float:
    return job.submit


def sjf(job: Job) -> float:
    return job.requested


def f1(job: Job) -> float:
    return log10(job.requested) * job.demand[0] + 870 * log10(job.submit or 0.1)


def wfp3(job: Job) -> float:
    return -(((-1 - job.submit) / job.requested) ** 3) * job.demand[0]


def unicep(job: Job) -> float:
    return -((-1 - job.submit) + 1e-15) / (log2(job.demand[0] + 1e-15) * job.requested)


KEYS: dict[str, Callable[[Job], float]] = {key.__name__: key for key in (fcfs, sjf, f1, wfp3, unicep)}


class Replay:
    """The clock, the machine and the queue; events are taken one at a time."""

    def __init__(self, table: JobTable, units: int, key: Callable[[Job], float]) -> None:
        self.arriving = in_row_order(table)  # not sorted by submit time: the head of the list comes next
        self.now = self.arriving[0].submit
        self.queue = [self.arriving.pop(0)]
        self.machine, self.key = Machine((units,)), key
        self.starts: dict[int, int] = {}

    def start(self, job: Job) -> None:
        self.queue.remove(job)
        self.machine.running.append(Running(job, self.now))  # not Machine.start: it may precede its submit
        self.starts[job.row] = self.now

    def next_event(self) -> None:
        """The next arrival if its submit time is not after the earliest end, otherwise one release."""
        self.machine.running.sort(key=lambda running: running.end)
        ending = self.machine.running[0] if self.machine.running else None
        if self.arriving and (ending is None or self.arriving[0].submit <= ending.end):
            job = self.arriving.pop(0)
            self.now = max(self.now, job.submit)
            self.queue.append(job)
        else:
            assert ending is not None
            self.now = max(self.now, ending.end)
            self.machine.running.remove(ending)

    def backfill(self, shadow: int) -> None:
        """First come, first served: whoever fits and is expected to end before the shadow time."""
        for job in sorted(self.queue, key=lambda job: (job.submit, job.row)):
            if self.machine.fits(job) and self.now + job.requested < shadow:
                self.start(job)

    def shadow(self, head: Job) -> int:
        """When the head is expected to fit; here an overdue job is expected at a tick that has passed."""
        free = self.machine.free[0]
        self.machine.running.sort(key=lambda running: running.start + running.job.requested)
        for running in self.machine.running:
            free += running.job.demand[0]
            if free >= head.demand[0]:
                return running.start + running.job.requested
        raise AssertionError("a job that never fits was let in")

    def run(self, backfill: bool) -> list[int]:
        while self.queue:
            head = min(self.queue, key=lambda job: (self.key(job), job.row))
            if not self.machine.fits(head):
                shadow = self.shadow(head) if backfill else 0
                while not self.machine.fits(head):
                    if backfill:
                        self.backfill(shadow)
                    self.next_event()
            self.start(head)
            while not self.queue and self.arriving:
                self.next_event()
        return [self.starts[row] for row in sorted(self.starts)]


def replay_rlscheduler(rows: JobTable, units: int, priority: str, backfill: bool) -> list[int]:
    """Start tick of every job, in the row order of the table."""
    return Replay(rows, units, KEYS[priority]).run(backfill)
