"""Arguments that are kept: values of one kind must be of one type to numba, as nothing looks at it again."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from rlsched.sim.kernel_arguments import _kind

FIELDS = [("a", np.int32), ("b", np.int32)]


class First(NamedTuple):
    x: Any
    y: Any


class Second(NamedTuple):
    x: Any
    y: Any


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


VALUES = [
    *(
        0,
        5,
        2**63,
        -1,
        True,
        1.0,
        None,
        np.int32(1),
        np.int64(1),
        np.uint64(1),
        np.float32(1),
        np.bool_(True),
    ),
    *(
        np.zeros(3, kind)
        for kind in (np.int8, np.int64, np.uint64, np.longlong, np.float32, np.float64, bool)
    ),
    *(np.zeros((2, 4)), np.zeros((2, 4)).T, np.zeros((2, 4))[:, ::2], np.zeros((1, 4)), np.zeros((0, 4))),
    *(np.zeros(()), np.zeros(5)[::2], read_only(np.zeros(3)), read_only(np.zeros((2, 4)))),
    *(np.zeros(2, FIELDS), np.zeros(2, np.dtype(FIELDS, align=True)), np.zeros(2, [("a", np.int64)])),
    *(np.zeros(2, FIELDS)[0], np.zeros(2, [("a", np.int64)])[0]),
    *((), (1,), (1, 2), (1, 2.0), ((1,), 2), (np.zeros(1), 1)),
    *(First(1, 2), Second(1, 2), First(1, 2.0), First(np.zeros(3), 1), First(np.zeros(3, np.float32), 1)),
]


def test_values_of_one_kind_are_of_one_type() -> None:
    equal = 0
    for left_value, right_value in combinations(VALUES, 2):
        if _kind(left_value) == _kind(right_value):
            assert hash(_kind(left_value)) == hash(_kind(right_value))
            assert typeof(left_value) == typeof(right_value), (left_value, right_value)
            equal += 1
    assert equal >= 6


def test_what_arrays_hold_and_how_much_makes_no_difference() -> None:
    few, many = First(np.zeros((1, 4)), (1, 2.0)), First(np.ones((9, 7)), (3, 4.0))
    assert _kind(few) == _kind(many)
