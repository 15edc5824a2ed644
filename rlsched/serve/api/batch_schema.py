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
    """Jobs that run as columns.

    `jobs` of each cluster, and for every field of `RunningJob` a list with an entry for each of them; a field
    that is left out is left out of all.
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
    """Jobs that wait as columns; see `RunningJobs` and `WaitingJob`."""

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
    """Many clusters as columns, which say the same as states, are a quarter as long and are read sooner.

    For every field of `ClusterState` a list with an entry for each of them, and their jobs one after the
    other; a field that is left out is left out of all. Where it is left out of some, they have its default.
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
    """Many clusters, each by itself, and which policy is asked: either `states` or `columns`, not empty."""

    states: Annotated[list[ClusterState], Meta(max_length=MOST)] = []
    columns: ClusterColumns | None = None
    policy: Name | None = None
    explain: bool = False


class BatchResponse(Struct, frozen=True, gc=False):
    """Who was asked, and what is to be done, cluster by cluster."""

    policy: PolicyName
    answers: list[Answer]
