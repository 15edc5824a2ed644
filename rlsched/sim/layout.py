"""Where every observed number stands in the observation vector, and what it means.

All blocks of an environment lie one after the other in one float32 row, so that a vector of
environments is one contiguous (env, size) array; a block is a reshaped view of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from rlsched.scenario import PRIVILEGED, Decision, Observation

GREEN_WITHIN = (0, 6, 24)
"""Ticks that a start is put off at most, of the `green` columns of the `jobs` block."""


def job_features(num_resources: int, *, horizon: bool = False, supply: bool = False) -> tuple[str, ...]:
    """Columns of the `jobs` block, in order; all in [0, 1], times and work log-scaled and clipped.

    Args:
        num_resources: resource types of the cluster.
        horizon: whether the scenario has one, and so plans, values and qos count.
        supply: whether the `supply` block is observed beside.
    """
    # Share of what the job draws that wind and sun leave over, mean over its run, by the forecast and the
    # plans; at its start, and at the best start within so many ticks after that.
    with_supply = tuple(f"green_{ticks}" for ticks in GREEN_WITHIN)
    with_horizon = (
        "duration",  # requested time / horizon
        "qos",
        "value_rate",  # value per tick, as a share of the most valuable job that fits the cluster
        "density",  # value per unit-tick / highest price
        "slack",  # time to the qos violation beyond the requested time; 0.5 none left, scaled by the horizon
        "start",  # first row from which it fits / horizon; 1 where it fits nowhere
        "match",  # mean over resources of demand x free now, as shares [Tetris, Grandl 2014]
        *[f"fill_{r}" for r in range(num_resources)],  # share that would be used in the row of its start
        *[f"tail_{r}" for r in range(num_resources)],  # share free in the row after its expected end
    )
    per_resource = [f"{name}_{r}" for r in range(num_resources) for name in ("share", "log_demand")]
    return (
        "present",  # 1 where the slot holds a job
        "requested",  # requested time
        *per_resource,  # demand / units of the cluster; log demand / log units
        "queue_at_submit",  # jobs waiting when it was submitted
        "work_at_submit",  # their demand x requested time per unit of the cluster
        "free_at_submit",  # share of units free then, of the first resource
        "wait",  # time since submit
        "response",  # wait + requested time: its response time if it started now
        "fits",  # 1 where its demand is free now
        "legal",  # 1 where choosing it is legal now
        "reserved",  # 1 where it holds the reservation
        *(with_horizon if horizon else ("delay",)),  # until its demand is expected to be free
        *(with_supply if supply else ()),
    )


def queue_features(num_resources: int, *, horizon: bool = False) -> tuple[str, ...]:
    """Entries of the `queue` block; all in [0, 1]. Arguments as of `job_features`."""
    with_horizon = (
        *[f"on_{r}" for r in range(num_resources)],  # share of units on now
        *[f"on_next_{r}" for r in range(num_resources)],  # forecast for the next tick
        "planned",  # planned jobs, log-scaled
        "suspended",  # suspended jobs, log-scaled
        "battery",  # level / capacity
    )
    return (
        "queue_length",  # waiting jobs, log-scaled
        "backlog",  # waiting jobs beyond the window, log-scaled
        "queued_work",  # demand x requested time of the waiting jobs per unit, log-scaled time
        "remaining_work",  # demand x remaining requested time of the running jobs per unit, likewise
        "next_release",  # time to the next expected release, log-scaled
        "reservation",  # 1 while a reservation stands
        "shadow",  # time until the reserved job is expected to start, log-scaled
        *[f"free_{r}" for r in range(num_resources)],  # share of units free now
        *[f"extra_{r}" for r in range(num_resources)],  # share free beside the reserved job at its start
        *(with_horizon if horizon else ()),
    )


def history_features() -> tuple[str, ...]:
    """Entries of the `history` block; all in [0, 1]: what accounting knows of the jobs of an episode so far.

    They tell clusters apart that look alike at one moment: whose users know how long their jobs run, and
    where more is submitted than can be done.
    """
    return (
        "arrived",  # jobs, log-scaled
        "finished",  # jobs, log-scaled
        "used_requests",  # runtime / requested time, at most 1, mean of the finished jobs; 1 before the first
        "gap",  # time between arrivals on average, log-scaled
        "work",  # demand x requested time of a job on average, per unit, log-scaled time
        "load",  # work per unit and time that arrived, w / (w + 1): 0.5 where all units would be in use
    )


def outlook_features() -> tuple[str, ...]:
    """Entries of the `outlook` block: what no scheduler can know and only a critic may use in training.

    It is privileged, as `coming` is: see `rlsched.scenario.PRIVILEGED`.
    """
    return (
        "to_arrive",  # share of the episode's jobs that have not arrived
        "work_to_arrive",  # their true work per unit, log-scaled time
        "arrivals_end",  # time to the last arrival, log-scaled
        "true_queued_work",  # true work of the waiting jobs per unit, log-scaled time
        "true_remaining_work",  # true remaining work of the running jobs per unit, likewise
        "rate",  # sum of 1 / max(runtime, 10 s) over the waiting jobs, log-scaled
        "scaled_rate",  # the same times the episode's reward scale and an hour, log-scaled
        "scale",  # the episode's reward scale per job: 1 / the baseline's bounded slowdown ** its exponent
    )


COMING = (8, 16, 32, 64, 128, 256, 512)
"""Jobs that the `coming` block looks ahead."""


def coming_features() -> tuple[str, ...]:
    """Entries of the `coming` block: jobs that no scheduler sees yet, and only a critic may in training.

    For each number of jobs in `COMING`, of the next one to enter the ready pool and as many as come after it:
    under admission fcfs those that enter next, if all are let in. Fewer at the end of an episode, 0 where
    there is none.
    """
    return tuple(
        name
        for count in COMING
        for name in (
            f"density_{count}",  # their value / their unit-ticks / the highest price
            f"work_{count}",  # unit-ticks of a job on average / those of the whole cluster in the horizon
        )
    )


SUPPLY = ("renewable", "carbon")
"""Rows of the `supply` block: what is forecast for every tick of the horizon.

