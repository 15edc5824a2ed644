"""Nodes as sinfo tells of them: each once, with what is out of service.

sinfo of Slurm 23.02 and later prints a record for each partition and state, or with --Node for each partition
and node; sinfo of 22.05, and scontrol show nodes, print a record for each node ("nodes").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

from msgspec import Meta, Struct

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.answers import Answer, Records
from rlsched.integrations.slurm.asked import CPUS, NODES
from rlsched.integrations.slurm.hostlist import expand
from rlsched.integrations.slurm.node_states import usable_and_busy
from rlsched.integrations.slurm.tres import POOL, in_pool, listed, rates, shared_gpus
from rlsched.integrations.slurm.values import LONGEST_MINUTES, Number, OneCluster, Place, Words, plain, words
from rlsched.serve.api.schema import MANY

Count = Annotated[int, Meta(ge=0, le=MANY)]

PARTITION_OUT = frozenset(("DOWN", "INACTIVE"))


class _Cpus(Struct, frozen=True, gc=False):
    total: Count
    allocated: Count = 0
    minimum: Count = 0
    maximum: Count = 0


class _State(Struct, frozen=True, gc=False):
    state: str | list[str]


class _Names(Struct, frozen=True, gc=False):
    nodes: str | list[str]
    total: Count = 0


class _Times(Struct, frozen=True, gc=False):
    time: Number = None
    shares: Number = None


class _Up(Struct, frozen=True, gc=False):
    state: Words = None


class _Partition(Struct, frozen=True, gc=False):
    name: str
    defaults: _Times = _Times()
    maximums: _Times = _Times()
    partition: _Up = _Up()


class _Gres(Struct, frozen=True, gc=False):
    total: str | None = None
    used: str | None = None


class _Group(Struct, frozen=True, gc=False):
    """A record of sinfo since 23.02."""

    nodes: _Names
    node: _State
    cpus: _Cpus
    partition: _Partition
    cluster: str | None = None
    gres: _Gres = _Gres()


class _Node(Struct, frozen=True, gc=False):
    """A record of sinfo before, and of scontrol show nodes."""

    name: str
    state: str | list[str]
    cpus: Count
    cluster_name: str | None = None
    alloc_cpus: Count = 0
    effective_cpus: Number = None
    state_flags: list[str] | None = None
    partitions: str | list[str] | None = None
    gres: str | None = None
    gres_used: str | None = None
    gres_drained: str | None = None


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes that were told of together: one, or those of a partition in the same state.

    Attributes:
        place: of the record, for messages.
        names: of them.
        partitions: they belong to.
        usable: jobs may start there.
        cpus, allocated: of all of them.
        smallest, largest: CPUs of one.
        idle: nodes on which nothing runs.
        gres: of one, by name.
        used: of these, where sinfo tells of it: it does for one node, and not for each of several.
        drained: of these, jobs get none.
        shared_gpus: GPUs of one of which parts are in use, where sinfo tells of it.
        specialized: CPUs of one beyond `largest`, kept for the system (CoreSpecCount): few jobs get them.
    """

    place: Place
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

    def units_of(self, kind: str) -> int:
        """Units of all of these nodes; of gres each is taken to have as many."""
        if kind == NODES:
            return len(self.names)
        return self.cpus if kind == CPUS else self.gres.get(kind, 0) * len(self.names)

    def most_of(self, kind: str) -> int:
        """Units of the largest of these nodes."""
        if kind == NODES:
            return 1
        return self.largest if kind == CPUS else self.gres.get(kind, 0)

    def in_service_of(self, kind: str) -> int:
        """Units that jobs may get."""
        if not self.usable:
            return 0
        return max(0, self.units_of(kind) - self.drained.get(kind, 0) * len(self.names))

    def allocated_of(self, kind: str) -> int | None:
        """Units that sinfo has as allocated; None: it does not tell."""
        if kind == NODES:
            return len(self.names) - self.idle
        return self.allocated if kind == CPUS else self.used.get(kind)

    @property
    def even(self) -> bool:
        """Whether what is true of all is true of each."""
        return len(self.names) == 1 or (self.smallest == self.largest and self.allocated in (0, self.cpus))

    def of(self, names: tuple[str, ...]) -> Nodes:
        """Some of these, where all are alike."""
        share, many = len(names), len(self.names)
        return Nodes(
            self.place,
            names,
            self.partitions,
            self.usable,
            self.cpus // many * share,
            self.allocated // many * share,
            self.smallest,
            self.largest,
            share if self.idle else 0,
            self.gres,
            self.used,
            self.drained,
        )


