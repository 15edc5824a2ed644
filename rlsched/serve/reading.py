"""From clusters in domain terms to snapshots of the core, checked to the last field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.serve.columns import NAMES, Columns, Id
from rlsched.serve.schema import Cluster
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
        max_jobs: of a cluster, running and waiting.
        order: of the heuristic beside it.
    """

    scenario: Scenario
    num_resources: int
    max_jobs: int
    order: Priority

    @classmethod
    def of(cls, scenario: Scenario, num_resources: int, max_jobs: int, order: str) -> Site:
        """By the name of the order.

        Raises:
            BadInputError: an unknown order.
        """
        return cls(scenario, num_resources, max_jobs, priority(order))

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


def read_states(site: Site, heads: Sequence[Cluster], jobs: Columns, units: IntArray) -> Read:
    """Check clusters and make a snapshot of them.

    Args:
        site: what the policy knows.
        heads: all of clusters with these units.
        jobs: theirs.
        units: (resource,) units.

    Raises:
        BadInputError: one means nothing; the message names the field.
    """
    most, where = units.tolist(), jobs.where
    for head, at in zip(heads, where, strict=True):
        _check_head(site, head, most, at)
    _check_lists(site, jobs)
    now = np.array([head.now for head in heads], np.int64)
    there = np.broadcast_to(units, (len(heads), len(units)))
    if any(head.free is not None for head in heads):
        missing = _out_of_service(heads, jobs, units)
        rows = np.flatnonzero(missing.any(axis=1))
        jobs = jobs.with_running(rows, OUT_OF_SERVICE, missing[rows], now[rows], LONG_S)
        there = units - missing
    jobs = jobs.in_turn(queued=not site.horizon)
    _check_reserved(heads, jobs)
    large = ((jobs.place == READY) | (jobs.place == WAITING)) & (jobs.demand > there[jobs.whose]).any(axis=1)
    too_large: list[list[TooLarge]] = [[] for _ in heads]
    if large.any():
        for row in sorted(np.flatnonzero(large).tolist(), key=jobs.within.__getitem__):
            c = int(jobs.whose[row])
            too_large[c].append(TooLarge(jobs.ids[row], jobs.demand[row].tolist(), there[c].tolist()))
        jobs = jobs.take(~large)
    jobs.check(now, units, site.tick_s, site.horizon)
    return _Snapper(site, heads, units, now, jobs).read(too_large)


def _check_head(site: Site, head: Cluster, units: list[int], at: str) -> None:
    """What must hold of a cluster, whatever its jobs."""
    if head.free is not None:
        _check_length(site, head.free, f"{at}free")
    if site.horizon:
        if head.free is not None:
            _refuse(f"{at}free", "means nothing to a policy with a horizon", "send units_on")
        _check_ahead(site, head, units, at)
        return
    for name in HORIZON_ONLY:
        if getattr(head, name):
            _refuse_horizon(f"{at}{name}")
    if head.reserved is not None and site.scenario.decision.action_rule != "commit":
        _refuse(f"{at}reserved", "means nothing to a policy that reserves nothing", "leave it out")


def _check_lists(site: Site, jobs: Columns) -> None:
    """What must hold of the lists of clusters, whatever stands in them."""
    where, counts = jobs.where, jobs.counts
    if (counts > site.max_jobs).any():
        c = int((counts > site.max_jobs).argmax())
        _refuse(f"{where[c]}waiting", f"{counts[c]} jobs in all", f"send at most {site.max_jobs}")
    if site.horizon:
        window = site.scenario.decision.window
        ready = np.bincount(jobs.whose[jobs.place == READY], minlength=len(where))
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


def _check_reserved(heads: Sequence[Cluster], jobs: Columns) -> None:
    bounds = jobs.first.tolist()
    for c, head in enumerate(heads):
        if head.reserved is not None:
            part = slice(bounds[c], bounds[c + 1])
            waits = (jobs.place[part] == READY) | (jobs.place[part] == WAITING)
            if head.reserved not in jobs.ids[part][waits].tolist():
                problem = f"value {head.reserved!r} is no waiting job"
                _refuse(f"{jobs.where[c]}reserved", problem, "name one, or leave it out")


