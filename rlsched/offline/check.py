"""Whether a dataset is what it says it is: files, columns, numbers, masks and episodes, row by row.

Row groups are read one after the other, so that memory does not grow with the dataset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isclose
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rlsched.errors import BadInputError
from rlsched.files import checksum, quoted
from rlsched.offline.columns import Shape
from rlsched.offline.folder import SETTINGS
from rlsched.offline.manifest import MANIFEST, Doings, Manifest
from rlsched.offline.record import shape_of
from rlsched.offline.rows import BrokenError, Rows
from rlsched.offline.shards import ENDING, Shard, episodes_of, first_line, open_shard
from rlsched.scenario import Scenario
from rlsched.settings_files import EDITED, was_edited

COMPARED = ("decision", "observation")
"""Parts of a scenario that determine observations and actions."""

EARNED = "objective"
"""The part of a scenario that determines rewards and costs."""


@dataclass(frozen=True)
class Problem:
    """The first problem of a shard, with the row, from 0, where it is in a row."""

    shard: str
    row: int | None
    problem: str

    def __str__(self) -> str:
        return f"{self.shard}{'' if self.row is None else f', row {self.row}'}: {self.problem}"


def check(
    folder: Path, manifest: Manifest, progress: Callable[[int], None] = lambda rows: None
) -> list[Problem]:
    """Look at everything.

    Returns:
        The first problem of each file that has one.
    """
    known = {behavior.behavior for behavior in manifest.behaviors}
    known_episodes: set[str] = set()
    problems, doings = [], Doings()
    for shard in manifest.shards:
        try:
            _check_shard(folder / shard.file, shard, manifest.shape, known, known_episodes, progress)
            doings.add(episodes_of(folder / shard.file))
        except BrokenError as broken:
            problems.append(Problem(shard.file, broken.row, broken.problem))
        except BadInputError as error:
            problems.append(Problem(shard.file, None, error.problem))
    listed = {shard.file for shard in manifest.shards}
    for path in sorted(folder.glob(f"*{ENDING}")):
        if path.name not in listed:
            problems.append(Problem(path.name, None, f"is not in {MANIFEST}"))
    problems += [Problem(name, None, EDITED) for name in SETTINGS if was_edited(folder / name)]
    if not problems:
        problems += [Problem(MANIFEST, None, problem) for problem in _said_wrong(manifest, doings)]
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
    for part in (*COMPARED, EARNED) if rewards else COMPARED:
        if getattr(manifest.scenario, part) != getattr(scenario, part):
            problem = f"was recorded with another {part} than scenario {scenario.name!r} has"
            remedy = "leave out --scenario to train on its own, or collect another dataset"
            raise BadInputError(str(folder), problem, remedy)
    shape = shape_of(scenario, num_resources)
    for shard in manifest.shards:
        path = folder / shard.file
        try:
            _check_size(path, shard)
            with open_shard(path) as file:
                _check_columns(file.schema_arrow, shape.columns())
        except BrokenError as broken:
            raise BadInputError(
                str(path), broken.problem, f"fetch it again, or see rlsched dataset check {quoted(folder)}"
            ) from None


def _check_size(path: Path, shard: Shard) -> None:
    if not path.is_file():
        raise BrokenError(None, "no such file")
    size = path.stat().st_size
    if size != shard.bytes:
        cut = "is cut short" if size < shard.bytes else "is too long"
        raise BrokenError(None, f"{cut}: {size:,} bytes, not {shard.bytes:,}")


def _check_shard(
    path: Path,
    shard: Shard,
    shape: Shape,
    known: set[str],
    known_episodes: set[str],
    progress: Callable[[int], None],
) -> None:
    """Look at one file."""
    _check_size(path, shard)
    rows = Rows(shape, known, known_episodes)
    with open_shard(path) as file:
        _check_columns(file.schema_arrow, shape.columns())
        for number in range(file.metadata.num_row_groups):
            table = _row_group(file, number, rows.count)
            rows.check(table)
            progress(len(table))
    rows.finish()
    if checksum(path) != shard.sha256:
        raise BrokenError(None, "its checksum is not the one in dataset.json")
    entries = [episode for episode in episodes_of(path) if episode.rows]
    if {episode.eps_id: episode.rows for episode in entries} != rows.lengths:
        problem = f"holds {len(rows.lengths)} episodes, and says it holds {len(entries)} others"
        raise BrokenError(None, problem)
    for episode in entries:
        earned = rows.rewards[episode.eps_id]
        if not isclose(episode.reward, earned, rel_tol=1e-6, abs_tol=1e-9):
            problem = f"says that episode {episode.eps_id!r} earned {episode.reward:g}, not {earned:g}"
            raise BrokenError(None, problem)
        if episode.behavior != rows.behaviors[episode.eps_id]:
            raise BrokenError(None, f"says that {episode.behavior!r} played episode {episode.eps_id!r}")
    if (shard.rows, shard.episodes) != (rows.count, len(entries)):
        raise BrokenError(
            None,
            f"holds {rows.count:,} rows in {len(entries)} episodes, and dataset.json says something else",
        )


def _check_columns(schema: pa.Schema, wanted: pa.Schema) -> None:
    for column in wanted:
        if column.name not in schema.names:
            raise BrokenError(None, f"has no column {column.name!r}")
        present = schema.field(column.name).type
        if present != column.type:
            raise BrokenError(None, f"column {column.name!r} holds {present}, not {column.type}")
    for name in schema.names:
        if name not in wanted.names:
            raise BrokenError(None, f"has a column {name!r} that nobody knows")


def _row_group(file: pq.ParquetFile, number: int, first: int) -> pa.Table:
    try:
        return file.read_row_group(number)
    except (OSError, pa.ArrowException) as error:
        last = first + file.metadata.row_group(number).num_rows - 1
        raise BrokenError(first, f"this or one up to {last} is damaged ({first_line(error)})") from None
