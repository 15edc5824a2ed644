"""Means over ticks, computed by hand and against adding up second by second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.power.model import Steps

HOUR = 3600


def over(values: list[float], first: int, ticks: int, tick_s: int, step_s: int = HOUR) -> list[float]:
    series = Steps(np.array([values, [1000.0] * len(values)]), step_s)
    result = series.over_ticks(first, ticks, tick_s)
    np.testing.assert_allclose(result[1], 1000.0, rtol=1e-12)
    return [float(value) for value in result[0]]


@pytest.mark.parametrize(
    ("first", "tick_s", "expected"),
    [
        (0, HOUR, [1, 2, 4, 8, 1]),
        (3, HOUR, [8, 1, 2, 4, 8]),
        (0, HOUR // 2, [1, 1, 2, 2, 4]),
        (3, HOUR // 2, [8, 8, 1, 1, 2]),
        (0, 1, [1, 1, 1, 1, 1]),
        (0, 2 * HOUR, [1.5, 6, 1.5, 6, 1.5]),
        (3, 2 * HOUR, [4.5, 3, 4.5, 3, 4.5]),
        (0, 3 * HOUR, [7 / 3, 11 / 3, 13 / 3, 14 / 3, 7 / 3]),
        (0, 4 * HOUR, [15 / 4] * 5),
        (1, 9 * HOUR, [32 / 9, 34 / 9, 38 / 9, 31 / 9, 32 / 9]),  # longer than the series
        # 1 + 2/2 in 1.5 h, then 2/2 + 4, 8 + 1/2, 1/2 + 2, 4 + 8/2
        (0, 3 * HOUR // 2, [2 / 1.5, 5 / 1.5, 8.5 / 1.5, 2.5 / 1.5, 8 / 1.5]),
        # of 40 minutes: 1; 1/2 + 2/2; 2; 4; 4/2 + 8/2
        (0, 2 * HOUR // 3, [1, 1.5, 2, 4, 6]),
    ],
)
def test_by_hand(first: int, tick_s: int, expected: list[float]) -> None:
    assert over([1, 2, 4, 8], first, 5, tick_s) == pytest.approx(expected, rel=1e-14)


def test_a_tick_within_a_step_has_exactly_its_value() -> None:
    values = [0.1, 0.2, 0.3]
    assert over(values, 1, 8, HOUR // 4) == [0.2] * 4 + [0.3] * 4
    assert over(values, 2, 4, HOUR) == [0.3, 0.1, 0.2, 0.3]


def test_dark_stays_dark() -> None:
    values = [1e6 / 3, 1e5 / 7, 0, 0, 0, 0, 0, 1e6 / 9]
    assert over(values, 2, 2, 5 * HOUR // 2) == [0, 0]


@given(
    values=st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    step_s=st.integers(1, 7),
    tick_s=st.integers(1, 30),
    first=st.integers(0, 5),
    ticks=st.integers(1, 20),
)
def test_the_same_as_second_by_second(
    values: list[int], step_s: int, tick_s: int, first: int, ticks: int
) -> None:
    first %= len(values)
    seconds = [values[(first + s // step_s) % len(values)] for s in range(ticks * tick_s)]
    expected = [sum(seconds[k * tick_s : (k + 1) * tick_s]) / tick_s for k in range(ticks)]
    np.testing.assert_allclose(over([float(v) for v in values], first, ticks, tick_s, step_s), expected)
