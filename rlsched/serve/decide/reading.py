"""From clusters in domain terms to snapshots of the core, checked to the last field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.serve.api.requests import Clusters
from rlsched.serve.decide.columns import NAMES, Columns, Id
from rlsched.sim.priorities import Priority, priority, static_keys
from rlsched.sim.simulator import effective_prices
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, WAITING, Snapshot

OUT_OF_SERVICE = ""
"""Id of what holds units that no job does; clients cannot name a job so."""

LONG_S = 10 * 365 * 86_400
"""That units which are out of service are expected to stay so."""

HORIZON_ONLY = ("units_on", "supply_kw", "carbon_g_per_kwh", "battery_kwh")
HORIZON_LISTS = ("planned", "suspended")


@dataclass(frozen=True, eq=False)
class Site:
    """What a policy knows of the clusters that it serves.

    Attributes:
        scenario: its decision rules, observations, prices and plant.
        num_resources: resource types.
        order: of the heuristic beside it.
    """

    scenario: Scenario
    num_resources: int
    order: Priority

    @classmethod
    def of(cls, scenario: Scenario, num_resources: int, order: str) -> Site:
        """By the name of the order.

        Raises:
            BadInputError: an unknown order.
        """
        return cls(scenario, num_resources, priority(order))

    @property
    def horizon(self) -> int:
        """Ticks that are planned ahead; 0: none."""
        return self.scenario.decision.horizon or 0

    @property
    def tick_s(self) -> int:
        """Seconds per tick."""
        return self.scenario.cluster.tick_s


class TooLarge(NamedTuple):
    """A job that asks for more than is in service."""

    job: Id
    demand: list[int]
    units: list[int]


@dataclass(frozen=True, eq=False)
class Read:
    """Clusters as the core takes them, and how clients name their jobs.

    Attributes:
        shot: the same order of clusters; jobs that no cluster of this size can run are left out.
        ids: (cluster,) of the jobs of each, in the order of the core.
        too_large: (cluster,) jobs that were left out.
        before: (job,) ticks that a job ran before it was suspended, in the order of the snapshot.
    """

    shot: Snapshot
    ids: list[list[Id]]
    too_large: list[list[TooLarge]]
    before: IntArray


def read_states(site: Site, clusters: Clusters, jobs: Columns, units: IntArray) -> Read:
    """Check clusters and make a snapshot of them.

    Args:
        site: what the policy knows.
        clusters: all of them with these units.
        jobs: theirs.
        units: (resource,) units.

    Raises:
        BadInputError: one means nothing; the message names the field.
    """
    if site.horizon:
        _check_ahead(site, clusters, units.tolist())
    else:
        _check_now(site, clusters)
    _check_lists(site, jobs)
    _check_history(clusters, jobs)
    jobs.check_demands()
    now, free = clusters.now, clusters.given("free")
    there = np.broadcast_to(units, (len(clusters), len(units)))
    if free:
        missing = _out_of_service(free, jobs, units)
        rows = np.flatnonzero(missing.any(axis=1))
        jobs = jobs.with_running(rows, OUT_OF_SERVICE, missing[rows], now[rows], LONG_S)
        there = units - missing
    jobs = jobs.in_turn(queued=not site.horizon)
    _check_reserved(clusters, jobs)
    jobs.check_names()
    large = ((jobs.place == READY) | (jobs.place == WAITING)) & (jobs.demand > there[jobs.whose]).any(axis=1)
    too_large: list[list[TooLarge]] = [[] for _ in clusters.where]
    if large.any():
        for row in sorted(np.flatnonzero(large).tolist(), key=jobs.within.__getitem__):
            c = int(jobs.whose[row])
            too_large[c].append(TooLarge(jobs.ids[row], jobs.demand[row].tolist(), there[c].tolist()))
        jobs = jobs.take(~large)
    jobs.check(now, units, site.tick_s, site.horizon)
    return _Snapper(site, clusters, units, jobs).read(too_large)


def _check_now(site: Site, clusters: Clusters) -> None:
    """What must hold of clusters whose policy has no horizon, whatever their jobs."""
    for c, free in clusters.given("free"):
        _check_length(site, free, f"{clusters.where[c]}free")
    for name in HORIZON_ONLY:
        for c, given in clusters.given(name):
            if given:  # a battery of 0 kWh says as little as a list of nothing
                _refuse_horizon(f"{clusters.where[c]}{name}")
    if site.scenario.decision.action_rule == "fit":
        problem = "means nothing to a policy that reserves nothing"
        _refuse_given(clusters, "reserved", problem, "leave it out")


def _check_history(clusters: Clusters, jobs: Columns) -> None:
    """What must hold of what happened before."""
    counts = jobs.counts
    for c, history in clusters.given("history"):
        at, told = f"{clusters.where[c]}history.", int(counts[c])
        if history.arrived < told + history.finished:
            problem = f"value {history.arrived}, with {told} jobs told of and {history.finished} finished"
            _refuse(f"{at}arrived", problem, "count all of them")
        if history.used_requests > history.finished:
            problem = f"value {history.used_requests:g} of {history.finished} jobs, at most 1 each"
            _refuse(f"{at}used_requests", problem, "send the sum of runtime / requested, capped at 1")


def _check_ahead(site: Site, clusters: Clusters, units: list[int]) -> None:
    """What must hold of clusters whose policy has a horizon, whatever their jobs."""
    power, where, horizon = site.scenario.power, clusters.where, "means nothing to a policy with a horizon"
    _refuse_given(clusters, "free", horizon, "send units_on")
    _refuse_given(clusters, "reserved", horizon, "list planned jobs instead")
    on, supply = dict(clusters.given("units_on")), dict(clusters.given("supply_kw"))
    for c, rows in on.items():
        _check_length(site, rows, f"{where[c]}units_on")
        for r, row in enumerate(rows):
            if max(row) > units[r]:
                problem = f"value {max(row)} of {units[r]} units"
                _refuse(f"{where[c]}units_on[{r}]", problem, "send at most those")
    if power is None:
        for name in ("supply_kw", "carbon_g_per_kwh", "battery_kwh"):
            _refuse_given(clusters, name, "means nothing to a policy that knows no power", "leave it out")
    else:
        sees_supply = "supply" in site.scenario.observation.blocks
        for c, at in enumerate(where):
            if c not in supply and sees_supply:
                _refuse(f"{at}supply_kw", "is missing: this policy looks at it", "send what is forecast")
            if c not in supply and c not in on:
                problem = "is missing, and supply_kw, from which it follows"
                _refuse(f"{at}units_on", problem, "send what is forecast")
    capacity = power.battery.capacity_kwh if power is not None and power.battery is not None else 0.0
    for c, level in clusters.given("battery_kwh"):
        if level > capacity:
            _refuse(f"{where[c]}battery_kwh", f"value {level:g} of {capacity:g} kWh", "send the level")


def _refuse_given(clusters: Clusters, name: str, problem: str, remedy: str) -> None:
    for c, _ in clusters.given(name):
        _refuse(f"{clusters.where[c]}{name}", problem, remedy)


def _check_lists(site: Site, jobs: Columns) -> None:
    """What must hold of the lists of clusters, whatever stands in them."""
    where = jobs.where
    if site.horizon:
        window = site.scenario.decision.window
        pool = (jobs.place == READY) & (jobs.listed == NAMES.index("waiting"))
        ready = np.bincount(jobs.whose[pool], minlength=len(where))
        if (ready > window).any():
            c = int((ready > window).argmax())
            problem = f"{ready[c]} jobs are ready, in a pool of {window}"
            _refuse(f"{where[c]}waiting", problem, "send what is in it")
        return
    for name in HORIZON_LISTS:
        listed = jobs.listed == NAMES.index(name)
        if listed.any():
            _refuse_horizon(f"{where[int(jobs.whose[listed.argmax()])]}{name}")


def _refuse_horizon(at: str) -> NoReturn:
    _refuse(at, "means nothing to a policy without a horizon", "leave it out")


def _check_reserved(clusters: Clusters, jobs: Columns) -> None:
    first = jobs.first
    for c, name in clusters.given("reserved"):
        part = slice(first[c], first[c + 1])
        waits = (jobs.place[part] == READY) | (jobs.place[part] == WAITING)
        if name not in jobs.ids[part][waits].tolist():
            problem = f"value {name!r} is no waiting job"
            _refuse(f"{clusters.where[c]}reserved", problem, "name one, or leave it out")


def _check_length(site: Site, given: Sequence[object], at: str) -> None:
    if len(given) != site.num_resources:
        _refuse(at, f"{len(given)} entries for {site.num_resources} resources", "send one for each")


def _out_of_service(free: Sequence[tuple[int, list[int]]], jobs: Columns, units: IntArray) -> IntArray:
    """(cluster, resource) units that are neither free nor held by a job, where it is told which are free."""
    held = jobs.held
    missing = np.zeros_like(held)
    for c, there in free:
        missing[c] = units - held[c] - there
        if missing[c].min() < 0:
            r = int(missing[c].argmin())
            problem = f"value {there[r]} beside {held[c, r]} that jobs hold of {units[r]}"
            remedy = "send the units that are free, and those of the cluster"
            _refuse(f"{jobs.where[c]}free[{r}]", problem, remedy)
    return missing


def _refuse(where: str, problem: str, remedy: str) -> NoReturn:
    raise BadInputError(where, problem, remedy)


@dataclass(frozen=True, eq=False)
class _Snapper:
    """Makes ticks of seconds, and fills what clients may leave out."""

    site: Site
    clusters: Clusters
    units: IntArray
    jobs: Columns

    def read(self, too_large: list[list[TooLarge]]) -> Read:
        """All as the core takes it."""
        jobs, first = self.jobs, self.jobs.first
        by_submit = np.lexsort((jobs.submit // self.site.tick_s, jobs.whose))
        rank = np.empty(len(by_submit), np.int64)
        rank[by_submit] = np.arange(len(by_submit)) - first[jobs.whose[by_submit]]
        named, bounds = jobs.ids[by_submit].tolist(), first.tolist()
        shot = self._snapshot(first, rank)
        # Of one that runs, what it asked for beyond the run that goes on.
        beyond = np.maximum(0, shot.requested - (shot.expected_end - shot.moment))
        return Read(
            shot=shot,
            ids=[named[begin:end] for begin, end in pairwise(bounds)],
            too_large=too_large,
            before=np.where(shot.place == RUNNING, beyond, jobs.ran // self.site.tick_s),
        )

    def _snapshot(self, first: IntArray, rank: IntArray) -> Snapshot:
        site, jobs, tick_s, horizon = self.site, self.jobs, self.site.tick_s, self.site.horizon
        clusters, now = self.clusters, self.clusters.now // tick_s
        whole = np.maximum(1, -(-jobs.requested // tick_s))
        submit = jobs.submit // tick_s
        requested = np.maximum(1, whole - jobs.ran // tick_s)
        running = jobs.place == RUNNING
        moment = np.where(running, jobs.start, jobs.at) // tick_s
        expected_end = np.where(running, -(-jobs.expected_end // tick_s), 0)
        if horizon:  # no plan reaches beyond it
            last = now[jobs.whose] + horizon
            expected_end = np.minimum(expected_end, last)
            moment = np.where(jobs.place == PLANNED, np.minimum(moment, last - requested), moment)
        worth = (jobs.demand * effective_prices(site.scenario)).sum(axis=1)
        return Snapshot(
            first=first,
            now=now,
            arriving=np.array(clusters.told.get("arriving", [True] * len(clusters)), np.bool_),
            reserved=self._reserved(first),
            **self._history(whole),
            battery_wh=self._battery_wh(),
            forecast=self._forecast(),
            on=self._units_on(),
            supply_w=1000.0 * self._ahead("supply_kw", 0.0),
            carbon=self._ahead("carbon_g_per_kwh", self._usual_carbon()),
            place=jobs.place,
            rank=rank,
            submit=submit,
            requested=requested,
            moment=moment,
            expected_end=expected_end,
            due=submit + np.floor(whole / jobs.qos + 1e-9).astype(np.int64),
            demand=jobs.demand,
            qos=jobs.qos,
            price=worth * jobs.qos,
            density=worth / jobs.demand.sum(axis=1) * jobs.qos,
            key=self._keys(submit, requested),
            queue_at_submit=jobs.queue_at_submit,
            work_at_submit=jobs.work_at_submit // tick_s,  # what is not given stays below 0
            free_at_submit=jobs.free_at_submit,
        )

    def _history(self, whole: IntArray) -> dict[str, Any]:
        """What happened before, as far as the policy looks at it: (cluster,) each.

        Args:
            whole: (job,) ticks that it asked for in all.
        """
        jobs, tick_s, many = self.jobs, self.site.tick_s, len(self.clusters)
        now = self.clusters.now // tick_s
        began, arrived, work = now.copy(), np.zeros(many, np.int64), np.zeros(many, np.int64)
        finished, used = np.zeros(many, np.int64), np.zeros(many)
        if "history" in self.site.scenario.observation.blocks:
            real = jobs.ids != OUT_OF_SERVICE
            whose = jobs.whose[real]
            np.minimum.at(began, whose, jobs.submit[real] // tick_s)
            np.add.at(arrived, whose, 1)
            np.add.at(work, whose, jobs.demand[real, 0] * whole[real])
            for c, known in self.clusters.given("history"):
                began[c] = now[c] - known.seconds // tick_s
                arrived[c], finished[c], used[c] = known.arrived, known.finished, known.used_requests
                work[c] = known.work // tick_s
        return {
            "began": began,
            "arrived": arrived,
            "finished": finished,
            "used_requests": used,
            "arrived_work": work,
        }

    def _reserved(self, first: IntArray) -> IntArray:
        found = np.full(len(self.clusters), -1)
        for c, name in self.clusters.given("reserved"):
            ids = self.jobs.ids[first[c] : first[c + 1]].tolist()
            if name not in ids:
                problem = f"job {name!r} is larger than the cluster"
                _refuse(f"{self.clusters.where[c]}reserved", problem, "leave it out")
            found[c] = ids.index(name)
        return found

    def _keys(self, submit: IntArray, requested: IntArray) -> FloatArray:
        demand, qos = self.jobs.demand, self.jobs.qos
        jobs = JobTable.build(submit=submit, runtime=requested, demand=demand, qos=qos, requested=requested)
        return static_keys(self.site.order, jobs, self.units, 0, effective_prices(self.site.scenario))

    def _battery_wh(self) -> FloatArray:
        """(cluster,) level of the battery."""
        power = self.site.scenario.power
        found = np.zeros(len(self.clusters))
        if power is not None and power.battery is not None:
            found += power.battery.initial * power.battery.capacity_kwh
            for c, level in self.clusters.given("battery_kwh"):
                found[c] = level
        return 1000.0 * found

    def _forecast(self) -> NDArray[np.bool_]:
        """(cluster,) whether units on follow from the supply."""
        found = np.full(len(self.clusters), self.site.horizon > 0)
        for c, _ in self.clusters.given("units_on"):
            found[c] = False
        return found

    def _usual_carbon(self) -> float:
        power = self.site.scenario.power
        return 0.0 if power is None else power.carbon_g_per_kwh

    def _ahead(self, name: str, usual: float) -> FloatArray:
        """(cluster, tick) of a forecast; the last stands for all later ones."""
        found = np.full((len(self.clusters), self.site.horizon), usual)
        for c, given in self.clusters.given(name):
            found[c] = _made_up(given, self.site.horizon)
        return found

    def _units_on(self) -> NDArray[np.int32]:
        found = np.zeros((len(self.clusters), len(self.units), self.site.horizon), np.int32)
        for c, rows in self.clusters.given("units_on"):
            for r, row in enumerate(rows):
                found[c, r] = _made_up(row, self.site.horizon)
        return found


def _made_up(given: Sequence[float], length: int) -> FloatArray:
    """A forecast of so many ticks."""
    known = np.array(given[:length], np.float64)
    return np.pad(known, (0, length - len(known)), mode="edge")
