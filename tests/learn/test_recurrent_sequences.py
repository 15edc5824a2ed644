"""Sequences of recurrent policies, and policies that cannot be recurrent."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.rllib.core.columns import Columns
from torch import Tensor

from rlsched.errors import BadInputError
from rlsched.learn.config.training import make_config
from rlsched.learn.rllib.minibatches import Minibatches, Sequences
from tests.learn.test_recurrent import MODULE, REMEMBERS

from .conftest import TINY


def test_rows_of_a_sequence_stay_together() -> None:
    lengths = torch.tensor([3, 1, 4, 4, 2, 5, 1])
    first = lengths.cumsum(0) - lengths
    columns = {"row": torch.arange(int(lengths.sum()))}
    sequences = Sequences(lengths, {"hidden": first.unsqueeze(1).float()})
    pieces = [item.policy_batches[MODULE] for item in Minibatches(columns, 6, 2, sequences=sequences)]
    assert len(pieces) == 6
    for epoch in (pieces[:3], pieces[3:]):
        assert sorted(torch.cat([item["row"] for item in epoch]).tolist()) == columns["row"].tolist()
    assert [item["row"].tolist() for item in pieces[:3]] != [item["row"].tolist() for item in pieces[3:]]
    for item in pieces:
        parts: tuple[Tensor, ...] = item["row"].split(item[Columns.SEQ_LENS].tolist())
        for part, state in zip(parts, item[Columns.STATE_IN]["hidden"], strict=True):
            assert part[0] == state
            assert (part.diff() == 1).all()


@settings(max_examples=100)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(9, 100))
def test_minibatches_of_sequences_are_about_equal(lengths: list[int], size: int) -> None:
    columns = {"row": torch.arange(sum(lengths))}
    made = Minibatches(columns, size, 1, sequences=Sequences(torch.tensor(lengths), {}))
    rows = [len(item.policy_batches[MODULE]["row"]) for item in made]
    assert len(rows) == max(1, sum(lengths) // size)
    assert sum(rows) == sum(lengths)
    assert max(rows) - min(rows) < 2 * max(lengths)
    assert min(rows) > 0


@pytest.mark.parametrize(
    ("reported", "message"),
    [
        (["algo=dqn"], "network.lstm: not supported by algo=dqn; remove it, or set algo to cocorl or ppo"),
        (["algo=priority_search"], "network.lstm: not supported by algo=priority_search"),
        (["sampling.batched=false"], "sampling.batched: value false does not go with network.lstm"),
        (["network.lstm=0"], "network.lstm_steps: not supported without network.lstm; remove it"),
        (
            ["network.lstm_steps=40"],
            "network.lstm_steps: value 40 is more than the decisions of a fragment, 32",
        ),
        (
            ["ppo.minibatch=8"],
            "network.lstm_steps: value 10 is more than the decisions of a fragm",
        ),
    ],
)
def test_what_cannot_remember_is_said(reported: list[str], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        make_config({}, "test", [*TINY, *REMEMBERS, *reported])
    assert message in str(caught.value)
