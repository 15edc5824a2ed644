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
from rlsched.jobs import DemandArray, FloatArray, IntArray
from rlsched.sim.compiled import step

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
        ("transition_start", "i8"),  # tick at which the current transition began
        ("over", "i8"),  # 0 goes on, 1 terminated, 2 truncated
        ("queued_work", "i8"),  # waiting: sum of demand x requested, first resource, unit-ticks
        ("queued_area", "i8"),  # waiting: sum of demand x runtime
        ("arriving_area", "i8"),  # not yet arrived: sum of demand x runtime
        ("expected_end_area", "i8"),  # running: sum of demand x (start + requested)
        ("end_area", "i8"),  # running: sum of demand x (start + runtime)
        ("arrived_work", "i8"),  # arrived so far: sum of demand x requested, first resource
        ("history_start", "i8"),  # first tick of which the history is known
        ("earlier_arrivals", "i8"),  # arrivals since then that the episode does not have
        ("earlier_finished", "i8"),
        ("used_requests", "f8"),  # finished: sum of runtime / requested, at most 1 each
        ("num_waiting", "i8"),  # in the queue, planned or suspended
        ("num_started", "i8"),  # jobs that have ever started
        ("num_ready", "i8"),  # tick-driven: so many at the front of the queue are the ready pool
        ("num_planned", "i8"),
        ("num_suspended", "i8"),
        ("num_rejected", "i8"),
        ("grid_version", "i8"),  # counts when rows of the grid gained free units
        ("rewrite_slots", "i8"),  # 1 where what is observed of waiting jobs is no longer true
        ("noise_seed", "i8"),  # of the forecast's errors
        ("power_ticks", "i8"),  # length of the power series
        ("discount", "f8"),  # gamma ** (now - transition_start)
        ("running_rate", "f8"),  # running: sum of 1 / runtime, per tick
        ("slowdown_rate", "f8"),  # waiting: sum of 1 / runtime, per tick
        ("bounded_rate", "f8"),  # waiting: sum of 1 / max(runtime, bound), per tick
        ("scale", "f8"),  # factor on the reward
        ("battery_wh", "f8"),  # level
        ("running_value_rate", "f8"),  # running: sum of price rates, value per tick
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

JOB_VALUE = _record(
    [
        ("number", "i8"),  # of its first start
        ("resumed", "i8"),  # tick of the last start or resumption
        ("planned", "i8"),  # tick at which it is planned to start
        ("search_from", "i8"),  # it fits at no tick before this one,
        ("search_version", "i8"),  # unless rows were freed since `freed` said this
        ("due", "i8"),  # qos violation tick
        ("suspensions", "i8"),
        ("rejected", "i8"),  # 1 turned away or given up
        ("qos", "f8"),
        ("value_rate", "f8"),  # value per tick of running
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
    # what the other mode needs.
    resources: tuple[int, ...]  # 0, 1, ...
    grid: tuple[int, ...]  # (rows of the grid,) where time goes tick by tick; () where it goes by events
    # What follows is empty where there is no grid.
    job_values: NDArray[np.void]  # (env, job) JOB_VALUE
    ahead: FloatArray  # (env, job + 1, 2) value, and unit-ticks, of all jobs of the episode before it
    planned: NDArray[np.int32]  # (env, planned) rows of planned jobs, in no order
    suspended: NDArray[np.int32]  # (env, suspended) rows, first suspended first
    used: DemandArray  # (env, resource, row) units held by running and planned jobs, row 0 is now
    on: DemandArray  # (env, resource, row) units forecast to be on; those of row 0 are on
    supply_w: FloatArray  # (env, tick) renewable watts, see PowerSeries
    carbon: FloatArray  # (env, tick) gCO2 per kWh of the grid


PER_ENV = tuple(name for name in State._fields if name not in ("most", "resources", "grid"))
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
        grid=(horizon,) if horizon else (),
        job_values=np.zeros((num_envs, max_jobs if horizon else 0), JOB_VALUE),
        ahead=np.zeros((num_envs, max_jobs + 1 if horizon else 0, 2)),
        planned=np.zeros((num_envs, max_jobs if horizon else 0), np.int32),
        suspended=np.zeros((num_envs, max_jobs if horizon else 0), np.int32),
        used=np.zeros((num_envs, len(total), horizon), np.int32),
        on=np.zeros((num_envs, len(total), horizon), np.int32),
        supply_w=np.zeros((num_envs, 0)),
        carbon=np.zeros((num_envs, 0)),
    )


@step
def reset(s: State, i: int, num_jobs: int, tick: int) -> None:
    """Begin an episode of `num_jobs` jobs at this tick, before any event of it."""
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
    e.transition_start = tick
    e.over = 0
    e.queued_work = 0
    e.queued_area = 0
    e.arriving_area = 0
    e.arrived_work = 0
    e.history_start = tick
    e.earlier_arrivals = 0
    e.earlier_finished = 0
    e.used_requests = 0.0
    e.expected_end_area = 0
    e.end_area = 0
    e.num_waiting = 0
    e.num_started = 0
    e.num_ready = 0
    e.num_planned = 0
    e.num_suspended = 0
    e.num_rejected = 0
    e.grid_version = 0
    e.rewrite_slots = 0
    e.noise_seed = 0
    e.power_ticks = 0
    e.discount = 1.0
    e.battery_wh = 0.0
    e.running_value_rate = 0.0
    e.waiting_value = 0.0
    e.running_rate = 0.0
    e.slowdown_rate = 0.0
    e.bounded_rate = 0.0
    e.scale = 1.0


def starts(state: State, env: int) -> IntArray:
    """(jobs,) start tick of every job of the episode in this environment, -1 not started."""
    return state.jobs["start"][env, : state.episodes["num_jobs"][env]].copy()


def keys_for(state: State, env: int, keys: FloatArray, values: FloatArray) -> None:
    """Put one episode's priority keys (jobs,) into the (env, job) array that replays read."""
    keys[env, : state.episodes["num_jobs"][env]] = values
