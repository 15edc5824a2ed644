"""Whether a dataset is what it says it is: files, columns, numbers, masks and episodes, row by row.

Row groups are read one after the other, so that memory does not grow with the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.offline.columns import Shape, matrix
from rlsched.offline.manifest import MANIFEST, Doings, Manifest
from rlsched.offline.record import EpisodeEntry, shape_of
from rlsched.offline.shards import ENDING, Shard, checksum, episodes_of, first_line, open_shard
from rlsched.scenario import Scenario

ALIKE = ("decision", "observation")
"""Parts of a scenario that decide what is seen and done."""

EARNED = "objective"
"""The part that decides what is earned."""

NUMBERS = ("obs", "new_obs", "rewards", "costs", "action_logp")
"""Columns in which every number must be finite."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a shard; the first thing that is found.

    Attributes:
        shard: its file.
        row: from 0, where it is a row that is wrong.
        what: is wrong with it.
    """

    shard: str
    row: int | None
    what: str

    def __str__(self) -> str:
        """In one line."""
        return f"{self.shard}{'' if self.row is None else f', row {self.row}'}: {self.what}"


class BrokenError(Exception):
    """A row, or a whole shard (None), that cannot be."""

    def __init__(self, row: int | None, what: str) -> None:
        self.row, self.what = row, what
        super().__init__(what)


def check(
    folder: Path, manifest: Manifest, progress: Callable[[int], None] = lambda rows: None
) -> list[Problem]:
    """Look at everything.

    Args:
        folder: of the dataset.
        manifest: of the dataset.
        progress: called with rows that have been looked at.

    Returns:
        The first problem of each shard that has one.
    """
    known = {one.behavior for one in manifest.behaviors}
    seen: set[str] = set()
    problems, doings = [], Doings()
    for shard in manifest.shards:
        try:
            _check_shard(folder / shard.file, shard, manifest.shape, known, seen, progress)
            doings.add(episodes_of(folder / shard.file))
        except BrokenError as broken:
            problems.append(Problem(shard.file, broken.row, broken.what))
    listed = {shard.file for shard in manifest.shards}
    for path in sorted(folder.glob(f"*{ENDING}")):
        if path.name not in listed:
            problems.append(Problem(path.name, None, f"is not in {MANIFEST}"))
    if not problems:
        problems += [Problem(MANIFEST, None, what) for what in _said_wrong(manifest, doings)]
    return problems


def _said_wrong(manifest: Manifest, doings: Doings) -> list[str]:
    """The first thing that a manifest says of shards, each of which is whole, that is not so."""
    rows = sum(shard.rows for shard in manifest.shards)
    if manifest.rows != rows:
        return [f"says {manifest.rows:,} rows, and there are {rows:,}"]
    if manifest.episodes != doings.episodes:
        return [f"says {manifest.episodes:,} episodes, and there are {doings.episodes:,}"]
    if manifest.behaviors != doings.played():
        return ["says something else of the behaviors than their episodes came to"]
    return []


def read_through(path: Path, shard: Shard, episodes: Sequence[EpisodeEntry]) -> None:
    """Read a shard from its beginning to its end.

    Raises:
        BadInputError: it is damaged, or does not hold what it says.
    """
    rows = 0
    try:
        with open_shard(path) as file:
            for number in range(file.metadata.num_row_groups):
                rows += len(_row_group(file, number, rows))
    except BrokenError as broken:
        raise BadInputError(str(path), broken.what, "fetch or collect it again") from None
    if rows != sum(episode.rows for episode in episodes):
        raise BadInputError(
            str(path), f"holds {rows:,} rows, and says something else", "fetch or collect it again"
        )


def check_for(
    folder: Path, manifest: Manifest, scenario: Scenario, num_resources: int, *, rewards: bool
) -> None:
    """See whether a policy for a scenario can learn from a dataset: before anything long starts, in a moment.

    Args:
        folder: of the dataset.
        manifest: of the dataset.
        scenario: with the units of every resource known.
        num_resources: resource types of its cluster.
        rewards: are learned from, too.

    Raises:
        BadInputError: a file is missing or cut short, a column is not there, or the scenario is another.
    """
    for part in (*ALIKE, EARNED) if rewards else ALIKE:
        if getattr(manifest.scenario, part) != getattr(scenario, part):
            raise BadInputError(
                str(folder),
                f"was recorded with another {part} than scenario {scenario.name!r} has",
                "leave out --scenario to train on its own, or collect another dataset",
            )
    shape = shape_of(scenario, num_resources)
    for shard in manifest.shards:
        path = folder / shard.file
        try:
            _check_size(path, shard)
            with open_shard(path) as file:
                _check_columns(file.schema_arrow, shape.columns())
        except BrokenError as broken:
            raise BadInputError(
                str(path), broken.what, f"fetch it again, or see rlsched dataset check {folder}"
            ) from None


def _check_size(path: Path, shard: Shard) -> None:
    if not path.is_file():
        raise BrokenError(None, "no such file")
    size = path.stat().st_size
    if size != shard.bytes:
        cut = "is cut short" if size < shard.bytes else "is too long"
        raise BrokenError(None, f"{cut}: {size:,} bytes, not {shard.bytes:,}")


def _check_shard(
    path: Path, shard: Shard, shape: Shape, known: set[str], seen: set[str], progress: Callable[[int], None]
) -> None:
    """Look at one file.

    Raises:
        BrokenError: there is something wrong with it.
    """
    _check_size(path, shard)
    rows = _Rows(shape, known, seen)
    try:
        with open_shard(path) as file:
            _check_columns(file.schema_arrow, shape.columns())
            for number in range(file.metadata.num_row_groups):
                table = _row_group(file, number, rows.count)
                rows.check(table)
                progress(len(table))
    except BadInputError as error:
        raise BrokenError(None, error.problem) from None
    rows.finish()
    if checksum(path) != shard.sha256:
        raise BrokenError(None, "its checksum is not the one in dataset.json")
    told = [episode for episode in _told(path) if episode.rows]
    if {episode.eps_id: episode.rows for episode in told} != rows.lengths:
        raise BrokenError(None, f"holds {len(rows.lengths)} episodes, and says it holds {len(told)} others")
    for episode in told:
        earned = rows.rewards[episode.eps_id]
        if not isclose(episode.reward, earned, rel_tol=1e-6, abs_tol=1e-9):
            raise BrokenError(
                None, f"says that episode {episode.eps_id!r} earned {episode.reward:g}, not {earned:g}"
            )
        if episode.behavior != rows.behaviors[episode.eps_id]:
            raise BrokenError(None, f"says that {episode.behavior!r} played episode {episode.eps_id!r}")
    if (shard.rows, shard.episodes) != (rows.count, len(told)):
        raise BrokenError(
            None, f"holds {rows.count:,} rows in {len(told)} episodes, and dataset.json says something else"
        )


def _told(path: Path) -> list[EpisodeEntry]:
    try:
        return episodes_of(path)
    except BadInputError as error:
        raise BrokenError(None, error.problem) from None


def _check_columns(found: pa.Schema, wanted: pa.Schema) -> None:
    for column in wanted:
        if column.name not in found.names:
            raise BrokenError(None, f"has no column {column.name!r}")
        own = found.field(column.name).type
        if own != column.type:
            raise BrokenError(None, f"column {column.name!r} holds {own}, not {column.type}")
    for name in found.names:
        if name not in wanted.names:
            raise BrokenError(None, f"has a column {name!r} that nobody knows")


def _row_group(file: pq.ParquetFile, number: int, first: int) -> pa.Table:
    try:
        return file.read_row_group(number)
    except (OSError, pa.ArrowException) as error:
        last = first + file.metadata.row_group(number).num_rows - 1
        raise BrokenError(first, f"this or one up to {last} is damaged ({first_line(error)})") from None


@dataclass
class _Open:
    """The last row of an episode that goes on."""

    t: int
    behavior: str
    new_obs: NDArray[np.float32]
    new_mask: NDArray[np.int8]


@dataclass
class _Rows:
    """Rows of a shard, and what must hold from one to the next.

    Attributes:
        shape: of the dataset.
        known: names of behaviours.
        seen: episodes of the whole dataset that have been looked at.
        count: rows so far.
        lengths: rows of the episodes so far.
        rewards: their sums.
        behaviors: who decided in them.
    """

    shape: Shape
    known: set[str]
    seen: set[str]
    count: int = 0
    lengths: dict[str, int] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    behaviors: dict[str, str] = field(default_factory=dict)
    unfinished: dict[str, _Open] = field(default_factory=dict)

    def check(self, table: pa.Table) -> None:
        """Look at a row group.

        Raises:
            BrokenError: there is something wrong with it.
        """
        if len(table) == 0:  # some writers end with such a group
            return
        for name in table.column_names:
            column = table.column(name)
            if column.null_count:
                self._first(column.is_null().to_numpy(), f"{name} is missing")
        self._check_numbers(table)
        self._check_masks(table)
        self._check_episodes(table)
        self.count += len(table)

    def finish(self) -> None:
        """Every episode must have ended."""
        for eps_id, last in self.unfinished.items():
            raise BrokenError(None, f"episode {eps_id!r} does not end: its last row is t {last.t}")

    def _first(self, wrong: NDArray[np.bool_], what: str) -> None:
        """Complain of the first row that is wrong, if there is one."""
        if wrong.any():
            raise BrokenError(self.count + int(wrong.argmax()), what)

    def _check_numbers(self, table: pa.Table) -> None:
        for name in NUMBERS:
            column = table.column(name)
            if name == "costs":
                lengths = column.combine_chunks().value_lengths().to_numpy()
                wanted = len(self.shape.costs)
                self._first(lengths != wanted, f"costs has another length than {wanted}")
                finite = np.isfinite(column.combine_chunks().flatten().to_numpy(zero_copy_only=False))
                self._first(~finite.reshape(len(table), wanted).all(axis=1), "costs is not finite")
            elif pa.types.is_fixed_size_list(column.type):
                self._first(~np.isfinite(matrix(column)).all(axis=1), f"{name} is not finite")
            else:
                self._first(~np.isfinite(column.to_numpy()), f"{name} is not finite")
        self._first(table.column("action_logp").to_numpy() > 0, "action_logp is above 0")
        self._first(table.column("elapsed").to_numpy() < 0, "elapsed is below 0")

    def _check_masks(self, table: pa.Table) -> None:
        for name in ("action_mask", "new_action_mask"):
            mask = matrix(table.column(name))
            self._first(((mask != 0) & (mask != 1)).any(axis=1), f"{name} holds more than 0 and 1")
            self._first(mask.max(axis=1) == 0, f"{name} allows nothing")
        actions = table.column("actions").to_numpy()
        outside = (actions < 0) | (actions >= self.shape.actions)
        if outside.any():
            self._first(outside, f"action {actions[outside.argmax()]} of {self.shape.actions}")
        illegal = matrix(table.column("action_mask"))[np.arange(len(actions)), actions] == 0
        if illegal.any():
            self._first(illegal, f"action {actions[illegal.argmax()]} is outside its mask")

    def _check_episodes(self, table: pa.Table) -> None:
        """Each row must go on from the one before it in its episode."""
        names, code = _encoded(table.column("eps_id"))
        behaviors, who = _encoded(table.column("behavior"))
        for number, behavior in enumerate(behaviors):
            if behavior not in self.known:
                self._first(who == number, f"behavior {behavior!r} is not in dataset.json")
        t, rewards = table.column("t").to_numpy(), table.column("rewards").to_numpy()
        over = table.column("terminateds").to_numpy() | table.column("truncateds").to_numpy()
        obs, new_obs = matrix(table.column("obs")), matrix(table.column("new_obs"))
        mask, new_mask = matrix(table.column("action_mask")), matrix(table.column("new_action_mask"))
        same = code[1:] == code[:-1]
        for wrong, what in (
            (over[:-1], "its episode has ended in the row before"),
            (who[1:] != who[:-1], "behavior is another than in the row before"),
            (t[1:] != t[:-1] + 1, "t does not go on from the row before"),
            ((obs[1:] != new_obs[:-1]).any(axis=1), "obs is not new_obs of the row before"),
            ((mask[1:] != new_mask[:-1]).any(axis=1), "action_mask is not new_action_mask of the row before"),
        ):
            self._first(_after_first(same & wrong), what)
        begins = np.flatnonzero(np.concatenate([[True], ~same]))
        ends = np.concatenate([begins[1:], [len(code)]]) - 1
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            name = names[code[begin]]
            behavior = behaviors[who[begin]]
            self._check_piece(name, begin, int(t[begin]), behavior, obs[begin], mask[begin])
            self.lengths[name] = self.lengths.get(name, 0) + end - begin + 1
            self.rewards[name] = self.rewards.get(name, 0.0) + float(rewards[begin : end + 1].sum())
            self.behaviors[name] = behavior
            if over[end]:
                self.unfinished.pop(name, None)
            else:
                self.unfinished[name] = _Open(
                    int(t[end]), behavior, new_obs[end].copy(), new_mask[end].copy()
                )

    def _check_piece(
        self,
        name: str,
        row: int,
        t: int,
        behavior: str,
        obs: NDArray[np.float32],
        mask: NDArray[np.int8],
    ) -> None:
        """The first row of a piece of an episode."""
        before = self.unfinished.get(name)
        at = self.count + row
        if before is None:
            if name in self.seen:
                raise BrokenError(at, f"episode {name!r} was there before, and had ended")
            self.seen.add(name)
            if t != 0:
                raise BrokenError(at, f"episode {name!r} begins with t {t}, not 0")
        elif t != before.t + 1:
            raise BrokenError(at, f"t {t} of episode {name!r} follows {before.t}")
        elif (obs != before.new_obs).any() or (mask != before.new_mask).any():
            raise BrokenError(at, f"what is seen is not what followed t {before.t} of episode {name!r}")
        elif behavior != before.behavior:
            raise BrokenError(at, f"behavior {behavior!r} in an episode of {before.behavior!r}")


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int32]]:
    """The words of a column, and which of them stands in each row."""
    array = column.combine_chunks().dictionary_encode()
    return array.dictionary.to_pylist(), array.indices.to_numpy()


def _after_first(wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of all rows, where something was found of all but the first."""
    found: NDArray[Any] = np.concatenate([[False], wrong])
    return found
