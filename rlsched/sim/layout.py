"""Positions and meanings of all numbers in the observation vector.

All blocks of an environment lie one after the other in one float32 row, so that a vector of
environments is one contiguous (env, size) array; a block is a reshaped view of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from rlsched.scenario import PRIVILEGED, Decision, Observation
from rlsched.sim.columns import TABLES


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
    """All blocks of an observation, in the order of the vector; and `num_actions` of the mask.

    The image is no part of the vector: it says in units what `profile` says in shares, with many times the
    numbers. Where it is observed the vector holds the profile, and the image is drawn from that where it
    is needed: by the simulator (`picture`), or by a network on its device.

    Attributes:
        blocks: of the vector.
        num_actions: numbers of the mask.
        num_resources: resource types of the cluster.
        window: slots; their actions are the first ones.
        horizon: rows of the grid; 0: none.
    """

    blocks: tuple[Block, ...]
    num_actions: int
    num_resources: int
    window: int
    horizon: int = 0

    @classmethod
    def of(cls, observation: Observation, decision: Decision, num_resources: int) -> Layout:
        """The layout that these settings give on a cluster with `num_resources` resource types.

        Actions are one per slot, one that suspends in tick-driven scenarios, and the no-op, which is last.
        """
        horizon = decision.horizon or 0
        columns = {name: len(_names(name, num_resources, horizon, observation.blocks)) for name in TABLES}
        shapes: dict[str, tuple[int, ...]] = {
            **{name: (count,) for name, count in columns.items()},
            "jobs": (decision.window, columns["jobs"]),
            "event_horizon": (observation.event_horizon, columns["event_horizon"]),
            "profile": (num_resources, columns["profile"], horizon),
            "supply": (columns["supply"], horizon),
        }
        names = dict.fromkeys("profile" if name == "image" else name for name in observation.blocks)
        blocks, offset = [], 0
        for name in names:
            block = Block(name, shapes[name], offset)
            blocks.append(block)
            offset += block.size
        return cls(tuple(blocks), decision.num_actions, num_resources, decision.window, horizon)

    def features(self, name: str) -> tuple[str, ...]:
        """Names of the columns of a block, or of the rows of `profile` and `supply`."""
        return _names(name, self.num_resources, self.horizon, [block.name for block in self.blocks])

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


def _names(name: str, num_resources: int, horizon: int, blocks: Iterable[str]) -> tuple[str, ...]:
    return TABLES[name].names(num_resources, ticks=horizon > 0, supply="supply" in blocks)


def public_columns(layout: Layout) -> NDArray[np.int64]:
    """Columns of the observation vector that belong to no privileged block, in order."""
    parts = [
        np.arange(block.offset, block.offset + block.size, dtype=np.int64)
        for block in layout.blocks
        if block.name not in PRIVILEGED
    ]
    return np.concatenate(parts)
