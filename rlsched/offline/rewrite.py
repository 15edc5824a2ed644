"""Datasets from datasets: mixed, or split, by whole episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlsched.errors import BadInputError
from rlsched.offline.folder import NewDataset
from rlsched.offline.manifest import Manifest
from rlsched.offline.record import EpisodeSummary
from rlsched.offline.shards import episodes_of, row_groups

SAME = ("cluster", "decision", "observation", "objective")
"""Parts of a scenario that datasets must share to be mixed: those of observations, actions and rewards."""

OF_THE_FIRST = ("power", "workload", "episode")
"""Other parts: a mix has those of its first dataset, and policies trained on it are validated in them."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """A dataset that others are made from.

    Attributes:
        prefix: of its episodes' names in the new dataset, since all datasets number theirs alike.
    """

    folder: Path
    manifest: Manifest
    prefix: str = ""

    def episodes(self) -> list[EpisodeSummary]:
        """All that have rows, in order."""
        entries = [entry for shard in self.manifest.shards for entry in episodes_of(self.folder / shard.file)]
        return [entry for entry in entries if entry.rows]


@dataclass
class Part:
    """A dataset that is being made.

    Attributes:
        chosen: per source, ids of the episodes that go into it.
    """

    folder: Path
    chosen: Sequence[frozenset[str]]
    origin: str


def check_compatible(sources: Sequence[Source]) -> None:
    """See whether datasets can be mixed.

    Raises:
        BadInputError: they differ in observations, actions or rewards.
    """
    first = sources[0]
    for source in sources[1:]:
        for part in SAME:
            if getattr(source.manifest.scenario, part) != getattr(first.manifest.scenario, part):
                problem = f"was recorded with another {part} than {first.folder}"
                remedy = "mix datasets of one cluster, decision, observation and objective"
                raise BadInputError(str(source.folder), problem, remedy)


def scenario_note(sources: Sequence[Source]) -> str:
    """In which parts the scenario of a mix is that of the first dataset alone; empty: in none."""
    first = sources[0].manifest.scenario
    further = [source.manifest.scenario for source in sources[1:]]
    unlike = [part for part in OF_THE_FIRST if any(getattr(o, part) != getattr(first, part) for o in further)]
    return f"{' and '.join(unlike)} of its scenario as in {sources[0].folder}" if unlike else ""


def choose_mix(
    sources: Sequence[Source], shares: Sequence[float], rows: int | None, seed: int
) -> list[frozenset[str]]:
    """Draw episodes from datasets until each has its share of the rows.

    Args:
        sources: of the episodes.
        shares: of the rows, in proportion.
        rows: least number in all; None: as many as the shares allow.
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
            problem = f"has {source.manifest.rows:,} decisions, and its share of {rows:,} is {wanted:,}"
            raise BadInputError(str(source.folder), problem, "record more, or ask for fewer")
        entries = source.episodes()
        names: list[str] = []
        drawn = 0
        for number in rng.permutation(len(entries)).tolist():
            if drawn >= wanted:
                break
            names.append(entries[number].eps_id)
            drawn += entries[number].rows
        chosen.append(frozenset(names))
    return chosen


def choose_split(source: Source, shares: Mapping[str, float], seed: int) -> dict[str, frozenset[str]]:
    """Deal the episodes of a dataset out, at random.

    Raises:
        BadInputError: a part would have no episode.
    """
    entries = source.episodes()
    order = np.random.default_rng(seed).permutation(len(entries))
    total, ends, end = sum(shares.values()), [], 0.0
    for share in shares.values():
        end += share
        ends.append(round(len(entries) * end / total))
    chosen = {}
    for name, begin, stop in zip(shares, [0, *ends], ends, strict=False):
        if stop == begin:
            problem = f"has {len(entries)} episodes: none is left for {name!r}"
            raise BadInputError(str(source.folder), problem, "give it a larger share, or collect more")
        chosen[name] = frozenset(entries[number].eps_id for number in order[begin:stop].tolist())
    return chosen


def rewrite(
    sources: Sequence[Source],
    parts: Sequence[Part],
    progress: Progress = lambda rows: None,
) -> list[Manifest]:
    """Read every source once, and write each of its episodes to the parts that chose it.

    Raises:
        BadInputError: a source is damaged.
        OSError: the disk is full or gone.
    """
    with ExitStack() as stack:
        datasets = [stack.enter_context(closing(NewDataset(part.folder))) for part in parts]
        for number, source in enumerate(sources):
            targets = [(dataset, part.chosen[number]) for dataset, part in zip(datasets, parts, strict=True)]
            for shard in source.manifest.shards:
                _copy(source, source.folder / shard.file, targets, progress)
        first = sources[0].manifest  # it says what was simulated
        known = all(source.manifest.chances for source in sources)
        manifests = [
            dataset.finish(scenario=first.scenario, shape=first.shape, origin=part.origin, chances=known)
            for dataset, part in zip(datasets, parts, strict=True)
        ]
        for dataset in datasets:
            dataset.publish()
    return manifests


def _copy(
    source: Source,
    path: Path,
    targets: Sequence[tuple[NewDataset, frozenset[str]]],
    progress: Progress,
) -> None:
    """Write a shard of a source to datasets, each with the episodes that it chose: a shard of their own."""
    entries = [entry for entry in episodes_of(path) if entry.rows]
    for table in row_groups(path):
        for dataset, chosen in targets:
            names = pa.array([entry.eps_id for entry in entries if entry.eps_id in chosen], pa.string())
            rows = table.filter(pc.is_in(table["eps_id"], names))
            if source.prefix:
                at = rows.column_names.index("eps_id")
                named = pc.binary_join_element_wise(source.prefix, rows["eps_id"], "")
                rows = rows.set_column(at, rows.schema.field(at), named)
            if len(rows):
                dataset.write(rows)
        progress(len(table))
    for dataset, chosen in targets:
        chosen_entries = [entry for entry in entries if entry.eps_id in chosen]
        dataset.end_shard(
            [entry.model_copy(update={"eps_id": source.prefix + entry.eps_id}) for entry in chosen_entries]
        )
