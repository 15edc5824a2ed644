"""Memory of runners, and draws of actions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlsched.learn.networks.drawing import draw_actions
from rlsched.learn.rllib.memory import Memory


def test_draws_have_the_probabilities_of_the_logits() -> None:
    logits = torch.tensor([0.0, 1.0, -torch.inf, -1.0, -2.0, torch.finfo(torch.float32).min])
    many = logits.repeat(40_000, 1)
    drawn, logp = draw_actions(many.numpy(), np.random.default_rng(0).random(len(many)))
    actions = torch.from_numpy(drawn)
    shares = torch.bincount(actions, minlength=6) / len(actions)
    torch.testing.assert_close(shares, logits.softmax(0), atol=0.01, rtol=0)
    assert shares[2] == shares[5] == 0
    torch.testing.assert_close(torch.from_numpy(logp), logits.log_softmax(0)[actions])


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_the_ends_of_chance_are_legal(chance: float) -> None:
    """Where a draw rounds to nothing or to all, what has no probability is next to it."""
    low = np.finfo(np.float32).min
    logits = np.array([[low, 0.3, -0.1, 2.0, low], [low, low, 0.0, low, -np.inf]], np.float32)
    assert draw_actions(logits, np.full(2, chance))[0].tolist() == [3 if chance else 1, 2]


def test_what_is_no_number_draws_nothing() -> None:
    logits = np.array([[0.0, np.nan], [1.0, 0.0]], np.float32)
    assert draw_actions(logits, np.full(2, 0.99))[0].tolist() == [-1, 1]


def test_memory_is_lent_again_once_nobody_looks_at_it() -> None:
    memory = Memory()

    def lent(*shape: int) -> int:
        address: int = memory.empty("obs", shape, np.float32).ctypes.data
        return address

    first = memory.empty("obs", (4, 3), np.float32)
    place, view = first.ctypes.data, first[1:, 0]
    del first
    second = lent(4, 3)
    assert not np.shares_memory(view, memory.empty("obs", (4, 3), np.float32))
    assert lent(4, 2) == second  # it is large enough
    saved = torch.from_numpy(memory.empty("obs", (4, 3), np.float32)[2:])
    third = lent(4, 3)
    assert len({place, second, third}) == 3
    del saved
    assert {lent(4, 3) for _ in range(3)} == {second}
    del view
    assert {lent(4, 3) for _ in range(3)} == {place}
    assert memory.empty("other", (4, 3), np.float32).ctypes.data not in {place, second, third}


def test_memory_keeps_as_many_arrays_as_were_in_use_at_once_with_some_room() -> None:
    memory, sizes = Memory(), []
    for rows in (5, 900, 40, 1000, 3, 1100):
        two = [memory.empty("obs", (rows, 2), np.float64) for _ in range(2)]
        for k, array in enumerate(two):
            array[:] = k
        assert [array.shape for array in two] == [(rows, 2)] * 2
        assert [float(array.sum()) for array in two] == [0, 2 * rows]
        sizes.append({len(array.base) for array in two})
        del array, two
    small, middle, large = {5 * 16 * 9 // 8}, {900 * 16 * 9 // 8}, {1100 * 16 * 9 // 8}
    assert sizes == [small, middle, middle, middle, middle, large]
