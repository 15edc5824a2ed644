"""Recurrent policies: an LSTM beside the encoder of the state."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rlsched.learn.networks.blocks import EncodedPolicy


class Remembered(NamedTuple):
    """Recurrent state of episodes, each (episode, unit); all zeros before the first decision."""

    hidden: Tensor  # last output of the LSTM
    cell: Tensor  # its cell state


class RecurrentPolicy(nn.Module):
    """Policy with an LSTM whose output is added to the state embedding [Hochreiter and Schmidhuber 1997].

    The LSTM's output layer starts at 0, so that at first the policy decides as it does without memory. That
    policy has a sensible initial order, or learned one in a warm start.
    """

    def __init__(self, policy: EncodedPolicy, units: int) -> None:
        super().__init__()
        self.policy, self.units = policy, units
        self.lstm = nn.LSTM(policy.width, units, batch_first=True)
        self.recalled = nn.Linear(units, policy.width)
        nn.init.zeros_(self.recalled.weight)
        nn.init.zeros_(self.recalled.bias)

    def begin(self, episodes: int) -> Remembered:
        """Initial recurrent state."""
        nothing = torch.zeros(episodes, self.units, device=self.recalled.weight.device)
        return Remembered(nothing, nothing.clone())

    def shift_noop(self, amount: float) -> None:
        """Add an amount to the logit of the no-op."""
        self.policy.shift_noop(amount)

    def step(self, vector: Tensor, mask: Tensor, before: Remembered) -> tuple[Tensor, Remembered]:
        """Masked logits (episode, actions) of one decision of each episode, and the next recurrent state."""
        then = before

        def recall(state: Tensor) -> Tensor:
            nonlocal then
            output, (hidden, cell) = self.lstm(state.unsqueeze(1), (before.hidden[None], before.cell[None]))
            then = Remembered(hidden[0], cell[0])
            return state + self.recalled(output.squeeze(1))

        return self.policy.choose(self.policy.encode(vector, mask, recall), mask), then

    def forward(self, vector: Tensor, mask: Tensor, before: Remembered, lengths: Tensor) -> Tensor:
        """Masked logits (row, actions) of sequences of decisions.

        Args:
            vector: (row, size) observations, one sequence after the other.
            mask: (row, actions) of the same decisions.
            before: (sequence, unit) recurrent state before the first decision of each sequence.
            lengths: (sequence,) decisions of each sequence.
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
