"""Advantages: against plain Python, against RLlib's, and on a chain worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.postprocessing.value_predictions import compute_value_targets

from rlsched.learn.gae import TimedAdvantages, advantages


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
    following = [*chunk.values[1:-1], 0.0 if chunk.terminated else chunk.values[-1]]
    errors = [chunk.rewards[t] + discounts[t] * following[t] - chunk.values[t] for t in range(steps)]
    found = []
    for t in range(steps):
        total, weight = 0.0, 1.0
        for later in range(t, steps):
            total += weight * errors[later]
            weight *= discounts[later] * lambdas[later]
        found.append(total)
    return found


def rows(chunks: list[Chunk]) -> dict[str, np.ndarray]:
    """One after the other, each with its bootstrap row, as RLlib lays them out."""
    values = [value for chunk in chunks for value in chunk.values]
    rewards, terminated, truncated, ticks, clock, real = [], [], [], [], [], []
    for number, chunk in enumerate(chunks):
        steps = len(chunk.rewards)
        rewards += [*chunk.rewards, 0.0]
        terminated += [False] * (steps - 1) + [chunk.terminated] * 2
        truncated += [False] * (steps - 1) + [not chunk.terminated, True]
        ticks += [0, *chunk.ticks]
        clock += (1000 - 100 * number + np.cumsum([0, *chunk.ticks])).tolist()  # some go on from earlier
        real += [True] * steps + [False]
    return {
        "values": np.array(values, np.float32),
        "rewards": np.array(rewards, np.float32),
        "terminated": np.array(terminated),
        "truncated": np.array(truncated),
        "ticks": np.array(ticks, np.float32),
        "clock": np.array(clock, np.float32),
        "real": np.array(real),
    }


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


@settings(max_examples=200, deadline=None)
@given(st.lists(chunks(), min_size=1, max_size=5), SHARES, st.sampled_from([1.0, 0.97, 0.0]))
def test_against_the_sum_it_stands_for(given_chunks: list[Chunk], gamma: float, lam: float) -> None:
    batch = rows(given_chunks)
    ticks = np.append(batch["ticks"][1:], 0.0)
    found = advantages(
        batch["values"],
        batch["rewards"],
        batch["terminated"],
        batch["truncated"],
        (gamma**ticks).astype(np.float32),
        (lam**ticks).astype(np.float32),
    )
    expected = [
        value
        for chunk in given_chunks
        for value in reference(chunk, powers(gamma, chunk.ticks), powers(lam, chunk.ticks))
    ]
    assert found[batch["real"]] == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert found.dtype == np.float32


@settings(max_examples=100, deadline=None)
@given(st.lists(chunks(), min_size=1, max_size=5), st.sampled_from([1.0, 0.9]), SHARES)
def test_without_time_they_are_those_of_rllib(given_chunks: list[Chunk], gamma: float, lam: float) -> None:
    batch = rows(given_chunks)
    discounts = np.full(len(batch["values"]), gamma, np.float32)
    found = advantages(
        batch["values"],
        batch["rewards"],
        batch["terminated"],
        batch["truncated"],
        discounts,
        np.full_like(discounts, lam),
    )
    targets = compute_value_targets(
        batch["values"],
        batch["rewards"],
        batch["terminated"].astype(np.float32),
        batch["truncated"].astype(np.float32),
        gamma,
        lam,
    )
    real = batch["real"]
    assert (found + batch["values"])[real] == pytest.approx(targets[real], rel=1e-4, abs=1e-4)


def test_a_chain_of_two_states_by_hand() -> None:
    """s0 -(3 ticks, -3)-> s1 -(0 ticks, -1)-> end, with 0.5 per tick and lambda 0.8.

    V = (10, 4): the second transition is 0 ticks, so it is not discounted, but nothing follows it.
    delta_1 = -1 - 4 = -5; delta_0 = -3 + 0.5^3 * 4 - 10 = -12.5; A_0 = -12.5 + 0.125 * 0.8 * -5 = -13.
    """
    found = advantages(
        np.array([10, 4, 99], np.float32),  # nobody may look at what stands after the end
        np.array([-3, -1, 0], np.float32),
        np.array([False, True, True]),
        np.array([False, False, True]),
        np.array([0.125, 1.0, 0.0], np.float32),
        np.array([0.8, 1.0, 1.0], np.float32),
    )
    assert found[:2].tolist() == pytest.approx([-13.0, -5.0])
    cut = advantages(
        np.array([10, 4, 8], np.float32),
        np.array([-3, -1, 0], np.float32),
        np.array([False, False, False]),
        np.array([False, True, True]),
        np.array([0.125, 1.0, 0.0], np.float32),
        np.array([0.8, 1.0, 1.0], np.float32),
    )
    assert cut[:2].tolist() == pytest.approx([-12.5 + 0.1 * 3, 3.0])  # delta_1 = -1 + 8 - 4


class Values:
    """A module whose value of an observation is its first number."""

    def compute_values(self, batch: dict[str, Any]) -> torch.Tensor:
        return batch[Columns.OBS][:, 0]


@settings(max_examples=50, deadline=None)
@given(st.lists(chunks(), min_size=2, max_size=5))
def test_the_connector_reads_the_clock_of_observations(given_chunks: list[Chunk]) -> None:
    batch = rows(given_chunks)
    columns = {
        Columns.OBS: torch.from_numpy(np.stack([batch["values"], batch["clock"]], axis=1)),
        Columns.REWARDS: torch.from_numpy(batch["rewards"]),
        Columns.TERMINATEDS: torch.from_numpy(batch["terminated"]),
        Columns.TRUNCATEDS: torch.from_numpy(batch["truncated"]),
        Columns.LOSS_MASK: torch.from_numpy(batch["real"]),
    }
    piece = TimedAdvantages(gamma=0.9, gae_lambda=0.95)
    result = piece(rl_module={"m": Values()}, batch={"m": columns})["m"]
    expected = np.array(
        [
            value
            for chunk in given_chunks
            for value in reference(chunk, powers(0.9, chunk.ticks), powers(0.95, chunk.ticks))
        ]
    )
    real = batch["real"]
    targets = result[Postprocessing.VALUE_TARGETS].numpy()[real]
    assert targets == pytest.approx(expected + batch["values"][real], rel=1e-3, abs=1e-3)
    counted = result[Postprocessing.ADVANTAGES].numpy()[real]
    if expected.std() > 1e-3:  # standardised over what counts
        assert counted.mean() == pytest.approx(0, abs=1e-3)
        assert counted.std(ddof=1) == pytest.approx(1, abs=1e-3)
        assert np.isfinite(counted).all()
