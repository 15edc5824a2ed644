"""What is remembered: held to a list that forgets from its beginning, drawn evenly, in bounded memory."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rlsched.learn.rllib.replay import ReplayBuffer


class Drawn(NamedTuple):
    """A transition, told by the numbers of its observations."""

    obs: int
    following: int
    action: int
    reward: float
    terminated: bool


class Remembered:
    """Every observation in the order it came, with the transition it begins; the oldest are forgotten."""

    def __init__(self) -> None:
        self.history: list[Drawn | None] = []

    def piece(
        self,
        numbers: NDArray[np.int64] | int,
        name: str | None = None,
        *,
        terminated: bool = False,
        truncated: bool = False,
    ) -> SingleAgentEpisode:
        """A piece of an episode that sees these, or so many more that nobody saw before."""
        if isinstance(numbers, int):
            numbers = len(self.history) + np.arange(numbers + 1)
        actions, rewards = numbers[:-1] * 7, numbers[:-1] / 4
        for at, following in pairwise(numbers.tolist()):
            ended = terminated and following == numbers[-1]
            self.history.append(Drawn(at, following, 7 * at, at / 4, ended))
        self.history.append(None)
        return SingleAgentEpisode(
            id_=name,
            observations=InfiniteLookbackBuffer(np.stack([numbers, -numbers], axis=1).astype(np.float32)),
            infos=InfiniteLookbackBuffer([{}] * len(numbers)),
            actions=InfiniteLookbackBuffer(actions),
            rewards=InfiniteLookbackBuffer(rewards.astype(np.float32)),
            terminated=terminated,
            truncated=truncated and not terminated,
            len_lookback_buffer=0,
        )

    def held(self, rows: int) -> set[Drawn]:
        """What is remembered by as many rows."""
        return {recorded for recorded in self.history[-rows:] if recorded is not None}


def drawn(buffer: ReplayBuffer, number: int, **more: float) -> list[Drawn]:
    """So many transitions, with both halves of their observations belonging together."""
    batch = buffer.sample(number, **more)
    for name in (Columns.OBS, Columns.NEXT_OBS):
        assert batch[name].shape == (number, 2)
        assert (batch[name][:, 0] == -batch[name][:, 1]).all()
    return [
        Drawn(int(obs), int(following), int(action), float(reward), bool(terminated))
        for obs, following, action, reward, terminated in zip(
            batch[Columns.OBS][:, 0],
            batch[Columns.NEXT_OBS][:, 0],
            batch[Columns.ACTIONS],
            batch[Columns.REWARDS],
            batch[Columns.TERMINATEDS],
            strict=True,
        )
    ]


@given(
    rows=st.integers(5, 40),
    fragments=st.lists(
        st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), min_size=1, max_size=5),
        min_size=1,
        max_size=12,
    ),
)
def test_holds_the_newest_and_draws_nothing_else(
    rows: int, fragments: list[list[tuple[int, bool, bool]]]
) -> None:
    history, buffer = Remembered(), ReplayBuffer(rows, np.random.default_rng(0))
    for pieces in fragments:
        buffer.add(
            [
                history.piece(length, terminated=terminated, truncated=truncated)
                for length, terminated, truncated in pieces
            ]
        )
        held = history.held(rows)
        assert len(buffer) == len(held)
        assert set(drawn(buffer, 40 * rows)) == held  # the chance to miss one is below 1e-15


def test_every_transition_is_as_likely_as_any_other() -> None:
    history, buffer = Remembered(), ReplayBuffer(30, np.random.default_rng(0))
    for length in (1, 9, 1, 1, 4, 2, 7, 1, 1, 1):  # has gone round
        buffer.add([history.piece(length)])
    held = history.held(30)
    number = 50_000
    actual = np.unique([recorded.obs for recorded in drawn(buffer, number)], return_counts=True)[1]
    expected = number / len(held)
    chi_square = float(((actual - expected) ** 2 / expected).sum())
    assert len(actual) == len(held)
    assert chi_square < len(held) - 1 + 5 * (2 * (len(held) - 1)) ** 0.5


@given(
    n_step=st.integers(2, 6),
    pieces=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 6), st.sampled_from(["goes on", "lost", "ended", "cut"])),
        min_size=1,
        max_size=16,
    ),
)
def test_several_decisions_are_one_transition(n_step: int, pieces: list[tuple[int, int, str]]) -> None:
    """As far as their episode is remembered, whatever else was played between its pieces.

    The clock goes back by 1 an observation here.
    """
    history, buffer = Remembered(), ReplayBuffer(20, np.random.default_rng(0))
    episodes: dict[int, tuple[str, int]] = {}
    number, name = 0, 0
    for index, length, fate in pieces:
        if index not in episodes:
            name, number = name + 1, number + 1
            episodes[index] = (f"episode {name}", number)
        called, started = episodes[index]
        numbers = np.array([started, *range(number + 1, number + length + 1)])
        number += length
        piece = history.piece(numbers, called, terminated=fate == "ended", truncated=fate == "cut")
        if fate == "lost":
            del history.history[-len(numbers) :]
        else:
            buffer.add([piece])
        episodes[index] = (called, number)
        if fate in ("ended", "cut"):
            del episodes[index]
    held = {recorded.obs: recorded for recorded in history.held(20)}
    gamma = 1.02
    wanted = {}
    for first in held.values():
        steps = [first]
        while len(steps) < n_step and not steps[-1].terminated and steps[-1].following in held:
            steps.append(held[steps[-1].following])
        earned = sum(gamma ** -(step.obs - first.obs) * step.reward for step in steps)
        wanted[first.obs] = first._replace(
            following=steps[-1].following,
            reward=pytest.approx(earned, rel=1e-4),
            terminated=steps[-1].terminated,
        )
    if not held:
        return
    actual = drawn(buffer, 800, n_step=n_step, gamma=gamma)
    assert {recorded.obs for recorded in actual} == set(wanted)
    assert all(recorded == wanted[recorded.obs] for recorded in actual)


def test_memory_does_not_grow_and_is_lent_again() -> None:
    history, buffer = Remembered(), ReplayBuffer(64, np.random.default_rng(0))
    buffer.add([history.piece(3, terminated=True)])
    where = {name: value.ctypes.data for name, value in vars(buffer).items() if isinstance(value, np.ndarray)}
    assert len(where) == 6
    lent = buffer.sample(16)[Columns.OBS].ctypes.data
    for number in range(100):
        buffer.add([history.piece(3, terminated=True)])
        buffer.add([history.piece(3, f"lost with its runner {number}")])
        assert len(buffer.open) <= 64 // 4
        assert buffer.sample(16)[Columns.OBS].ctypes.data == lent
    assert where == {name: getattr(buffer, name).ctypes.data for name in where}


def test_a_batch_that_is_still_looked_at_stays_as_it_is() -> None:
    history, buffer = Remembered(), ReplayBuffer(64, np.random.default_rng(0))
    buffer.add([history.piece(20, terminated=True)])
    first = buffer.sample(16)[Columns.OBS]
    before = first.copy()
    buffer.sample(16)
    assert (first == before).all()


def test_nothing_is_drawn_from_nothing() -> None:
    with pytest.raises(ValueError, match="nothing is held"):
        ReplayBuffer(8, np.random.default_rng(0)).sample(1)


def test_a_piece_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="9 observations do not fit into 8 rows"):
        ReplayBuffer(8, np.random.default_rng(0)).add([Remembered().piece(8)])
