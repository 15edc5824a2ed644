"""The queue of a cluster: jobs that hold units, jobs that may start, and jobs that may not."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlsched.integrations.slurm.values import Location

MAX_LABELS = 20
"""Jobs that are listed for a reason; more are only counted."""


@dataclass(frozen=True, slots=True)
class AllocatedJob:
    """A job that holds units.

    Attributes:
        label: job id as squeue prints it.
        start, end, submit: Unix seconds; `end` is the expected one.
        cpus: CPUs that it holds; 0 while it is suspended.
        node_count: number of its nodes.
        nodes: their names, as a Slurm hostlist; may be empty.
        gres: generic resources by name.
        partition: that it runs in.
    """

    label: int | str
    start: int
    end: int
    submit: int
    cpus: int
    node_count: int
    nodes: str
    gres: dict[str, int]
    partition: str


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job, or a task of a job array, that may start.

    Attributes:
        label: job id as squeue and scontrol print it.
        location: of its record, for messages.
        user: its owner.
        partitions: that it may run in.
        since: Unix seconds since when it may start.
        limit_s: its time limit, seconds; None: not set.
        unlimited: it requests no time limit.
        cpus, node_count: least CPUs and nodes that it needs.
        whole_nodes: it shares its nodes with no other job.
        gres: generic resources by name.
        priority: Slurm's priority; None: unknown.
        nice: Slurm's nice value.
        unsupported: what it requests beside counts of units, which no policy knows.
    """

    label: int | str
    location: Location
    user: str
    partitions: tuple[str, ...]
    since: int
    limit_s: int | None
    unlimited: bool
    cpus: int
    node_count: int
    whole_nodes: bool
    gres: dict[str, int]
    priority: int | None
    nice: int
    unsupported: tuple[str, ...]


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
    """All jobs that squeue printed.

    Attributes:
        allocated: jobs that hold units.
        pending: jobs that may start, longest wait first, at most as many as a request may have.
        excluded: pending jobs that may not start, by reason.
        omitted: number of the newest jobs beyond those in `pending`.
        now: Unix seconds, not before any event in the queue.
        cluster: name of the cluster; None: no job has one.
    """

    allocated: list[AllocatedJob]
    pending: list[PendingJob]
    excluded: dict[str, ExcludedJobs]
    omitted: int
    now: int
    cluster: str | None = None
