"""Nodes and partitions of a cluster, each node once, with the units that are out of service."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from rlsched.integrations.slurm.advice_settings import CPUS, NODES
from rlsched.integrations.slurm.tres import GPU_KINDS, conversion_rates
from rlsched.integrations.slurm.values import ClusterName, Location


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """The nodes of one record: one node, or the nodes of a partition in the same state."""

    location: Location  # of the record, for messages
    names: tuple[str, ...]
    partitions: tuple[str, ...]
    usable: bool  # jobs may start on them
    cpus: int  # of all nodes
    allocated: int  # CPUs that sinfo has as allocated
    smallest: int  # CPUs of the smallest node
    largest: int  # CPUs of the largest node
    idle: int  # nodes on which nothing runs
    gres: dict[str, int]  # generic resources of one node, by name
    used: dict[str, int]  # those of them in use; sinfo has them for a single node only
    drained: dict[str, int]  # those of them that jobs cannot get
    shared_gpus: int = 0  # GPUs of one node with shards in use, where sinfo has them
    specialized: int = 0  # CPUs of one node reserved for the system (CoreSpecCount), beyond `largest`

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
    """The limits of a partition."""

    default_s: int | None = None  # time limit of jobs that request none, seconds; None: the longest
    longest_s: int | None = None  # seconds; None: no limit, or unknown
    whole_nodes: bool = False  # its jobs share nodes with no other job


@dataclass(eq=False)
class Inventory:
    """All nodes, each once."""

    groups: list[NodeGroup] = field(default_factory=list)
    partitions: dict[str, Partition] = field(default_factory=dict)  # by name
    shared: int = 0  # nodes in more than one partition
    cluster: ClusterName = field(default_factory=ClusterName)  # name in the records of nodes
    specialized: int = 0  # nodes with jobs on CPUs that are reserved for the system
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
