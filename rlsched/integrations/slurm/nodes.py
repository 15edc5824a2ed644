"""Nodes and partitions of a cluster, each node once, with the units that are out of service."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from rlsched.integrations.slurm.advice_settings import CPUS, NODES
from rlsched.integrations.slurm.tres import GPU_KINDS, conversion_rates
from rlsched.integrations.slurm.values import ClusterName, Location


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The nodes of one record: one node, or the nodes of a partition in the same state.

    Attributes:
        location: of the record, for messages.
        names: of the nodes.
        partitions: that they belong to.
        usable: jobs may start on them.
        cpus, allocated: CPUs of all nodes, and those that sinfo has as allocated.
        smallest, largest: CPUs of the smallest and of the largest node.
        idle: nodes on which nothing runs.
        gres: generic resources of one node, by name.
        used: those of them in use; sinfo has them for a single node only.
        drained: those of them that jobs cannot get.
        shared_gpus: GPUs of one node with shards in use, where sinfo has them.
        specialized: CPUs of one node reserved for the system (CoreSpecCount), beyond `largest`.
    """

    location: Location
    names: tuple[str, ...]
    partitions: tuple[str, ...]
    usable: bool
    cpus: int
    allocated: int
    smallest: int
    largest: int
    idle: int
    gres: dict[str, int]
    used: dict[str, int]
    drained: dict[str, int]
    shared_gpus: int = 0
    specialized: int = 0

    def units(self, kind: str) -> int:
        """Units of all nodes; each node is taken to have the same generic resources."""
        if kind == NODES:
            return len(self.names)
        return self.cpus if kind == CPUS else self.gres.get(kind, 0) * len(self.names)

    def units_per_node(self, kind: str) -> int:
        """Units of the largest node."""
        if kind == NODES:
            return 1
        return self.largest if kind == CPUS else self.gres.get(kind, 0)

    def units_in_service(self, kind: str) -> int:
        """Units that jobs may get."""
        if not self.usable:
            return 0
        return max(0, self.units(kind) - self.drained.get(kind, 0) * len(self.names))

    def units_allocated(self, kind: str) -> int | None:
        """Units that sinfo has as allocated; None: unknown."""
        if kind == NODES:
            return len(self.names) - self.idle
        return self.allocated if kind == CPUS else self.used.get(kind)

    @property
    def uniform(self) -> bool:
        """Whether all nodes of the group have the same size and use."""
        return len(self.names) == 1 or (self.smallest == self.largest and self.allocated in (0, self.cpus))

    def subset(self, names: tuple[str, ...]) -> NodeGroup:
        """Some nodes of a uniform group."""
        count = len(self.names)
        return replace(
            self,
            names=names,
            cpus=self.cpus // count * len(names),
            allocated=self.allocated // count * len(names),
            idle=len(names) if self.idle else 0,
            shared_gpus=0,
            specialized=0,
        )


@dataclass(frozen=True, slots=True)
class Partition:
    """The limits of a partition.

    Attributes:
        default_s: time limit of jobs that request none, seconds; None: the longest.
        longest_s: seconds; None: no limit, or unknown.
        whole_nodes: its jobs share nodes with no other job.
    """

    default_s: int | None = None
    longest_s: int | None = None
    whole_nodes: bool = False


@dataclass(eq=False)
class Inventory:
    """All nodes, each once.

    Attributes:
        groups: of nodes.
        partitions: by name.
        shared: nodes in more than one partition.
        cluster: name in the records of nodes.
        specialized: nodes with jobs on CPUs that are reserved for the system.
    """

    groups: list[NodeGroup] = field(default_factory=list)
    partitions: dict[str, Partition] = field(default_factory=dict)
    shared: int = 0
    cluster: ClusterName = field(default_factory=ClusterName)
    specialized: int = 0
    _rates: dict[str, dict[str, Fraction]] = field(default_factory=dict)

    def rates(self, kind: str) -> dict[str, Fraction]:
        """Units of `kind` that a unit of each other resource occupies, where all its nodes have both."""
        if kind not in self._rates:
            rates: dict[str, Fraction] = {}
            for name in GPU_KINDS - {kind} if kind in GPU_KINDS else ():
                groups = [group for group in self.groups if group.gres.get(name)]
                if all(group.gres.get(kind) for group in groups):
                    capacity = {gres: sum(group.units(gres) for group in groups) for gres in (kind, name)}
                    rates |= conversion_rates(kind, capacity)
            self._rates[kind] = rates
        return self._rates[kind]
