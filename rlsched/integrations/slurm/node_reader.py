"""Reads nodes from the output of sinfo.

sinfo of Slurm 23.02 and later prints a record for each partition and state, or with --Node for each partition
and node. sinfo of 22.05, and scontrol show nodes, print a record for each node ("nodes").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.json import Decoder

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.command_output import CommandOutput
from rlsched.integrations.slurm.hostlist import expand
from rlsched.integrations.slurm.nodes import Inventory, NodeGroup, Partition
from rlsched.integrations.slurm.tres import gres_counts, shared_gpus, with_occupied
from rlsched.integrations.slurm.values import (
    Location,
    Number,
    Words,
    printable,
    upper_words,
)
from rlsched.serve.api.schema import MANY

Count = Annotated[int, Meta(ge=0, le=MANY)]

ACCEPTING = frozenset(("IDLE", "MIXED", "MIX", "ALLOCATED", "ALLOC", "PLANNED", "COMPLETING", "COMP"))
OUT_OF_SERVICE = frozenset(
    (
        *("DOWN", "DRAIN", "DRAINED", "DRAINING", "DRNG", "FAIL", "FAILING", "FAILG", "ERROR", "UNKNOWN"),
        *("UNK", "FUTURE", "FUTR", "DYNAMIC_FUTURE", "MAINTENANCE", "MAINT", "RESERVED", "RESV"),
        *("NOT_RESPONDING", "NO_RESPOND", "INVAL", "INVALID", "INVALID_REG", "POWERING_DOWN", "POWER_DOWN"),
        *("POWER_DRAIN", "REBOOT_ISSUED", "PERFCTRS", "BLOCKED"),
    )
)
"""A node in one of these states starts no job, though units are idle. Slurm wakes powered-down nodes up."""

BUSY = frozenset(("MIXED", "MIX", "ALLOCATED", "ALLOC", "COMPLETING", "COMP", "DRAINING", "DRNG"))

SUFFIXES = {
    **{"*": "NOT_RESPONDING", "!": "POWER_DOWN", "%": "POWERING_DOWN"},
    **{"$": "MAINTENANCE", "^": "REBOOT_ISSUED"},
}
"""Suffixes of a compact state that put a node out of service; ~, #, @ and - do not."""

_STATE = re.compile(r"([A-Z_ ]+)([~#@*!%$^-]*)")

PARTITION_DOWN = frozenset(("DOWN", "INACTIVE"))

REMEDY = "give the output of sinfo --all --Node --json"


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


class _Limits(Struct, frozen=True, gc=False):
    time: Number = None
    shares: Number = None


class _PartitionState(Struct, frozen=True, gc=False):
    state: Words = None


class _Partition(Struct, frozen=True, gc=False):
    name: str
    defaults: _Limits = _Limits()
    maximums: _Limits = _Limits()
    partition: _PartitionState = _PartitionState()


class _Gres(Struct, frozen=True, gc=False):
    total: str | None = None
    used: str | None = None


class _GroupRecord(Struct, frozen=True, gc=False):
    """A record of sinfo since 23.02."""

    nodes: _Names
    node: _State
    cpus: _Cpus
    partition: _Partition
    cluster: str | None = None
    gres: _Gres = _Gres()


class _NodeRecord(Struct, frozen=True, gc=False):
    """A record of sinfo before 23.02, and of scontrol show nodes."""

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


def read_nodes(output: CommandOutput, partition: str | None) -> Inventory:
    """Read all nodes, or those of one partition, each once.

    Raises:
        BadInputError: a record is invalid, the partition is unknown, there is no node, or there are nodes of
            several clusters.
    """
    inventory = Inventory()
    groups = list(
        _node_groups(output, inventory) if output.key == "sinfo" else _single_nodes(output, inventory)
    )
    partitions_of: Counter[str] = Counter()
    for group in groups:
        for name in group.names:
            partitions_of[name] += max(1, len(group.partitions))
    if partition is not None:
        if partition not in inventory.partitions:
            known = ", ".join(sorted(inventory.partitions)[:20]) or "none at all"
            problem = f"value {partition!r} is not a partition of {output.file}"
            raise BadInputError("--partition", problem, f"name one of {known}")
        groups = [group for group in groups if partition in group.partitions]
    _add_once(inventory, groups)
    if not inventory.groups:
        where = "" if partition is None else f" of partition {partition}"
        raise BadInputError(f"{output.file}: {output.key}", f"has no node{where}", REMEDY)
    inventory.shared = sum(partitions_of[name] > 1 for group in inventory.groups for name in group.names)
    return inventory


