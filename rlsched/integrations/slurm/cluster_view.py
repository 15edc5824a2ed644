"""The cluster view: the output of squeue and sinfo as a request that a policy can decide about.

A policy counts units: CPUs or nodes, and generic resources (gres/gpu), by the names of its resources. Free
units are on usable nodes, idle in sinfo and held by no job of squeue, node by node. Units that sinfo has as
allocated and no job holds are unexplained. The rest is out of service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rlsched.errors import BadInputError
from rlsched.integrations.slurm import view_notes
from rlsched.integrations.slurm.advice_settings import CPUS, NODES, AdviceSettings
from rlsched.integrations.slurm.allocations import Allocations
from rlsched.integrations.slurm.command_output import CommandOutput
from rlsched.integrations.slurm.node_reader import read_nodes
from rlsched.integrations.slurm.nodes import Inventory, Partition
from rlsched.integrations.slurm.queue import ExcludedJobs, PendingJob, Queue
from rlsched.integrations.slurm.queue_reader import QueueReader
from rlsched.integrations.slurm.tres import occupied_units
from rlsched.integrations.slurm.values import SAME_CLUSTER, printable
from rlsched.serve.api.schema import MANY, DecisionRequest, RunningJob, WaitingJob


class JobRow(NamedTuple):
    """A job that may start, with its requested time and (resource,) demand."""

    job: PendingJob
    requested_s: int
    demand: list[int]


@dataclass(frozen=True, eq=False)
class SlurmView:
    """A cluster that a policy can decide about."""

    request: DecisionRequest  # for a policy or service
    rows: dict[int | str, JobRow]  # jobs that may start, by label
    kinds: tuple[str, ...]  # (resource,) what each resource counts
    out_of_service: list[int]  # (resource,) units
    unexplained: list[int]  # (resource,) units that sinfo has as allocated, and no job of squeue holds
    excluded: dict[str, ExcludedJobs]  # jobs that are not in the request, by reason
    notes: list[str]  # lines that people should read before they act
    age_s: int = 0  # seconds since Slurm's last change of a job


def build_view(squeue: CommandOutput, sinfo: CommandOutput, settings: AdviceSettings, now: int) -> SlurmView:
    """Build the view of a cluster, from the output of its commands, at `now`, Unix seconds.

    Raises:
        BadInputError: a record is invalid, or the two outputs are of two clusters.
    """
    kinds = settings.kinds()
    _check_cluster(squeue, sinfo, squeue.cluster, sinfo.cluster)
    inventory = read_nodes(sinfo, settings.partition)
    queue = QueueReader(squeue, now, settings.partition, settings.max_jobs).read()
    _check_cluster(squeue, sinfo, queue.cluster, inventory.cluster.name)
    builder = _ViewBuilder(squeue, inventory, queue, settings, kinds)
    builder.notes += view_notes.cluster_names(queue, inventory, sinfo.cluster)
    return builder.build(max(0, now - (squeue.last_update or now)))


def _check_cluster(squeue: CommandOutput, sinfo: CommandOutput, jobs: str | None, nodes: str | None) -> None:
    """Raises BadInputError where the same field of both outputs names two clusters."""
    if jobs and nodes and jobs.lower() != nodes.lower():
        problem = f"clusters {jobs!r} and {nodes!r} cannot be counted together"
        raise BadInputError(f"{squeue.file}, {sinfo.file}", problem, SAME_CLUSTER)


@dataclass(eq=False)
class _ViewBuilder:
    squeue: CommandOutput
    inventory: Inventory
    queue: Queue
    settings: AdviceSettings
    kinds: tuple[str, ...]
    notes: list[str] = field(default_factory=list)

    def build(self, age_s: int) -> SlurmView:
        units = [self._total(kind) for kind in self.kinds]
        self.notes += view_notes.shared_nodes(self.inventory, self.settings.partition)
        allocations = Allocations(self.inventory, self.settings.partition, self.kinds, list(units))
        running = self._running(allocations)
        held = [sum(job.demand[r] for job in running) for r in range(len(units))]
        remaining = [total - units_held for total, units_held in zip(units, held, strict=True)]
        counts = [self._free_and_unexplained(r, allocations, remaining[r]) for r in range(len(units))]
        rows = self._rows(self.settings.max_jobs - len(running))
        self.notes += view_notes.differences(self.settings, units, age_s)
        self.notes += view_notes.unsupported([row.job for row in rows], self.kinds, self._counted)
        request = DecisionRequest(
            now=self.queue.now,
            running=running,
            waiting=[
                WaitingJob(row.job.label, submit=row.job.since, requested=row.requested_s, demand=row.demand)
                for row in rows
            ],
            units=units,
            free=[free for free, _ in counts],
            cluster=self._cluster_name(),
            policy=self.settings.policy,
            explain=True,
        )
        return SlurmView(
            request=request,
            rows={row.job.label: row for row in rows},
            kinds=self.kinds,
            out_of_service=[rest - sum(pair) for rest, pair in zip(remaining, counts, strict=True)],
            unexplained=[unexplained for _, unexplained in counts],
            excluded=self.queue.excluded,
            notes=self.notes,
            age_s=age_s,
        )

    def _cluster_name(self) -> str:
        name = self.queue.cluster or self.squeue.cluster or "slurm"
        partition = self.settings.partition
        return name if partition is None else f"{name}/{printable(partition)}"[:200]

    def _total(self, kind: str) -> int:
        """Units of the cluster."""
        groups = self.inventory.groups
        total = sum(group.units(kind) for group in groups)
        if kind == NODES:
            return total
        if kind != CPUS and any(len(group.names) > 1 and group.gres.get(kind) for group in groups):
            self.notes.append(view_notes.GRES_OF_GROUPS.format(kind=kind))
        if not 1 <= total <= MANY:
            name = "CPU" if kind == CPUS else f"gres/{kind}"
            problem = f"its nodes have {total} {name} in all"
            raise BadInputError("--sinfo", problem, f"choose a policy without the resource {kind}")
        return total

    def _free_and_unexplained(self, r: int, allocations: Allocations, remaining: int) -> tuple[int, int]:
        """Free units of resource `r`, and units that are in use in sinfo and held by no job.

        squeue and sinfo run one after the other, so a node may be idle in one and held in the other: it
        counts as held. No job holds the `remaining` units.
        """
        kind, unlocated = self.kinds[r], allocations.unlocated[r]
        free, idle, held, unexplained = 0, 0, unlocated, 0
        for group, units_held in zip(self.inventory.groups, allocations.by_group, strict=True):
            if not group.usable:
                continue
            in_service, allocated = group.units_in_service(kind), group.units_allocated(kind)
            free += max(0, in_service - max(units_held[r], allocated or 0))
            if allocated is not None:
                idle += max(0, in_service - allocated)
                unexplained += max(0, min(allocated, in_service) - units_held[r])
            held += units_held[r]
        # Jobs on unknown nodes hold units that no other job explains first, and idle ones after that.
        free = min(max(0, free - max(0, unlocated - unexplained)), remaining)
        unexplained = min(max(0, unexplained - unlocated), remaining - free)
        self.notes += view_notes.disagreements(kind, idle=idle, held=held, unexplained=unexplained, free=free)
        return free, unexplained

    def _running(self, allocations: Allocations) -> list[RunningJob]:
        running = allocations.count(self.queue.allocated)
        self.notes += view_notes.allocated_jobs(allocations)
        if len(running) > self.settings.max_jobs:
            problem = f"{len(running)} jobs hold units, and a request may have {self.settings.max_jobs}"
            raise BadInputError(self.squeue.file, problem, "name a partition with --partition")
        return running

    def _rows(self, room: int) -> list[JobRow]:
        """Jobs that may start, longest wait first, as many as the request has room for."""
        pending = self.queue.pending[: max(0, room)]
        omitted = self.queue.omitted + len(self.queue.pending) - len(pending)
        self.notes += view_notes.omitted_jobs(omitted, self.settings.max_jobs)
        return [JobRow(job, self._requested(job), self._demand(job)) for job in pending]

    def _requested(self, job: PendingJob) -> int:
        """Requested time, seconds: the job's limit, its partition's, or the default."""
        if job.limit_s:
            return job.limit_s
        partitions = [self.inventory.partitions.get(name, Partition()) for name in job.partitions]
        limits = [
            limit
            for partition in partitions
            if (limit := partition.longest_s if job.unlimited else partition.default_s or partition.longest_s)
        ]
        limit = max(limits, default=self.settings.default_limit_s)
        if limit is None:
            job.location.refuse(
                "time_limit",
                f"of job {job.label} is not set, and neither is that of its partition",
                "give the time limit of such jobs, as in --default-limit 1440 (minutes)",
            )
        return limit

    def _demand(self, job: PendingJob) -> list[int]:
        """(resource,) units that a job requests."""
        names = [name for name in job.partitions if name in self.inventory.partitions]
        whole_nodes = job.whole_nodes or any(self.inventory.partitions[name].whole_nodes for name in names)
        demand = []
        for kind in self.kinds:
            if kind == NODES:
                units = job.node_count
            elif kind == CPUS:
                smallest = min((self._smallest[name] for name in names if name in self._smallest), default=1)
                units = max(job.cpus, job.node_count * smallest if whole_nodes else 0)
            else:
                per_node = {name: -(-count // job.node_count) for name, count in job.gres.items()}
                occupied = job.node_count * occupied_units(per_node, self.inventory.rates(kind))
                units = job.gres.get(kind, 0) + occupied
            if units > MANY:
                job.location.refuse("tres_req_str", f"{units} {kind} is more than {MANY}")
            demand.append(units)
        return demand

    @cached_property
    def _smallest(self) -> dict[str, int]:
        """Partition -> CPUs of its smallest node: the least that a whole node gives a job."""
        smallest: dict[str, int] = {}
        for group in self.inventory.groups:
            for name in group.partitions:
                smallest[name] = min(group.smallest, smallest.get(name, MANY))
        return smallest

    @cached_property
    def _counted(self) -> set[str]:
        """Generic resources that the policy counts, directly or through others on the same devices."""
        return {*self.kinds, *(name for kind in self.kinds for name in self.inventory.rates(kind))}
