"""Policies that remember what they have seen of an episode: an LSTM beside what encodes the state."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rlsched.learn.networks.blocks import EncodedPolicy


class Remembered(NamedTuple):
    """What is remembered of episodes, each (episode, unit); nothing yet where all of it is 0.

    Attributes:
        hidden: what the LSTM said last.
        cell: what it keeps.
    """

    hidden: Tensor
    cell: Tensor


class RecurrentPolicy(nn.Module):
    """A policy whose view of the state is changed by what was seen before [Hochreiter and Schmidhuber 1997].

    At first it is not: the last layer begins at 0, so that it decides as the policy does by itself, which has
    a sensible order to begin with or was shown one.

    Args:
        policy: that is given a memory.
        units: of the LSTM.
    """

    def __init__(self, policy: EncodedPolicy, units: int) -> None:
        super().__init__()
        self.policy, self.units = policy, units
        self.lstm = nn.LSTM(policy.width, units, batch_first=True)
        self.recalled = nn.Linear(units, policy.width)
        nn.init.zeros_(self.recalled.weight)
        nn.init.zeros_(self.recalled.bias)

    def begin(self, episodes: int) -> Remembered:
        """Of episodes of which nothing was seen yet."""
        nothing = torch.zeros(episodes, self.units, device=self.recalled.weight.device)
        return Remembered(nothing, nothing.clone())

    def shift_noop(self, amount: float) -> None:
        """Add an amount to the logit of the no-op."""
        self.policy.shift_noop(amount)

    def step(self, vector: Tensor, mask: Tensor, before: Remembered) -> tuple[Tensor, Remembered]:
        """Masked logits (episode, actions) of one decision of each episode, and what is remembered then."""
        then = before

        def recall(state: Tensor) -> Tensor:
            nonlocal then
            output, (hidden, cell) = self.lstm(state.unsqueeze(1), (before.hidden[None], before.cell[None]))
            then = Remembered(hidden[0], cell[0])
            return state + self.recalled(output.squeeze(1))

        return self.policy.choose(self.policy.encode(vector, mask, recall), mask), then

    def forward(self, vector: Tensor, mask: Tensor, before: Remembered, lengths: Tensor) -> Tensor:
        """Masked logits (row, actions) of decisions that follow each other.

        Args:
            vector: (row, size) one sequence after the other.
            mask: (row, actions) theirs.
            before: (sequence, unit) before the first decision of each.
            lengths: (sequence,) decisions of each.
        """
        steps = torch.arange(int(lengths.max()), device=lengths.device)
        present = steps < lengths.unsqueeze(1)

        def recall(state: Tensor) -> Tensor:
            padded = state.new_zeros((*present.shape, state.shape[1]))
            padded = padded.masked_scatter(present.unsqueeze(2), state)
            # Packed, since episodes of few decisions would be mostly padding.
            packed = pack_padded_sequence(padded, lengths.cpu(), batch_first=True, enforce_sorted=False)
            output, _ = self.lstm(packed, (before.hidden[None], before.cell[None]))
            unpacked, _ = pad_packed_sequence(output, batch_first=True)
            return state + self.recalled(unpacked[present])

        return self.policy.choose(self.policy.encode(vector, mask, recall), mask)


def by_itself(policy: nn.Module) -> nn.Module:
    """A policy without its memory, if it has one: (vector, mask) -> masked logits."""
    return policy.policy if isinstance(policy, RecurrentPolicy) else policy
