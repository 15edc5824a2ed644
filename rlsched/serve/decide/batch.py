"""Batches: checked clusters of one size, as a snapshot of the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.serve.decide.checks import Formulation, check_clusters, check_jobs, check_names, refuse
from rlsched.serve.decide.clusters import Clusters, Id
from rlsched.sim.priorities import priority, static_keys
from rlsched.sim.simulator import effective_prices
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, WAITING, Snapshot

OUT_OF_SERVICE = ""  # id of a job that holds units out of service; clients cannot name a job so
LONG_S = 10 * 365 * 86_400  # seconds for which such units are expected to stay out of service


class TooLarge(NamedTuple):
    """A job that asks for more units than are in service."""

    job: Id
    demand: list[int]
    units: list[int]


@dataclass(frozen=True, eq=False)
class Batch:
    """Clusters of the same units and about as many jobs."""

    clusters: Clusters  # as sent, their jobs sorted
    units: IntArray  # (resource,)
    snapshot: Snapshot  # the same clusters in ticks, without jobs that no cluster of this size can run
    ids: list[list[Id]]  # (cluster,) of the jobs of each, in the order of the core
    too_large: list[list[TooLarge]]  # (cluster,) jobs that the snapshot leaves out
    ran_before: IntArray  # (job,) ticks that a job ran before it was suspended, in the order of the snapshot

    @classmethod
    def of(cls, formulation: Formulation, clusters: Clusters, units: IntArray) -> Batch:
        """Check clusters and make a snapshot of them.

        Args:
            formulation: of the policy.
            clusters: all of these units.
            units: (resource,)

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
        snapshot = _snapshot(formulation, clusters, units, rank)
        # Requested ticks of a running job beyond its present run.
        beyond = np.maximum(0, snapshot.requested - (snapshot.expected_end - snapshot.begin))
        return cls(
            clusters=clusters,
            units=units,
            snapshot=snapshot,
            ids=[names[begin:end] for begin, end in pairwise(bounds)],
            too_large=too_large,
            ran_before=np.where(snapshot.place == RUNNING, beyond, jobs.ran // tick_s),
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
            refuse(f"{clusters.path_to(k)}free[{r}]", problem, remedy)
    return missing


def _without_large_jobs(
    clusters: Clusters, in_service: NDArray[np.int64]
) -> tuple[Clusters, list[list[TooLarge]]]:
    """Take out waiting jobs that ask for more than is in service.

    Args:
        clusters: with sorted jobs.
        in_service: (cluster, resource) units.
    """
    too_large: list[list[TooLarge]] = [[] for _ in range(len(clusters))]
    jobs = clusters.jobs
    waits = (jobs.place == READY) | (jobs.place == WAITING)
    large = waits & (jobs.demand > in_service[jobs.cluster]).any(axis=1)
    if not large.any():
        return clusters, too_large
    for row in sorted(np.flatnonzero(large).tolist(), key=jobs.list_index.__getitem__):
        k = int(jobs.cluster[row])
        job = TooLarge(jobs.ids[row], jobs.demand[row].tolist(), in_service[k].tolist())
        too_large[k].append(job)
    return clusters.take(~large), too_large


def _snapshot(formulation: Formulation, clusters: Clusters, units: IntArray, rank: IntArray) -> Snapshot:
    """Seconds in ticks, and defaults for fields that are left out.

    Args:
        formulation: of the policy.
        clusters: with sorted jobs.
        units: (resource,)
        rank: (job,) among the jobs of its cluster, by submit time.
    """
    jobs, tick_s, horizon = clusters.jobs, formulation.tick_s, formulation.horizon
    now = clusters.now // tick_s
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
    table = JobTable.build(
        submit=submit, runtime=requested, demand=jobs.demand, qos=jobs.qos, requested=requested
    )
    return Snapshot(
        first=clusters.first,
        now=now,
        arriving=np.array(clusters.fields.get("arriving", [True] * len(clusters)), np.bool_),
        reserved=_reserved(clusters),
        **_history(formulation, clusters, in_all),
        battery_wh=_battery_wh(formulation, clusters),
        forecast=_follows_supply(formulation, clusters),
        on=_units_on(formulation, clusters, len(units)),
        supply_w=1000.0 * _forecast(formulation, clusters, "supply_kw", 0.0),
        carbon=_forecast(
            formulation, clusters, "carbon_g_per_kwh", 0.0 if power is None else power.carbon_g_per_kwh
        ),
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
    """History before the snapshot, for policies that see it: (cluster,) values.

    Args:
        formulation: of the policy.
        clusters: with sorted jobs.
        requested: (job,) requested ticks in all.
    """
    tick_s, count = formulation.tick_s, len(clusters)
    now = clusters.now // tick_s
    began, arrived, work = now.copy(), np.zeros(count, np.int64), np.zeros(count, np.int64)
    finished, used_requests = np.zeros(count, np.int64), np.zeros(count)
    if "history" in formulation.scenario.observation.blocks:
        jobs = clusters.jobs
        real = jobs.ids != OUT_OF_SERVICE
        cluster = jobs.cluster[real]
        np.minimum.at(began, cluster, jobs.submit[real] // tick_s)
        np.add.at(arrived, cluster, 1)
        np.add.at(work, cluster, jobs.demand[real, 0] * requested[real])
        for k, history in clusters.optional("history"):
            began[k] = now[k] - history.seconds // tick_s
            arrived[k], finished[k] = history.arrived, history.finished
            used_requests[k], work[k] = history.used_requests, history.work // tick_s
    return {
        "history_start": began,
        "arrived": arrived,
        "finished": finished,
        "used_requests": used_requests,
        "arrived_work": work,
    }


def _reserved(clusters: Clusters) -> IntArray:
    """(cluster,) index of the job that holds the reservation; -1: none."""
    reserved, first = np.full(len(clusters), -1), clusters.first
    for k, name in clusters.optional("reserved"):
        ids = clusters.jobs.ids[first[k] : first[k + 1]].tolist()
        if name not in ids:
            problem = f"job {name!r} is larger than the cluster"
            refuse(f"{clusters.path_to(k)}reserved", problem, "leave it out")
        reserved[k] = ids.index(name)
    return reserved


def _battery_wh(formulation: Formulation, clusters: Clusters) -> FloatArray:
    """(cluster,) level of the battery."""
    power = formulation.scenario.power
    levels_kwh = np.zeros(len(clusters))
    if power is not None and power.battery is not None:
        levels_kwh += power.battery.initial * power.battery.capacity_kwh
        for k, level in clusters.optional("battery_kwh"):
            levels_kwh[k] = level
    return 1000.0 * levels_kwh


def _follows_supply(formulation: Formulation, clusters: Clusters) -> NDArray[np.bool_]:
    """(cluster,) whether the units on follow from the supply."""
    follows = np.full(len(clusters), formulation.horizon > 0)
    for k, _ in clusters.optional("units_on"):
        follows[k] = False
    return follows


def _forecast(formulation: Formulation, clusters: Clusters, name: str, default: float) -> FloatArray:
    """(cluster, tick) values of a forecast."""
    forecasts = np.full((len(clusters), formulation.horizon), default)
    for k, values in clusters.optional(name):
        forecasts[k] = _padded(values, formulation.horizon)
    return forecasts


def _units_on(formulation: Formulation, clusters: Clusters, resources: int) -> NDArray[np.int32]:
    """(cluster, resource, tick) units on."""
    units_on = np.zeros((len(clusters), resources, formulation.horizon), np.int32)
    for k, rows in clusters.optional("units_on"):
        for r, row in enumerate(rows):
            units_on[k, r] = _padded(row, formulation.horizon)
    return units_on


def _padded(values: Sequence[float], length: int) -> FloatArray:
    """A forecast of `length` ticks; its last value counts for all later ones."""
    known = np.array(values[:length], np.float64)
    return np.pad(known, (0, length - len(known)), mode="edge")
