"""What running jobs hold of the units that are asked about, and on which nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from rlsched.integrations.slurm.asked import CPUS, NODES, UNITS
from rlsched.integrations.slurm.hostlist import expand
from rlsched.integrations.slurm.nodes import Site
from rlsched.integrations.slurm.queue import Held
from rlsched.integrations.slurm.tres import POOL, rates, taken_away
from rlsched.serve.api.schema import RunningJob


@dataclass(eq=False)
class Holding:
    """Counts units job by job.

    What several jobs hold together (a node that they share, CPUs that are oversubscribed) is free when the
    last of them ends, and counts as its own; so jobs are counted from the last end to the first.

    Args:
        site: nodes that are asked about.
        partition: that is; None: all.
        kinds: (resource,) what is counted.
        left: (resource,) units of the cluster; none of them are held yet.

    Attributes:
        by_group: (group, resource) units that jobs hold there. Slurm does not say how a job's units are
            spread over its nodes: see `_spread`.
        elsewhere: (resource,) units of jobs whose nodes are not told.
        outside: jobs of which some nodes, or all, are not asked about.
        cut: times that a job holds more than the others leave, or than its nodes have.
        unread: jobs whose nodes are told in a way that is not read here.
    """

    site: Site
    partition: str | None
    kinds: tuple[str, ...]
    left: list[int]
    outside: int = 0
    cut: int = 0
    unread: int = 0
    _taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.groups = self.site.groups
        self._others: dict[tuple[str, str], Counter[str]] = {}
        self._away: Counter[tuple[str, str]] = Counter()
        self.by_group = [[0] * len(self.kinds) for _ in self.groups]
        self.elsewhere = [0] * len(self.kinds)
        self._jobs: list[tuple[list[int], Counter[int]]] = []

    @cached_property
    def _group_of(self) -> dict[str, int]:
        return {name: k for k, group in enumerate(self.groups) for name in group.names}

    def count(self, jobs: list[Held]) -> list[RunningJob]:
        """Those that hold some of these units, with what they hold."""
        found = []
        for job in sorted(jobs, key=lambda job: -job.end):
            demand = self._demand(job)
            if any(demand):
                found.append(
                    RunningJob(job.label, demand, start=job.start, expected_end=job.end, submit=job.submit)
                )
        for demand, nodes in sorted(self._jobs, key=lambda known: len(known[1])):
            for r, kind in enumerate(self.kinds):
                if kind != NODES or not nodes:
                    self._spread(r, demand[r], nodes)
        return found

    def _demand(self, job: Held) -> list[int]:
        hosts = self._hosts(job)
        here = None if hosts is None else hosts & self._group_of.keys()
        if not here and self.partition not in (None, job.partition):
            return []  # it has nothing to do with the nodes that are asked about
        if hosts is not None and here is not None:
            self.outside += len(here) < len(hosts)
        inside = job.node_count if here is None else len(here)
        many = job.node_count if hosts is None else len(hosts)
        found = []
        on = Counter(self._group_of[name] for name in here or ())
        for r, kind in enumerate(self.kinds):
            if kind == NODES and here is not None:
                wanted = len(here - self._taken) if job.cpus else 0
            else:
                wanted = -(-self._whole(job, kind) * inside // many) + self._taken_away(job, kind, here, many)
            most = sum(count * self.groups[k].most_of(kind) for k, count in on.items()) if on else wanted
            kept = sum(count * self.groups[k].specialized for k, count in on.items()) if kind == CPUS else 0
            self.cut += min(wanted, most) > self.left[r] or wanted > most + kept
            found.append(min(wanted, self.left[r], most))
            self.left[r] -= found[-1]
        for name in (here or set()) - self._taken if job.cpus else ():
            for r in (r for r, kind in enumerate(self.kinds) if kind == NODES):
                self.by_group[self._group_of[name]][r] += 1
        if here and job.cpus:
            self._taken |= here
        self._jobs.append((found, on))
        return found

    def _taken_away(self, job: Held, kind: str, here: set[str] | None, many: int) -> int:
        """Units that a job takes away by others of the same devices, as shards do with GPUs.

        Jobs with parts of one GPU hold it together. They are taken to have as few GPUs together as they need,
        or as many as sinfo says.
        """
        others = {name: count for name, count in job.gres.items() if name in POOL and name != kind}
        if kind not in POOL or not others:
            return 0
        if here is None:
            return taken_away(others, self.site.rates(kind))
        alone = Counter({name: -(-count // many) for name, count in others.items()})
        more = 0
        for name in here:
            group, at = self.groups[self._group_of[name]], (kind, name)
            rate = rates(kind, group.gres)
            all_ = self._others.setdefault(at, Counter())
            all_.update(alone)
            told = group.shared_gpus if kind == "gpu" else 0
            away = max(taken_away(all_, rate), min(told, self._away[at] + taken_away(alone, rate)))
            away = min(away, group.gres.get(kind, 0))
            more += away - self._away[at]
            self._away[at] = away
        return more

    def _spread(self, r: int, units: int, nodes: Counter[int]) -> None:
        """Note on which nodes a job's units are: first what sinfo has as allocated, then as many on each.

        No node has more than it can; jobs on few nodes are noted before others.

        Args:
            r: resource.
            units: of the job.
            nodes: group -> how many of its nodes the job has.
        """
        if not nodes:
            self.elsewhere[r] += units
            return
        kind, held = self.kinds[r], self.by_group
        for k, count in nodes.items():
            group = self.groups[k]
            known = min((group.allocated_of(kind) or 0) - held[k][r], count * group.most_of(kind), units)
            if known > 0:
                held[k][r] += known
                units -= known
        while units > 0:
            room = {
                k: min(self.groups[k].units_of(kind) - held[k][r], count * self.groups[k].most_of(kind))
                for k, count in nodes.items()
            }
            room = {k: free for k, free in room.items() if free > 0}
            if not room:
                return
            per_node = -(-units // sum(nodes[k] for k in room))
            for k, free in room.items():
                taken = min(per_node * nodes[k], free, units)
                held[k][r] += taken
                units -= taken

    @staticmethod
    def _whole(job: Held, kind: str) -> int:
        if kind in UNITS:
            return job.cpus if kind == CPUS else job.node_count * (job.cpus > 0)
        return job.gres.get(kind, 0)

    def _hosts(self, job: Held) -> set[str] | None:
        """Names of a job's nodes; None: not told, or not to be read."""
        try:
            return set(expand(job.nodes)) or None
        except ValueError:
            self.unread += 1
            return None
