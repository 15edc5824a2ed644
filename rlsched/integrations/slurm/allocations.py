"""Units that running jobs hold, and on which nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from rlsched.integrations.slurm.advice_settings import CPUS, NODES, UNITS
from rlsched.integrations.slurm.hostlist import expand
from rlsched.integrations.slurm.nodes import Inventory
from rlsched.integrations.slurm.queue import AllocatedJob
from rlsched.integrations.slurm.tres import GPU_KINDS, conversion_rates, occupied_units
from rlsched.serve.api.schema import RunningJob


@dataclass(eq=False)
class Allocations:
    """Counts the units of jobs, and subtracts them from the `remaining` units of the cluster.

    Units that several jobs share (a node, oversubscribed CPUs) come free when the last of these jobs ends, so
    they count for that job. Jobs are therefore counted from the last end to the first.
    """

    inventory: Inventory  # of the cluster, or of the partition
    partition: str | None  # that the advice is for; None: all
    kinds: tuple[str, ...]  # (resource,) what each resource counts
    remaining: list[int]  # (resource,) units
    partly_outside: int = 0  # jobs with some or all nodes outside the inventory
    capped: int = 0  # times that a job has more units than others leave, or than its nodes have
    unreadable: int = 0  # jobs whose hostlist cannot be read

    def __post_init__(self) -> None:
        self.groups = self.inventory.groups
        self._allocated_nodes: set[str] = set()
        self._gres_on: dict[tuple[str, str], Counter[str]] = {}
        self._occupied: Counter[tuple[str, str]] = Counter()
        # (group, resource) units that jobs hold; Slurm has a job's total, which `_distribute` divides by node
        self.by_group = [[0] * len(self.kinds) for _ in self.groups]
        self.unlocated = [0] * len(self.kinds)  # (resource,) units of jobs whose nodes are unknown
        self._jobs: list[tuple[list[int], Counter[int]]] = []

    @cached_property
    def _group_of(self) -> dict[str, int]:
        return {name: k for k, group in enumerate(self.groups) for name in group.names}

    def count(self, jobs: list[AllocatedJob]) -> list[RunningJob]:
        """Count jobs; returns those that hold units of the inventory, with these units."""
        running = []
        for job in sorted(jobs, key=lambda job: -job.end):
            demand = self._demand(job)
            if any(demand):
                running.append(
                    RunningJob(job.label, demand, start=job.start, expected_end=job.end, submit=job.submit)
                )
        for demand, nodes in sorted(self._jobs, key=lambda pair: len(pair[1])):
            for r, kind in enumerate(self.kinds):
                if kind != NODES or not nodes:
                    self._distribute(r, demand[r], nodes)
        return running

    def _demand(self, job: AllocatedJob) -> list[int]:
        """(resource,) units that a job holds in the inventory; empty where it has nothing to do with it."""
        hosts = self._hosts(job)
        inside = None if hosts is None else hosts & self._group_of.keys()
        if not inside and self.partition not in (None, job.partition):
            return []
        if hosts is not None and inside is not None:
            self.partly_outside += len(inside) < len(hosts)
        node_count = job.node_count if hosts is None else len(hosts)
        nodes = Counter(self._group_of[name] for name in inside or ())
        demand = [self._units(job, r, inside, node_count, nodes) for r in range(len(self.kinds))]
        if job.cpus:
            self._allocate_nodes(inside or set())
        self._jobs.append((demand, nodes))
        return demand

    def _units(
        self, job: AllocatedJob, r: int, inside: set[str] | None, node_count: int, nodes: Counter[int]
    ) -> int:
        """Units of resource `r` that a job holds in the inventory; subtracts them from `remaining`.

        `inside` names its nodes in the inventory (None: unknown), `node_count` counts all of its nodes, and
        `nodes` those in each group.
        """
        kind = self.kinds[r]
        if kind == NODES and inside is not None:
            units = len(inside - self._allocated_nodes) if job.cpus else 0
        else:
            nodes_inside = job.node_count if inside is None else len(inside)
            units = -(-self._total(job, kind) * nodes_inside // node_count)
            units += self._occupied_by(job, kind, inside, node_count)
        groups = [(count, self.groups[k]) for k, count in nodes.items()]
        capacity = sum(count * group.units_per_node(kind) for count, group in groups) if groups else units
        specialized = sum(count * group.specialized for count, group in groups) if kind == CPUS else 0
        self.capped += min(units, capacity) > self.remaining[r] or units > capacity + specialized
        units = min(units, self.remaining[r], capacity)
        self.remaining[r] -= units
        return units

    def _allocate_nodes(self, names: set[str]) -> None:
        """Count nodes as units, each once for all jobs on it."""
        for name in names - self._allocated_nodes:
            for r, kind in enumerate(self.kinds):
                if kind == NODES:
                    self.by_group[self._group_of[name]][r] += 1
        self._allocated_nodes |= names

    def _occupied_by(self, job: AllocatedJob, kind: str, inside: set[str] | None, node_count: int) -> int:
        """Units that a job occupies by other resources on the same devices, as shards do with GPUs.

        Jobs with shards of one GPU share it. They are taken to share as few GPUs as they need, or as many as
        sinfo has.
        """
        same_device = {name: count for name, count in job.gres.items() if name in GPU_KINDS and name != kind}
        if kind not in GPU_KINDS or not same_device:
            return 0
        if inside is None:
            return occupied_units(same_device, self.inventory.rates(kind))
        per_node = Counter({name: -(-count // node_count) for name, count in same_device.items()})
        added = 0
        for name in inside:
            group, key = self.groups[self._group_of[name]], (kind, name)
            rates = conversion_rates(kind, group.gres)
            total = self._gres_on.setdefault(key, Counter())
            total.update(per_node)
            reported = group.shared_gpus if kind == "gpu" else 0
            before = self._occupied[key]
            occupied = max(
                occupied_units(total, rates), min(reported, before + occupied_units(per_node, rates))
            )
            occupied = min(occupied, group.gres.get(kind, 0))
            added += occupied - before
            self._occupied[key] = occupied
        return added

    def _distribute(self, r: int, units: int, nodes: Counter[int]) -> None:
        """Distribute a job's units over its nodes: first what sinfo has as allocated, then evenly.

        No node gets more than it has; jobs with few nodes come before others. `nodes` counts them by group.
        """
        if not nodes:
            self.unlocated[r] += units
            return
        kind, held = self.kinds[r], self.by_group
        for k, count in nodes.items():
            group = self.groups[k]
            allocated = (group.units_allocated(kind) or 0) - held[k][r]
            share = min(allocated, count * group.units_per_node(kind), units)
            if share > 0:
                held[k][r] += share
                units -= share
        while units > 0:
            room = {
                k: min(self.groups[k].units(kind) - held[k][r], count * self.groups[k].units_per_node(kind))
                for k, count in nodes.items()
            }
            room = {k: free for k, free in room.items() if free > 0}
            if not room:
                return
            per_node = -(-units // sum(nodes[k] for k in room))
            for k, free in room.items():
                share = min(per_node * nodes[k], free, units)
                held[k][r] += share
                units -= share

    @staticmethod
    def _total(job: AllocatedJob, kind: str) -> int:
        if kind in UNITS:
            return job.cpus if kind == CPUS else job.node_count * (job.cpus > 0)
        return job.gres.get(kind, 0)

    def _hosts(self, job: AllocatedJob) -> set[str] | None:
        """Names of a job's nodes; None: unknown, or unreadable."""
        try:
            return set(expand(job.nodes)) or None
        except ValueError:
            self.unreadable += 1
            return None
