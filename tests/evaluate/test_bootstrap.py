"""Intervals over seeds and episodes, against slow computations and by hand."""

from __future__ import annotations

from itertools import product
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlsched.evaluate.bootstrap import bootstrap_columns, bootstrap_iqm, interquartile_mean

FEW = settings(max_examples=20)
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 12))


def sample(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).exponential(size=shape)


def every_resample(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """All equally likely resamples of a few seeds and episodes."""
    seeds, episodes = (range(size) for size in values.shape)
    return [
        values[np.ix_(picked, drawn)]
        for picked in product(seeds, repeat=len(seeds))
        for drawn in product(episodes, repeat=len(episodes))
    ]


def test_two_seeds_of_two_episodes_by_hand() -> None:
    """Of 16 resamples each corner alone is drawn by one: 1/16 = 6.25 %, so that both ends are corners."""
    values = np.array([[0.0, 1.0], [10.0, 13.0]])
    assert bootstrap_columns([values])[0] == (6.0, 0.0, 13.0)
    assert bootstrap_iqm(values) == (5.5, 0.0, 13.0)  # the middle half of 0, 1, 10, 13


@pytest.mark.parametrize("missing", [False, True])
def test_ends_are_those_of_all_resamples(missing: bool) -> None:
    values = sample((3, 4))
    if missing:
        values[1, 2] = nan
    resamples = [item for item in every_resample(values) if not np.isnan(item).all()]
    for result, slow in (
        (bootstrap_columns([values])[0], [np.nanmean(item) for item in resamples]),
        (bootstrap_iqm(values), [interquartile_mean(item) for item in resamples]),
    ):
        low, high = np.percentile(slow, (2.5, 97.5))
        assert (result.low, result.high) == pytest.approx((low, high), abs=0.04 * (high - low))


@FEW
@given(SHAPES, st.integers(0, 99))
def test_one_seed_is_a_sample_of_episodes(shape: tuple[int, int], seed: int) -> None:
    values = sample(shape[1:], seed)
    assert bootstrap_columns([values[None]], seed) == bootstrap_columns([values], seed)
    assert bootstrap_iqm(values[None], seed) == bootstrap_iqm(values, seed)


@FEW
@given(SHAPES, st.integers(0, 99))
def test_equal_seeds_add_nothing_and_hide_nothing(shape: tuple[int, int], seed: int) -> None:
    values = sample(shape[1:], seed)
    (alone,), (several,) = (
        bootstrap_columns([item], seed) for item in (values, np.repeat(values[None], shape[0], axis=0))
    )
    assert several == pytest.approx(alone)


def test_seeds_that_differ_widen_the_interval() -> None:
    values = sample((20,)) + np.array([[0.0], [1.0], [2.0]])
    (several,), (averaged,) = (bootstrap_columns([item]) for item in (values, values.mean(axis=0)))
    assert several.mean == pytest.approx(averaged.mean)
    assert several.high - several.low > 1.5 * (averaged.high - averaged.low)


@FEW
@given(SHAPES, st.integers(0, 99))
def test_order_of_seeds_and_episodes_does_not_matter(shape: tuple[int, int], seed: int) -> None:
    values, rng = sample(shape, seed), np.random.default_rng(seed)
    mixed = rng.permutation(rng.permutation(values, axis=0), axis=1)
    assert bootstrap_columns([mixed]) == bootstrap_columns([values])
    assert bootstrap_iqm(mixed) == bootstrap_iqm(values)


@given(st.lists(st.integers(-1000, 1000) | st.just(nan), min_size=1, max_size=40))
def test_interquartile_mean_against_a_slow_one(values: list[float]) -> None:
    remaining = sorted(value for value in values if not isnan(value))
    for _ in range(len(remaining) // 4):
        remaining.remove(min(remaining))
        remaining.remove(max(remaining))
    result = interquartile_mean(np.array(values, dtype=float))
    assert result == pytest.approx(sum(remaining) / len(remaining)) if remaining else isnan(result)


@FEW
@given(SHAPES, st.integers(0, 99))
def test_intervals_hold_their_means_and_stay_within_the_values(shape: tuple[int, int], seed: int) -> None:
    values = sample(shape, seed)
    values[np.random.default_rng(seed).random(shape) < 0.2] = nan
    if np.isnan(values).all():
        assert isnan(bootstrap_columns([values])[0].mean)
        assert isnan(bootstrap_iqm(values).mean)
        return
    for mean, low, high in (bootstrap_columns([values])[0], bootstrap_iqm(values)):
        assert np.nanmin(values) - 1e-9 <= low <= mean <= high <= np.nanmax(values) + 1e-9


def test_equal_values_have_no_width() -> None:
    values = np.full((3, 5), 0.1)
    assert bootstrap_columns([values])[0] == (0.1, 0.1, 0.1)
    assert bootstrap_iqm(values) == pytest.approx((0.1, 0.1, 0.1))


def test_columns_of_several_shapes_give_what_each_gives_alone() -> None:
    columns = [sample((3, 8)), sample((8,)), sample((3, 8), 1), sample((2, 8))]
    for together, column in zip(bootstrap_columns(columns), columns, strict=True):
        assert together == pytest.approx(bootstrap_columns([column])[0])
