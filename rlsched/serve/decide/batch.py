"""Batches: checked clusters of one size, as a snapshot of the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.serve.api.schema import Reason
from rlsched.serve.decide.checks import Formulation, check_clusters, check_jobs, check_names
from rlsched.serve.decide.clusters import Clusters, Id
from rlsched.sim.priorities import priority, static_keys
from rlsched.sim.simulator import effective_prices
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, WAITING, Snapshot

OUT_OF_SERVICE = ""  # id of a job that holds units out of service; clients cannot name a job so
LONG_S = 10 * 365 * 86_400  # seconds for which such units are expected to stay out of service


@dataclass(frozen=True, eq=False)
class Batch:
    """Clusters of the same units and about as many jobs."""

    clusters: Clusters  # as sent, their jobs sorted
    units: IntArray  # (resource,)
    snapshot: Snapshot  # the same clusters in ticks, without jobs that no cluster of this size can run
    ids: list[list[Id]]  # (cluster,) of the jobs of each, in the order of the core
    too_large: list[list[Reason]]  # (cluster,) jobs that the snapshot leaves out

    @classmethod
    def of(cls, formulation: Formulation, clusters: Clusters, units: IntArray) -> Batch:
        """Check clusters of these (resource,) units, and make a snapshot of them.

        Raises:
            BadInputError: a field is invalid.
        """
        check_clusters(formulation, clusters, units)
        in_service = np.broadcast_to(units, (len(clusters), len(units)))
        if clusters.optional("free"):
            missing = _out_of_service(clusters, units)
            clusters = clusters.with_running(missing, OUT_OF_SERVICE, LONG_S)
            in_service = units - missing
        clusters = clusters.sorted(by_submit=not formulation.horizon)
        check_names(clusters)
        clusters, too_large = _without_large_jobs(clusters, in_service)
        check_jobs(formulation, clusters, units)
        jobs, first, tick_s = clusters.jobs, clusters.first, formulation.tick_s
        by_submit = np.lexsort((jobs.submit // tick_s, jobs.cluster))
        rank = np.empty(len(by_submit), np.int64)
        rank[by_submit] = np.arange(len(by_submit)) - first[jobs.cluster[by_submit]]
        names, bounds = jobs.ids[by_submit].tolist(), first.tolist()
        return cls(
            clusters=clusters,
            units=units,
            snapshot=_snapshot(formulation, clusters, units, rank),
            ids=[names[begin:end] for begin, end in pairwise(bounds)],
            too_large=too_large,
        )

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def max_jobs(self) -> int:
        """Largest number of jobs of a cluster."""
        return int(np.diff(self.snapshot.first).max())


def _out_of_service(clusters: Clusters, units: IntArray) -> IntArray:
    """(cluster, resource) units neither free nor held by a job, for clusters that give their free units."""
    held = clusters.held
    missing = np.zeros_like(held)
    for k, free in clusters.optional("free"):
        missing[k] = units - held[k] - free
        if missing[k].min() < 0:
            r = int(missing[k].argmin())
            problem = f"value {free[r]}, plus {held[k, r]} that jobs hold, of {units[r]}"
            remedy = "send the units that are free, and those of the cluster"
            clusters.refuse(k, f"free[{r}]", problem, remedy)
    return missing


def _without_large_jobs(
    clusters: Clusters, in_service: NDArray[np.int64]
) -> tuple[Clusters, list[list[Reason]]]:
    """Take out waiting jobs that ask for more than the (cluster, resource) units in service."""
    too_large: list[list[Reason]] = [[] for _ in range(len(clusters))]
    jobs = clusters.jobs
    waits = (jobs.place == READY) | (jobs.place == WAITING)
    large = waits & (jobs.demand > in_service[jobs.cluster]).any(axis=1)
    if not large.any():
        return clusters, too_large
    for row in sorted(np.flatnonzero(large).tolist(), key=jobs.list_index.__getitem__):
        k = int(jobs.cluster[row])
        problem = f"asks for {jobs.demand[row].tolist()} of {in_service[k].tolist()} units in service"
        detail = f"{problem}; are units those of this cluster?"
        too_large[k].append(Reason(jobs.ids[row], "too_large", detail))
    return clusters.take(~large), too_large


def _snapshot(formulation: Formulation, clusters: Clusters, units: IntArray, rank: IntArray) -> Snapshot:
    """Seconds in ticks, and defaults for fields that are left out; see `Snapshot`."""
    jobs, tick_s, horizon = clusters.jobs, formulation.tick_s, formulation.horizon
    now, count = clusters.now // tick_s, len(clusters)
    in_all = np.maximum(1, -(-jobs.requested // tick_s))
    submit = jobs.submit // tick_s
    requested = np.maximum(1, in_all - jobs.ran // tick_s)
    running = jobs.place == RUNNING
    start = np.where(running, jobs.start, jobs.at) // tick_s
    expected_end = np.where(running, -(-jobs.expected_end // tick_s), 0)
    if horizon:  # no plan reaches beyond it
        last = now[jobs.cluster] + horizon
        expected_end = np.minimum(expected_end, last)
        start = np.where(jobs.place == PLANNED, np.minimum(start, last - requested), start)
    prices = effective_prices(formulation.scenario)
    value = (jobs.demand * prices).sum(axis=1)
    power = formulation.scenario.power
    battery = None if power is None else power.battery
    initial_kwh = 0.0 if battery is None else battery.initial * battery.capacity_kwh
    grid_carbon = 0.0 if power is None else power.carbon_g_per_kwh
    padded = partial(_padded, length=horizon)
    table = JobTable.build(
        submit=submit, runtime=requested, demand=jobs.demand, qos=jobs.qos, requested=requested
    )
    return Snapshot(
        first=clusters.first,
        now=now,
        arriving=np.array(clusters.fields.get("arriving", [True] * count), np.bool_),
        reserved=_reserved(clusters),
        **_history(formulation, clusters, in_all),
        battery_wh=1000.0 * _filled(clusters, "battery_kwh", np.full(count, initial_kwh)),
        forecast=_filled(clusters, "units_on", np.full(count, horizon > 0), lambda rows: False),
        on=_filled(clusters, "units_on", np.zeros((count, len(units), horizon), np.int32), padded),
        supply_w=1000.0 * _filled(clusters, "supply_kw", np.zeros((count, horizon)), padded),
        carbon=_filled(clusters, "carbon_g_per_kwh", np.full((count, horizon), grid_carbon), padded),
        place=jobs.place,
        rank=rank,
        submit=submit,
        requested=requested,
        begin=start,
        expected_end=expected_end,
        due=submit + np.floor(in_all / jobs.qos + 1e-9).astype(np.int64),
        demand=jobs.demand,
        qos=jobs.qos,
        value_rate=value * jobs.qos,
        density=value / jobs.demand.sum(axis=1) * jobs.qos,
        key=static_keys(priority(formulation.priority_rule), table, units, 0, prices),
        queue_at_submit=jobs.queue_at_submit,
        work_at_submit=jobs.work_at_submit // tick_s,  # NOT_GIVEN stays below 0
        free_at_submit=jobs.free_at_submit,
    )


def _history(formulation: Formulation, clusters: Clusters, requested: IntArray) -> dict[str, Any]:
    """(cluster,) history before the snapshot, for policies that see it; requested: (job,) ticks in all."""
    tick_s, count, jobs = formulation.tick_s, len(clusters), clusters.jobs
    now = clusters.now // tick_s
    began, arrived, finished, work = now.copy(), *np.zeros((3, count), np.int64)
    used_requests = np.zeros(count)
    if "history" in formulation.scenario.observation.blocks:
        real = jobs.ids != OUT_OF_SERVICE
        cluster = jobs.cluster[real]
        np.minimum.at(began, cluster, jobs.submit[real] // tick_s)
        np.add.at(arrived, cluster, 1)
        np.add.at(work, cluster, jobs.demand[real, 0] * requested[real])
        for k, history in clusters.optional("history"):
            began[k] = now[k] - history.seconds // tick_s
            arrived[k], finished[k] = history.arrived, history.finished
            used_requests[k], work[k] = history.used_requests, history.work // tick_s
    names = ("history_start", "arrived", "finished", "used_requests", "arrived_work")
    return dict(zip(names, (began, arrived, finished, used_requests, work), strict=True))


def _reserved(clusters: Clusters) -> IntArray:
    """(cluster,) index of the job that holds the reservation; -1: none."""
    reserved, first = np.full(len(clusters), -1), clusters.first
    for k, name in clusters.optional("reserved"):
        ids = clusters.jobs.ids[first[k] : first[k + 1]].tolist()
        if name not in ids:
            problem = f"job {name!r} is larger than the cluster"
            clusters.refuse(k, "reserved", problem, "leave it out")
        reserved[k] = ids.index(name)
    return reserved


def _filled(
    clusters: Clusters,
    name: str,
    values: NDArray[Any],
    value_of: Callable[[Any], Any] = lambda value: value,
) -> NDArray[Any]:
    """(cluster, ...) values of an optional field, where clusters give it."""
    for k, value in clusters.optional(name):
        values[k] = value_of(value)
    return values


def _padded(values: Sequence[Any], length: int) -> FloatArray:
    """(..., tick) forecasts of `length` ticks; the last value of each counts for all later ones."""
    if values and isinstance(values[0], Sequence):
        return np.array([_padded(row, length) for row in values])
    known = np.array(values[:length], np.float64)
    return np.pad(known, (0, length - len(known)), mode="edge")
