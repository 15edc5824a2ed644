"""What clients send and get: clusters in domain terms, and what is to be done about them.

msgspec decodes and checks JSON five times as fast as pydantic does, which is what batches are made of; the
OpenAPI description is of the same classes. Times are whole seconds on the client's own clock, the Unix one
for instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from rlsched.jobs import LEAST_QOS

FAR = 1 << 40
"""Seconds, and unit-seconds, are below it: 34,000 years."""

MANY = (1 << 31) - 1

MOST = 10_000
"""Clusters in a batch, whatever is set."""

Seconds = Annotated[int, Meta(ge=0, lt=FAR, description="whole seconds")]
Duration = Annotated[int, Meta(ge=1, lt=FAR, description="whole seconds")]
Count = Annotated[int, Meta(ge=0, le=MANY)]
Share = Annotated[float, Meta(ge=LEAST_QOS, le=1)]
Amount = Annotated[float, Meta(ge=0, le=1e12)]
Work = Annotated[int, Meta(ge=0, le=10**17, description="unit-seconds")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
JobId = Annotated[int, Meta(ge=-FAR, le=FAR)] | Name
Units = Annotated[
    list[Count],
    Meta(min_length=1, max_length=16, description="units of each resource, in the policy's order"),
]


class RunningJob(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A job that runs.

    `expected_end` is its start and the time it asked for, even where that is over. Where a policy may suspend
    it, `requested` counts, too, if it was suspended before, and what stood when it was submitted, as for
    `WaitingJob`.
    """

    id: JobId
    demand: Units
    start: Seconds
    expected_end: Seconds
    submit: Seconds | None = None
    requested: Duration | None = None
    qos: Share = 1.0
    queue_at_submit: Count | None = None
    work_at_submit: Seconds | None = None
    free_at_submit: Count | None = None

    ran: ClassVar[int] = 0
    at: ClassVar[int] = 0
    ready: ClassVar[bool] = False


