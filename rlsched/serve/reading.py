"""From clusters in domain terms to snapshots of the core, checked to the last field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter, gt
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.serve.schema import ClusterState, PlannedJob, RunningJob, WaitingJob
from rlsched.sim.priorities import Priority, priority, static_keys
from rlsched.sim.simulator import effective_prices
from rlsched.sim.snapshot import PLANNED, READY, RUNNING, SUSPENDED, WAITING, Snapshot

Job = RunningJob | WaitingJob | PlannedJob
Id = int | str

PLACES = {"running": RUNNING, "planned": PLANNED, "suspended": SUSPENDED, "waiting": WAITING}
"""Lists of a state, in the order in which jobs stand in a snapshot: those that run take their units first."""

FIELDS = {
    name: attrgetter(name)
    for name in (
        "id",
        "start",
        "expected_end",
        "submit",
        "requested",
        "ran",
        "at",
        "qos",
        "demand",
        "queue_at_submit",
        "work_at_submit",
        "free_at_submit",
    )
}
"""Of jobs that run, wait or are planned alike."""

NOT_GIVEN = -1
OUT_OF_SERVICE = ""
"""Id of what holds units that no job does; clients cannot name a job so."""

LONG_S = 10 * 365 * 86_400
"""That units which are out of service are expected to stay so."""

HORIZON_ONLY = ("planned", "suspended", "units_on", "supply_kw", "carbon_g_per_kwh", "battery_kwh")


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


def read_states(site: Site, states: Sequence[ClusterState], units: IntArray, where: Sequence[str]) -> Read:
    """Check states and make a snapshot of them.

    Args:
        site: what the policy knows.
        states: all of clusters with these units.
        units: (resource,) units.
        where: (state,) what stands before its fields in messages.

    Raises:
        BadInputError: one means nothing; the message names the field.
    """
    most = units.tolist()
    for state, at in zip(states, where, strict=True):
        _check_whole(site, state, most, at)
    columns = _listed(site, states, most, where, [state.waiting for state in states])
    too_large: list[list[TooLarge]] = [[] for _ in states]
    there = columns.in_service(units)[columns.whose]
    large = (columns.place >= READY) & (columns.place <= WAITING) & (columns.demand > there).any(axis=1)
    if large.any():
        limits = columns.in_service(units).tolist()
        waiting = []
        for k, (state, limit) in enumerate(zip(states, limits, strict=True)):
            too_large[k] = [
                TooLarge(job.id, job.demand, limit) for job in state.waiting if _exceeds(job.demand, limit)
            ]
            waiting.append([job for job in state.waiting if not _exceeds(job.demand, limit)])
        columns = _listed(site, states, most, where, waiting)
    columns.check(units)
    shot = columns.snapshot(units)
    return Read(shot, columns.named(), too_large, columns.ran_before(shot))


def _listed(
    site: Site,
    states: Sequence[ClusterState],
    units: list[int],
    where: Sequence[str],
    waiting: Sequence[list[WaitingJob]],
) -> _Columns:
    """All jobs of all states, in the order of `PLACES`, and with a ready pool those in it before others."""
    jobs: list[Job] = []
    places: list[int] = []
    first = [0]
    for state, at, queue in zip(states, where, waiting, strict=True):
        if site.horizon:
            ready = [job for job in queue if job.ready]
            jobs += [*state.running, *state.planned, *state.suspended, *ready]
            jobs += [job for job in queue if not job.ready] if ready else queue
            places += [RUNNING] * len(state.running) + [PLANNED] * len(state.planned)
            places += [SUSPENDED] * len(state.suspended)
            places += [READY] * len(ready) + [WAITING] * (len(queue) - len(ready))
        else:
            out = _out_of_service(site, state, units, at)
            running = state.running if out is None else [*state.running, out]
            jobs += running
            jobs += sorted(queue, key=attrgetter("submit"))
            places += [RUNNING] * len(running) + [WAITING] * len(queue)
        first.append(len(jobs))
    return _Columns(site, jobs, places, first, states, where)


def _exceeds(demand: Sequence[int], units: Sequence[int]) -> bool:
    return any(map(gt, demand, units))


def _check_whole(site: Site, state: ClusterState, units: list[int], at: str) -> None:
    """What must hold of a state as a whole."""
    count = len(state.running) + len(state.waiting) + len(state.planned) + len(state.suspended)
    if count > site.max_jobs:
        _refuse(f"{at}waiting", f"{count} jobs in all", f"send at most {site.max_jobs}")
    if state.free is not None:
        _check_length(site, state.free, f"{at}free")
    if site.horizon:
        if state.free is not None:
            _refuse(f"{at}free", "means nothing to a policy with a horizon", "send units_on")
        _check_ahead(site, state, units, at)
        return
    for name in HORIZON_ONLY:
        if getattr(state, name):
            _refuse(f"{at}{name}", "means nothing to a policy without a horizon", "leave it out")
    if state.reserved is not None:
        if site.scenario.decision.action_rule != "commit":
            _refuse(f"{at}reserved", "means nothing to a policy that reserves nothing", "leave it out")
        if all(job.id != state.reserved for job in state.waiting):
            _refuse(
                f"{at}reserved", f"value {state.reserved!r} is no waiting job", "name one, or leave it out"
            )


def _check_ahead(site: Site, state: ClusterState, units: list[int], at: str) -> None:
    """What must hold of the ticks ahead."""
    power, window = site.scenario.power, site.scenario.decision.window
    ready = sum(job.ready for job in state.waiting)
    if ready > window:
        _refuse(f"{at}waiting", f"{ready} jobs are ready, in a pool of {window}", "send what is in it")
    if state.reserved is not None:
        _refuse(f"{at}reserved", "means nothing to a policy with a horizon", "list planned jobs instead")
    if state.units_on is not None:
        _check_length(site, state.units_on, f"{at}units_on")
        for r, row in enumerate(state.units_on):
            if max(row) > units[r]:
                _refuse(f"{at}units_on[{r}]", f"value {max(row)} of {units[r]} units", "send at most those")
    if power is None:
        for name in ("supply_kw", "carbon_g_per_kwh", "battery_kwh"):
            if getattr(state, name) is not None:
                _refuse(f"{at}{name}", "means nothing to a policy that knows no power", "leave it out")
    elif state.supply_kw is None:
        if "supply" in site.scenario.observation.blocks:
            _refuse(f"{at}supply_kw", "is missing: this policy looks at it", "send what is forecast")
        if state.units_on is None:
            _refuse(
                f"{at}units_on", "is missing, and supply_kw, from which it follows", "send what is forecast"
            )
    capacity = power.battery.capacity_kwh if power is not None and power.battery is not None else 0.0
    if state.battery_kwh is not None and state.battery_kwh > capacity:
        _refuse(f"{at}battery_kwh", f"value {state.battery_kwh:g} of {capacity:g} kWh", "send the level")


def _check_length(site: Site, given: Sequence[object], at: str) -> None:
    if len(given) != site.num_resources:
        _refuse(at, f"{len(given)} entries for {site.num_resources} resources", "send one for each")


def _out_of_service(site: Site, state: ClusterState, units: list[int], at: str) -> RunningJob | None:
    """What holds the units that are neither free nor held by a job."""
    if state.free is None:
        return None
    out = []
    for r, there in enumerate(units):
        held = sum(job.demand[r] for job in state.running if r < len(job.demand))
        missing = there - held - state.free[r]
        if missing < 0:
            problem = f"value {state.free[r]} beside {held} that jobs hold of {there}"
            _refuse(f"{at}free[{r}]", problem, "send the units that are free, and those of the cluster")
        out.append(missing)
    if not any(out):
        return None
    return RunningJob(OUT_OF_SERVICE, out, start=state.now, expected_end=state.now + LONG_S, submit=state.now)


def _refuse(where: str, problem: str, remedy: str) -> NoReturn:
    raise BadInputError(where, problem, remedy)


class _Columns:
    """The jobs of all states as columns, in seconds until `snapshot` makes ticks of them."""

    def __init__(
        self,
        site: Site,
        jobs: list[Job],
        places: list[int],
        first: list[int],
        states: Sequence[ClusterState],
        where: Sequence[str],
    ) -> None:
        self.site, self.jobs, self.states, self.where = site, jobs, states, where
        self.place = np.array(places, np.int8)
        self.first = np.array(first, np.int64)
        self.whose = np.repeat(np.arange(len(states)), np.diff(self.first))
        # What batches wait for: without a line of Python per job.
        told: dict[str, list[Any]] = {name: [*map(field, jobs)] for name, field in FIELDS.items()}
        self.ids: list[Id] = told["id"]
        for c, (begin, end) in enumerate(pairwise(first)):
            if len({*self.ids[begin:end]}) < end - begin:
                (twice, _), *_ = Counter(self.ids[begin:end]).most_common(1)
                _refuse(f"{where[c]}waiting", f"job {twice!r} stands there twice", "name each once")
        self.start, self.expected_end = _column(told["start"]), _column(told["expected_end"])
        self.ran, self.at = _column(told["ran"]), _column(told["at"])
        self.submit = _column(told["submit"], self.start)
        self.requested = _column(told["requested"], self.expected_end - self.start)
        self.queue_at_submit = _column(told["queue_at_submit"], NOT_GIVEN)
        self.work_at_submit = _column(told["work_at_submit"], NOT_GIVEN)
        self.free_at_submit = _column(told["free_at_submit"], NOT_GIVEN)
        self.qos = np.array(told["qos"], np.float64)
        self.now = _column([state.now for state in states])
        demands, resources = told["demand"], site.num_resources
        if set(map(len, demands)) - {resources}:
            row = next(k for k, demand in enumerate(demands) if len(demand) != resources)
            problem = f"{len(demands[row])} entries for {resources} resources"
            self._refuse(row, "demand", problem, "send one for each")
        self.demand = np.array([*chain.from_iterable(demands)], np.int32).reshape(len(jobs), resources)
        self.rank = np.empty(len(jobs), np.int64)
        self._by_submit = np.lexsort((self.submit // site.tick_s, self.whose))
        self.rank[self._by_submit] = np.arange(len(jobs)) - self.first[self.whose[self._by_submit]]

    def check(self, units: IntArray) -> None:
        """What must hold of every job, and of those that run together."""
        now = self.now[self.whose]
        running, planned = self.place == RUNNING, self.place == PLANNED
        wrong = (
            (running & (self.start > now), "start", "is later than now", "list it as waiting"),
            (self.submit > now, "submit", "is later than now", "send jobs that were submitted"),
            (
                running & (self.submit > self.start),
                "submit",
                "is later than its start",
                "send its submit time",
            ),
            (
                running & (self.expected_end <= self.start),
                "expected_end",
                "is not later than its start",
                "send start + requested time",
            ),
            (planned & (self.at <= now), "at", "is not later than now", "list it as running, or as waiting"),
            (
                planned & (-(-self.requested // self.site.tick_s) > self.site.horizon),
                "requested",
                f"is longer than the {self.site.horizon} ticks that are planned",
                "list it as waiting",
            ),
            (self.demand.sum(axis=1) < 1, "demand", "asks for nothing", "ask for a unit"),
            (
                (self.demand > units).any(axis=1),
                "demand",
                f"asks for more than the {units.tolist()} units of the cluster",
                "send the cluster's units",
            ),
        )
        for bad, field, problem, remedy in wrong:
            if bad.any():
                self._refuse(int(bad.argmax()), field, problem, remedy)
        held = np.zeros((len(self.states), len(units)), np.int64)
        np.add.at(held, self.whose[running], self.demand[running])
        if (held > units).any():
            c, r = np.argwhere(held > units)[0].tolist()
            problem = f"hold {held[c, r]} of {units[r]} units"
            _refuse(f"{self.where[c]}running", problem, "send the cluster's units")

    def _refuse(self, row: int, field: str, problem: str, remedy: str) -> NoReturn:
        """Say which job of which list is wrong, as the client sent it."""
        job, c = self.jobs[row], int(np.searchsorted(self.first, row, side="right")) - 1
        for name in PLACES:
            for k, other in enumerate(getattr(self.states[c], name)):
                if other is job:
                    _refuse(f"{self.where[c]}{name}[{k}].{field}", f"of job {job.id!r} {problem}", remedy)
        raise AssertionError("units out of service are never refused")

    def named(self) -> list[list[Id]]:
        """(cluster,) ids by rank."""
        named = [self.ids[k] for k in self._by_submit.tolist()]
        bounds = self.first.tolist()
        return [named[begin:end] for begin, end in pairwise(bounds)]

    def in_service(self, units: IntArray) -> IntArray:
        """(cluster, resource) units of each."""
        found = np.tile(units, (len(self.states), 1))
        if OUT_OF_SERVICE not in self.ids:
            return found
        for k, name in enumerate(self.ids):
            if name == OUT_OF_SERVICE:  # there is at most one for each cluster
                found[self.whose[k]] -= self.demand[k]
        return found

    def ran_before(self, shot: Snapshot) -> IntArray:
        """(job,) ticks; of one that runs, what it asked for beyond the run that goes on."""
        beyond = np.maximum(0, shot.requested - (shot.expected_end - shot.moment))
        return np.where(shot.place == RUNNING, beyond, self.ran // self.site.tick_s)

    def snapshot(self, units: IntArray) -> Snapshot:
        """As the core takes them."""
        site, tick_s, horizon = self.site, self.site.tick_s, self.site.horizon
        now = self.now // tick_s
        whole = np.maximum(1, -(-self.requested // tick_s))
        submit = self.submit // tick_s
        requested = np.maximum(1, whole - self.ran // tick_s)
        running = self.place == RUNNING
        moment = np.where(running, self.start, self.at) // tick_s
        expected_end = np.where(running, -(-self.expected_end // tick_s), 0)
        if horizon:  # no plan reaches beyond it
            last = now[self.whose] + horizon
            expected_end = np.minimum(expected_end, last)
            moment = np.where(self.place == PLANNED, np.minimum(moment, last - requested), moment)
        worth = (self.demand * effective_prices(site.scenario)).sum(axis=1)
        return Snapshot(
            first=self.first,
            now=now,
            arriving=np.array([state.arriving for state in self.states], np.bool_),
            reserved=self._reserved(),
            battery_wh=np.array([self._battery_wh(state) for state in self.states], np.float64),
            forecast=np.array([bool(horizon) and state.units_on is None for state in self.states], np.bool_),
            on=self._units_on(units),
            supply_w=1000.0 * self._ahead("supply_kw", 0.0),
            carbon=self._ahead("carbon_g_per_kwh", self._usual_carbon()),
            place=self.place,
            rank=self.rank,
            submit=submit,
            requested=requested,
            moment=moment,
            expected_end=expected_end,
            due=submit + np.floor(whole / self.qos + 1e-9).astype(np.int64),
            demand=self.demand,
            qos=self.qos,
            price=worth * self.qos,
            density=worth / self.demand.sum(axis=1) * self.qos,
            key=self._keys(units, submit, requested),
            queue_at_submit=self.queue_at_submit,
            work_at_submit=self.work_at_submit // tick_s,  # what is not given stays below 0
            free_at_submit=self.free_at_submit,
        )

    def _reserved(self) -> IntArray:
        found = np.full(len(self.states), -1)
        for c, state in enumerate(self.states):
            if state.reserved is not None:
                begin = self.first[c]
                ids = [job.id for job in self.jobs[begin : self.first[c + 1]]]
                if state.reserved not in ids:
                    problem = f"job {state.reserved!r} is larger than the cluster"
                    _refuse(f"{self.where[c]}reserved", problem, "leave it out")
                found[c] = ids.index(state.reserved)
        return found

    def _keys(self, units: IntArray, submit: IntArray, requested: IntArray) -> FloatArray:
        jobs = JobTable.build(
            submit=submit, runtime=requested, demand=self.demand, qos=self.qos, requested=requested
        )
        return static_keys(self.site.order, jobs, units, 0, effective_prices(self.site.scenario))

    def _battery_wh(self, state: ClusterState) -> float:
        power = self.site.scenario.power
        if power is None or power.battery is None:
            return 0.0
        level = power.battery.initial * power.battery.capacity_kwh
        return 1000.0 * (level if state.battery_kwh is None else state.battery_kwh)

    def _usual_carbon(self) -> float:
        power = self.site.scenario.power
        return 0.0 if power is None else power.carbon_g_per_kwh

    def _ahead(self, name: str, usual: float) -> FloatArray:
        """(cluster, tick) of a forecast; the last stands for all later ones."""
        found = np.full((len(self.states), self.site.horizon), usual)
        for row, state in zip(found, self.states, strict=True):
            given = getattr(state, name)
            if given is not None:
                row[:] = _made_up(given, len(row))
        return found

    def _units_on(self, units: IntArray) -> NDArray[np.int32]:
        found = np.zeros((len(self.states), len(units), self.site.horizon), np.int32)
        for c, state in enumerate(self.states if self.site.horizon else ()):
            for r, row in enumerate(state.units_on or ()):
                found[c, r] = _made_up(row, self.site.horizon)
        return found


def _column(values: Sequence[int | None], usual: IntArray | int = 0) -> IntArray:
    """Whole numbers; where there is None, what is usual there."""
    if None not in values:
        return np.array(values, np.int64)
    known = np.array(values, np.float64)  # exact: all are below FAR
    missing = np.isnan(known)
    return np.where(missing, usual, np.where(missing, 0, known).astype(np.int64))


def _made_up(given: Sequence[float], length: int) -> FloatArray:
    """A forecast of so many ticks."""
    known = np.array(given[:length], np.float64)
    return np.pad(known, (0, length - len(known)), mode="edge")
