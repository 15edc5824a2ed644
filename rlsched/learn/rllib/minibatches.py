"""Minibatches of a batch, in the form that RLlib's learners take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of rows that stay together in minibatches, for recurrent modules."""

    lengths: Tensor  # (sequence,) rows of each; the sequences follow each other
    states: dict[str, Tensor]  # name -> (sequence, unit) recurrent state before the first row of each

    @classmethod
    def of(cls, episodes: Sequence[SingleAgentEpisode], together: int, device: torch.device) -> Sequences:
        """Cut pieces of episodes into sequences of `together` rows; the last of a piece may have fewer."""
        starts = [np.arange(0, len(episode), together) for episode in episodes]
        lengths = [
            np.diff(first, append=len(episode)) for first, episode in zip(starts, episodes, strict=True)
        ]
        before: dict[str, list[NDArray[np.float32]]] = defaultdict(list)
        for first, episode in zip(starts, episodes, strict=True):
            # Outputs look back to before the first decision, also once a piece is cut.
            outputs = episode.extra_model_outputs[Columns.STATE_OUT]
            for name, values in outputs.data.items():
                before[name].append(values[first + outputs.lookback - 1])
        states = {name: torch.from_numpy(np.concatenate(of)).to(device) for name, of in before.items()}
        return cls(torch.from_numpy(np.concatenate(lengths)).to(device), states)

    def rows(self, chosen: Tensor) -> Tensor:
        """Row indices (row,) of the chosen sequences, one after the other."""
        lengths = self.lengths[chosen]
        before = self.lengths.cumsum(0)[chosen] - lengths
        shift = (before - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths)
        return shift + torch.arange(len(shift), device=shift.device)

    def shuffled(self, parts: int) -> tuple[Tensor, ...]:
        """Shuffle the sequences into `parts` parts with about the same number of rows.

        Args:
            parts: number of parts; the longest sequence must fit into each, so that none is empty.
        """
        order = torch.randperm(len(self.lengths), device=self.lengths.device)
        ends = self.lengths[order].cumsum(0)
        bounds = torch.arange(1, parts, device=ends.device) * ends[-1] / parts
        return order.tensor_split((torch.searchsorted(ends, bounds) + 1).cpu())

    def picked(self, chosen: Tensor) -> dict[str, Any]:
        """Columns of the chosen sequences' lengths and first recurrent states."""
        states = {name: values[chosen] for name, values in self.states.items()}
        return {Columns.SEQ_LENS: self.lengths[chosen], Columns.STATE_IN: states}


class Minibatches:
    """Minibatches of about equal size, shuffled anew in every epoch; rows are gathered by index.

    Args:
        columns: name -> tensor (row, ...).
        size: least rows of a minibatch, less at most a sequence; a smaller batch is one minibatch.
        epochs: passes over all rows.
        total: number of minibatches, where all learners must have the same number; 0: as the epochs give.
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