renewable: wind and sun as a share of the full draw, at most 1, with the errors that the forecast of the units
that are on has (`power.forecast_error`). carbon: what the grid emits, kg/kWh, at most 1.
"""


@dataclass(frozen=True)
class Block:
    """One named part of the observation: its shape and first position in the vector."""

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Numbers in the block."""
        return prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """All blocks of an observation, in the order of the vector; `num_actions` of the mask beside it.

    The image is no part of the vector: it says in units what `profile` says in shares, with many times the
    numbers. Where it is observed the vector holds the profile, and the image is drawn from that by whoever
    wants to see it: the simulator (`picture`), or a network on its own device.

    Attributes:
        blocks: of the vector.
        num_actions: numbers of the mask.
        num_resources: resource types of the cluster.
        window: slots; the first so many actions.
        horizon: rows of the grid; 0: none.
    """

    blocks: tuple[Block, ...]
    num_actions: int
    num_resources: int
    window: int
    horizon: int = 0

    @classmethod
    def of(cls, observation: Observation, decision: Decision, num_resources: int) -> Layout:
        """The layout that these settings give on a cluster with so many resource types.

        Actions are one per slot, with a horizon one that suspends, and the no-op, which is last.
        """
        horizon = decision.horizon or 0
        shapes = {
            "jobs": (
                decision.window,
                len(job_features(num_resources, horizon=horizon > 0, supply="supply" in observation.blocks)),
            ),
            "event_horizon": (observation.event_horizon, 1 + 2 * num_resources),
            "queue": (len(queue_features(num_resources, horizon=horizon > 0)),),
            "history": (len(history_features()),),
            "outlook": (len(outlook_features()),),
            "coming": (len(coming_features()),),
            "profile": (num_resources, 3, horizon),
            "supply": (len(SUPPLY), horizon),
        }
        names = dict.fromkeys("profile" if name == "image" else name for name in observation.blocks)
        blocks, offset = [], 0
        for name in names:
            block = Block(name, shapes[name], offset)
            blocks.append(block)
            offset += block.size
        return cls(tuple(blocks), decision.num_actions, num_resources, decision.window, horizon)

    @property
    def job_features(self) -> tuple[str, ...]:
        """Columns of the `jobs` block."""
        supply = self.block("supply") is not None
        return job_features(self.num_resources, horizon=self.horizon > 0, supply=supply)

    @property
    def size(self) -> int:
        """Numbers in the observation vector."""
        return sum(block.size for block in self.blocks)

    def block(self, name: str) -> Block | None:
        """The block of that name, or None where it is not observed."""
        return next((block for block in self.blocks if block.name == name), None)

    def size_of(self, name: str) -> int:
        """Numbers in the block of that name; 0 where it is not observed."""
        block = self.block(name)
        return 0 if block is None else block.size

    def view(self, vectors: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        """A block of (..., size) vectors as a (..., *shape) view.

        Raises:
            KeyError: the block is not observed.
        """
        block = self.block(name)
        if block is None:
            raise KeyError(name)
        part = vectors[..., block.offset : block.offset + block.size]
        return part.reshape(*vectors.shape[:-1], *block.shape)


def public_columns(layout: Layout) -> NDArray[np.int64]:
    """Columns of the observation vector that belong to no privileged block, in order."""
    parts = [
        np.arange(block.offset, block.offset + block.size, dtype=np.int64)
        for block in layout.blocks
        if block.name not in PRIVILEGED
    ]
    return np.concatenate(parts)
