"""The queue of a cluster: jobs that hold units, jobs that may start, and jobs that may not."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlsched.integrations.slurm.values import Location

MAX_LABELS = 20  # jobs that are listed for a reason; more are only counted


@dataclass(frozen=True, slots=True)
class AllocatedJob:
    """A job that holds units."""

    label: int | str  # job id as squeue prints it
    start: int  # Unix seconds, as the next two
    end: int  # expected
    submit: int
    cpus: int  # CPUs that it holds; 0 while it is suspended
    node_count: int
    nodes: str  # their names, as a Slurm hostlist; may be empty
    gres: dict[str, int]  # generic resources by name
    partition: str


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job, or a task of a job array, that may start."""

    label: int | str  # job id as squeue and scontrol print it
    location: Location  # of its record, for messages
    user: str
    partitions: tuple[str, ...]  # that it may run in
    since: int  # Unix seconds since when it may start
    limit_s: int | None  # its time limit, seconds; None: not set
    unlimited: bool  # it requests no time limit
    cpus: int  # fewest CPUs that it needs
    node_count: int  # fewest nodes that it needs
    whole_nodes: bool  # it shares its nodes with no other job
    gres: dict[str, int]  # generic resources by name
    priority: int | None  # None: unknown
    nice: int
    unsupported: tuple[str, ...]  # what it requests beside counts of units, which no policy knows


@dataclass
class ExcludedJobs:
    """Pending jobs that may not start, for one reason: their number, and the labels of the first."""

    count: int = 0
    jobs: list[int | str] = field(default_factory=list)

    def add(self, label: int | str, count: int = 1) -> None:
        """Count a job, or `count` tasks with the same label."""
        self.count += count
        if len(self.jobs) < MAX_LABELS:
            self.jobs.append(label)


@dataclass(eq=False)
class Queue:
    """All jobs that squeue printed."""

    allocated: list[AllocatedJob]  # jobs that hold units
    # jobs that may start, longest wait first, at most as many as a request may have
    pending: list[PendingJob]
    excluded: dict[str, ExcludedJobs]  # pending jobs that may not start, by reason
    omitted: int  # number of the newest jobs beyond those in `pending`
    now: int  # Unix seconds, not before any event in the queue
    cluster: str | None = None  # name of the cluster; None: no job has one
