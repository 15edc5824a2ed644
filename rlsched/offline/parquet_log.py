"""Episodes in Parquet files that others wrote, under names of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.offline.foreign import ENDS, KNOWN, LISTS, NEEDED, Columns, Foreign
from rlsched.offline.manifest import MANIFEST, read_any_manifest
from rlsched.offline.shards import ENDING, WORDS, first_line, open_shard

ROWS_AT_ONCE = 8192


class ParquetEpisodes:
    """Episodes from Parquet files of any program; only those that are not over are in memory.

    Rows of an episode follow each other in their order, also from file to file; rows of others may lie
    between them. An episode ends where a row says so, or with the last file; without `eps_id`, with its file.

    Args:
        source: a file, or a folder of files.
        named: our names -> theirs, where they differ.

    Attributes:
        rows: of all files.
        scenario: that they were recorded with; None: not known, as of files outside of our datasets.
        vectors: they are of a dataset of ours, whose observations are vectors without a mask.

    Raises:
        BadInputError: there is none, one is damaged, or a column is missing.
    """

    def __init__(self, source: Path, named: Mapping[str, str]) -> None:
        self._paths = [source] if source.is_file() else sorted(source.glob(f"*{ENDING}"))
        if not self._paths:
            raise BadInputError(str(source), f"holds no {ENDING} file", "name a file, or a folder of files")
        folder = self._paths[0].parent
        self.vectors = (folder / MANIFEST).is_file()
        self.scenario = read_any_manifest(folder).scenario if self.vectors else None
        self._named = {name: named.get(name, name) for name in KNOWN}
        self.rows = 0
        for path in self._paths:
            with open_shard(path) as file:
                self._check_columns(path, file.schema_arrow.names, named)
                self.rows += file.metadata.num_rows

    def __iter__(self) -> Iterator[Foreign]:
        """Episode by episode, in the order in which they end."""
        standing = _Standing()
        for path in self._paths:
            with open_shard(path) as file:
                yield from self._of_file(path, file, standing)
            if "eps_id" not in standing.columns:
                yield from standing.rest()
        yield from standing.rest()

    def _check_columns(self, path: Path, present: Sequence[str], named: Mapping[str, str]) -> None:
        missing = [name for name in (*NEEDED, *named) if self._named[name] not in present]
        if missing:
            problem = f"has no column {self._named[missing[0]]!r}"
            remedy = f"name it by --column {missing[0]}=THEIRS; there are {', '.join(present)}"
            raise BadInputError(str(path), problem, remedy)
        if not any(self._named[name] in present for name in ENDS):
            raise BadInputError(
                str(path),
                "does not say where episodes end",
                f"name the column by --column {' or '.join(f'{name}=THEIRS' for name in ENDS)}; there are "
                f"{', '.join(present)}",
            )

    def _of_file(self, path: Path, file: pq.ParquetFile, standing: _Standing) -> Iterator[Foreign]:
        present = {ours: theirs for ours, theirs in self._named.items() if theirs in file.schema_arrow.names}
        standing.columns = tuple(present)
        first = 0
        try:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=list(present.values())):
                columns = {
                    ours: _array(path, ours, batch.column(theirs), first) for ours, theirs in present.items()
                }
                columns["row"] = first + np.arange(len(batch))
                first += len(batch)
                for name, piece, ended in _pieces(columns):
                    yield from standing.add(path, name, piece, ended=ended)
        except (OSError, pa.ArrowException) as error:
            problem = f"is damaged from row {first} on ({first_line(error)})"
            raise BadInputError(str(path), problem, "fetch it again") from None


class _Standing:
    """Episodes that are not over, and the names of those that are.

    Attributes:
        columns: of the newest file, by our names.
    """

    def __init__(self) -> None:
        self.columns: tuple[str, ...] = ()
        self._open: dict[str, tuple[Path, list[Columns]]] = {}
        self._over: set[str] = set()

    def add(self, path: Path, name: str, piece: Columns, *, ended: bool) -> Iterator[Foreign]:
        """Some more rows of an episode; it, if they are its last."""
        row = int(piece["row"][0])
        if name in self._over:
            problem = f"continues episode {name!r}, which had ended"
            raise BadInputError(f"{path}, row {row}", problem, "give every episode its own eps_id")
        _, pieces = self._open.setdefault(name, (path, []))
        if pieces:
            _check_alike(path, row, pieces[0], piece)
        pieces.append(piece)
        if ended:
            if "eps_id" in self.columns:
                self._over.add(name)
            yield _joined(*self._open.pop(name))

    def rest(self) -> Iterator[Foreign]:
        """Yield the episodes that no row ended."""
        while self._open:
            yield _joined(*self._open.pop(next(iter(self._open))))


def _check_alike(path: Path, row: int, first: Columns, piece: Columns) -> None:
    """Check that a piece of an episode has the columns that the episode began with."""
    for name in first.keys() | piece.keys():
        shapes = [part[name].shape[1:] if name in part else None for part in (first, piece)]
        if shapes[0] != shapes[1]:
            problem = f"{name} is of another width than before"
            raise BadInputError(f"{path}, row {row}", problem, "write all rows alike")


def _array(path: Path, name: str, column: pa.Array, first: int) -> NDArray[Any]:
    """A column as numpy knows it, (rows,) or (rows, width)."""
    remedy = "write plain numbers, lists of them of one length, or another --column"
    if column.null_count:
        at = first + int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise BadInputError(f"{path}, row {at}", f"{name} is missing", "fill it in, or leave the row out")
    if name in WORDS:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
            raise BadInputError(str(path), f"{name} holds {kind}", "write words or whole numbers")
        words: NDArray[Any] = np.array(pc.cast(column, pa.string()).to_pylist(), object)
        return words
    if name not in LISTS:
        if not _plain(column.type):
            raise BadInputError(str(path), f"{name} holds {column.type}", remedy)
        single: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return single
    if not pa.types.is_nested(column.type) or not _plain(getattr(column.type, "value_type", column.type)):
        raise BadInputError(str(path), f"{name} holds {column.type}", remedy)
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    odd = lengths != lengths[:1]
    if odd.any():
        at = int(odd.argmax())
        problem = f"{name} holds {lengths[at]} numbers, not {lengths[0]}"
        raise BadInputError(f"{path}, row {first + at}", problem, remedy)
    values = column.flatten()
    if values.null_count:
        at = first + int(values.is_null().to_numpy(zero_copy_only=False).argmax() // max(1, lengths[0]))
        raise BadInputError(f"{path}, row {at}", f"a number of {name} is missing", "fill it in")
    matrix: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
    return matrix


def _plain(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _pieces(columns: Columns) -> Iterator[tuple[str, Columns, bool]]:
    """Runs of rows of one episode: its name, they, and whether it ends with them."""
    count = len(columns["row"])
    ends = np.zeros(count, np.bool_)
    for name in ENDS:
        if name in columns:
            ends |= columns[name] == 1
    names = columns.get("eps_id")
    breaks = ends[:-1] if names is None else ends[:-1] | (names[1:] != names[:-1])
    stops = [*(np.flatnonzero(breaks) + 1).tolist(), count]
    begin = 0
    for stop in stops:
        piece = {name: values[begin:stop] for name, values in columns.items()}
        yield "" if names is None else names[begin], piece, bool(ends[stop - 1])
        begin = stop


def _joined(path: Path, pieces: Sequence[Columns]) -> Foreign:
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    behaviors = columns.pop("behavior", None)
    rows = columns.pop("row")
    columns.pop("eps_id", None)
    if behaviors is not None and (behaviors != behaviors[0]).any():
        at = int((behaviors != behaviors[0]).argmax())
        problem = f"behavior {behaviors[at]!r} in an episode of {behaviors[0]!r}"
        raise BadInputError(f"{path}, row {rows[at]}", problem, "give every episode one behavior")
    return Foreign(str(path), rows, None if behaviors is None else str(behaviors[0]), columns)