class WaitingJob(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A job that waits, or is suspended.

    `requested` is what it asked for in all and `ran` how long it ran before it was suspended. What stood when
    it was submitted may be given; else it is guessed from what still waits: jobs that waited, their demand
    times requested time (unit-seconds), and free units, both of the first resource. With a ready pool,
    `ready` says that it is in there.
    """

    id: JobId
    submit: Seconds
    requested: Duration
    demand: Units
    qos: Share = 1.0
    ran: Seconds = 0
    ready: bool = False
    queue_at_submit: Count | None = None
    work_at_submit: Seconds | None = None
    free_at_submit: Count | None = None

    start: ClassVar[int] = 0
    expected_end: ClassVar[int] = 0
    at: ClassVar[int] = 0


class PlannedJob(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A job that is planned to start, or go on, at a later tick."""

    id: JobId
    submit: Seconds
    requested: Duration
    demand: Units
    at: Seconds
    qos: Share = 1.0
    ran: Seconds = 0

    start: ClassVar[int] = 0
    expected_end: ClassVar[int] = 0
    ready: ClassVar[bool] = False
    queue_at_submit: ClassVar[int | None] = None
    work_at_submit: ClassVar[int | None] = None
    free_at_submit: ClassVar[int | None] = None


UnitsAhead = Annotated[list[Count], Meta(min_length=1, max_length=100_000)]
Ahead = Annotated[list[Amount], Meta(min_length=1, max_length=100_000)]


class History(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """What accounting knows of a cluster, of the last `seconds`.

    Jobs that arrived were submitted in that time, or are told of; their work is demand times requested time
    (unit-seconds), of the first resource. `used_requests` is a sum over the jobs that finished: their runtime
    as a share of what they asked for, at most 1 each.
    """

    seconds: Seconds
    arrived: Count
    work: Work
    finished: Count = 0
    used_requests: Amount = 0.0


Memory = Annotated[str, Meta(max_length=100_000)]
UnitsOn = Annotated[list[UnitsAhead], Meta(max_length=16)]


class Cluster(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A cluster as it stands, without its jobs.

    Attributes:
        now: the time.
        units: of the cluster; left out: those that the policy was exported for.
        free: units free now; where fewer than no job holds, the others are out of service.
        reserved: waiting job that holds the reservation since an earlier decision at this time.
        arriving: whether jobs are still to come; where none is, a policy has nothing to wait for.
        units_on: with a horizon, for each resource the units on at this tick and the next ones, as forecast;
            the last stands for all later ones.
        supply_kw: wind and sun at this tick and the next ones, as forecast; likewise.
        carbon_g_per_kwh: of the grid, likewise.
        battery_kwh: level of the battery.
        history: for policies that see it; left out: it begins with the jobs that are told of.
        cluster: whose state it is, for logs.
        memory: of a policy that remembers: what it said last time.
    """

    now: Seconds
    units: Units | None = None
    free: Units | None = None
    reserved: JobId | None = None
    arriving: bool = True
    units_on: UnitsOn | None = None
    supply_kw: Ahead | None = None
    carbon_g_per_kwh: Ahead | None = None
    battery_kwh: Amount | None = None
    history: History | None = None
    cluster: Name = "default"
    memory: Memory | None = None


class ClusterState(Cluster, frozen=True, kw_only=True):
    """A cluster and its queue as they stand.

    Attributes:
        running: jobs that run.
        waiting: jobs that wait, first submitted first.
        planned: with a horizon, jobs that a decision before has planned.
        suspended: with a horizon, jobs that wait to go on, first suspended first.
    """

    running: Annotated[list[RunningJob], Meta(max_length=100_000)] = []
    waiting: Annotated[list[WaitingJob], Meta(max_length=100_000)] = []
    planned: Annotated[list[PlannedJob], Meta(max_length=100_000)] = []
    suspended: Annotated[list[WaitingJob], Meta(max_length=100_000)] = []


class DecisionRequest(ClusterState, frozen=True, kw_only=True):
    """One cluster, and which policy is asked."""

    policy: Name | None = None
    explain: bool = True


class Decision(Struct, frozen=True, gc=False):
    """What is to be done with a job, now, after all that stand before it.

    Attributes:
        job: which.
        action: start (or go on); reserve: units are kept for it, others start meanwhile only where they do
            not delay it; plan: it is to start at `at`; suspend.
        at: when it starts; of a reservation, when it is expected to.
        score: with which chance the policy chose so; null where nothing else was possible, and of heuristics.
    """

    job: int | str
    action: str
    at: int
    score: float | None


class Reason(Struct, frozen=True, gc=False):
    """Why a job that goes on waiting cannot start now; `may_start`: it could, and was not chosen."""

    job: int | str
    reason: str
    detail: str


class Fallback(Struct, frozen=True, gc=False):
    """What the heuristic would do, by name."""

    name: str
    decisions: list[Decision]


class PolicyName(Struct, frozen=True, gc=False):
    """Who was asked: its name here, and the beginning of its checksum."""

    name: str
    version: str


class Answer(Struct, frozen=True, gc=False, omit_defaults=True):
    """What is to be done about a cluster.

    Attributes:
        decisions: in order.
        decided_by: policy, or fallback.
        because: why the policy did not decide.
        agrees: whether policy and heuristic start (and plan, and suspend) the same jobs; null where one of
            them was not asked.
        waiting: why the others wait, where that was asked for.
        fallback: what the heuristic would do, likewise.
        shadow: what the policy would do, where it is only told of.
        memory: to be sent back with the next state of this cluster.
        policy: who was asked; of a batch, said once.
    """

    decisions: list[Decision]
    decided_by: str
    because: str | None = None
    agrees: bool | None = None
    waiting: Sequence[Reason] | None = None
    fallback: Fallback | None = None
    shadow: list[Decision] | None = None
    memory: str | None = None
    policy: PolicyName | None = None


class Problem(Struct, frozen=True, gc=False):
    """What is wrong with a request: where, what, and what to do instead, in one line."""

    error: str
