"""Datasets from datasets: mixed, or split, by whole episodes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlsched.errors import BadInputError
from rlsched.offline.folder import PACKAGES, publish
from rlsched.offline.manifest import Doings, Manifest
from rlsched.offline.record import EpisodeEntry
from rlsched.offline.shards import Shard, ShardWriter, episodes_of, open_shard, shard_name
from rlsched.versions import versions

SAME = ("cluster", "decision", "observation", "objective")
"""Parts of a scenario that datasets must share to be one: what is seen, done and earned."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """A dataset that others are made from.

    Attributes:
        folder: of the dataset.
        manifest: of the dataset.
        prefix: of its episodes in what is made from it; datasets number theirs alike.
    """

    folder: Path
    manifest: Manifest
    prefix: str = ""

    def episodes(self) -> list[EpisodeEntry]:
        """All that have rows, in order."""
        found = [entry for shard in self.manifest.shards for entry in episodes_of(self.folder / shard.file)]
        return [entry for entry in found if entry.rows]


@dataclass
class Part:
    """A dataset that is being made.

    Attributes:
        folder: of the dataset.
        chosen: per source, ids of the episodes that go into it.
        origin: how it came about.
    """

    folder: Path
    chosen: Sequence[frozenset[str]]
    origin: str


def check_alike(sources: Sequence[Source]) -> None:
    """See whether datasets can be mixed.

    Raises:
        BadInputError: they differ in what is seen, done or earned.
    """
    first = sources[0]
    for other in sources[1:]:
        for part in SAME:
            if getattr(other.manifest.scenario, part) != getattr(first.manifest.scenario, part):
                raise BadInputError(
                    str(other.folder),
                    f"was recorded with another {part} than {first.folder}",
                    "mix datasets of one cluster, decision, observation and objective",
                )


def choose_mix(
    sources: Sequence[Source], shares: Sequence[float], rows: int | None, seed: int
) -> list[frozenset[str]]:
    """Draw episodes from datasets until each has its share of the rows.

    Args:
        sources: of the episodes.
        shares: of the rows, in proportion.
        rows: at least so many in all; None: as many as the shares allow.
        seed: of the draw.

    Raises:
        BadInputError: a dataset has less than its share.
    """
    parts = np.asarray(shares) / sum(shares)
    if rows is None:
        rows = int(min(s.manifest.rows / part for s, part in zip(sources, parts, strict=True)))
    rng = np.random.default_rng(seed)
    chosen = []
    for source, part in zip(sources, parts, strict=True):
        wanted = max(1, ceil(rows * part - 1e-6))
        if source.manifest.rows < wanted:
            raise BadInputError(
                str(source.folder),
                f"has {source.manifest.rows:,} decisions, and its share of {rows:,} is {wanted:,}",
                "record more, or ask for fewer",
            )
        entries = source.episodes()
        own: list[str] = []
        found = 0
        for number in rng.permutation(len(entries)).tolist():
            if found >= wanted:
                break
            own.append(entries[number].eps_id)
            found += entries[number].rows
        chosen.append(frozenset(own))
    return chosen


def choose_split(source: Source, shares: Mapping[str, float], seed: int) -> dict[str, frozenset[str]]:
    """Deal the episodes of a dataset out, at random.

    Args:
        source: of the episodes.
        shares: of each part by its name, in proportion.
        seed: of the draw.

    Raises:
        BadInputError: a part would have no episode.
    """
    entries = source.episodes()
    order = np.random.default_rng(seed).permutation(len(entries))
    total, ends, end = sum(shares.values()), [], 0.0
    for share in shares.values():
        end += share
        ends.append(round(len(entries) * end / total))
    found = {}
    for name, begin, stop in zip(shares, [0, *ends], ends, strict=False):
        if stop == begin:
            raise BadInputError(
                str(source.folder),
                f"has {len(entries)} episodes: none is left for {name!r}",
                "give it a larger share, or collect more",
            )
        found[name] = frozenset(entries[number].eps_id for number in order[begin:stop].tolist())
    return found


def rewrite(
    sources: Sequence[Source],
    parts: Sequence[Part],
    progress: Progress = lambda rows: None,
) -> list[Manifest]:
    """Read every source once, and write each of its episodes to the parts that chose it.

    Args:
        sources: see `check_alike`.
        parts: into folders without a dataset.
        progress: called with rows that have been read.

    Raises:
        BadInputError: a source is damaged.
        OSError: the disk is full or gone.
    """
    writers = [_Parts(part) for part in parts]
    with ExitStack() as stack:
        for writer in writers:
            stack.callback(writer.abort)
        for number, source in enumerate(sources):
            for shard in source.manifest.shards:
                _one_shard(source, number, source.folder / shard.file, writers, progress)
        manifests = [writer.finish(sources[0].manifest) for writer in writers]
        for writer in writers:
            writer.keep()
        stack.pop_all()
    return manifests


def _one_shard(
    source: Source, number: int, path: Path, writers: Sequence[_Parts], progress: Progress
) -> None:
    entries = [entry for entry in episodes_of(path) if entry.rows]
    with open_shard(path) as file:
        for group in range(file.metadata.num_row_groups):
            try:
                table = file.read_row_group(group)
            except (OSError, pa.ArrowException) as error:
                raise BadInputError(
                    str(path), f"is damaged ({error})", f"see rlsched dataset check {source.folder}"
                ) from None
            for writer in writers:
                writer.take(table, entries, writer.part.chosen[number], source.prefix)
            progress(len(table))
    for writer in writers:
        writer.end_of_shard(entries, writer.part.chosen[number], source.prefix)


class _Parts:
    """The shards of a part: one for each shard of a source that has episodes for it."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.doings = Doings()
        # Beside it until it is whole: who is killed leaves nothing in the folder's place.
        self._place = part.folder.resolve()
        self._folder = self._place.with_name(f".{self._place.name}.new")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._writer: ShardWriter | None = None
        self._shards: list[Shard] = []

    def take(
        self, table: pa.Table, entries: Sequence[EpisodeEntry], chosen: frozenset[str], prefix: str
    ) -> None:
        """Add the rows that it chose."""
        own = pa.array([entry.eps_id for entry in entries if entry.eps_id in chosen], pa.string())
        rows = table.filter(pc.is_in(table.column("eps_id"), own))
        if len(rows) == 0:
            return
        if prefix:
            at = rows.column_names.index("eps_id")
            named = pc.binary_join_element_wise(prefix, rows.column("eps_id"), "")
            rows = rows.set_column(at, rows.schema.field(at), named)
        if self._writer is None:
            self._writer = ShardWriter(self._folder / shard_name(len(self._shards)), rows.schema)
        self._writer.write(rows)

    def end_of_shard(self, entries: Sequence[EpisodeEntry], chosen: frozenset[str], prefix: str) -> None:
        """Write the shard to its end, if there is one."""
        if self._writer is None:
            return
        own = [
            entry.model_copy(update={"eps_id": prefix + entry.eps_id})
            for entry in entries
            if entry.eps_id in chosen
        ]
        self.doings.add(own)
        finished, self._writer = self._writer.close(own), None
        self._shards.append(finished.result())

    def finish(self, first: Manifest) -> Manifest:
        """Describe what it has become; the first source says what was simulated."""
        manifest = Manifest(
            scenario=first.scenario,
            shape=first.shape,
            origin=self.part.origin,
            behaviors=self.doings.played(),
            rows=sum(shard.rows for shard in self._shards),
            episodes=self.doings.episodes,
            shards=tuple(self._shards),
            versions=versions(PACKAGES),
        )
        publish(manifest, self._folder)
        return manifest

    def keep(self) -> None:
        """Put it in its place, which is empty."""
        os.replace(self._folder, self._place)

    def abort(self) -> None:
        """Leave nothing behind: it is begun again in less time than it takes to see how far it came."""
        if self._writer is not None:
            self._writer.abort()
        shutil.rmtree(self._folder, ignore_errors=True)