def _node_groups(output: CommandOutput, inventory: Inventory) -> Iterator[NodeGroup]:
    decoder = Decoder(_GroupRecord)
    for k in range(len(output.records)):
        record, location = output.decode(k, decoder), output.location(k)
        inventory.cluster.add(location, "cluster", record.cluster)
        name = printable(record.partition.name.removesuffix("*"))
        inventory.partitions[name] = _partition(location, record.partition)
        names = _names(location, record.nodes)
        if not names:
            continue  # a partition without nodes
        cpus = record.cpus
        if cpus.allocated > cpus.total:
            location.refuse("cpus.allocated", f"value {cpus.allocated} is more than the {cpus.total} in all")
        accepts, busy = _accepts_and_busy(location, "node.state", [record.node.state])
        gres = gres_counts(location, "gres.total", record.gres.total)
        used = record.gres.used if len(names) == 1 else None
        up = not set(upper_words(record.partition.partition.state)) & PARTITION_DOWN
        yield NodeGroup(
            location=location,
            names=names,
            partitions=(name,),
            usable=accepts and up,
            cpus=cpus.total,
            allocated=cpus.allocated,
            smallest=cpus.minimum or cpus.total // len(names),
            largest=cpus.maximum or -(-cpus.total // len(names)),
            idle=0 if busy or cpus.allocated else len(names),
            gres=gres,
            used=_gres_in_use(location, "gres.used", used, gres),
            drained={},
            shared_gpus=shared_gpus(used),
        )


def _partition(location: Location, record: _Partition) -> Partition:
    return Partition(
        default_s=location.minutes("partition.defaults.time", record.defaults.time),
        longest_s=location.minutes("partition.maximums.time", record.maximums.time),
        whole_nodes=location.integer("partition.maximums.shares", record.maximums.shares, bits=16) == 0,
    )


def _single_nodes(output: CommandOutput, inventory: Inventory) -> Iterator[NodeGroup]:
    decoder = Decoder(_NodeRecord)
    for k in range(len(output.records)):
        record, location = output.decode(k, decoder), output.location(k)
        inventory.cluster.add(location, "cluster_name", record.cluster_name)
        effective = location.integer("effective_cpus", record.effective_cpus, bits=16)
        total = record.cpus if effective is None else min(record.cpus, effective)
        if not record.name:
            location.refuse("name", "is empty")
        if record.alloc_cpus > record.cpus:
            location.refuse("alloc_cpus", f"value {record.alloc_cpus} is more than the {record.cpus} in all")
        inventory.specialized += record.alloc_cpus > total  # AllowSpecResourcesUsage
        gres = gres_counts(location, "gres", record.gres)
        texts = record.partitions or []
        partitions = tuple(
            printable(text) for text in (texts.split(",") if isinstance(texts, str) else texts)
        )
        for name in partitions:
            inventory.partitions.setdefault(name, Partition())
        accepts, busy = _accepts_and_busy(location, "state", [record.state, record.state_flags or []])
        yield NodeGroup(
            location=location,
            names=(record.name,),
            partitions=partitions,
            usable=accepts,
            cpus=total,
            allocated=min(record.alloc_cpus, total),
            smallest=total,
            largest=total,
            specialized=record.cpus - total,
            idle=0 if busy or record.alloc_cpus else 1,
            gres=gres,
            used=_gres_in_use(location, "gres_used", record.gres_used, gres),
            drained=with_occupied(gres_counts(location, "gres_drained", record.gres_drained), gres),
            shared_gpus=shared_gpus(record.gres_used),
        )


def _accepts_and_busy(location: Location, field: str, values: Iterable[str | list[str]]) -> tuple[bool, bool]:
    """Whether a node in these states accepts jobs, and whether jobs run on it."""
    states: set[str] = set()
    for word in (word for value in values for word in upper_words(value)):
        match = _STATE.fullmatch(word)
        if match is None:
            location.refuse(field, f"value {printable(word)[:60]!r} is not a known state")
        states.add(match[1])
        states |= {SUFFIXES[suffix] for suffix in match[2] if suffix in SUFFIXES}
    if not states & (ACCEPTING | OUT_OF_SERVICE):
        location.refuse(field, f"value {printable(', '.join(sorted(states)))[:60]!r} is not a known state")
    return not states & OUT_OF_SERVICE, bool(states & BUSY)


def _gres_in_use(
    location: Location, field: str, text: str | None, capacity: dict[str, int]
) -> dict[str, int]:
    """Generic resources of a node in use, with the units that others on the same devices occupy."""
    used = gres_counts(location, field, text)
    in_use = {kind: count for kind, count in with_occupied(used, capacity).items() if kind in used}
    if shared := shared_gpus(text) * ("gpu" in used):
        in_use["gpu"] = min(used["gpu"] + shared, capacity.get("gpu", 0))
    return in_use


def _names(location: Location, record: _Names) -> tuple[str, ...]:
    texts = [record.nodes] if isinstance(record.nodes, str) else record.nodes
    try:
        names = tuple(dict.fromkeys(name for text in texts for name in expand(text)))
    except ValueError as error:
        location.refuse("nodes.nodes", str(error))
    if record.total and len(names) != record.total:
        location.refuse("nodes.total", f"value {record.total}, but nodes.nodes has {len(names)} names")
    return names


def _add_once(inventory: Inventory, groups: list[NodeGroup]) -> None:
    """Add nodes once, though each of their partitions has a record; usable where one partition is up."""
    added: set[str] = set()
    for group in sorted(groups, key=lambda group: not group.usable):
        new = tuple(name for name in group.names if name not in added)
        if len(new) < len(group.names) and new and not group.uniform:
            problem = "another record has some of these nodes, and the share of each node is unknown"
            group.location.refuse("nodes", problem, REMEDY)
        if new:
            inventory.groups.append(group if len(new) == len(group.names) else group.subset(new))
            added.update(new)
