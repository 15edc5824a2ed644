"""A batch in pieces, as RLlib's learners take them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor


class Minibatches:
    """A batch in pieces of about equal size, in another order in every epoch; gathered by index.

    Args:
        columns: name -> tensor (row, ...).
        size: rows of a piece at least; all in one where there are fewer.
        epochs: how often every row comes.
        total: pieces, where other learners must come out with as many; 0: what the epochs give.
    """

    def __init__(self, columns: dict[str, Tensor], size: int, epochs: int, total: int = 0) -> None:
        self.columns, self.epochs, self.total = columns, epochs, total
        self.rows = len(next(iter(columns.values())))
        self.parts = max(1, self.rows // size)

    def __iter__(self) -> Iterator[MultiAgentBatch]:
        for _, index in zip(range(self.total or self.epochs * self.parts), self._indices(), strict=False):
            picked = {name: values[index] for name, values in self.columns.items()}
            yield MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(picked)}, env_steps=self.rows)

    def _indices(self) -> Iterator[Tensor]:
        device = next(iter(self.columns.values())).device
        while True:
            yield from torch.randperm(self.rows, device=device).tensor_split(self.parts)
