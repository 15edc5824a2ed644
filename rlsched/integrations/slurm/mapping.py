"""What squeue and sinfo say, as a cluster that a policy decides about.

A policy counts units: CPUs or nodes, and generic resources (gres/gpu), by the names of its resources. Free
are those on usable nodes that are idle as sinfo tells and held by no job as squeue tells, node by node. What
sinfo has as allocated and no job holds is unexplained; all else is out of service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.answers import Answer
from rlsched.integrations.slurm.asked import CPUS, NODES, UNITS, Asked
from rlsched.integrations.slurm.holding import Holding
from rlsched.integrations.slurm.jobs import read_queue
from rlsched.integrations.slurm.nodes import Partition, Site, read_site
from rlsched.integrations.slurm.queue import LeftOut, Pending, Queue
from rlsched.integrations.slurm.tres import taken_away
from rlsched.integrations.slurm.values import ONE_CLUSTER, many, plain
from rlsched.serve.api.schema import MANY, DecisionRequest, RunningJob, WaitingJob

STALE_S = 600
"""Age from which on answers are called old."""

AT_ONE_TIME = "take squeue and sinfo at one time, both with --all"
WHO_SEES_ALL = "as a user who sees the jobs of all (PrivateData)"


class Row(NamedTuple):
    """A job that may start, for people."""

    job: Pending
    requested_s: int
    demand: list[int]


@dataclass(frozen=True, eq=False)
class Mapped:
    """A cluster to decide about, and what is to be known of it.

    Attributes:
        request: as the service takes it.
        rows: jobs that may start, by label.
        kinds: (resource,) what is counted.
        out: (resource,) units out of service.
        unexplained: (resource,) units that sinfo has as allocated, but that no job of squeue holds.
        left_out: jobs that are not decided about, by reason.
        notes: what to know before anything is done, in lines.
        age_s: seconds since squeue's answer, or since something happened.
    """

    request: DecisionRequest
    rows: dict[int | str, Row]
    kinds: tuple[str, ...]
    out: list[int]
    unexplained: list[int]
    left_out: dict[str, LeftOut]
    notes: list[str]
    age_s: int = 0


def map_cluster(squeue: Answer, sinfo: Answer, asked: Asked, now: int) -> Mapped:
    """Make a request of two answers.

    Args:
        squeue: what squeue said.
        sinfo: what sinfo said.
        asked: what is to be decided about.
        now: Unix seconds.

    Raises:
        BadInputError: a record means nothing, or there is nothing to decide about.
    """
    kinds = asked.kinds()
    _check_cluster(squeue, sinfo, squeue.cluster, sinfo.cluster)
    site = read_site(sinfo, asked.partition)
    queue = read_queue(squeue, now, asked.partition, asked.most)
    _check_cluster(squeue, sinfo, queue.cluster, site.cluster.name)
    return _Mapping(squeue, site, queue, asked, kinds, now, sinfo.cluster).mapped()


def _check_cluster(squeue: Answer, sinfo: Answer, jobs: str | None, nodes: str | None) -> None:
    """Raises BadInputError where both answers say in the same place that they are of two clusters."""
    if jobs and nodes and jobs.lower() != nodes.lower():
        problem = f"clusters {jobs!r} and {nodes!r} cannot be counted together"
        raise BadInputError(f"{squeue.file}, {sinfo.file}", problem, ONE_CLUSTER)


@dataclass(eq=False)
class _Mapping:
    squeue: Answer
    site: Site
    queue: Queue
    asked: Asked
    kinds: tuple[str, ...]
    clock: int
    answered: str | None
    notes: list[str] = field(default_factory=list)

    def mapped(self) -> Mapped:
        units = [self._total(kind) for kind in self.kinds]
        self._say_whose_jobs()
        self._say_what_is_shared()
        if self.site.specialized:
            self.notes.append(
                f"{many(self.site.specialized, 'node')} with jobs on CPUs kept for the system "
                "(CoreSpecCount), which are not counted"
            )
        holding = Holding(self.site, self.asked.partition, self.kinds, list(units))
        running = self._running(holding)
        held = [sum(job.demand[r] for job in running) for r in range(len(units))]
        left = [there - taken for there, taken in zip(units, held, strict=True)]
        found = [self._free_and_unexplained(r, holding, left[r]) for r in range(len(units))]
        free, unexplained = [pair[0] for pair in found], [pair[1] for pair in found]
        out = [rest - sum(pair) for rest, pair in zip(left, found, strict=True)]
        rows = self._rows(self.asked.most - len(running))
        self._say_what_differs(units)
        self._say_what_is_unknown(rows)
        waiting = [
            WaitingJob(row.job.label, submit=row.job.since, requested=row.requested_s, demand=row.demand)
            for row in rows
        ]
        request = DecisionRequest(
            now=self.queue.now,
            running=running,
            waiting=waiting,
            units=units,
            free=free,
            cluster=self._cluster(),
            policy=self.asked.policy,
            explain=True,
        )
        by_label = {row.job.label: row for row in rows}
        return Mapped(
            request, by_label, self.kinds, out, unexplained, self.queue.left_out, self.notes, self._age
        )

    def _cluster(self) -> str:
        name = self.queue.cluster or self.squeue.cluster or "slurm"
        return name if self.asked.partition is None else f"{name}/{plain(self.asked.partition)}"[:200]

    def _total(self, kind: str) -> int:
        groups = self.site.groups
        total = sum(group.units_of(kind) for group in groups)
        if kind == NODES:
            return total
        if kind != CPUS and any(len(group.names) > 1 and group.gres.get(kind) for group in groups):
            self.notes.append(
                f"{kind}: sinfo tells of one node of several in a record, and the others are taken to "
                "have as many; sinfo --all --Node --json tells of each"
            )
        if not 1 <= total <= MANY:
            what = "CPU" if kind == CPUS else f"gres/{kind}"
            problem = f"its nodes have {total} {what} in all"
            raise BadInputError("--sinfo", problem, f"choose a policy that counts what there is, not {kind}")
        return total

    def _free_and_unexplained(self, r: int, holding: Holding, left: int) -> tuple[int, int]:
        """Units on usable nodes that are idle and that no job holds; and those that sinfo alone has in use.

        squeue and sinfo are asked one after the other, so a node may be idle for one and held for the other:
        it counts as held.

        Args:
            r: resource.
            holding: what jobs hold, and where.
            left: units that they do not hold, in all.
        """
        kind, elsewhere = self.kinds[r], holding.elsewhere[r]
        free, idle, held, unexplained = 0, 0, elsewhere, 0
        for group, taken in zip(self.site.groups, holding.by_group, strict=True):
            if not group.usable:
                continue
            there, allocated = group.in_service_of(kind), group.allocated_of(kind)
            free += max(0, there - max(taken[r], allocated or 0))
            if allocated is not None:
                idle += max(0, there - allocated)
                unexplained += max(0, min(allocated, there) - taken[r])
            held += taken[r]
        # Jobs whose nodes are not told hold what no other job explains, and only then what is idle.
        free = min(max(0, free - max(0, elsewhere - unexplained)), left)
        unexplained = min(max(0, unexplained - elsewhere), left - free)
        if idle > free:
            self.notes.append(
                f"{kind}: {idle} are idle beside {held} that jobs hold of nodes in service: {AT_ONE_TIME}; "
                f"{free} are taken to be free"
            )
        if unexplained:
            self.notes.append(
                f"{kind}: {unexplained} are in use for sinfo, but held by no job of squeue: {AT_ONE_TIME}, "
                f"{WHO_SEES_ALL}; {free} are taken to be free"
            )
        return free, unexplained

    def _running(self, holding: Holding) -> list[RunningJob]:
        found = holding.count(self.queue.held)
        if holding.outside:
            self.notes.append(
                f"{many(holding.outside, 'job')} on other nodes, too, or only: their share here counts"
            )
        if holding.cut:
            self.notes.append(
                f"{many(holding.cut, 'time')} a job holds more than others leave, as where CPUs are shared "
                f"(OverSubscribe): what is shared counts once; else {AT_ONE_TIME}"
            )
        if holding.unread:
            told = many(holding.unread, "job")
            self.notes.append(
                f"the nodes of {told} are told in a way that is not read here: they are counted"
            )
        if len(found) > self.asked.most:
            problem = f"{len(found)} jobs hold units, and a policy is asked about {self.asked.most} at most"
            raise BadInputError(self.squeue.file, problem, "name a partition with --partition")
        return found

    def _rows(self, room: int) -> list[Row]:
        """Jobs that may start, those that wait longest first, as many as there is room for."""
        pending = self.queue.pending[: max(0, room)]
        newest = self.queue.too_many + len(self.queue.pending) - len(pending)
        if newest:
            self.notes.append(
                f"{many(newest, 'job')} that wait, the newest ones, are not shown to the policy: it is asked "
                f"about {self.asked.most} at most, running and waiting"
            )
        return [Row(job, self._requested(job), self._demand(job)) for job in pending]

    def _requested(self, job: Pending) -> int:
        if job.limit_s:
            return job.limit_s
        partitions = [self.site.partitions.get(name, Partition()) for name in job.partitions]
        limits = [
            limit
            for found in partitions
            if (limit := found.longest_s if job.unlimited else found.default_s or found.longest_s)
        ]
        limit = max(limits, default=self.asked.default_limit_s)
        if limit is None:
            job.place.refuse(
                "time_limit",
                f"of job {job.label} is not set, and neither is that of its partition",
                "say what such jobs are taken to ask for, as in --default-limit 1440 (minutes)",
            )
        return limit

    def _demand(self, job: Pending) -> list[int]:
        names = [name for name in job.partitions if name in self.site.partitions]
        whole = job.whole_nodes or any(self.site.partitions[name].whole_nodes for name in names)
        found = []
        for kind in self.kinds:
            if kind == NODES:
                wanted = job.node_count
            elif kind == CPUS:
                node = min((self._smallest[name] for name in names if name in self._smallest), default=1)
                wanted = max(job.cpus, job.node_count * node if whole else 0)
            else:
                alone = {name: -(-count // job.node_count) for name, count in job.gres.items()}
                away = job.node_count * taken_away(alone, self.site.rates(kind))
                wanted = job.gres.get(kind, 0) + away
            if wanted > MANY:
                job.place.refuse("tres_req_str", f"{wanted} {kind} are more than can be")
            found.append(wanted)
        return found

    @cached_property
    def _smallest(self) -> dict[str, int]:
        """CPUs of the smallest node of each partition: of whole nodes, a job gets at least these."""
        found: dict[str, int] = {}
        for group in self.site.groups:
            for name in group.partitions:
                found[name] = min(group.smallest, found.get(name, MANY))
        return found

    def _say_whose_jobs(self) -> None:
        """With --clusters, jobs and nodes are another cluster's than the one where the command was run."""
        jobs, nodes = self.queue.cluster, self.site.cluster.name or self.answered
        if jobs and nodes and jobs.lower() != nodes.lower():
            self.notes.append(
                f"the jobs are of cluster {jobs}, and sinfo's answer names {nodes}: ask both with the same "
                "--clusters"
            )

    @cached_property
    def _counted(self) -> set[str]:
        """Generic resources of which the policy sees what jobs ask for, by themselves or as others."""
        return {*self.kinds, *(name for kind in self.kinds for name in self.site.rates(kind))}

    def _say_what_is_shared(self) -> None:
        if self.asked.partition is not None:
            if self.site.shared:
                self.notes.append(
                    f"{many(self.site.shared, 'node')} shared with other partitions: jobs waiting there may "
                    "take what this advice counts on"
                )
            return
        if len(self.site.partitions) > 1:
            shared = f", {many(self.site.shared, 'node')} of which several have" if self.site.shared else ""
            self.notes.append(
                f"{len(self.site.partitions)} partitions count as one cluster{shared}: a job may be told to "
                "start on nodes that its partition does not have; --partition P asks about one"
            )

    @property
    def _age(self) -> int:
        return max(0, self.clock - (self.squeue.last_update or self.clock))

    def _say_what_differs(self, units: list[int]) -> None:
        trained = list(self.asked.units)
        if trained and trained != units:
            told = f"trained for {_listed(trained)} units, and this cluster has {_listed(units)}"
            self.notes.append(f"the policy was {told}")
        if self._age > STALE_S:
            self.notes.append(
                f"squeue's answer is {self._age // 60} minutes old, or nothing has happened since: take it "
                "anew, or give its time with --at"
            )

    def _say_what_is_unknown(self, rows: Sequence[Row]) -> None:
        counts: Counter[str] = Counter()
        first: dict[str, list[str]] = {}
        for row in rows:
            others = (f"gres/{name}" for name in row.job.gres if name not in self._counted)
            for what in (*row.job.unknown, *map(plain, others)):
                counts[what] += 1
                if len(some := first.setdefault(what, [])) < 5:
                    some.append(str(row.job.label))
        told = "; ".join(
            f"{what} ({count}: {', '.join(first[what])}{', ...' if count > len(first[what]) else ''})"
            for what, count in counts.most_common(8)
        )
        if told:
            self.notes.append(f"jobs ask for what the policy does not know: {told}")
        counted = " and ".join(kind if kind in UNITS else f"gres/{kind}" for kind in self.kinds)
        self.notes.append(
            f"advice: the policy counts {counted}; topology, memory, QOS and limits of accounts are not seen"
        )


def _listed(numbers: Sequence[int]) -> str:
    return " + ".join(f"{number:,}" for number in numbers)