@dataclass(frozen=True, slots=True)
class Partition:
    """What jobs of a partition get.

    Attributes:
        default_s: seconds of jobs that ask for no time; None: the longest.
        longest_s: seconds; None: no limit, or not told.
        whole_nodes: jobs share nodes with none.
    """

    default_s: int | None = None
    longest_s: int | None = None
    whole_nodes: bool = False


@dataclass(eq=False)
class Site:
    """All nodes, each once.

    Attributes:
        groups: of nodes.
        partitions: by name.
        shared: nodes that more than one partition has.
        cluster: of the nodes.
        specialized: nodes on which jobs have CPUs that are kept for the system.
    """

    groups: list[Nodes] = field(default_factory=list)
    partitions: dict[str, Partition] = field(default_factory=dict)
    shared: int = 0
    cluster: OneCluster = field(default_factory=OneCluster)
    specialized: int = 0
    _rates: dict[str, dict[str, Fraction]] = field(default_factory=dict)

    def rates(self, kind: str) -> dict[str, Fraction]:
        """Units of a generic resource that one of another takes away, where all nodes with that have both."""
        if kind not in self._rates:
            found: dict[str, Fraction] = {}
            for name in POOL - {kind} if kind in POOL else ():
                having = [group for group in self.groups if group.gres.get(name)]
                if all(group.gres.get(kind) for group in having):
                    there = {one: sum(group.units_of(one) for group in having) for one in (kind, name)}
                    found |= rates(kind, there)
            self._rates[kind] = found
        return self._rates[kind]


def read_site(answer: Answer, partition: str | None) -> Site:
    """Sort nodes out.

    Args:
        answer: of sinfo.
        partition: whose nodes; None: all.

    Raises:
        BadInputError: a record means nothing, there is no such partition, or no node, or nodes of several
            clusters.
    """
    site = Site()
    told = list(_groups(answer, site) if answer.key == "sinfo" else _single(answer, site))
    owners: Counter[str] = Counter()
    for group in told:
        for name in group.names:
            owners[name] += max(1, len(group.partitions))
    if partition is not None:
        if partition not in site.partitions:
            known = ", ".join(sorted(site.partitions)[:20]) or "none at all"
            problem = f"value {partition!r} is no partition of {answer.file}"
            raise BadInputError("--partition", problem, f"name one of {known}")
        told = [group for group in told if partition in group.partitions]
    _add_once(site, told)
    if not site.groups:
        where = "" if partition is None else f" of partition {partition}"
        remedy = "give what sinfo --all --Node --json printed"
        raise BadInputError(f"{answer.file}: {answer.key}", f"holds no node{where}", remedy)
    site.shared = sum(owners[name] > 1 for group in site.groups for name in group.names)
    return site


