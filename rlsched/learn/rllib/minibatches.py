"""A batch in pieces, as RLlib's learners take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Sequences:
    """Rows that follow each other and stay together, since what is seen of one is remembered in the next.

    Attributes:
        lengths: (sequence,) rows of each; they stand one after the other.
        states: name -> (sequence, unit) of the module before the first row of each.
    """

    lengths: Tensor
    states: dict[str, Tensor]

    def rows(self, chosen: Tensor) -> Tensor:
        """(row,) of some of them, one after the other."""
        lengths = self.lengths[chosen]
        before = self.lengths.cumsum(0)[chosen] - lengths
        shift = (before - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths)
        return shift + torch.arange(len(shift), device=shift.device)

    def shuffled(self, parts: int) -> tuple[Tensor, ...]:
        """All of them in any order, in so many parts of about as many rows.

        Args:
            parts: in each of which the longest fits, so that none is empty.
        """
        order = torch.randperm(len(self.lengths), device=self.lengths.device)
        ends = self.lengths[order].cumsum(0)
        bounds = torch.arange(1, parts, device=ends.device) * ends[-1] / parts
        return order.tensor_split((torch.searchsorted(ends, bounds) + 1).cpu())

    def picked(self, chosen: Tensor) -> dict[str, Any]:
        """Columns that say where each begins, and with what."""
        states = {name: of_all[chosen] for name, of_all in self.states.items()}
        return {Columns.SEQ_LENS: self.lengths[chosen], Columns.STATE_IN: states}


class Minibatches:
    """A batch in pieces of about equal size, in another order in every epoch; gathered by index.

    Args:
        columns: name -> tensor (row, ...).
        size: rows of a piece at least, less at most a sequence; all in one where there are fewer.
        epochs: how often every row comes.
        total: pieces, where other learners must come out with as many; 0: what the epochs give.
        sequences: that rows stay together in; None: every row by itself.
    """

    def __init__(
        self,
        columns: dict[str, Tensor],
        size: int,
        epochs: int,
        total: int = 0,
        sequences: Sequences | None = None,
    ) -> None:
        self.columns, self.epochs, self.total, self.sequences = columns, epochs, total, sequences
        self.rows = len(next(iter(columns.values())))
        self.parts = max(1, self.rows // size)

    def __iter__(self) -> Iterator[MultiAgentBatch]:
        for _, chosen in zip(range(self.total or self.epochs * self.parts), self._chosen(), strict=False):
            index, more = chosen, {}
            if self.sequences is not None:
                index, more = self.sequences.rows(chosen), self.sequences.picked(chosen)
            picked = {name: values[index] for name, values in self.columns.items()}
            yield MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(picked | more)}, env_steps=self.rows)

    def _chosen(self) -> Iterator[Tensor]:
        device = next(iter(self.columns.values())).device
        while True:
            if self.sequences is None:
                yield from torch.randperm(self.rows, device=device).tensor_split(self.parts)
            else:
                yield from self.sequences.shuffled(self.parts)
