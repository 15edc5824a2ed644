"""Destinations of observations, and the scaling of times and numbers of jobs in them."""

from __future__ import annotations

from math import log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray
from rlsched.sim.columns import Column
from rlsched.sim.compiled import step
from rlsched.sim.picture import Picture

ABSENT = -1  # offset of a block that is not observed
LOG_JOBS = 1.0 / log2(1.0 + 1e5)  # queue lengths are log-scaled against 100,000 jobs
LOG_RATE = 1.0 / log2(1.0 + 1e6)  # waiting jobs of the shortest kind, log-scaled against a million
HOUR_S = 3600.0
LOGS = np.log2(1.0 + np.arange(2048))
LANES = 16  # float32 numbers that are worked on at once

Float32Array = NDArray[np.float32]


class View(NamedTuple):
    """Positions of the blocks, and the scaling of times."""

    vector: Float32Array  # (env, size)
    slot_rows: NDArray[np.int32]  # (env, slot) job row whose static columns stand there
    num_shown: IntArray  # (env,)
    jobs_at: int  # offsets in the vector, or ABSENT
    events_at: int
    queue_at: int
    history_at: int
    outlook_at: int
    coming_at: int
    coming: IntArray  # (look,) jobs that are looked ahead
    profile_at: int
    supply_at: int
    full_w: float  # watts of the cluster with all units on and at work
    busy_w: FloatArray  # (resource,) watts that a unit draws at work beyond what it draws when idle
    idle_w: FloatArray  # (resource,) of a unit that is on
    forecast_error: float
    left_over: FloatArray  # (tick,) scratch: share of the full draw that wind and sun leave over
    fed: FloatArray  # (tick + 1,) scratch
    job_columns: int
    price_top: float  # value per tick of a job on the whole cluster with qos 1
    density_top: float  # highest price
    capacity_wh: float  # of the battery
    picture: Picture
    num_events: int
    event_columns: int
    shares: FloatArray  # (resource,) of a unit in those of the cluster
    log_time: float  # 1 / log2(1 + longest time in ticks)
    tick_s: float
    rows: NDArray[np.int32]  # (events,) scratch
    numbers: Float32Array  # (2 x slots or events, made up to LANES,) scratch
    number_bits: NDArray[np.int32]  # the same memory as bits
    mantissas: Float32Array  # scratch
    mantissa_bits: NDArray[np.int32]  # the same memory as bits


@step
def place(column: Column, resources: int, number: int) -> int:
    """Position of a feature in its block: repetition `number`, with `resources` resource types."""
    return column.base + column.groups * resources + column.stride * number


@step
def log2_all(v: View, count: int) -> None:
    """Replace the first `count` numbers (all >= 1) by their binary logarithm, to 2e-5.

    log2(2^e m) = e + 2 / ln 2 * atanh((m - 1) / (m + 1)), four terms of the series. It works on whole
    vectors: numbers behind the last are unused, and leaving them out takes longer than computing a few.
    """
    count = (count + LANES - 1) // LANES * LANES
    for k in range(count):
        v.mantissa_bits[k] = (v.number_bits[k] & 0x7FFFFF) | 0x3F800000
    for k in range(count):
        exponent = np.float32((v.number_bits[k] >> 23) - 127)
        m = v.mantissas[k]
        z = (m - np.float32(1)) / (m + np.float32(1))
        zz = z * z
        series = np.float32(1) + zz * (np.float32(1 / 3) + zz * (np.float32(1 / 5) + zz * np.float32(1 / 7)))
        v.numbers[k] = exponent + np.float32(2.885390082) * z * series


@step
def log_time(v: View, ticks: float) -> float:
    """A time in [0, 1]: log-scaled and clipped."""
    return min(1.0, log2(1.0 + max(0.0, ticks)) * v.log_time)


@step
def log_whole(number: int) -> float:
    """log2(1 + number) of a whole number >= 0; small ones are looked up, since a logarithm takes its time."""
    if number < len(LOGS):
        return LOGS[number]
    return log2(1.0 + number)


@step
def log_ticks(v: View, ticks: int) -> float:
    """`log_time` of a whole number of ticks >= 0."""
    return min(1.0, log_whole(ticks) * v.log_time)