def _groups(answer: Answer, site: Site) -> Iterator[Nodes]:
    records = Records(answer, _Group)
    for k in range(len(answer.records)):
        record, place = records[k], answer.place(k)
        site.cluster.add(place, "cluster", record.cluster)
        name = plain(record.partition.name.removesuffix("*"))
        site.partitions[name] = _partition(place, record.partition)
        names = _names(place, record.nodes)
        if not names:
            continue  # a partition without nodes
        cpus = record.cpus
        if cpus.allocated > cpus.total:
            place.refuse("cpus.allocated", f"value {cpus.allocated} is more than the {cpus.total} in all")
        usable, busy = usable_and_busy(place, "node.state", [record.node.state])
        gres = listed(place, "gres.total", record.gres.total)
        used = record.gres.used if len(names) == 1 else None
        up = not set(words(record.partition.partition.state)) & PARTITION_OUT
        yield Nodes(
            place=place,
            names=names,
            partitions=(name,),
            usable=usable and up,
            cpus=cpus.total,
            allocated=cpus.allocated,
            smallest=cpus.minimum or cpus.total // len(names),
            largest=cpus.maximum or -(-cpus.total // len(names)),
            idle=0 if busy or cpus.allocated else len(names),
            gres=gres,
            used=_in_use(place, "gres.used", used, gres),
            drained={},
            shared_gpus=shared_gpus(used),
        )


def _partition(place: Place, record: _Partition) -> Partition:
    default = place.whole("partition.defaults.time", record.defaults.time, LONGEST_MINUTES)
    most = place.whole("partition.maximums.time", record.maximums.time, LONGEST_MINUTES)
    return Partition(
        default_s=60 * default if default else None,
        longest_s=60 * most if most else None,
        whole_nodes=place.whole("partition.maximums.shares", record.maximums.shares, bits=16) == 0,
    )


def _single(answer: Answer, site: Site) -> Iterator[Nodes]:
    records = Records(answer, _Node)
    for k in range(len(answer.records)):
        record, place = records[k], answer.place(k)
        site.cluster.add(place, "cluster_name", record.cluster_name)
        effective = place.whole("effective_cpus", record.effective_cpus, bits=16)
        total = record.cpus if effective is None else min(record.cpus, effective)
        if record.alloc_cpus > record.cpus:
            place.refuse("alloc_cpus", f"value {record.alloc_cpus} is more than the {record.cpus} in all")
        site.specialized += record.alloc_cpus > total  # AllowSpecResourcesUsage
        gres = listed(place, "gres", record.gres)
        told = record.partitions or []
        partitions = tuple(plain(name) for name in (told.split(",") if isinstance(told, str) else told))
        for name in partitions:
            site.partitions.setdefault(name, Partition())
        usable, busy = usable_and_busy(place, "state", [record.state, record.state_flags or []])
        yield Nodes(
            place=place,
            names=(_name(place, record.name),),
            partitions=partitions,
            usable=usable,
            cpus=total,
            allocated=min(record.alloc_cpus, total),
            smallest=total,
            largest=total,
            specialized=record.cpus - total,
            idle=0 if busy or record.alloc_cpus else 1,
            gres=gres,
            used=_in_use(place, "gres_used", record.gres_used, gres),
            drained=in_pool(listed(place, "gres_drained", record.gres_drained), gres),
            shared_gpus=shared_gpus(record.gres_used),
        )


def _in_use(place: Place, name: str, text: str | None, there: dict[str, int]) -> dict[str, int]:
    """Generic resources in use of a node, each with what others of the same devices take away."""
    used = listed(place, name, text)
    found = {kind: count for kind, count in in_pool(used, there).items() if kind in used}
    if shared := shared_gpus(text) * ("gpu" in used):
        found["gpu"] = min(used["gpu"] + shared, there.get("gpu", 0))
    return found


def _name(place: Place, name: str) -> str:
    if not name:
        place.refuse("name", "is empty")
    return name


def _names(place: Place, record: _Names) -> tuple[str, ...]:
    texts = [record.nodes] if isinstance(record.nodes, str) else record.nodes
    try:
        names = tuple(dict.fromkeys(name for text in texts for name in expand(text)))
    except ValueError as error:
        place.refuse("nodes.nodes", str(error))
    if record.total and len(names) != record.total:
        place.refuse("nodes.total", f"value {record.total} beside {len(names)} names in nodes.nodes")
    return names


def _add_once(site: Site, told: list[Nodes]) -> None:
    """Nodes of several partitions are told of in each: they count once, usable where one of these is up."""
    seen: set[str] = set()
    for group in sorted(told, key=lambda group: not group.usable):
        new = tuple(name for name in group.names if name not in seen)
        if len(new) < len(group.names) and new and not group.even:
            problem = "some of them are of another record, too, and what each has is not told"
            group.place.refuse("nodes", problem, "give what sinfo --all --Node --json printed")
        if new:
            site.groups.append(group if len(new) == len(group.names) else group.of(new))
            seen.update(new)
