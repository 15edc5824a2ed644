"""The state of N simulated clusters as arrays, environment index first, and the rules they share.

Nothing here moves time; `events` does. A real end is one int64 code, `tick << JOB_BITS | number of the
start`, and an expected release `tick << JOB_BITS | row`: the order of codes is the order of ticks, with
ties by start and by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import DemandArray, FloatArray, IntArray, JobTable
from rlsched.power.series import PowerSeries
from rlsched.sim.compiled import kernel, step
from rlsched.sim.metrics import BOUND_S

JOB_BITS = 20
JOB_MASK = (1 << JOB_BITS) - 1
NEVER = np.int64(1) << 42  # ticks; later than anything that can happen, and codes still fit
BLOCK = 256  # expected releases in a block


def _record(fields: list[tuple[str, str]]) -> np.dtype[np.void]:
    """Named fields, readable as attributes in Python, too, so that the core also runs uncompiled."""
    return np.dtype((np.record, np.dtype(fields, align=True)))


EPISODE = _record(
    [
        ("now", "i8"),  # ticks
        ("first_submit", "i8"),  # ticks
        ("num_jobs", "i8"),
        ("next_arrival", "i8"),  # number of jobs that arrived; row of the next one where `links` is empty
        ("num_dated", "i8"),  # jobs whose time of arrival is known: all where `links` is empty
        ("queue_lo", "i8"),  # waiting jobs are queue[queue_lo:queue_hi], by arrival
        ("queue_hi", "i8"),
        ("num_running", "i8"),
        ("num_finished", "i8"),
        ("num_blocks", "i8"),  # blocks of expected releases in use
        ("reserved", "i8"),  # row of the job that holds the reservation, -1 none
        ("shadow", "i8"),  # tick at which it is expected to start
        ("actions_now", "i8"),  # starts and reservations since the clock last moved
        ("asked_at", "i8"),  # tick at which the current transition began
        ("over", "i8"),  # 0 goes on, 1 terminated, 2 truncated
        ("queued_work", "i8"),  # waiting: sum of demand x requested, first resource, unit-ticks
        ("queued_area", "i8"),  # waiting: sum of demand x runtime
        ("arriving_area", "i8"),  # not yet arrived: sum of demand x runtime
        ("promised", "i8"),  # running: sum of demand x (start + requested)
        ("ending", "i8"),  # running: sum of demand x (start + runtime)
        ("arrived_work", "i8"),  # arrived so far: sum of demand x requested, first resource
        ("began", "i8"),  # tick from which on it is known what happened
        ("arrived_before", "i8"),  # jobs since then that the episode does not have
        ("finished_before", "i8"),
        ("used_requests", "f8"),  # finished: sum of runtime / requested, at most 1 each
        ("num_waiting", "i8"),  # in the queue, planned or suspended
        ("num_started", "i8"),  # jobs that have ever started
        ("num_ready", "i8"),  # with a horizon: the first so many of the queue are the ready pool
        ("num_planned", "i8"),
        ("num_suspended", "i8"),
        ("num_rejected", "i8"),
        ("freed", "i8"),  # counts when rows of the grid gained free units
        ("reshow", "i8"),  # 1 where what is observed of waiting jobs is no longer true
        ("noise_seed", "i8"),  # of the forecast's errors
        ("power_ticks", "i8"),  # length of the power series
        ("discount", "f8"),  # gamma ** (now - asked_at)
        ("running_rate", "f8"),  # running: sum of 1 / runtime, per tick
        ("slowdown_rate", "f8"),  # waiting: sum of 1 / runtime, per tick
        ("bounded_rate", "f8"),  # waiting: sum of 1 / max(runtime, bound), per tick
        ("scale", "f8"),  # factor on the reward
        ("battery_wh", "f8"),  # level
        ("running_price", "f8"),  # running: sum of price rates, value per tick
        ("waiting_value", "f8"),  # waiting, planned, suspended: sum of values
    ]
)

JOB = _record(
    [
        ("submit", "i8"),  # ticks
        ("runtime", "i8"),  # what is left of it, where the job was suspended
        ("requested", "i8"),  # likewise
        ("start", "i8"),  # of the first start; -1 not started
        ("expected_end", "i8"),  # of the run that goes on: its start + requested
        ("end", "i8"),  # of the run that goes on or was the last; -1 never started
        ("queue_at_submit", "i8"),  # jobs that waited when it arrived
        ("work_at_submit", "i8"),  # their demand x requested, first resource
        ("free_at_submit", "i8"),  # free units of the first resource then
        ("slowdown_rate", "f8"),  # 1 / runtime
        ("bounded_rate", "f8"),  # 1 / max(runtime, bound)
    ]
)

LOT = _record(
    [
        ("number", "i8"),  # of its first start
        ("resumed", "i8"),  # tick of the last start or resumption
        ("planned", "i8"),  # tick at which it is planned to start
        ("tried", "i8"),  # it fits at no tick before this one,
        ("tried_at", "i8"),  # unless rows were freed since `freed` said this
        ("due", "i8"),  # qos violation tick
        ("suspensions", "i8"),
        ("rejected", "i8"),  # 1 turned away or given up
        ("qos", "f8"),
        ("price", "f8"),  # value per tick of running
        ("value", "f8"),
        ("density", "f8"),  # value per unit-tick
    ]
)

LINK = _record(
    [
        ("row", "i8"),  # of the job that arrives in this place; places from num_dated on are free
        ("first", "i8"),  # row of a job that is submitted when this one ends, -1 none
        ("next", "i8"),  # row of another such job of the same predecessor, -1 none
        ("think", "i8"),  # ticks from that end to the submission; -1: at that end, or at `planned` if later
        ("planned", "i8"),  # submit time in the trace
    ]
)


class State(NamedTuple):
    """N clusters, each with its own episode of at most `jobs` jobs."""

    episodes: NDArray[np.void]  # (env,) EPISODE
    jobs: NDArray[np.void]  # (env, job) JOB, by submit
    demand: DemandArray  # (env, job, resource) units
    queue: NDArray[np.int32]  # (env, job) rows of waiting jobs, see queue_lo
    started: NDArray[np.int32]  # (env, start) rows in the order of their starts
    ends: IntArray  # (env, running) codes of real ends and number of the start, a binary heap
    blocks: IntArray  # (env, block, BLOCK) codes of start + requested and row, see `releases`
    block_size: NDArray[np.int32]  # (env, block) codes in it
    block_units: IntArray  # (env, block, resource) units that its jobs hold
    block_order: NDArray[np.int32]  # (env, block) blocks by their codes; beyond num_blocks those not in use
    free: IntArray  # (env, resource) units
    extra: IntArray  # (env, resource) units that stay free beside the reserved job
    units: IntArray  # (env, resource) units of the cluster
    links: NDArray[np.void]  # (env, job) LINK; (env, 0) where no job waits for the end of another
    most: IntArray  # (resource,) units of a cluster of which jobs say nothing; no cluster has more
    # Two tuples, since compiled code is made for their lengths: without loops over resources, and without
    # what only a horizon needs, or only who has none.
    resources: tuple[int, ...]  # 0, 1, ...
    horizon: tuple[int, ...]  # (rows of the grid,), or () where there is none
    # What follows is empty where there is no horizon.
    lots: NDArray[np.void]  # (env, job) LOT
    ahead: FloatArray  # (env, job + 1, 2) value, and unit-ticks, of all jobs of the episode before it
    planned: NDArray[np.int32]  # (env, planned) rows of planned jobs, in no order
    suspended: NDArray[np.int32]  # (env, suspended) rows, first suspended first
    used: DemandArray  # (env, resource, row) units held by running and planned jobs, row 0 is now
    on: DemandArray  # (env, resource, row) units forecast to be on; those of row 0 are on
    supply_w: FloatArray  # (env, tick) renewable watts, see PowerSeries
    carbon: FloatArray  # (env, tick) gCO2 per kWh of the grid


PER_ENV = tuple(name for name in State._fields if name not in ("most", "resources", "horizon"))
"""Fields of `State` with an entry for every environment."""


def allocate(
    num_envs: int,
    max_jobs: int,
    units: Sequence[int] | IntArray,
    *,
    horizon: int = 0,
    linked: bool = False,
) -> State:
    """An empty state.

    Args:
        num_envs: number of clusters.
        max_jobs: the longest episode, in jobs.
        units: (resource,) units of each cluster, or of the largest, where jobs come with their own.
        horizon: ticks that are planned ahead; 0: events only.
        linked: jobs may wait for the end of others.

    Raises:
        BadInputError: an episode is longer than the event codes can number.
    """
    if max_jobs > JOB_MASK:
        raise BadInputError("episode.jobs", f"{max_jobs} jobs in one episode", f"use at most {JOB_MASK}")
    total = np.asarray(units, dtype=np.int64)
    # A running job holds at least one unit, so no more can run at once than there are units.
    running = int(min(max_jobs, total.sum()))
    # Any two neighbours hold more than half a block together; one more while a block is split.
    blocks = 4 * -(-running // BLOCK) + 2
    return State(
        episodes=np.zeros(num_envs, EPISODE),
        jobs=np.zeros((num_envs, max_jobs), JOB),
        demand=np.zeros((num_envs, max_jobs, len(total)), np.int32),
        queue=np.zeros((num_envs, max_jobs), np.int32),
        started=np.zeros((num_envs, max_jobs), np.int32),
        ends=np.zeros((num_envs, running), np.int64),
        blocks=np.zeros((num_envs, blocks, BLOCK), np.int64),
        block_size=np.zeros((num_envs, blocks), np.int32),
        block_units=np.zeros((num_envs, blocks, len(total)), np.int64),
        block_order=np.tile(np.arange(blocks, dtype=np.int32), (num_envs, 1)),
        free=np.zeros((num_envs, len(total)), np.int64),
        extra=np.zeros((num_envs, len(total)), np.int64),
        units=np.tile(total, (num_envs, 1)),
        links=np.zeros((num_envs, max_jobs if linked else 0), LINK),
        most=total,
        resources=tuple(range(len(total))),
        horizon=(horizon,) if horizon else (),
        lots=np.zeros((num_envs, max_jobs if horizon else 0), LOT),
        ahead=np.zeros((num_envs, max_jobs + 1 if horizon else 0, 2)),
        planned=np.zeros((num_envs, max_jobs if horizon else 0), np.int32),
        suspended=np.zeros((num_envs, max_jobs if horizon else 0), np.int32),
        used=np.zeros((num_envs, len(total), horizon), np.int32),
        on=np.zeros((num_envs, len(total), horizon), np.int32),
        supply_w=np.zeros((num_envs, 0)),
        carbon=np.zeros((num_envs, 0)),
    )


def load(
    state: State, env: int, jobs: JobTable, *, tick_s: int = 1, scale: float = 1.0, in_order: bool = True
) -> None:
    """Put an episode's jobs into one environment and set its clock to the first submit.

    Args:
        state: where to.
        env: which environment.
        jobs: demands within the cluster's units.
        tick_s: seconds per tick.
        scale: factor on the rewards of this episode.
        in_order: refuse jobs that are not in submit order.

    Raises:
        BadInputError: no jobs, too many, out of order, over the cluster, or times beyond clock or horizon.
    """
    n = len(jobs)
    if not 0 < n <= state.jobs.shape[1]:
        raise BadInputError("episode", f"{n} jobs", f"use 1 to {state.jobs.shape[1]}")
    bound = max(1.0, BOUND_S / tick_s)
    units = jobs.cluster(state.most)
    if units.shape != state.most.shape or (units > state.most).any() or (units < 1).any():
        raise BadInputError(
            "episode",
            f"a cluster of {units.tolist()} units, with room for {state.most.tolist()}",
            "set cluster.resources to the largest",
        )
    if state.horizon and (units != state.most).any():
        raise BadInputError(
            "episode",
            f"a cluster of {units.tolist()} units under a horizon, where all have {state.most.tolist()}",
            "leave out decision.horizon, or the size of the cluster",
        )
    state.units[env] = units
    problem = _load(
        state, env, jobs.submit, jobs.runtime, jobs.requested, jobs.demand, bound, scale, in_order
    )
    if problem >= 0:
        horizon = f", {state.used.shape[2]} ticks of horizon" if state.used.shape[2] else ""
        raise BadInputError(
            f"episode job {jobs.id[problem]}",
            f"submit {jobs.submit[problem]}, runtime {jobs.runtime[problem]}, requested "
            f"{jobs.requested[problem]}, demand {jobs.demand[problem].tolist()}",
            f"give jobs in submit order, within {units.tolist()} units{horizon} and {NEVER // 4} ticks",
        )
    before = jobs.predecessors()
    waiting = before >= 0
    if waiting.any() and not state.links.shape[1]:
        raise BadInputError(
            "episode", "has jobs that wait for the end of others", "set workload.dependencies=ignore"
        )
    if np.maximum(jobs.think, 0)[waiting].sum(dtype=np.float64) > NEVER // 4:
        raise BadInputError("episode", f"has think times of more than {NEVER // 4} ticks", "shorten them")
    _link(state, env, before, jobs.think)


def load_lots(state: State, env: int, jobs: JobTable, prices: FloatArray) -> None:
    """Work out what the jobs that were loaded are worth and when they are due.

    Args:
        state: where to.
        env: which environment.
        jobs: the same as for `load`.
        prices: (resource,) value of one unit for one tick.
    """
    worth = (jobs.demand * prices).sum(axis=1)
    rate = worth * jobs.qos
    lots = state.lots[env, : len(jobs)]
    lots[:] = np.zeros((), LOT)
    lots["tried_at"] = -1
    lots["due"] = jobs.submit + np.floor(jobs.requested / jobs.qos + 1e-9).astype(np.int64)
    lots["qos"] = jobs.qos
    lots["price"] = rate
    lots["value"] = rate * jobs.runtime
    # In this order, jobs of one resource and equal qos are equal whatever their size.
    lots["density"] = worth / jobs.demand.sum(axis=1) * jobs.qos
    sums = state.ahead[env, 1 : len(jobs) + 1]
    np.cumsum(lots["value"], out=sums[:, 0])
    np.cumsum(jobs.demand.sum(axis=1, dtype=np.int64) * jobs.runtime, out=sums[:, 1])


def load_power(state: State, env: int, power: PowerSeries) -> None:
    """Put an episode's power into one environment.

    Args:
        state: where to, with room for as many ticks.
        env: which environment.
        power: tick 0 is the episode's first.
    """
    ticks = len(power.supply_w)
    state.supply_w[env, :ticks] = power.supply_w
    state.carbon[env, :ticks] = power.carbon_g_per_kwh
    state.episodes["power_ticks"][env] = ticks
    state.episodes["noise_seed"][env] = power.seed


@step
def reset(s: State, i: int, num_jobs: int, tick: int) -> None:
    """Begin an episode of so many jobs at this tick, before anything of it has happened."""
    e = s.episodes[i]
    for r in range(len(s.resources)):
        s.free[i, r] = s.units[i, r]
        s.extra[i, r] = 0
    e.now = tick
    e.first_submit = tick
    e.num_jobs = num_jobs
    e.next_arrival = 0
    e.num_dated = num_jobs
    e.queue_lo = 0
    e.queue_hi = 0
    e.num_running = 0
    e.num_finished = 0
    e.num_blocks = 0
    e.reserved = -1
    e.shadow = 0
    e.actions_now = 0
    e.asked_at = tick
    e.over = 0
    e.queued_work = 0
    e.queued_area = 0
    e.arriving_area = 0
    e.arrived_work = 0
    e.began = tick
    e.arrived_before = 0
    e.finished_before = 0
    e.used_requests = 0.0
    e.promised = 0
    e.ending = 0
    e.num_waiting = 0
    e.num_started = 0
    e.num_ready = 0
    e.num_planned = 0
    e.num_suspended = 0
    e.num_rejected = 0
    e.freed = 0
    e.reshow = 0
    e.noise_seed = 0
    e.power_ticks = 0
    e.discount = 1.0
    e.battery_wh = 0.0
    e.running_price = 0.0
    e.waiting_value = 0.0
    e.running_rate = 0.0
    e.slowdown_rate = 0.0
    e.bounded_rate = 0.0
    e.scale = 1.0


@kernel
def _load(
    s: State,
    i: int,
    submit: IntArray,
    runtime: IntArray,
    requested: IntArray,
    demand: DemandArray,
    bound: float,
    scale: float,
    in_order: bool,
) -> int:
    """Copy the columns; the first row that cannot be simulated, or -1."""
    e = s.episodes[i]
    n = len(submit)
    area = 0
    longest = s.used.shape[2] if len(s.horizon) > 0 else NEVER
    for j in range(n):
        if (
            submit[j] + runtime[j] + requested[j] > NEVER // 4
            or requested[j] > longest
            or (in_order and j > 0 and submit[j] < submit[j - 1])
        ):
            return j
        for r in range(len(s.resources)):
            if demand[j, r] > s.units[i, r]:
                return j
            s.demand[i, j, r] = demand[j, r]
        job = s.jobs[i, j]
        job.submit = submit[j]
        job.runtime = runtime[j]
        job.requested = requested[j]
        job.start = -1
        job.expected_end = -1
        job.end = -1
        job.slowdown_rate = 1.0 / runtime[j]
        job.bounded_rate = 1.0 / max(float(runtime[j]), bound)
        area += demand[j, 0] * runtime[j]
    reset(s, i, n, submit[0])
    e.arriving_area = area
    e.scale = scale
    return -1


@kernel
def _link(s: State, i: int, before: IntArray, think: IntArray) -> None:
    """Let jobs wait for the end of those of these rows; -1: of none."""
    if s.links.shape[1] == 0:
        return
    e = s.episodes[i]
    e.num_dated = 0
    for j in range(len(before)):
        link = s.links[i, j]
        link.first = -1
        link.next = -1
        link.think = think[j]
        link.planned = s.jobs[i, j].submit
    for j in range(len(before)):
        if before[j] < 0:
            s.links[i, e.num_dated].row = j
            e.num_dated += 1
        else:
            s.links[i, j].next = s.links[i, before[j]].first
            s.links[i, before[j]].first = j


def starts(state: State, env: int) -> IntArray:
    """(jobs,) start tick of every job of the episode in this environment, -1 not started."""
    return state.jobs["start"][env, : state.episodes["num_jobs"][env]].copy()


def keys_for(state: State, env: int, keys: FloatArray, values: FloatArray) -> None:
    """Put one episode's priority keys (jobs,) into the (env, job) array that replays read."""
    keys[env, : state.episodes["num_jobs"][env]] = values
