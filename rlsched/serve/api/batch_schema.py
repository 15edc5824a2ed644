"""Batches on the wire: many clusters as states or as columns, and the answers about them."""

from __future__ import annotations

from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from rlsched.serve.api.schema import (
    MOST,
    Ahead,
    Amount,
    Answer,
    ClusterState,
    Count,
    Duration,
    History,
    JobId,
    Memory,
    Name,
    PolicyName,
    Seconds,
    Share,
    Units,
    UnitsOn,
)

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


class BatchResponse(Struct, frozen=True, gc=False):
    """The policy, and an answer for each cluster."""

    policy: PolicyName
    answers: list[Answer]
