"""The columns of a dataset: one row per decision.

    eps_id            string           its episode, unique in the dataset
    t                 int32            number of the decision in its episode, from 0
    obs, new_obs      float32 x size   observation vector before it, and at the next decision or the end
    action_mask, new_action_mask       int8 x actions; 1 legal, likewise
    actions           int64            what was chosen
    rewards           float64          the scenario's objective over the transition
    costs             list of float32  its cost terms, in the order of `dataset.json`
    elapsed           int32            ticks of the transition; values are discounted by these
    terminateds       bool             the episode ended with it
    truncateds        bool             it was cut
    behavior          string           who chose, by its name in `dataset.json`
    action_logp       float32          log probability with which it chose so

Rows of an episode may stand in several row groups of one shard, in the order of `t`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.settings import Frozen

VECTORS = ("obs", "new_obs")
MASKS = ("action_mask", "new_action_mask")


class Shape(Frozen):
    """Widths of the columns.

    Attributes:
        size: numbers of an observation vector.
        actions: numbers of a mask.
        costs: names of the cost terms.
    """

    size: int
    actions: int
    costs: tuple[str, ...] = ()

    @property
    def row_bytes(self) -> int:
        """Approximate bytes of a row before compression."""
        return len(VECTORS) * 4 * self.size + len(MASKS) * self.actions + 4 * len(self.costs) + 40

    def columns(self) -> pa.Schema:
        """The columns as Arrow knows them."""
        vector, mask = pa.list_(pa.float32(), self.size), pa.list_(pa.int8(), self.actions)
        return pa.schema(
            [
                ("eps_id", pa.string()),
                ("t", pa.int32()),
                ("obs", vector),
                ("new_obs", vector),
                ("action_mask", mask),
                ("new_action_mask", mask),
                ("actions", pa.int64()),
                ("rewards", pa.float64()),
                ("costs", pa.list_(pa.float32())),
                ("elapsed", pa.int32()),
                ("terminateds", pa.bool_()),
                ("truncateds", pa.bool_()),
                ("behavior", pa.string()),
                ("action_logp", pa.float32()),
            ]
        )


def table(shape: Shape, columns: Mapping[str, NDArray[Any] | pa.Array | str]) -> pa.Table:
    """A table of numpy columns.

    Args:
        shape: of the dataset.
        columns: every numeric column, (rows,) or (rows, width); `eps_id` and `behavior` as a word that is the
            same in all rows, or as `words`.
    """
    schema, rows = shape.columns(), len(columns["t"])
    arrays = []
    for field in schema:
        values = columns[field.name]
        if isinstance(values, str):
            values = pa.repeat(values, rows)
        elif field.name == "costs":
            ends = np.arange(rows + 1, dtype=np.int32) * np.int32(values.shape[1])
            values = pa.ListArray.from_arrays(ends, pa.array(values.reshape(-1), pa.float32()))
        elif pa.types.is_fixed_size_list(field.type):
            flat = pa.array(values.reshape(-1), field.type.value_type)
            values = pa.FixedSizeListArray.from_arrays(flat, type=field.type)
        arrays.append(pa.array(values, field.type) if isinstance(values, np.ndarray) else values)
    return pa.Table.from_arrays(arrays, schema=schema)


def words(different: Sequence[str], places: IntArray) -> pa.Array:
    """A column of words from its different ones, and (rows,) the index of each row's word."""
    dictionary = pa.array(different, pa.string())
    return pa.DictionaryArray.from_arrays(places.astype(np.int32), dictionary).dictionary_decode()


def coded(rows: pa.Table, name: str) -> tuple[list[str], IntArray]:
    """The different words of a column, and (rows,) the index of each row's word."""
    column = rows.column(name).dictionary_encode().combine_chunks()
    return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.int64)


def values_of(rows: pa.Table, name: str) -> NDArray[Any]:
    """A numeric column as (rows,) or (rows, width); not to be written to."""
    column = rows.column(name)
    values: NDArray[Any] = matrix(column) if pa.types.is_nested(column.type) else column.to_numpy()
    return values


def matrix(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """A column of lists of one length as (rows, width); not to be written to."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = array.flatten().to_numpy(zero_copy_only=False)
    fixed = pa.types.is_fixed_size_list(array.type)
    rows: NDArray[Any] = values.reshape(len(array), array.type.list_size if fixed else -1)
    return rows
