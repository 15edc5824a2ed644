"""Upper bound on the value of the jobs finished in an episode, to compare policies with on small cases.

The bound is the value of the best schedule of a planner that knows true runtimes and the power to come, and
that has fewer rules than a policy. A schedule says at which ticks each job runs, and

1. a job runs at ticks from its submit on, and is finished where it has run for its runtime by the end of the
   episode; then it earns its value (`docs/reference/green-rules.md`). What it has done when it is stopped
   is kept;
2. at each tick the running jobs hold no more of any resource than is on;
3. a job that ran at the tick before, and is not done, is stopped at a tick only where agents may suspend, or
   where a resource of which it holds a unit may have less units on than at the tick before;
4. with `requests`: where a job starts or resumes at tick t, then for each row k < what is left of its
   requested time, and each resource of which it holds a unit, the jobs running at t whose requested time
   lasts beyond row k hold no more than is forecast for row k at t.

Without a battery, the units on are a fixed series. With one they depend on what was used before, and its
level is enclosed: at most what it would be if only the idle power of what is surely on had been used, at
least what it would be had all units run. Rule 2 and the forecasts take the most, and rule 3 compares the
least that may be on with the most at the tick before.

Schedules need not respect: pools and their sizes, rejections, expiry, which job an agent or a shortfall
suspends and how many may be, the number of actions in a tick, whether no-op is legal, forecasts without
`requests`.

**No policy gets more**, under either placement. What the simulator runs is such a schedule. Arrivals come
before decisions, completions before the end (1). Row 0 of the grid and shortfalls see to 2. A job that is not
done leaves by the agent's choice or in a shortfall that it is a cause of, for which less must be on than
before (3). A job placed at row 0 was checked against the grid, and a planned one that holds units of an
overfull row has just been taken back; what starts later in the tick is checked with it, what is suspended
only leaves (4). A battery's next level grows with its level and falls with what is used, so it stays
enclosed.

**Exact**: up to `MOST_JOBS` jobs, sets of jobs are looked at by falling value, and the first that has a
schedule is the best. The search for one (`rlsched.sim.upper_bound`) goes through the sets that may run, tick
by tick. Less left, or less requested left, never makes rules 1 to 4 stricter. So of all schedules that finish
the same jobs take one with the least sum of the ticks at which jobs run; in it
- nothing starts at a tick but what was just submitted, unless a job has just ended or been stopped, or more
  is on or forecast than before: else it could have begun a tick earlier, and its last tick be saved;
- no job could be added to those that run that ends at the next tick or may be stopped there: likewise.
Of jobs of the same demand that are left with the same ticks, and that both ran just before or did not, the
first goes first, since their futures can be traded. Where every job may be stopped and `requests` is off,
single ticks can be traded, so the one with most left goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim.rules import Plant
from rlsched.sim.simulator import effective_prices
from rlsched.sim.upper_bound import IMPOSSIBLE, MEMORY, POSSIBLE, forecasts, search, units_on
from rlsched.sim.upper_bound_limits import Case, limits_of

MOST_JOBS = 8
"""Jobs up to which the bound is exact."""

BUDGET = 5_000_000
"""States to look at, some seconds, after which a set of jobs is taken to be possible."""

Runs = tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True, eq=False)
class Bound:
    """Upper bound on the value that any policy can reach.

    Attributes:
        value: total value of finished jobs, at most.
        exact: whether there is a schedule that reaches it, by the rules above. False where what is on depends
            on what was used, with more than `MOST_JOBS` jobs, and where the search took too long.
        runs: such a schedule, (jobs,) of pairs of ticks [from, to); None where it is not exact.
    """

    value: float
    exact: bool
    runs: Runs | None


@dataclass(frozen=True, eq=False)
class Capacity:
    """The units that can be on.

    Attributes:
        least: (tick, resource) units, whatever was used.
        most: (tick, resource) likewise; the same where there is no battery.
        forecast: (tick, resource, row) the most that is forecast; None where it is not needed.
    """

    least: IntArray
    most: IntArray
    forecast: IntArray | None

    @property
    def certain(self) -> bool:
        """Whether it does not depend on what was used."""
        return bool((self.least == self.most).all())


def upper_bound(
    scenario: Scenario,
    units: Sequence[int],
    jobs: JobTable,
    power: PowerSeries | None = None,
    *,
    requests: bool = False,
) -> Bound:
    """The most value that any policy could finish in an episode.

    Args:
        scenario: with a horizon; its placement does not matter.
        units: (resource,) units of the cluster.
        jobs: of the episode.
        power: that feeds it; needed where the scenario has `power`.
        requests: also apply the rules for requested times and forecasts, as for policies. No policy beats
            that bound either, and it is never higher. Without, true runtimes count as the requested times.

    Raises:
        BadInputError: no horizon, no jobs, or a job that asks for more than the cluster has.
        ValueError: no power where it is needed.
    """
    _check(scenario, units, jobs, power)
    worth = (jobs.demand * effective_prices(scenario)).sum(axis=1)
    value: FloatArray = worth * jobs.qos * jobs.runtime
    if scenario.episode.end == "all_finished":
        return _all_of(scenario, units, jobs, power, value, requests)
    first, last = int(jobs.submit.min()), int(jobs.submit.max())
    ticks = scenario.episode.max_ticks or last - first  # no_new_job: the tick at which the last one arrives
    rows = int(jobs.requested.max()) if requests and len(jobs) <= MOST_JOBS else 0
    capacity = capacity_of(scenario, units, power, first, ticks, rows)
    if len(jobs) > MOST_JOBS:
        return Bound(_in_parts(jobs, value, capacity.most), False, None)
    return _best_set(scenario, units, jobs, value, capacity)


def _check(scenario: Scenario, units: Sequence[int], jobs: JobTable, power: PowerSeries | None) -> None:
    if not scenario.decision.tick_driven:
        raise BadInputError(
            "decision.horizon", "is not set, and values are finished by the tick", "set decision.horizon: N"
        )
    if len(jobs) == 0:
        raise BadInputError("jobs", "there are none", "give one at least")
    over = (jobs.demand > np.asarray(units)).any(axis=1)
    if over.any():
        row = int(np.argmax(over))
        raise BadInputError(
            f"job {jobs.id[row]}", f"demand {jobs.demand[row].tolist()}", f"stay within {list(units)} units"
        )
    if scenario.power is not None and power is None:
        raise ValueError("a scenario with power needs the power series of the episode")


def capacity_of(
    scenario: Scenario, units: Sequence[int], power: PowerSeries | None, first: int, ticks: int, rows: int
) -> Capacity:
    """Units on in `ticks` ticks from `first` on, with `rows` rows of forecast (0: none)."""
    plant, total = Plant.of(scenario, units), np.asarray(units, np.int64)
    least, most = np.tile(total, (ticks, 1)), np.tile(total, (ticks, 1))
    forecast = np.broadcast_to(total[:, None], (ticks, len(total), rows)) if rows else None
    if power is not None and plant.powered:
        top, supply = np.zeros(ticks), np.ascontiguousarray(power.supply_w)
        units_on(plant, total, supply, least, most, top)
        if forecast is not None:
            forecast = forecast.copy()
            forecasts(plant, total, supply, power.seed, first, top, forecast)
    return Capacity(least, most, forecast)


def _all_of(
    scenario: Scenario,
    units: Sequence[int],
    jobs: JobTable,
    power: PowerSeries | None,
    value: FloatArray,
    requests: bool,
) -> Bound:
    """The bound where episodes end when all is finished: all of it, one job after another if need be."""
    runs, now = [], 0
    for row in np.argsort(jobs.submit, kind="stable").tolist():
        start = max(now, int(jobs.submit[row]))
        now = start + int(jobs.runtime[row])
        runs.append((row, ((start, now),)))
    exact = len(jobs) <= MOST_JOBS
    if exact and scenario.power is not None:
        first, rows = int(jobs.submit.min()), int(jobs.requested.max()) if requests else 0
        capacity = capacity_of(scenario, units, power, first, now - first, rows)
        exact = bool((capacity.least == units).all())
        if capacity.forecast is not None:
            exact &= bool((capacity.forecast == np.asarray(units)[:, None]).all())
    return Bound(float(value.sum()), exact, tuple(run for _, run in sorted(runs)) if exact else None)


def _best_set(
    scenario: Scenario, units: Sequence[int], jobs: JobTable, value: FloatArray, capacity: Capacity
) -> Bound:
    """The bound by search, for a few jobs."""
    n, ticks = len(jobs), len(capacity.most)
    first = int(jobs.submit.min())
    bits = np.arange(1 << n)[:, None] >> np.arange(n) & 1  # (set, job)
    cases = _cases(scenario, units, jobs, capacity, bits)
    sums = bits @ value
    size = bits @ (jobs.runtime * (jobs.demand / np.asarray(units)).sum(axis=1))
    by_size = np.argsort(-size, kind="stable")
    weights = np.vstack([jobs.demand.T, np.ones((1, n))]).astype(np.int64)
    states = prod(int(runtime) + 1 for runtime in jobs.runtime) * max(1, ticks) << (n + 1)
    memories = [np.zeros(MEMORY if states < 1 << 62 else 0, np.int64) for _ in cases]
    budget = BUDGET
    for members in np.lexsort((bits.sum(axis=1), -sums)).tolist():
        if members == 0:
            break
        sets = by_size[by_size & ~members == 0]
        possible, limits = limits_of(cases[0], members, sets, weights)
        answer, chosen = POSSIBLE if possible else IMPOSSIBLE, np.zeros(0, np.int64)
        for case, memory in zip(cases, memories, strict=True):
            if answer != IMPOSSIBLE:
                answer, chosen, looked_at = search(case, members, sets, limits, memory, budget)
                budget -= looked_at
        if answer != IMPOSSIBLE:
            exact = answer == POSSIBLE and capacity.certain
            return Bound(float(sums[members]), exact, _runs(chosen, n, first) if exact else None)
    return Bound(0.0, True, ((),) * n)


def _cases(
    scenario: Scenario, units: Sequence[int], jobs: JobTable, capacity: Capacity, bits: IntArray
) -> list[Case]:
    """Cases for the search: the first leaves requests out and is quick; a second one where requests count."""
    n, ticks = len(jobs), len(capacity.most)
    most, powers = capacity.most, 1 << np.arange(n)
    levels, level = np.unique(most, axis=0, return_inverse=True)
    submit = jobs.submit - jobs.submit.min()
    less, rises = np.zeros(most.shape, np.bool_), np.zeros(ticks, np.bool_)
    less[1:] = capacity.least[1:] < most[:-1]
    rises[1:] = (most[1:] > most[:-1]).any(axis=1)
    may_stop = (less[:, None] & (jobs.demand > 0)).any(axis=2) @ powers
    if scenario.decision.suspend:
        may_stop[:] = powers.sum()
    plain = Case(
        runtime=jobs.runtime.copy(),
        requested=jobs.requested.copy(),
        demand=jobs.demand.astype(np.int64),
        same_demand=(jobs.demand[:, None] == jobs.demand).all(axis=2) @ powers,
        submitted=(submit <= np.arange(ticks)[:, None]) @ powers,
        may_stop=may_stop,
        level=level.reshape(ticks).astype(np.int64),
        fits=np.all(bits @ jobs.demand <= levels[:, None], axis=2),
        rises=rises,
        forecast=np.zeros((0, most.shape[1], 0), np.int64),
        by_request=False,
        always=bool((may_stop[1:] == powers.sum()).all()),
    )
    forecast = capacity.forecast
    if forecast is None or (forecast == np.asarray(units)[:, None]).all():
        return [plain]
    better = rises.copy()
    better[1:] |= (forecast[1:, :, :-1] > forecast[:-1, :, 1:]).any(axis=(1, 2))
    return [plain, plain._replace(rises=better, forecast=forecast, by_request=True, always=False)]


def _runs(chosen: IntArray, jobs: int, first: int) -> Runs:
    """Pairs of ticks per job of the sets that run at each tick from `first` on; the last set is empty."""
    runs = []
    for j in range(jobs):
        steps = np.diff(chosen >> j & 1, prepend=0)
        starts, ends = np.flatnonzero(steps > 0) + first, np.flatnonzero(steps < 0) + first
        runs.append(tuple(zip(starts.tolist(), ends.tolist(), strict=True)))
    return tuple(runs)


def _in_parts(jobs: JobTable, value: FloatArray, most: IntArray) -> float:
    """The bound for many jobs: what fits if parts of jobs earned parts of their value.

    For each resource by itself: what jobs submitted from tick s on do is within the unit-ticks from s on, for
    every s. Those bounds are nested, so taking jobs by value per unit-tick is best; the least over resources.
    Jobs that could not be finished alone are left out.
    """
    ticks = len(most)
    submit = jobs.submit - jobs.submit.min()
    alone = np.array(
        [(most[at:] >= need).all(axis=1).sum() for at, need in zip(submit, jobs.demand, strict=True)]
    )
    able = np.flatnonzero(alone >= jobs.runtime)
    bound = float(value[able].sum())
    begins = np.unique(submit[able])
    for r in range(most.shape[1]):
        work = (jobs.demand[:, r] * jobs.runtime).astype(np.float64)
        room = np.array([float(most[at:ticks, r].sum()) for at in begins])
        earned = 0.0
        for row in sorted(able.tolist(), key=lambda row: -value[row] / work[row] if work[row] else -np.inf):
            binding = begins <= submit[row]
            done = min(work[row], room[binding].min())
            room[binding] -= done
            earned += value[row] * done / work[row] if work[row] else value[row]
        bound = min(bound, earned)
    return bound