def _check_ahead(site: Site, head: Cluster, units: list[int], at: str) -> None:
    """What must hold of the ticks ahead."""
    power = site.scenario.power
    if head.reserved is not None:
        _refuse(f"{at}reserved", "means nothing to a policy with a horizon", "list planned jobs instead")
    if head.units_on is not None:
        _check_length(site, head.units_on, f"{at}units_on")
        for r, row in enumerate(head.units_on):
            if max(row) > units[r]:
                _refuse(f"{at}units_on[{r}]", f"value {max(row)} of {units[r]} units", "send at most those")
    if power is None:
        for name in ("supply_kw", "carbon_g_per_kwh", "battery_kwh"):
            if getattr(head, name) is not None:
                _refuse(f"{at}{name}", "means nothing to a policy that knows no power", "leave it out")
    elif head.supply_kw is None:
        if "supply" in site.scenario.observation.blocks:
            _refuse(f"{at}supply_kw", "is missing: this policy looks at it", "send what is forecast")
        if head.units_on is None:
            _refuse(
                f"{at}units_on", "is missing, and supply_kw, from which it follows", "send what is forecast"
            )
    capacity = power.battery.capacity_kwh if power is not None and power.battery is not None else 0.0
    if head.battery_kwh is not None and head.battery_kwh > capacity:
        _refuse(f"{at}battery_kwh", f"value {head.battery_kwh:g} of {capacity:g} kWh", "send the level")


def _check_length(site: Site, given: Sequence[object], at: str) -> None:
    if len(given) != site.num_resources:
        _refuse(at, f"{len(given)} entries for {site.num_resources} resources", "send one for each")


def _out_of_service(heads: Sequence[Cluster], jobs: Columns, units: IntArray) -> IntArray:
    """(cluster, resource) units that are neither free nor held by a job."""
    held = jobs.held
    given = np.array([head.free is not None for head in heads], np.bool_)
    free = units - held
    free[given] = [head.free for head in heads if head.free is not None]
    missing: IntArray = units - held - free
    if (missing < 0).any():
        c, r = np.argwhere(missing < 0)[0].tolist()
        problem = f"value {free[c, r]} beside {held[c, r]} that jobs hold of {units[r]}"
        remedy = "send the units that are free, and those of the cluster"
        _refuse(f"{jobs.where[c]}free[{r}]", problem, remedy)
    return missing


def _refuse(where: str, problem: str, remedy: str) -> NoReturn:
    raise BadInputError(where, problem, remedy)


@dataclass(frozen=True, eq=False)
class _Snapper:
    """Makes ticks of seconds, and fills what clients may leave out."""

    site: Site
    heads: Sequence[Cluster]
    units: IntArray
    now: IntArray
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
        now = self.now // tick_s
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
            arriving=np.array([head.arriving for head in self.heads], np.bool_),
            reserved=self._reserved(first),
            battery_wh=np.array([self._battery_wh(head) for head in self.heads], np.float64),
            forecast=np.array([bool(horizon) and head.units_on is None for head in self.heads], np.bool_),
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

    def _reserved(self, first: IntArray) -> IntArray:
        found = np.full(len(self.heads), -1)
        for c, head in enumerate(self.heads):
            if head.reserved is not None:
                ids = self.jobs.ids[first[c] : first[c + 1]].tolist()
                if head.reserved not in ids:
                    problem = f"job {head.reserved!r} is larger than the cluster"
                    _refuse(f"{self.jobs.where[c]}reserved", problem, "leave it out")
                found[c] = ids.index(head.reserved)
        return found

    def _keys(self, submit: IntArray, requested: IntArray) -> FloatArray:
        demand, qos = self.jobs.demand, self.jobs.qos
        jobs = JobTable.build(submit=submit, runtime=requested, demand=demand, qos=qos, requested=requested)
        return static_keys(self.site.order, jobs, self.units, 0, effective_prices(self.site.scenario))

    def _battery_wh(self, head: Cluster) -> float:
        power = self.site.scenario.power
        if power is None or power.battery is None:
            return 0.0
        level = power.battery.initial * power.battery.capacity_kwh
        return 1000.0 * (level if head.battery_kwh is None else head.battery_kwh)

    def _usual_carbon(self) -> float:
        power = self.site.scenario.power
        return 0.0 if power is None else power.carbon_g_per_kwh

    def _ahead(self, name: str, usual: float) -> FloatArray:
        """(cluster, tick) of a forecast; the last stands for all later ones."""
        found = np.full((len(self.heads), self.site.horizon), usual)
        for row, head in zip(found, self.heads, strict=True):
            given = getattr(head, name)
            if given is not None:
                row[:] = _made_up(given, len(row))
        return found

    def _units_on(self) -> NDArray[np.int32]:
        found = np.zeros((len(self.heads), len(self.units), self.site.horizon), np.int32)
        for c, head in enumerate(self.heads if self.site.horizon else ()):
            for r, row in enumerate(head.units_on or ()):
                found[c, r] = _made_up(row, self.site.horizon)
        return found


def _made_up(given: Sequence[float], length: int) -> FloatArray:
    """A forecast of so many ticks."""
    known = np.array(given[:length], np.float64)
    return np.pad(known, (0, length - len(known)), mode="edge")
