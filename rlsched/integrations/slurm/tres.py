"""Trackable and generic resources (TRES, GRES): cpu=16,mem=64G,gres/gpu=2 and gpu:a100:4(S:0-1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from rlsched.integrations.slurm.values import Location, printable
from rlsched.serve.api.schema import MANY

if TYPE_CHECKING:
    from rlsched.integrations.slurm.job_records import JobRecord

GRES = "gres/"
SCALES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}

GPU_KINDS = frozenset(("gpu", "shard", "mps"))
"""Generic resources on the same devices: a GPU is allocated whole, or in shards or MPS parts."""

_COUNT = re.compile(r"(\d{1,18})([KMGTP]?)")
_BRACKETS = re.compile(r"\([^()]*\)")
_SHARDS_BY_GPU = re.compile(r"\b(?:shard|mps)[^,()]*\((\d+/\d+(?:,\d+/\d+)*)\)")
_OTHER_TRES = frozenset(("billing", "cpu", "energy", "mem", "node", "pages", "vmem"))
"""Trackable resources that are not generic; others have a kind before their name, as license/matlab."""
_EMPTY = frozenset(("", "(null)", "N/A", "none"))


def tres_counts(location: Location, field: str, text: str | None) -> dict[str, int]:
    """CPUs, nodes and generic resources of a string like cpu=16,mem=64G,node=1,gres/gpu=2.

    A typed count (gres/gpu:a100=2) matters only where the string has no total of that resource.

    Raises:
        BadInputError: a count is not a number, or too large.
    """
    totals: dict[str, int] = {}
    typed: dict[str, int] = {}
    for part in (text or "").split(","):
        name, equals, value = part.partition("=")
        if equals and (name in {"cpu", "node"} or name.startswith(GRES)):
            count = _count(location, field, part, value)
            if name in {"cpu", "node"} and count > MANY:
                location.refuse(field, f"value {printable(part)[:60]!r} is more than {MANY}")
            resource, _, device_type = name.partition(":")
            if device_type:
                typed[resource] = typed.get(resource, 0) + count
            else:
                totals[resource] = count
    return typed | totals


def gres_counts(location: Location, field: str, text: str | None) -> dict[str, int]:
    """Generic resources of a list like gpu:a100:4(S:0-1),gres/shard:8, by name, summed over types.

    A list of requests may hold other trackable resources, as cpu:4 or license/matlab:1; they are skipped.

    Raises:
        BadInputError: a count is not a number, or too large.
    """
    counts: dict[str, int] = {}
    if text is None or text in _EMPTY:
        return counts
    for part in _BRACKETS.sub("", text).split(","):
        name, *rest = re.split("[:=]", part.strip().removeprefix("gres:").removeprefix(GRES))
        if name in _EMPTY or name in _OTHER_TRES or "/" in name:
            continue
        # One word after the name is a count, or a type; types may begin with a digit (1g.10gb).
        value = rest[-1] if rest and (len(rest) > 1 or _COUNT.fullmatch(rest[0])) else "1"
        counts[name] = counts.get(name, 0) + _count(location, field, part, value)
    return counts


def conversion_rates(kind: str, capacity: Mapping[str, int]) -> dict[str, Fraction]:
    """Units of `kind` that one unit of each other resource on the same devices occupies, by capacity."""
    if kind not in GPU_KINDS or not capacity.get(kind):
        return {}
    return {
        name: Fraction(capacity[kind], capacity[name]) for name in GPU_KINDS - {kind} if capacity.get(name)
    }


def occupied_units(gres: Mapping[str, int], rates: Mapping[str, Fraction]) -> int:
    """Whole units that other resources occupy at these rates: one shard in use occupies its GPU."""
    return sum(ceil(count * rates[name]) for name, count in gres.items() if name in rates)


def shared_gpus(text: str | None) -> int:
    """GPUs with shards in use, where a list has counts per GPU, as in shard:a100:3(3/4,0/4)."""
    parts = (part for match in _SHARDS_BY_GPU.finditer(text or "") for part in match[1].split(","))
    return sum(not part.startswith("0/") for part in parts)


def with_occupied(gres: Mapping[str, int], capacity: Mapping[str, int]) -> dict[str, int]:
    """Units of each resource, with those that others on the same devices occupy, at most the capacity."""
    return {
        kind: min(gres.get(kind, 0) + occupied_units(gres, conversion_rates(kind, capacity)), most)
        for kind, most in capacity.items()
    }


def job_gres(location: Location, record: JobRecord, *, allocated: bool) -> dict[str, int]:
    """Generic resources of a job in all, by name.

    Slurm's TRES strings have them only where AccountingStorageTRES lists them. Every record has the job's
    allocation on each node, and its requests per node, socket or task. Whole nodes give a job more.

    Raises:
        BadInputError: a count is invalid.
    """
    field = "tres_alloc_str" if allocated else "tres_req_str"
    text = record.tres_alloc_str if allocated else record.tres_req_str
    tracked = {
        name.removeprefix(GRES): count
        for name, count in tres_counts(location, field, text).items()
        if name.startswith(GRES)
    }
    on_nodes: dict[str, int] = {}
    detail = record.gres_detail or []
    for node_text in ([detail] if isinstance(detail, str) else detail) if allocated else ():
        for gres, count in gres_counts(location, "gres_detail", node_text).items():
            on_nodes[gres] = on_nodes.get(gres, 0) + count
    counts = on_nodes | tracked
    nodes = location.integer("node_count", record.node_count) or 1
    tasks = location.integer("tasks", record.tasks) or 1
    sockets = nodes * (location.integer("sockets_per_node", record.sockets_per_node, bits=16) or 1)
    for name, request, times in (
        ("tres_per_job", record.tres_per_job, 1),
        ("tres_per_node", record.tres_per_node, nodes),
        ("tres_per_socket", record.tres_per_socket, sockets),
        ("tres_per_task", record.tres_per_task, tasks),
    ):
        if request:
            for gres, count in gres_counts(location, name, request).items():
                counts.setdefault(gres, count * times)
    return counts


def _count(location: Location, field: str, part: str, value: str) -> int:
    match = _COUNT.fullmatch(value)
    if match is None:
        location.refuse(field, f"value {printable(part)[:60]!r} has no count")
    return int(match[1]) * SCALES[match[2]]
