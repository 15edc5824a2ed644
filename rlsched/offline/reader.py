"""Reading a dataset to learn from it: rows in random order, again and again, in memory that stays as it is.

Row groups are read in random order, some at a time, and their rows dealt out in random order; while one lot
is dealt out, the next is read in a thread. How many rows are mixed depends on a limit of bytes, not on the
dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlsched.jobs import FloatArray
from rlsched.offline.columns import MASKS, VECTORS, coded, values_of
from rlsched.offline.manifest import Manifest
from rlsched.offline.shards import open_shard, row_groups

MIXED_BYTES = 128 << 20
"""Bytes of the rows that are shuffled at a time."""

Rows = dict[str, NDArray[Any]]
"""Columns by name; (rows,) or (rows, width)."""

AHEAD = ("rewards", "new_obs", "new_action_mask", "elapsed", "terminateds")
"""Columns with the outcome of a decision."""

RETURN = "return_to_go"
"""A computed column: discounted return from a decision to the end of its episode."""


@dataclass(frozen=True)
class Place:
    """A row group of a dataset."""

    shard: int
    group: int
    rows: int
    first: int


class Reader:
    """Yields the rows of a dataset in random order, without end.

    Args:
        folder: of the dataset.
        manifest: of the dataset.
        columns: to read; `return_to_go` among them is worked out.
        seed: of the order.
        gamma: discount per tick, of `return_to_go` and within `n_step`.
        read_before: rows that were yielded before; the reader continues after them.
        n_step: decisions that a transition goes over, see `ahead`; the columns of `AHEAD` are needed then.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        columns: Sequence[str],
        *,
        seed: int,
        gamma: float = 1.0,
        read_before: int = 0,
        n_step: int = 1,
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self.columns = [name for name in columns if name != RETURN]
        self.gamma, self.n_step = gamma, n_step
        self._to_go = RETURN in columns
        self.seed = seed
        self._places = _places(folder, manifest)
        widths = {
            **dict.fromkeys(VECTORS, 4 * manifest.shape.size),
            **dict.fromkeys(MASKS, manifest.shape.actions),
        }
        row_bytes = sum(widths.get(name, 8) for name in columns)
        self._per_pass = min(len(self._places), -(-manifest.rows // max(1, MIXED_BYTES // row_bytes)))
        self._lots, self._skipped = self._after(read_before)
        self._thread = ThreadPoolExecutor(1)
        self._returns: dict[int, NDArray[np.float32]] = {}
        self._coming: Future[Rows] | None = None
        self._remainder: Rows | None = None

    @property
    def rows(self) -> int:
        """Decisions of the dataset."""
        return self.manifest.rows

    def take(self, count: int) -> Rows:
        """So many rows, every one of the dataset once before any comes again (but for where lots are joined).

        Raises:
            BadInputError: a shard is damaged.
        """
        parts: list[Rows] = []
        wanted = count
        while wanted:
            if self._remainder is None:
                self._remainder = self._next()
            rows = _count(self._remainder)
            part, self._remainder = _cut(self._remainder, min(wanted, rows))
            parts.append(part)
            wanted -= _count(part)
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def close(self) -> None:
        """Read no more."""
        self._thread.shutdown(cancel_futures=True)

    def _next(self) -> Rows:
        """The next lot, and the one after it on its way."""
        if self._coming is None:
            self._coming = self._thread.submit(self._read, self._lots)
        rows = self._coming.result()
        self._lots += 1
        self._coming = self._thread.submit(self._read, self._lots)
        if self._skipped:
            rows, self._skipped = {name: values[self._skipped :] for name, values in rows.items()}, 0
        return rows

    def _after(self, rows: int) -> tuple[int, int]:
        """Batch of the row after the first `rows`, and the number of rows before it in that batch."""
        turns, skipped = divmod(rows, self.manifest.rows)
        batch = turns * self._per_pass
        while skipped >= (size := sum(place.rows for place in self._groups_of(batch))):
            skipped -= size
            batch += 1
        return batch, skipped

    def _read(self, batch: int) -> Rows:
        """Read a batch, in random order."""
        places = self._groups_of(batch)
        parts = [self._part(place) for place in places]
        rows: Rows = {name: np.concatenate([part[name] for part in parts]) for name in self.columns}
        if self._to_go:
            rows[RETURN] = np.concatenate([self._returns_of(place) for place in places])
        order = np.random.default_rng([self.seed, 1, batch]).permutation(_count(rows))
        return {name: values[order] for name, values in rows.items()}

    def _groups_of(self, number: int) -> list[Place]:
        """The row groups of a lot; those of one pass through the dataset are all of it."""
        turn, part = divmod(number, self._per_pass)
        order = np.random.default_rng([self.seed, 0, turn]).permutation(len(self._places))
        return [self._places[k] for k in np.array_split(order, self._per_pass)[part].tolist()]

    def _part(self, place: Place) -> Rows:
        """The rows of a row group."""
        path = self.folder / self.manifest.shards[place.shard].file
        runs = ("eps_id", "t") if self.n_step > 1 else ()
        columns = [*self.columns, *runs]
        (table,) = row_groups(path, columns, groups=[place.group], threads=False)
        rows = {name: values_of(table, name) for name in self.columns}
        if self.n_step == 1:
            return rows
        (_, episode), t = coded(table, "eps_id"), values_of(table, "t")
        goes_on = (episode[1:] == episode[:-1]) & (t[1:] == t[:-1] + 1)
        return ahead(rows, goes_on, self.n_step, self.gamma)

    def _returns_of(self, place: Place) -> NDArray[np.float32]:
        if place.shard not in self._returns:
            path = self.folder / self.manifest.shards[place.shard].file
            names = ["eps_id", "t", "rewards", "elapsed"]
            table = pa.concat_tables(row_groups(path, names, threads=False))
            t, rewards, elapsed = (values_of(table, name) for name in names[1:])
            _, episode = coded(table, "eps_id")
            self._returns[place.shard] = returns_to_go(episode, t, rewards, self.gamma**elapsed)
        return self._returns[place.shard][place.first : place.first + place.rows]


def ahead(rows: Rows, goes_on: NDArray[np.bool_], n_step: int, gamma: float) -> Rows:
    """Every transition together with those that followed it, as one that took as long [Watkins 1989].

    What was done on the way is taken for what would be done: critics are asked less, and what they guess
    matters less.

    Args:
        rows: columns of `AHEAD`, and others, which stay.
        goes_on: (rows - 1,) whether the next row is the next decision of the episode.
        n_step: decisions together; fewer where the rows of the episode end before.
        gamma: discount per tick.
    """
    count = len(rows["rewards"])
    ends = np.append(np.flatnonzero(~goes_on), count - 1)
    first = np.arange(count)
    last = np.minimum(first + n_step - 1, ends[np.searchsorted(ends, first)])
    rewards, elapsed = np.zeros(count), np.zeros(count, np.int64)
    for step in range(n_step):
        at = np.minimum(first + step, last)
        inside = first + step <= last
        rewards += np.where(inside, gamma ** elapsed.astype(np.float64) * rows["rewards"][at], 0.0)
        elapsed += np.where(inside, rows["elapsed"][at], 0)
    columns = {name: rows[name][last] for name in AHEAD}
    return {**rows, **columns, "rewards": rewards, "elapsed": elapsed}


def returns_to_go(
    episode: NDArray[Any], t: NDArray[Any], rewards: FloatArray, discounts: FloatArray
) -> NDArray[np.float32]:
    """Discounted return from each decision to the end of its episode.

    A truncated episode counts as a terminated one: its later rewards are not known.

    Args:
        episode: (row,) number of its episode.
        t: (row,) number of the decision in it.
        rewards: (row,)
        discounts: (row,) of what comes after the transition.

    Returns:
        (row,) in units of reward.
    """
    order = np.lexsort((t, episode))
    returns, of = rewards[order].astype(np.float64), discounts[order]
    goes_on = np.append(episode[order][1:] == episode[order][:-1], False)
    steps = t[order]
    by_t = np.argsort(steps, kind="stable")
    for rows in reversed(np.split(by_t, np.flatnonzero(np.diff(steps[by_t])) + 1)):
        rows = rows[goes_on[rows]]
        returns[rows] += of[rows] * returns[rows + 1]
    back = np.empty(len(order), np.float32)
    back[order] = returns
    return back


def _places(folder: Path, manifest: Manifest) -> list[Place]:
    places = []
    for number, shard in enumerate(manifest.shards):
        with open_shard(folder / shard.file) as file:
            first = 0
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                places.append(Place(number, group, rows, first))
                first += rows
    return places


def _count(rows: Rows) -> int:
    return len(next(iter(rows.values())))


def _cut(rows: Rows, count: int) -> tuple[Rows, Rows | None]:
    """Split rows into the first `count` and the rest; None: there is no rest."""
    first = {name: values[:count] for name, values in rows.items()}
    if count == _count(rows):
        return first, None
    return first, {name: values[count:] for name, values in rows.items()}
