"""Checks of clusters before a snapshot is made of them; each error names the field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.serve.decide.clusters import LIST_NAMES, Clusters
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, WAITING

POWER_FIELDS = ("supply_kw", "carbon_g_per_kwh", "battery_kwh")
HORIZON_FIELDS = ("units_on", *POWER_FIELDS)
HORIZON_LISTS = ("planned", "suspended")


@dataclass(frozen=True, eq=False)
class Formulation:
    """Formulation of a served policy, which says what states it accepts."""

    scenario: Scenario  # decision rules, observations, penalty multipliers and plant
    num_resources: int  # resource types
    priority_rule: str  # of the fallback heuristic

    @property
    def horizon(self) -> int:
        """Planning horizon, ticks; 0: none."""
        return self.scenario.decision.horizon or 0

    @property
    def tick_s(self) -> int:
        """Seconds per tick."""
        return self.scenario.cluster.tick_s


def check_clusters(formulation: Formulation, clusters: Clusters, units: IntArray) -> None:
    """Check what holds of clusters of these (resource,) units and their lists, whatever their jobs.

    Raises:
        BadInputError: a field is invalid.
    """
    if formulation.horizon:
        _check_with_horizon(formulation, clusters, units.tolist())
    else:
        _check_without_horizon(formulation, clusters)
    _check_history(clusters)
    entries, resources = clusters.jobs.entries, clusters.jobs.demand.shape[1]
    wrong = entries != resources
    if wrong.any():
        row = int(wrong.argmax())
        problem = f"{entries[row]} entries for {resources} resources"
        clusters.refuse_job(row, "demand", problem, "send one for each")


def check_names(clusters: Clusters) -> None:
    """Check reservations and names, for jobs sorted by cluster.

    Raises:
        BadInputError: no waiting job holds the reservation, or a job is listed twice.
    """
    jobs, bounds, ids = clusters.jobs, clusters.first.tolist(), clusters.jobs.ids.tolist()
    for k, name in clusters.optional("reserved"):
        part = slice(bounds[k], bounds[k + 1])
        waits = (jobs.place[part] == READY) | (jobs.place[part] == WAITING)
        if name not in jobs.ids[part][waits].tolist():
            problem = f"value {name!r} is no waiting job"
            clusters.refuse(k, "reserved", problem, "name one, or leave it out")
    for k, (begin, end) in enumerate(pairwise(bounds)):
        if len({*ids[begin:end]}) < end - begin:
            (twice, _), *_ = Counter(ids[begin:end]).most_common(1)
            problem = f"job {twice!r} stands there twice"
            clusters.refuse(k, "waiting", problem, "name each once")


def check_jobs(formulation: Formulation, clusters: Clusters, units: IntArray) -> None:
    """Check every job, and the units of all running jobs together, against (resource,) units.

    Raises:
        BadInputError: a job is invalid, or running jobs hold more than the cluster has.
    """
    jobs, now = clusters.jobs, clusters.now[clusters.jobs.cluster]
    running, planned = jobs.place == RUNNING, jobs.place == PLANNED
    ticks, horizon = -(-jobs.requested // formulation.tick_s), formulation.horizon
    too_long = f"is longer than the {horizon} ticks that are planned"
    too_wide = f"asks for more than the {units.tolist()} units of the cluster"
    before_start, not_after_start = running & (jobs.submit > jobs.start), jobs.expected_end <= jobs.start
    faults = (
        (running & (jobs.start > now), "start", "is later than now", "list it as waiting"),
        (jobs.submit > now, "submit", "is later than now", "send jobs that were submitted"),
        (before_start, "submit", "is later than its start", "send its submit time"),
        (
            running & not_after_start,
            "expected_end",
            "is not later than its start",
            "send start + requested time",
        ),
        (planned & (jobs.at <= now), "at", "is not later than now", "list it as running, or as waiting"),
        (planned & (ticks > horizon), "requested", too_long, "list it as waiting"),
        (jobs.ran > jobs.requested, "ran", "is longer than it asked for", "send what it asked for in all"),
        (jobs.demand.sum(axis=1) < 1, "demand", "asks for nothing", "ask for a unit"),
        ((jobs.demand > units).any(axis=1), "demand", too_wide, "send the cluster's units"),
    )
    for faulty, field, problem, remedy in faults:
        if faulty.any():
            clusters.refuse_job(int(faulty.argmax()), field, problem, remedy)
    held = clusters.held
    if (held > units).any():
        k, r = np.argwhere(held > units)[0].tolist()
        problem = f"hold {held[k, r]} of {units[r]} units"
        clusters.refuse(k, "running", problem, "send the cluster's units")


def _check_without_horizon(formulation: Formulation, clusters: Clusters) -> None:
    problem = "is not supported by a policy without a horizon"
    for k, free in clusters.optional("free"):
        _check_length(formulation, clusters, k, "free", free)
    for name in HORIZON_FIELDS:
        for k, value in clusters.optional(name):
            if value:  # a battery of 0 kWh says as little as an empty list
                clusters.refuse(k, name, problem, "leave it out")
    if formulation.scenario.decision.action_rule == "fit":
        _refuse_given(clusters, "reserved", "is not supported by a policy that reserves nothing")
    for name in HORIZON_LISTS:
        listed = clusters.jobs.list_number == LIST_NAMES.index(name)
        if listed.any():
            cluster = clusters.jobs.cluster[listed.argmax()]
            clusters.refuse(cluster, name, problem, "leave it out")


def _check_with_horizon(formulation: Formulation, clusters: Clusters, units: list[int]) -> None:
    power, jobs = formulation.scenario.power, clusters.jobs
    problem = "is not supported by a policy with a horizon"
    _refuse_given(clusters, "free", problem, "send units_on")
    _refuse_given(clusters, "reserved", problem, "list planned jobs instead")
    for k, rows in clusters.optional("units_on"):
        _check_length(formulation, clusters, k, "units_on", rows)
        for r, row in enumerate(rows):
            if max(row) > units[r]:
                problem = f"value {max(row)} of {units[r]} units"
                clusters.refuse(k, f"units_on[{r}]", problem, "send at most those")
    if power is None:
        for name in POWER_FIELDS:
            _refuse_given(clusters, name, "is not supported by a policy without power")
    else:
        _check_supply(formulation, clusters)
    capacity = power.battery.capacity_kwh if power is not None and power.battery is not None else 0.0
    for k, level in clusters.optional("battery_kwh"):
        if level > capacity:
            problem = f"value {level:g} of {capacity:g} kWh"
            clusters.refuse(k, "battery_kwh", problem, "send the level")
    window = formulation.scenario.decision.window
    pool = (jobs.place == READY) & (jobs.list_number == LIST_NAMES.index("waiting"))
    ready = np.bincount(jobs.cluster[pool], minlength=len(clusters))
    if (ready > window).any():
        k = int((ready > window).argmax())
        problem = f"{ready[k]} jobs are ready, in a pool of {window}"
        clusters.refuse(k, "waiting", problem, "send what is in it")


def _check_supply(formulation: Formulation, clusters: Clusters) -> None:
    """Check that each cluster gives the forecast that the policy needs."""
    on, supply = dict(clusters.optional("units_on")), dict(clusters.optional("supply_kw"))
    sees_supply = "supply" in formulation.scenario.observation.blocks
    for k in range(len(clusters)):
        if k not in supply and sees_supply:
            problem = "is missing: this policy looks at it"
            clusters.refuse(k, "supply_kw", problem, "send what is forecast")
        if k not in supply and k not in on:
            problem = "is missing, and supply_kw, from which it follows"
            clusters.refuse(k, "units_on", problem, "send what is forecast")


def _check_history(clusters: Clusters) -> None:
    counts = clusters.counts
    for k, history in clusters.optional("history"):
        listed = int(counts[k])
        if history.arrived < listed + history.finished:
            problem = f"value {history.arrived}, with {listed} jobs listed and {history.finished} finished"
            clusters.refuse(k, "history.arrived", problem, "count all of them")
        if history.used_requests > history.finished:
            remedy = "send the sum of runtime / requested, capped at 1"
            problem = f"value {history.used_requests:g} of {history.finished} jobs, at most 1 each"
            clusters.refuse(k, "history.used_requests", problem, remedy)


def _check_length(
    formulation: Formulation, clusters: Clusters, k: int, name: str, values: Sequence[object]
) -> None:
    if len(values) != formulation.num_resources:
        problem = f"{len(values)} entries for {formulation.num_resources} resources"
        clusters.refuse(k, name, problem, "send one for each")


def _refuse_given(clusters: Clusters, name: str, problem: str, remedy: str = "leave it out") -> None:
    for k, _ in clusters.optional(name):
        clusters.refuse(k, name, problem, remedy)
