"""The baseline from replicas: against plain Python, and what it takes out of made-up advantages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlsched.learn.rllib.baseline import FARTHEST, _of_others, replica_baseline, standardised_by_episode

Piece = tuple[int, list[float], list[int]]
"""Which episode, advantages, and ticks between decisions."""


def rows(pieces: list[Piece]) -> tuple[np.ndarray, ...]:
    """Advantages, episodes, clocks and last rows of pieces."""
    lengths = [len(gained) for _, gained, _ in pieces]
    return (
        np.array([item for _, gained, _ in pieces for item in gained], np.float32),
        np.repeat([episode for episode, _, _ in pieces], lengths).astype(np.int64),
        np.concatenate([np.cumsum(ticks[: len(gained)]) for _, gained, ticks in pieces]).astype(np.float32),
        np.cumsum(lengths) - 1,
    )


def in_python(pieces: list[Piece]) -> tuple[list[float], list[int]]:
    """For every row a look at all other pieces of its episode."""
    clocks = [np.cumsum(ticks[: len(gained)]) for _, gained, ticks in pieces]
    totals, counts = [], []
    for a, (episode, gained, _) in enumerate(pieces):
        for k in range(len(gained)):
            actual = []
            for b, (second, theirs, _) in enumerate(pieces):
                earlier = [j for j in range(len(theirs)) if clocks[b][j] <= clocks[a][k]]
                if b != a and second == episode and earlier:
                    actual.append(theirs[earlier[-1]])
            totals.append(sum(actual))
            counts.append(len(actual))
    return totals, counts


numbers = st.floats(-4, 4, width=32)
pieces = st.tuples(
    st.integers(0, 2),
    st.lists(numbers, min_size=1, max_size=6),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)


@given(st.lists(pieces, min_size=1, max_size=7))
@settings(max_examples=200, deadline=None)
def test_others_are_met_at_their_last_decision_by_then(played: list[Piece]) -> None:
    gained, shared, clock, ends = rows(played)
    starts = np.concatenate([[0], ends + 1])
    total, count = _of_others(gained, shared, clock, starts, np.argsort(shared[ends], kind="stable"))
    totals, counts = in_python(played)
    np.testing.assert_allclose(total, totals, atol=1e-4)
    assert count.tolist() == counts


def replica_rows(replicas: int, noise: float, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Two hundred decisions of replicas: what they share, and what is their own, of a spread of 1."""
    common = noise * rng.normal(size=200)
    made: list[Piece] = [(0, (common + rng.normal(size=200)).tolist(), [1] * 200) for _ in range(replicas)]
    return rows(made)


def test_what_replicas_share_is_taken_out() -> None:
    gained, *where = replica_rows(8, 5.0, np.random.default_rng(0))
    remaining = gained - replica_baseline(gained, *where)
    assert gained.var() > 20
    assert remaining.var() < 1.4  # 1 + 1 / 7 where the mean of the others is all that is known


def test_what_they_do_not_share_is_left_alone() -> None:
    gained, *where = replica_rows(2, 0.0, np.random.default_rng(1))
    remaining = gained - replica_baseline(gained, *where)
    assert remaining.var() < 1.1 * gained.var()  # the plain mean of one other would double it


def test_without_replicas_there_is_no_baseline() -> None:
    gained, _, clock, ends = replica_rows(3, 5.0, np.random.default_rng(2))
    alone = np.repeat(np.arange(3), 200)
    assert not replica_baseline(gained, alone, clock, ends).any()


def test_every_episode_counts_alike_and_nothing_is_far_off() -> None:
    rng = np.random.default_rng(3)
    gained = np.concatenate([rng.normal(size=500), 100 * rng.normal(size=500), [5000.0]]).astype(np.float32)
    shared = np.repeat([7, 9], [500, 501])
    actual = standardised_by_episode(gained, shared)
    small, large = actual[:500], actual[500:]
    assert np.abs(actual).max() == pytest.approx(FARTHEST)
    assert 0.5 < small.std() / large.std() < 2.5, "a hundredth as far apart before"
    assert actual.mean() == pytest.approx(0.0, abs=0.05)
