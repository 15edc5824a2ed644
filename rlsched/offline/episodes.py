"""Datasets read in the order of their episodes, a row group at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray
from rlsched.offline.columns import coded, values_of
from rlsched.offline.manifest import Manifest
from rlsched.offline.shards import row_groups

GROUPS = 24
"""Groups of episodes, which are resampled for the intervals."""

COLUMNS = (
    *("t", "obs", "action_mask", "actions", "rewards", "new_obs", "new_action_mask"),
    *("elapsed", "terminateds", "truncateds", "action_logp"),
)
"""Beside the names of episodes and behaviours."""


@dataclass(eq=False)
class Chunk:
    """Some rows in the order of their episodes, as arrays.

    Attributes:
        names: of the episodes; episode: (row,) which of them.
        age: (row,) ticks since the episode began.
        group: (row,) of episodes.
        columns: by name; (row,) or (row, width).
        behaviors: names of the behavior policies; behavior: (row,) which of them.
    """

    names: list[str]
    episode: IntArray
    age: IntArray
    group: IntArray
    columns: dict[str, NDArray[Any]]
    behaviors: list[str]
    behavior: IntArray

    @classmethod
    def of(cls, table: pa.Table, ticks: dict[str, float]) -> Chunk:
        """A row group.

        Args:
            table: of it.
            ticks: that each episode took before; brought up to date.
        """
        names, episode = coded(table, "eps_id")
        order = np.lexsort((values_of(table, "t"), episode))
        behaviors, behavior = coded(table, "behavior")
        groups = np.array([crc32(name.encode()) % GROUPS for name in names])
        columns = {name: values_of(table, name)[order] for name in COLUMNS}
        age = np.zeros(len(order), np.int64)
        chunk = cls(names, episode[order], age, groups[episode[order]], columns, behaviors, behavior[order])
        sums = chunk.running(chunk["elapsed"].astype(float), ticks)
        chunk.carry_on(sums, ticks)
        chunk.age = np.rint(sums).astype(np.int64) - chunk["elapsed"]
        return chunk

    def __len__(self) -> int:
        return len(self.episode)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    @property
    def over(self) -> NDArray[np.bool_]:
        """(row,) whether the episode ends with it."""
        ended: NDArray[np.bool_] = self["terminateds"] | self["truncateds"]
        return ended

    def running(self, values: FloatArray, before: Mapping[str, float]) -> FloatArray:
        """(row,) sums of values over the rows of an episode so far, each row's own among them.

        Args:
            values: (row,)
            before: sum of each episode before these rows; 0 where an episode is missing.
        """
        sums = np.cumsum(values)
        first = np.flatnonzero(np.diff(self.episode, prepend=-1))
        started = sums[first] - values[first]
        carried = np.array([before.get(self.names[k], 0.0) for k in self.episode[first]])
        lengths = np.diff(first, append=len(values))
        running: FloatArray = sums + np.repeat(carried - started, lengths)
        return running

    def carry_on(self, sums: FloatArray, before: dict[str, float]) -> None:
        """Save the sums of `running` for later rows; drop the episodes that are over."""
        for k in np.flatnonzero(np.diff(self.episode, append=-1)):
            name = self.names[self.episode[k]]
            if self.over[k]:
                before.pop(name, None)
            else:
                before[name] = float(sums[k])


def chunks(folder: Path, manifest: Manifest, progress: Callable[[int], None]) -> Iterator[Chunk]:
    """All rows of a dataset, a row group at a time; those of an episode come in their order.

    Raises:
        BadInputError: a shard is damaged.
    """
    for shard in manifest.shards:
        path, ticks = folder / shard.file, dict[str, float]()  # no episode is in two shards
        for table in row_groups(path, [*COLUMNS, "eps_id", "behavior"], threads=False):
            yield Chunk.of(table, ticks)
            progress(len(table))
