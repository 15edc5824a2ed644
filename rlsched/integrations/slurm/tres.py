"""Trackable and generic resources as Slurm writes them: cpu=16,mem=64G,gres/gpu=2 and gpu:a100:4(S:0-1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from rlsched.integrations.slurm.values import Place, plain
from rlsched.serve.api.schema import MANY

if TYPE_CHECKING:
    from rlsched.integrations.slurm.records import Record

GRES = "gres/"
SCALES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}

POOL = frozenset(("gpu", "shard", "mps"))
"""Generic resources that are the same devices: a GPU is given whole, or by parts, and not both."""

_COUNT = re.compile(r"(\d{1,18})([KMGTP]?)")
_BRACKETS = re.compile(r"\([^()]*\)")
_BY_GPU = re.compile(r"\b(?:shard|mps)[^,()]*\((\d+/\d+(?:,\d+/\d+)*)\)")
_NO_GRES = frozenset(("billing", "cpu", "energy", "mem", "node", "pages", "vmem"))
"""Trackable resources that are no generic ones; others have a name behind a kind, as license/matlab."""
_NOTHING = frozenset(("", "(null)", "N/A", "none"))


def counted(place: Place, field: str, text: str | None) -> dict[str, int]:
    """CPUs, nodes and generic resources of a string like cpu=16,mem=64G,node=1,gres/gpu=2.

    Of a type (gres/gpu:a100=2) those count which are told by type alone.

    Raises:
        BadInputError: a count is no number, or more than can be.
    """
    found: dict[str, int] = {}
    typed: dict[str, int] = {}
    for part in (text or "").split(","):
        name, equals, value = part.partition("=")
        if equals and (name in {"cpu", "node"} or name.startswith(GRES)):
            count = _count(place, field, part, value)
            if name in {"cpu", "node"} and count > MANY:
                place.refuse(field, f"value {plain(part)[:60]!r} is more than {MANY}")
            bare, _, kind = name.partition(":")
            if kind:
                typed[bare] = typed.get(bare, 0) + count
            else:
                found[bare] = count
    return typed | found


def listed(place: Place, field: str, text: str | None) -> dict[str, int]:
    """Generic resources of a list like gpu:a100:4(S:0-1),gres/shard:8; by name, of all types.

    Lists of what jobs ask for may name other trackable resources, too, as cpu:4 or license/matlab:1.

    Raises:
        BadInputError: a count is no number, or more than can be.
    """
    found: dict[str, int] = {}
    if text is None or text in _NOTHING:
        return found
    for part in _BRACKETS.sub("", text).split(","):
        name, *rest = re.split("[:=]", part.strip().removeprefix("gres:").removeprefix(GRES))
        if name in _NOTHING or name in _NO_GRES or "/" in name:
            continue
        # One word after the name is a count, or the type of one; types may begin with a digit (1g.10gb).
        value = rest[-1] if rest and (len(rest) > 1 or _COUNT.fullmatch(rest[0])) else "1"
        found[name] = found.get(name, 0) + _count(place, field, part, value)
    return found


def rates(kind: str, there: Mapping[str, int]) -> dict[str, Fraction]:
    """Units of a generic resource that one of another takes away, as both are the same devices.

    Args:
        kind: of the resource.
        there: what a node has, or several have, of each.
    """
    if kind not in POOL or not there.get(kind):
        return {}
    return {name: Fraction(there[kind], there[name]) for name in POOL - {kind} if there.get(name)}


def taken_away(gres: Mapping[str, int], rate: Mapping[str, Fraction]) -> int:
    """Units that others take away at these rates, whole ones: a GPU of which one shard is in use."""
    return sum(ceil(count * rate[name]) for name, count in gres.items() if name in rate)


def shared_gpus(text: str | None) -> int:
    """GPUs of which parts are in use, where a list tells of each, as in shard:a100:3(3/4,0/4)."""
    parts = (part for match in _BY_GPU.finditer(text or "") for part in match[1].split(","))
    return sum(not part.startswith("0/") for part in parts)


def in_pool(gres: Mapping[str, int], there: Mapping[str, int]) -> dict[str, int]:
    """Units with those that others of the same devices take away, and no more than there are."""
    return {
        kind: min(gres.get(kind, 0) + taken_away(gres, rates(kind, there)), most)
        for kind, most in there.items()
    }


def demanded(place: Place, record: Record, *, allocated: bool) -> dict[str, int]:
    """Generic resources of a job in all, by name, wherever it tells of them.

    Slurm counts them in its TRES strings only where AccountingStorageTRES names them. What a job has on each
    node, and what it asked for per node, socket or task, is in every record; with whole nodes it has more.

    Raises:
        BadInputError: a count means nothing.
    """
    field = "tres_alloc_str" if allocated else "tres_req_str"
    text = record.tres_alloc_str if allocated else record.tres_req_str
    found = {
        name.removeprefix(GRES): count
        for name, count in counted(place, field, text).items()
        if name.startswith(GRES)
    }
    on_nodes: dict[str, int] = {}
    told = record.gres_detail or []
    for one in ([told] if isinstance(told, str) else told) if allocated else ():
        for gres, count in listed(place, "gres_detail", one).items():
            on_nodes[gres] = on_nodes.get(gres, 0) + count
    found = on_nodes | found
    nodes = place.whole("node_count", record.node_count) or 1
    tasks = place.whole("tasks", record.tasks) or 1
    sockets = nodes * (place.whole("sockets_per_node", record.sockets_per_node, bits=16) or 1)
    for name, asked, times in (
        ("tres_per_job", record.tres_per_job, 1),
        ("tres_per_node", record.tres_per_node, nodes),
        ("tres_per_socket", record.tres_per_socket, sockets),
        ("tres_per_task", record.tres_per_task, tasks),
    ):
        if asked:
            for gres, count in listed(place, name, asked).items():
                found.setdefault(gres, count * times)
    return found


def _count(place: Place, field: str, part: str, value: str) -> int:
    match = _COUNT.fullmatch(value)
    if match is None:
        place.refuse(field, f"value {plain(part)[:60]!r} holds no count")
    return int(match[1]) * SCALES[match[2]]
