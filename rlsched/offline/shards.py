"""Shards: Parquet files that are whole or absent, with facts about their episodes in the footer."""

from __future__ import annotations

import io
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from rlsched.errors import BadInputError
from rlsched.files import checksum, quoted, unfinished_name
from rlsched.json_files import parse_json
from rlsched.offline.record import EpisodeSummary
from rlsched.settings import Frozen

ENDING = ".parquet"
FACTS = b"rlsched"
"""Key of the facts about the episodes, in the metadata at the end of a file."""

WORDS = ("eps_id", "behavior")
WAITING = 2
"""Row groups that may wait to be written."""


class Shard(Frozen):
    """One file of a dataset.

    Attributes:
        file: its name in the folder, as of `shard_name`: never a path, which could lead elsewhere.
    """

    file: str = Field(pattern=r"^part-[0-9]{5,}\.parquet$")
    rows: int = Field(ge=0)
    episodes: int = Field(ge=0)
    bytes: int = Field(ge=0)
    sha256: str


def shard_name(number: int) -> str:
    """File name of the shard with this number."""
    return f"part-{number:05d}{ENDING}"


class ShardWriter:
    """Writes one shard in a thread, so that compression does not delay the recording."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._unfinished = unfinished_name(path)
        self._file = _Hashed(self._unfinished)
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=list(WORDS),
            write_page_checksum=True,
        )
        self._thread = ThreadPoolExecutor(1)
        self._waiting: deque[Future[None]] = deque()
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Add a row group.

        Raises:
            OSError: one before it could not be written.
        """
        self._waiting.append(self._thread.submit(self._writer.write_table, table, row_group_size=len(table)))
        self._rows += len(table)
        if len(self._waiting) > WAITING:
            self._waiting.popleft().result()

    def close(self, episodes: Sequence[EpisodeSummary]) -> Future[Shard]:
        """Let the thread finish the file and give it its name; the shard, once it is there."""
        finished = self._thread.submit(self._finish, list(episodes))
        self._thread.shutdown(wait=False)
        return finished

    def abort(self) -> None:
        """Leave nothing behind."""
        self._thread.shutdown(cancel_futures=True)
        self._let_go()

    def _finish(self, episodes: list[EpisodeSummary]) -> Shard:
        try:
            for written in self._waiting:
                written.result()
            facts = {"episodes": [episode.model_dump(mode="json") for episode in episodes]}
            self._writer.add_key_value_metadata({FACTS.decode(): json.dumps(facts)})
            self._writer.close()
            self._file.drop(to_disk=True)
            os.replace(self._unfinished, self.path)
        finally:
            self._let_go()
        whole = sum(episode.rows > 0 for episode in episodes)
        return Shard(
            file=self.path.name,
            rows=self._rows,
            episodes=whole,
            bytes=self._file.size,
            sha256=self._file.digest.hexdigest(),
        )

    def _let_go(self) -> None:
        """Close everything; what has not got its name yet is gone."""
        self._file.drop()
        self._writer.close()
        self._unfinished.unlink(missing_ok=True)


class _Hashed(io.RawIOBase):
    """A file that is written from its beginning to its end, and its checksum."""

    def __init__(self, path: Path) -> None:
        self._file: io.BufferedWriter | None = path.open("wb")
        self.digest = sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        if self._file is not None:
            self._file.write(view)
            self.digest.update(view)
            self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def drop(self, *, to_disk: bool = False) -> None:
        """Write nothing more: Arrow's writer insists on a footer, also for discarded files.

        Args:
            to_disk: wait until what was written is there even if the power fails.
        """
        if self._file is not None:
            if to_disk:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            self._file = None


def open_shard(path: Path) -> pq.ParquetFile:
    """A shard to read from; the checksum of every page is looked at when it is read.

    Raises:
        BadInputError: it is missing, cut short or not Parquet.
    """
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except FileNotFoundError:
        raise BadInputError(str(path), "no such file", "fetch or collect it again") from None
    except (OSError, pa.ArrowException) as error:
        problem = f"is cut short or no Parquet file ({first_line(error)})"
        raise BadInputError(str(path), problem, "fetch or collect it again") from None


def row_groups(
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    groups: Iterable[int] | None = None,
    threads: bool = True,
) -> Iterator[pa.Table]:
    """The rows of a shard, one row group after the other.

    Args:
        path: of the shard.
        columns: to read; None: all.
        groups: numbers of the row groups; None: all.
        threads: Arrow reads the columns in parallel.

    Raises:
        BadInputError: a row group is damaged.
    """
    with open_shard(path) as file:
        for group in range(file.metadata.num_row_groups) if groups is None else groups:
            try:
                rows = file.read_row_group(group, columns=columns, use_threads=threads)
            except (OSError, pa.ArrowException) as error:
                problem = f"is damaged ({first_line(error)})"
                remedy = f"see rlsched dataset check {quoted(path.parent)}"
                raise BadInputError(str(path), problem, remedy) from None
            yield rows


def first_line(error: Exception) -> str:
    """The first line of an error message, without a full stop."""
    return str(error).partition("\n")[0].rstrip(".")


def episodes_of(path: Path) -> list[EpisodeSummary]:
    """Entries of the episodes in a shard.

    Raises:
        BadInputError: it cannot be read, or has no entries.
    """
    with open_shard(path) as file:
        facts = (file.metadata.metadata or {}).get(FACTS)
    if facts is None:
        raise BadInputError(str(path), "does not say what its episodes came to", "collect it again")
    try:
        return [EpisodeSummary.model_validate(entry) for entry in parse_json(facts)["episodes"]]
    except (ValueError, TypeError, LookupError) as error:  # of JSON, of text, of pydantic
        problem = f"what it says of its episodes is damaged ({first_line(error)})"
        raise BadInputError(str(path), problem, "fetch or collect it again") from None


def shard_of(path: Path) -> Shard:
    """The entry of a shard that is there.

    Raises:
        BadInputError: it cannot be read.
    """
    with open_shard(path) as file:
        rows = file.metadata.num_rows
    episodes = sum(episode.rows > 0 for episode in episodes_of(path))
    return Shard(
        file=path.name, rows=rows, episodes=episodes, bytes=path.stat().st_size, sha256=checksum(path)
    )
