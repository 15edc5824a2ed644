"""A dataset that is made in one go, beside its place until it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from rlsched.errors import BadInputError
from rlsched.files import Alone, hidden
from rlsched.offline.columns import Shape
from rlsched.offline.folder import publish
from rlsched.offline.manifest import Doings, Manifest
from rlsched.offline.record import EpisodeSummary
from rlsched.offline.shards import Shard, ShardWriter, shard_name
from rlsched.scenario import Scenario


class NewDataset:
    """Writes a new dataset shard by shard; a killed process leaves nothing at the folder's path.

    A restart begins anew: that takes less time than checking how far the killed process came.

    Args:
        folder: of the dataset, without one yet.

    Raises:
        BadInputError: another process writes there.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder.resolve()
        self._folder = hidden(self._place, "new")
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._held = Alone(self._folder)
        except BlockingIOError:
            problem = "is being written by another process"
            raise BadInputError(str(folder), problem, "wait for it, or end it") from None
        for stale in self._folder.iterdir():  # of a killed process
            stale.unlink()
        self._doings = Doings()
        self._writer: ShardWriter | None = None
        self._shards: list[Shard] = []
        self._published = False

    def write(self, rows: pa.Table) -> None:
        """Add a row group to the shard that is open, or to a new one.

        Raises:
            OSError: the disk is full or gone.
        """
        if self._writer is None:
            self._writer = ShardWriter(self._folder / shard_name(len(self._shards)), rows.schema)
        self._writer.write(rows)

    def end_shard(self, episodes: Sequence[EpisodeSummary]) -> None:
        """Write the open shard to its end, if there is one; these are its episodes.

        Raises:
            OSError: the disk is full or gone.
        """
        if self._writer is None:
            return
        self._doings.add(episodes)
        finished, self._writer = self._writer.close(episodes), None
        self._shards.append(finished.result())

    def finish(self, scenario: Scenario, shape: Shape, origin: str, *, chances: bool) -> Manifest:
        """Describe what it has become.

        Args:
            scenario: what was simulated.
            shape: of the columns.
            origin: how it came about, in words.
            chances: whether `action_logp` is known.
        """
        about = {"scenario": scenario, "shape": shape, "origin": origin, "chances": chances}
        return publish(self._folder, self._shards, self._doings, **about)

    def publish(self) -> None:
        """Put it in its place, which is empty."""
        os.replace(self._folder, self._place)
        self._published = True

    def close(self) -> None:
        """Leave nothing behind but what was kept, and let others write there."""
        if self._writer is not None:
            self._writer.abort()
        if not self._published:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._held.let_go()
