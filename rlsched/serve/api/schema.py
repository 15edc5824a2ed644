"""The schema of requests and answers: the state of a cluster, and the decisions about its jobs.

msgspec decodes and checks JSON five times as fast as pydantic, which matters for batches. The OpenAPI
description uses the same classes. Times are whole seconds on the client's clock, for instance Unix time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from rlsched.jobs import LEAST_QOS

FAR = 1 << 40  # limit of seconds and unit-seconds: 34,000 years

MANY = (1 << 31) - 1

MOST = 10_000  # clusters in a batch, whatever the settings

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
    """A running job.

    `expected_end` is its start plus its requested time, even if that is over. Policies that suspend jobs also
    use `requested`, for a job that was suspended before, and the fields about its submission, as of
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


class WaitingJob(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A waiting or suspended job.

    `requested` is its requested time in all, and `ran` its run time before a suspension. The queue at its
    submission is optional, and is estimated from the jobs that still wait: waiting jobs, their demand times
    requested time (unit-seconds), and free units, both of the first resource. With a ready pool, `ready`
    means that the job is in it.
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


class PlannedJob(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A job that is planned to start, or to resume, at a later tick."""

    id: JobId
    submit: Seconds
    requested: Duration
    demand: Units
    at: Seconds
    qos: Share = 1.0
    ran: Seconds = 0


UnitsAhead = Annotated[list[Count], Meta(min_length=1, max_length=100_000)]
Ahead = Annotated[list[Amount], Meta(min_length=1, max_length=100_000)]


class History(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """Accounting of a cluster over the last `seconds`.

    Arrived jobs were submitted in that time, or are listed. Their work is demand times requested time
    (unit-seconds), of the first resource. `used_requests` is a sum over finished jobs: runtime / requested
    time, at most 1 each.
    """

    seconds: Seconds
    arrived: Count
    work: Work
    finished: Count = 0
    used_requests: Amount = 0.0


Memory = Annotated[str, Meta(max_length=100_000)]
UnitsOn = Annotated[list[UnitsAhead], Meta(max_length=16)]


class Cluster(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The state of a cluster, without its jobs.

    Attributes:
        now: the time.
        units: of the cluster; left out: those of the policy's training.
        free: units free now; units neither free nor held by jobs are out of service.
        reserved: waiting job that holds the reservation by an earlier decision at this time.
        arriving: whether more jobs will arrive; otherwise a policy has nothing to wait for.
        units_on: with a horizon, forecast of units on, by resource, at this tick and the next ones; the last
            value stands for all later ticks.
        supply_kw: forecast of wind and sun, likewise.
        carbon_g_per_kwh: of the grid, likewise.
        battery_kwh: level of the battery.
        history: for policies that observe it; left out: it begins with the listed jobs.
        cluster: name, for logs.
        memory: of a policy with a memory: the one in its last answer.
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
    """The state of a cluster and its queue.

    Attributes:
        running: running jobs.
        waiting: waiting jobs, first submitted first.
        planned: with a horizon, jobs with a planned start.
        suspended: with a horizon, suspended jobs, first suspended first.
    """

    running: Annotated[list[RunningJob], Meta(max_length=100_000)] = []
    waiting: Annotated[list[WaitingJob], Meta(max_length=100_000)] = []
    planned: Annotated[list[PlannedJob], Meta(max_length=100_000)] = []
    suspended: Annotated[list[WaitingJob], Meta(max_length=100_000)] = []


class DecisionRequest(ClusterState, frozen=True, kw_only=True):
    """One cluster, and the policy to ask."""

    policy: Name | None = None
    explain: bool = True


Entry = TypeVar("Entry")
PerCluster = Annotated[list[Entry], Meta(max_length=MOST)]
"""An entry for each cluster."""

PerJob = Annotated[list[Entry], Meta(max_length=2_000_000)]
"""An entry for each job."""


class RunningJobs(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Running jobs as columns.

    `jobs` is the number of jobs of each cluster. Every field of `RunningJob` is a list with an entry for each
    job; a field may be left out for all jobs.
    """

    jobs: PerCluster[Count]
    id: PerJob[JobId]
    demand: PerJob[Units]
    start: PerJob[Seconds]
    expected_end: PerJob[Seconds]
    submit: PerJob[Seconds | None] | None = None
    requested: PerJob[Duration | None] | None = None
    qos: PerJob[Share] | None = None
    queue_at_submit: PerJob[Count | None] | None = None
    work_at_submit: PerJob[Seconds | None] | None = None
    free_at_submit: PerJob[Count | None] | None = None


class WaitingJobs(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Waiting jobs as columns; see `RunningJobs` and `WaitingJob`."""

    jobs: PerCluster[Count]
    id: PerJob[JobId]
    submit: PerJob[Seconds]
    requested: PerJob[Duration]
    demand: PerJob[Units]
    qos: PerJob[Share] | None = None
    ran: PerJob[Seconds] | None = None
    ready: PerJob[bool] | None = None
    queue_at_submit: PerJob[Count | None] | None = None
    work_at_submit: PerJob[Seconds | None] | None = None
    free_at_submit: PerJob[Count | None] | None = None


class PlannedJobs(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Planned jobs as columns; see `RunningJobs` and `PlannedJob`."""

    jobs: PerCluster[Count]
    id: PerJob[JobId]
    submit: PerJob[Seconds]
    requested: PerJob[Duration]
    demand: PerJob[Units]
    at: PerJob[Seconds]
    qos: PerJob[Share] | None = None
    ran: PerJob[Seconds] | None = None


class ClusterColumns(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Many clusters as columns, which are a quarter as long as states and are read faster.

    Every field of `ClusterState` is a list with an entry for each cluster, and the jobs of all clusters stand
    one after the other. A field may be left out for all clusters; otherwise every cluster has an entry, such
    as the default.
    """

    now: Annotated[list[Seconds], Meta(min_length=1, max_length=MOST)]
    running: RunningJobs | None = None
    waiting: WaitingJobs | None = None
    planned: PlannedJobs | None = None
    suspended: WaitingJobs | None = None
    units: PerCluster[Units | None] | None = None
    free: PerCluster[Units | None] | None = None
    reserved: PerCluster[JobId | None] | None = None
    arriving: PerCluster[bool] | None = None
    units_on: PerCluster[UnitsOn | None] | None = None
    supply_kw: PerCluster[Ahead | None] | None = None
    carbon_g_per_kwh: PerCluster[Ahead | None] | None = None
    battery_kwh: PerCluster[Amount | None] | None = None
    history: PerCluster[History | None] | None = None
    cluster: PerCluster[Name] | None = None
    memory: PerCluster[Memory | None] | None = None


class BatchRequest(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Independent clusters, as `states` or as `columns`, and the policy to ask; not empty."""

    states: Annotated[list[ClusterState], Meta(max_length=MOST)] = []
    columns: ClusterColumns | None = None
    policy: Name | None = None
    explain: bool = False


class Decision(Struct, frozen=True, gc=False):
    """A decision about a job, after the decisions before it.

    Attributes:
        job: id.
        action: start (or resume); reserve: others start only if they do not delay it; plan: start at `at`;
            suspend.
        at: time of the start; of a reservation, the expected one.
        score: probability of the action; null if it was the only legal one, and of heuristics.
    """

    job: int | str
    action: str
    at: int
    score: float | None


class Reason(Struct, frozen=True, gc=False):
    """Why a waiting job does not start now; `may_start`: it could, and was not chosen."""

    job: int | str
    reason: str
    detail: str


class Fallback(Struct, frozen=True, gc=False):
    """The fallback heuristic and its decisions."""

    name: str
    decisions: list[Decision]


class PolicyName(Struct, frozen=True, gc=False):
    """A policy: its name in the service, and the first characters of its checksum."""

    name: str
    version: str


class Answer(Struct, frozen=True, gc=False, omit_defaults=True):
    """The decisions about a cluster.

    Attributes:
        decisions: in order.
        decided_by: policy, or fallback.
        because: why the policy did not decide.
        agrees: whether policy and heuristic start (and plan, and suspend) the same jobs; null if one of them
            did not decide.
        waiting: why the other jobs wait, for requests with explain.
        fallback: decisions of the heuristic, likewise.
        shadow: decisions of the policy, if it is a shadow.
        memory: for the next request about this cluster.
        policy: the policy; for a batch, only once.
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


class BatchResponse(Struct, frozen=True, gc=False):
    """The policy, and an answer for each cluster."""

    policy: PolicyName
    answers: list[Answer]


class Problem(Struct, frozen=True, gc=False):
    """A refusal in one line: field, problem, and remedy."""

    error: str
