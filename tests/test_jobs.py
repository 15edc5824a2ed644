"""JobTable: what it fills in, what it refuses, and the orders it gives."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.jobs import COLUMNS, JobTable

THREE: dict[str, Any] = {"submit": [0, 5, 9], "runtime": [3, 1, 2], "demand": [1, 4, 2]}


def test_what_is_left_out_is_filled_in() -> None:
    table = JobTable.build(**THREE)
    assert len(table) == 3
    assert table.id.tolist() == [1, 2, 3]
    assert table.requested.tolist() == table.runtime.tolist()
    assert table.demand.tolist() == [[1], [4], [2]]
    assert table.num_resources == 1
    assert table.qos.tolist() == [1, 1, 1]
    assert table.user.tolist() == table.queue.tolist() == [-1, -1, -1]
    assert table.area.tolist() == [3, 4, 4]
    assert table.units is None
    kinds = {name: getattr(table, name).dtype for name in COLUMNS}
    assert kinds.pop("qos") == np.float64
    assert kinds.pop("demand") == np.int32
    assert set(kinds.values()) == {np.dtype(np.int64)}


def test_an_empty_table() -> None:
    table = JobTable.build(submit=[], runtime=[], demand=[])
    assert len(table) == 0
    assert table.num_resources == 1
    assert len(table.in_submit_order()) == 0


@pytest.mark.parametrize(
    ("column", "values", "line"),
    [
        ("submit", [0, -5, 9], "jobs.submit row 1: value -5; use ticks from 0 on"),
        ("runtime", [3, 1, 0], "jobs.runtime row 2: value 0; round runtimes up to at least one tick"),
        ("requested", [-1, 1, 1], "jobs.requested row 0: value -1; round requested times up"),
        ("demand", [1, 0, 1], "jobs.demand row 1: value [0]; ask for a unit"),
        ("demand", [[1, 1], [2, -1], [0, 0]], "jobs.demand row 1: value [ 2 -1]; ask for a unit"),
        ("demand", [[1, 1], [2, 0], [0, 0]], "jobs.demand row 2: value [0 0]; ask for a unit"),
        ("qos", [1, 0.0, 1], "jobs.qos row 1: value 0.0; use a share from 1e-06 to 1"),
        ("qos", [1, 5e-324, 1], "jobs.qos row 1: value 5e-324"),
        ("qos", [1, 1.01, 1], "jobs.qos row 1: value 1.01"),
        ("qos", [1, float("nan"), 1], "jobs.qos row 1: value nan"),
        ("runtime", [1, 2], "jobs.runtime: shape (2,) for 3 jobs; give one row per job"),
        ("demand", [1, 2, 3, 4], "jobs.demand: shape (4, 1) for 3 jobs"),
        ("demand", [[[1]], [[1]], [[1]]], "jobs.demand: shape (3, 1, 1) for 3 jobs"),
        ("id", [[1], [2], [3]], "jobs.id: shape (3, 1) for 3 jobs"),
        ("user", [1], "jobs.user: shape (1,) for 3 jobs"),
        ("queue", [1], "jobs.queue: shape (1,) for 3 jobs"),
    ],
)
def test_a_column_that_cannot_be(column: str, values: object, line: str) -> None:
    with pytest.raises(BadInputError) as caught:
        JobTable.build(**{**THREE, "requested": [3, 1, 2], column: values})
    assert str(caught.value).startswith(line)


def test_a_table_is_frozen_and_no_sequence() -> None:
    table = JobTable.build(**THREE)
    with pytest.raises(FrozenInstanceError):
        table.submit = table.runtime  # type: ignore[misc]
    with pytest.raises(TypeError, match="iterate over a column"):
        list(table)


def test_rows_are_selected_in_the_given_order() -> None:
    table = JobTable.build(**THREE, qos=[0.1, 0.2, 0.3])
    some = table.take(np.array([2, 0]))
    assert some.id.tolist() == [3, 1]
    assert some.demand.tolist() == [[2], [1]]
    assert some.qos.tolist() == [0.3, 0.1]
    view = table.take(slice(1, 3))
    assert view.id.tolist() == [2, 3]
    assert np.shares_memory(view.submit, table.submit)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=20, unique_by=lambda x: x)
)
def test_submit_order_breaks_ties_by_id(pairs: list[tuple[int, int]]) -> None:
    submit, number = zip(*pairs, strict=True)
    ones = np.ones(len(pairs), int)
    table = JobTable.build(submit=submit, id=number, runtime=ones, demand=ones).in_submit_order()
    assert list(zip(table.submit.tolist(), table.id.tolist(), strict=True)) == sorted(pairs)


def test_a_table_in_order_is_not_copied() -> None:
    table = JobTable.build(**THREE)
    assert table.in_submit_order() is table
