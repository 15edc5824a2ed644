"""The dataset of a service log: decisions of a real cluster, in the format of `rlsched collect`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlsched.errors import BadInputError
from rlsched.files import Alone
from rlsched.offline.folder import publish
from rlsched.offline.manifest import MANIFEST, Doings, Manifest, read_manifest
from rlsched.offline.record import EpisodeSummary, episode_name
from rlsched.offline.shards import Shard, ShardWriter, episodes_of, shard_name
from rlsched.serve.decide.inference import BatchInference
from rlsched.serve.ledger.records import Record
from rlsched.serve.log.episodes import EpisodeBuilder

SHARD_ROWS = 8192
SHARD_BYTES, OPEN_BYTES = 32 << 20, 128 << 20
"""Most bytes of a shard, which has at most `SHARD_ROWS` rows, and of all open episodes together.

Writing a shard takes three times its bytes.
"""

MAX_RETRIED = 64  # episodes that could not be written and are tried again
SHARD_S = 600.0  # a shard is written when it has enough rows, or its first is so old


class LogDataset:
    """Writes the dataset of one policy version; an existing one is continued.

    Raises:
        BadInputError: a dataset of another kind is there, or another process writes it.
    """

    def __init__(self, folder: Path, inference: BatchInference) -> None:
        self.folder = folder
        self.builder = EpisodeBuilder(inference)
        self._since: float | None = None
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = Alone(folder)
        except BlockingIOError:
            problem = "is being written by another process"
            raise BadInputError(str(folder), problem, "name another --log") from None
        self._shards: list[Shard] = []
        self._doings = Doings()
        if (folder / MANIFEST).exists():
            self._continue(read_manifest(folder))

    def _continue(self, manifest: Manifest) -> None:
        if manifest.shape != self.builder.shape:
            problem = "holds decisions of a policy that sees or does something else"
            raise BadInputError(str(self.folder), problem, "name another --log")
        self._shards = list(manifest.shards)
        for shard in manifest.shards:
            self._doings.add(episodes_of(self.folder / shard.file))

    @property
    def rows(self) -> int:
        """Decisions in its shards."""
        return sum(shard.rows for shard in self._shards)

    def add(self, record: Record) -> None:
        """Add a state and the decisions about it.

        Raises:
            BadInputError: the state is invalid.
            OSError: the disk is full or gone.
        """
        self.builder.add(record)
        self._write_if_due()

    def _write_if_due(self) -> None:
        builder = self.builder
        while builder.open_rows * builder.row_bytes > OPEN_BYTES:
            builder.cut_longest()
        if builder.episodes and self._since is None:
            self._since = time.monotonic()
        limit = min(SHARD_ROWS, max(1, SHARD_BYTES // builder.row_bytes))
        rows = sum(map(len, builder.episodes))
        old = self._since is not None and time.monotonic() - self._since > SHARD_S
        if rows >= limit or (rows and old):
            self._write()

    def _write(self) -> None:
        """Write the completed episodes as a shard, and publish it."""
        episodes, self.builder.episodes, self._since = self.builder.episodes, [], None
        writer = ShardWriter(self.folder / shard_name(len(self._shards)), self.builder.shape.columns())
        try:
            first = self._doings.episodes
            entries = [
                self._write_episode(writer, number, rows) for number, rows in enumerate(episodes, start=first)
            ]
            shard = writer.close(entries).result()
        except BaseException:
            writer.abort()
            self.builder.episodes = episodes[-MAX_RETRIED:]
            self._since = time.monotonic()
            raise
        self._shards.append(shard)
        self._doings.add(entries)
        self._publish()

    def _write_episode(self, writer: ShardWriter, number: int, rows: list[dict[str, Any]]) -> EpisodeSummary:
        name, last = episode_name(number), len(rows) - 1
        # All behaviours are deterministic.
        common = {"eps_id": name, "terminateds": False, "action_logp": 0.0}
        whole = [row | common | {"t": t, "truncateds": t == last} for t, row in enumerate(rows)]
        writer.write(pa.Table.from_pylist(whole, schema=self.builder.shape.columns()))
        reward = float(np.sum([row["rewards"] for row in rows]))
        return EpisodeSummary(
            eps_id=name, behavior=rows[0]["behavior"], rows=len(rows), reward=reward, metrics={}
        )

    def _publish(self) -> None:
        about = {"scenario": self.builder.scenario, "shape": self.builder.shape}
        publish(self.folder, self._shards, self._doings, origin="answered by rlsched serve", **about)

    def close(self) -> None:
        """Write the remaining episodes, and release the folder.

        Raises:
            OSError: the disk is full or gone.
        """
        try:
            self.builder.end()
            if self.builder.episodes:
                self._write()
        finally:
            self._lock.let_go()
