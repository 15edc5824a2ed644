"""A job, a running job, and the machine they share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rlsched.jobs import JobTable

Units = tuple[int, ...]  # one number per resource


@dataclass(frozen=True)
class Job:
    """One row of a JobTable; `index` is its place in the order that breaks ties."""

    index: int
    row: int
    id: int
    submit: int
    runtime: int
    requested: int
    demand: Units
    qos: float


def in_row_order(table: JobTable) -> list[Job]:
    """The jobs as they stand in the table."""
    return [
        Job(
            index=row,
            row=row,
            id=int(table.id[row]),
            submit=int(table.submit[row]),
            runtime=int(table.runtime[row]),
            requested=int(table.requested[row]),
            demand=tuple(int(units) for units in table.demand[row]),
            qos=float(table.qos[row]),
        )
        for row in range(len(table))
    ]


def in_arrival_order(table: JobTable) -> list[Job]:
    """The jobs as they arrive: by submit time, then by id."""
    arriving = sorted(in_row_order(table), key=lambda job: (job.submit, job.id))
    return [
        Job(index, job.row, job.id, job.submit, job.runtime, job.requested, job.demand, job.qos)
        for index, job in enumerate(arriving)
    ]


@dataclass(frozen=True)
class Follower:
    """A job that is submitted when another one ends, or `think` ticks later; -1: nor before its `submit`."""

    job: Job
    after: int  # row of the other
    think: int

    def released(self, end: int) -> Job:
        """The job with the submit time that this end gives it."""
        submit = max(end, self.job.submit) if self.think < 0 else end + self.think
        return replace(self.job, submit=submit)


def by_dependency(table: JobTable) -> tuple[list[Job], list[Follower]]:
    """The jobs whose submit times are known, and the others."""
    arriving, followers = [], []
    for job in in_arrival_order(table):
        named = int(table.preceding[job.row])
        before = [row for row in range(job.row) if table.id[row] == named]
        if before:
            followers.append(Follower(job, before[0], int(table.think[job.row])))
        else:
            arriving.append(job)
    return arriving, followers


def released_by(ended: list[Running], followers: list[Follower]) -> tuple[list[Job], list[Follower]]:
    """The jobs that these ends give a submit time, and those that still wait for another."""
    ends = {running.job.row: running.end for running in ended}
    released = [job.released(ends[job.after]) for job in followers if job.after in ends]
    return released, [job for job in followers if job.after not in ends]


@dataclass(frozen=True)
class Running:
    """A job and the tick it started at."""

    job: Job
    start: int

    @property
    def end(self) -> int:
        """The tick at which it really ends."""
        return self.start + self.job.runtime

    def expected_end(self, now: int) -> int:
        """The tick at which a scheduler expects it to end: an overdue job, about now."""
        return max(self.start + self.job.requested, now + 1)


@dataclass
class Machine:
    """What runs, on how many units of each resource."""

    units: Units
    running: list[Running] = field(default_factory=list)

    @property
    def free(self) -> Units:
        """Units of each resource that nobody uses."""
        return tuple(
            total - sum(running.job.demand[r] for running in self.running)
            for r, total in enumerate(self.units)
        )

    def fits(self, job: Job) -> bool:
        """Whether the job could start now."""
        return all(need <= free for need, free in zip(job.demand, self.free, strict=True))

    def start(self, job: Job, now: int) -> None:
        """The job runs from now on."""
        assert self.fits(job)
        assert job.submit <= now
        self.running.append(Running(job, now))

    def release(self, now: int) -> list[Running]:
        """Remove and return what has ended by now."""
        ended = [running for running in self.running if running.end <= now]
        self.running = [running for running in self.running if running.end > now]
        return ended
