"""Datasets of ours from what others wrote down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.offline.collect import SHARD_ROWS
from rlsched.offline.columns import VECTORS, Shape, table
from rlsched.offline.folder import NewDataset
from rlsched.offline.foreign import Columns, Foreign, completed
from rlsched.offline.manifest import Manifest
from rlsched.offline.record import ROW_GROUP_BYTES, EpisodeSummary, episode_name, shape_of
from rlsched.offline.rewrite import SAME
from rlsched.offline.rows import BrokenError, Rows
from rlsched.scenario import PRIVILEGED, Scenario
from rlsched.sim.layout import Layout, public_columns

UNNAMED = "imported"
"""Behavior policy of episodes whose source names none."""


@dataclass(frozen=True)
class Imported:
    """Result of an import.

    Attributes:
        left_out: last decisions of truncated episodes, whose next observation is not known.
        removed_blocks: privileged blocks that the source held and the dataset does not.
    """

    manifest: Manifest
    left_out: int
    removed_blocks: tuple[str, ...]


def import_dataset(
    episodes: Iterable[Foreign],
    scenario: Scenario,
    folder: Path,
    origin: str,
    *,
    recorded: Scenario | None = None,
    vectors: bool = False,
    behavior: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Imported:
    """Write a dataset of episodes that other programs recorded.

    Args:
        episodes: in order.
        scenario: that they were recorded with.
        folder: without a dataset.
        origin: how it comes about, in words.
        recorded: scenario that the source names; None: it names none.
        vectors: observations are vectors without a mask, as in a dataset of ours; else they may be flat.
        behavior: policy that decided in all of them; None: as they say.
        progress: called with rows that have been read.

    Raises:
        BadInputError: something is wrong with a row, or missing.
        OSError: the disk is full or gone.
    """
    feed = EpisodeFeed(scenario.public)
    check_recorded_scenario(None if recorded is None else recorded.public, feed.scenario, origin)
    shape = shape_of(feed.scenario, len(feed.units))
    layouts = Layouts.of(scenario if recorded is None else recorded, len(feed.units), vectors=vectors)
    with closing(NewDataset(folder)) as dataset:
        writing = _Writing(dataset, shape, layouts)
        for episode in episodes:
            writing.add(episode, behavior or episode.behavior or UNNAMED)
            progress(len(episode.rows))
        writing.end_shard()
        if not writing.count:
            raise BadInputError(origin, "no decision of it can be used", "record longer episodes")
        manifest = dataset.finish(scenario=feed.scenario, shape=shape, origin=origin, chances=writing.chances)
        dataset.publish()
    return Imported(manifest, writing.left_out, writing.removed_blocks)


def check_recorded_scenario(recorded: Scenario | None, scenario: Scenario, origin: str) -> None:
    """See whether episodes that say what they were recorded with are taken for that.

    Numbers do not tell: those of another cluster may be as many, and as small.

    Raises:
        BadInputError: they say something else.
    """
    for part in SAME if recorded is not None else ():
        if getattr(recorded, part) != getattr(scenario, part):
            problem = f"{scenario.name!r} has another {part} than what is {origin}"
            raise BadInputError("--scenario", problem, "leave it out: the source says which it is")


@dataclass(frozen=True)
class Layouts:
    """Observation layouts that a source may have: older versions recorded the privileged blocks, too.

    Attributes:
        public: the layout that is recorded now.
        whole: that layout with the privileged blocks of the scenario.
        vectors: observations are vectors without a mask; else they may be flat.
    """

    public: Layout
    whole: Layout
    vectors: bool

    @classmethod
    def of(cls, scenario: Scenario, num_resources: int, *, vectors: bool) -> Layouts:
        """Layouts of the scenario that a source was recorded with."""
        observations = (scenario.observation.public, scenario.observation)
        decision = scenario.decision
        public, whole = (Layout.of(observation, decision, num_resources) for observation in observations)
        return cls(public, whole, vectors)

    def has_privileged(self, episode: Foreign) -> bool:
        """Whether an episode was recorded with privileged blocks, by the width of its observations.

        Raises:
            BadInputError: the width may mean both.
        """
        width = np.shape(episode.columns["obs"])[1]
        plain, privileged = (self._widths(layout, episode) for layout in (self.public, self.whole))
        if self.public == self.whole or width not in privileged:
            return False
        if width in plain:
            problem = f"obs of {width} numbers may be flat=True, or an older vector with privileged blocks"
            remedy = "leave action_mask out if obs are flat, which hold it; else record it anew"
            raise episode.fault(None, problem, remedy)
        return True

    def _widths(self, layout: Layout, episode: Foreign) -> set[int]:
        """Widths that observations of a layout may have; flat ones need no mask in a column of its own."""
        if self.vectors:
            return {layout.size}
        flat = layout.size + layout.num_actions + 1
        return {layout.size, flat} if "action_mask" in episode.columns else {flat}


class _Writing:
    """Writes episodes to shards.

    Attributes:
        count: episodes so far.
        chances: all episodes have the probabilities of their actions.
        left_out, removed_blocks: see `Imported`.
    """

    def __init__(self, dataset: NewDataset, shape: Shape, layouts: Layouts) -> None:
        self._dataset, self._shape, self._layouts = dataset, shape, layouts
        self.removed_blocks: tuple[str, ...] = ()
        self._group_rows = max(1, ROW_GROUP_BYTES // shape.row_bytes)
        self._checked = Rows(shape, known=set(), known_episodes=set())
        self._waiting: list[pa.Table] = []
        self._entries: list[EpisodeSummary] = []
        self._rows = 0
        self.count, self.left_out = 0, 0
        self.chances = True

    def add(self, episode: Foreign, behavior: str) -> None:
        """One more."""
        columns = self._completed(episode)
        rows = 0 if columns is None else len(columns["t"])
        self.left_out += len(episode.rows) - rows
        if columns is None:
            return
        self.chances = self.chances and "action_logp" in episode.columns
        name = episode_name(self.count)
        self.count += 1
        self._look_at(episode, self._table(columns, name, behavior), behavior)
        for begin in range(0, rows, self._group_rows):
            piece = {key: values[begin : begin + self._group_rows] for key, values in columns.items()}
            self._waiting.append(self._table(piece, name, behavior))
            if sum(map(len, self._waiting)) >= self._group_rows:
                self._write()
        reward = float(columns["rewards"].sum())
        self._entries.append(
            EpisodeSummary(eps_id=name, behavior=behavior, rows=rows, reward=reward, metrics={})
        )
        self._rows += rows
        if self._rows >= SHARD_ROWS:
            self.end_shard()

    def _completed(self, episode: Foreign) -> Columns | None:
        """The columns of an episode, without the privileged blocks that it may hold."""
        if not self._layouts.has_privileged(episode):
            return completed(episode, self._shape)
        whole = self._layouts.whole
        columns = completed(episode, self._shape.model_copy(update={"size": whole.size}))
        if columns is not None:
            self.removed_blocks = tuple(block.name for block in whole.blocks if block.name in PRIVILEGED)
            columns |= {name: columns[name][:, public_columns(whole)] for name in VECTORS}
        return columns

    def end_shard(self) -> None:
        """Write what waits, to the end of a shard."""
        self._write()
        self._dataset.end_shard(self._entries)
        self._entries, self._rows = [], 0

    def _write(self) -> None:
        if self._waiting:
            self._dataset.write(pa.concat_tables(self._waiting).combine_chunks())
        self._waiting = []

    def _look_at(self, episode: Foreign, rows: pa.Table, behavior: str) -> None:
        checked = self._checked
        checked.known.add(behavior)
        first = checked.count
        try:
            checked.check(rows)
        except BrokenError as broken:
            row = None if broken.row is None else broken.row - first
            raise episode.fault(row, broken.problem, "mend it, or leave its episode out") from None

    def _table(self, columns: Columns, name: str, behavior: str) -> pa.Table:
        return table(self._shape, {**columns, "eps_id": name, "behavior": behavior})
