"""A queue as it is decided about."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlsched.integrations.slurm.values import Place

NAMED = 20
"""Jobs that are named for a reason; more are counted."""


@dataclass(frozen=True, slots=True)
class Held:
    """A job that holds units.

    Attributes:
        label: its id, as people write it.
        start, end, submit: Unix seconds; end: as expected.
        cpus: that it holds; none while it is suspended.
        node_count: of nodes.
        nodes: their names, as a list of Slurm; may be empty.
        gres: generic resources by name.
        partition: it runs in.
    """

    label: int | str
    start: int
    end: int
    submit: int
    cpus: int
    node_count: int
    nodes: str
    gres: dict[str, int]
    partition: str


@dataclass(frozen=True, slots=True)
class Pending:
    """A job, or a task of an array, that may start.

    Attributes:
        label: its id, as people and scontrol write it.
        place: of its record, for messages.
        user, partitions: its own.
        since: Unix seconds, since when it could have been started.
        limit_s: seconds that it asks for; None: not set.
        unlimited: it asks for no limit.
        cpus, node_count: at least.
        whole_nodes: it shares its nodes with none.
        gres: generic resources by name.
        priority: of Slurm; None: not told.
        nice: likewise.
        unknown: what it asks for that a policy that counts units does not know.
    """

    label: int | str
    place: Place
    user: str
    partitions: tuple[str, ...]
    since: int
    limit_s: int | None
    unlimited: bool
    cpus: int
    node_count: int
    whole_nodes: bool
    gres: dict[str, int]
    priority: int | None
    nice: int
    unknown: tuple[str, ...]


@dataclass
class LeftOut:
    """Jobs that are not decided about for a reason: how many, and the first of them."""

    count: int = 0
    jobs: list[int | str] = field(default_factory=list)

    def add(self, label: int | str, count: int = 1) -> None:
        """Count a job, or several that are named together."""
        self.count += count
        if len(self.jobs) < NAMED:
            self.jobs.append(label)


@dataclass(eq=False)
class Queue:
    """All jobs that squeue told of.

    Attributes:
        held: that hold units.
        pending: that may start, those that wait longest first, and at most as many as asked for.
        left_out: of those that wait, by reason.
        too_many: newest ones beyond that many.
        now: the time, not before anything that has happened.
        cluster: of the jobs; None: they do not name it.
    """

    held: list[Held]
    pending: list[Pending]
    left_out: dict[str, LeftOut]
    too_many: int
    now: int
    cluster: str | None = None
