"""Advantages: against plain Python, against RLlib's, and on a chain worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.rllib.utils.postprocessing.value_predictions import compute_value_targets

from rlsched.learn.rllib.gae import advantages


@dataclass(frozen=True)
class Chunk:
    """Part of an episode: T transitions, T + 1 values; cut off or at its end."""

    values: list[float]
    rewards: list[float]
    ticks: list[int]
    terminated: bool


def reference(chunk: Chunk, discounts: list[float], lambdas: list[float]) -> list[float]:
    """Eq. 16 as it stands: a sum over everything that follows, for every step anew."""
    steps = len(chunk.rewards)
    after = following(chunk)
    errors = [chunk.rewards[t] + discounts[t] * after[t] - chunk.values[t] for t in range(steps)]
    actual = []
    for t in range(steps):
        total, weight = 0.0, 1.0
        for later in range(t, steps):
            total += weight * errors[later]
            weight *= discounts[later] * lambdas[later]
        actual.append(total)
    return actual


def rows(chunks: list[Chunk], gamma: float, lam: float) -> tuple[np.ndarray, ...]:
    """What `advantages` wants to know of them, one after the other."""
    steps = [len(chunk.rewards) for chunk in chunks]
    last = np.zeros(sum(steps), np.bool_)
    last[np.cumsum(steps) - 1] = True
    ticks = [count for chunk in chunks for count in chunk.ticks]
    columns = (
        [value for chunk in chunks for value in chunk.values[:-1]],
        [value for chunk in chunks for value in following(chunk)],
        [reward for chunk in chunks for reward in chunk.rewards],
        last,
        powers(gamma, ticks),
        powers(lam, ticks),
    )
    return tuple(column if column is last else np.array(column, np.float32) for column in columns)


def following(chunk: Chunk) -> list[float]:
    return [*chunk.values[1:-1], 0.0 if chunk.terminated else chunk.values[-1]]


def powers(base: float, ticks: list[int]) -> list[float]:
    return [base**count for count in ticks]


numbers = st.floats(-3, 3, width=32)


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    steps = draw(st.integers(1, 8))
    return Chunk(
        values=draw(st.lists(numbers, min_size=steps + 1, max_size=steps + 1)),
        rewards=draw(st.lists(numbers, min_size=steps, max_size=steps)),
        ticks=draw(st.lists(st.integers(0, 50), min_size=steps, max_size=steps)),
        terminated=draw(st.booleans()),
    )


SHARES = st.sampled_from([1.0, 0.97, 0.5])


@settings(max_examples=200)
@given(st.lists(chunks(), min_size=1, max_size=5), SHARES, st.sampled_from([1.0, 0.97, 0.0]))
def test_against_the_sum_it_stands_for(given_chunks: list[Chunk], gamma: float, lam: float) -> None:
    rows_written = advantages(*rows(given_chunks, gamma, lam))
    expected = [
        value
        for chunk in given_chunks
        for value in reference(chunk, powers(gamma, chunk.ticks), powers(lam, chunk.ticks))
    ]
    assert rows_written == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert rows_written.dtype == np.float32


@settings(max_examples=100)
@given(st.lists(chunks(), min_size=1, max_size=5), st.sampled_from([1.0, 0.9]), SHARES)
def test_without_time_they_are_those_of_rllib(given_chunks: list[Chunk], gamma: float, lam: float) -> None:
    """RLlib lengthens every piece by a row for the state after it."""
    values, rewards, terminated, truncated, real = [], [], [], [], []
    for chunk in given_chunks:
        steps = len(chunk.rewards)
        values += chunk.values
        rewards += [*chunk.rewards, 0.0]
        terminated += [0.0] * (steps - 1) + [float(chunk.terminated)] * 2
        truncated += [0.0] * (steps - 1) + [float(not chunk.terminated), 1.0]
        real += [True] * steps + [False]
    timeless = [replace(chunk, ticks=[1] * len(chunk.rewards)) for chunk in given_chunks]
    rows_written = advantages(*rows(timeless, gamma, lam))
    arrays = [np.array(column, np.float32) for column in (values, rewards, terminated, truncated)]
    targets = compute_value_targets(*arrays, gamma, lam)
    assert rows_written + arrays[0][real] == pytest.approx(targets[real], rel=1e-4, abs=1e-4)


def test_a_chain_of_two_states_by_hand() -> None:
    """s0 -(3 ticks, -3)-> s1 -(0 ticks, -1)-> end, with 0.5 per tick and lambda 0.8.

    V = (10, 4): the second transition is 0 ticks, so it is not discounted, but nothing follows it.
    delta_1 = -1 - 4 = -5; delta_0 = -3 + 0.5^3 * 4 - 10 = -12.5; A_0 = -12.5 + 0.125 * 0.8 * -5 = -13.
    """
    reported = (
        np.array([False, True]),
        np.array([0.125, 1.0], np.float32),
        np.array([0.8, 1.0], np.float32),
    )
    values, rewards = np.array([10, 4], np.float32), np.array([-3, -1], np.float32)
    ended = advantages(values, np.array([4, 0], np.float32), rewards, *reported)
    assert ended.tolist() == pytest.approx([-13.0, -5.0])
    cut = advantages(values, np.array([4, 8], np.float32), rewards, *reported)
    assert cut.tolist() == pytest.approx([-12.5 + 0.1 * 3, 3.0])  # delta_1 = -1 + 8 - 4
