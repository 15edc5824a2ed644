"""What all networks share: cutting the observation vector into blocks, and the one mask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rlsched.scenario import PRIVILEGED
from rlsched.sim.layout import Block, Layout

ILLEGAL = torch.finfo(torch.float32).min


Recall = Callable[[Tensor], Tensor]
"""(batch, width) what stands for states -> the same, changed by what was seen before them."""


def unchanged(state: Tensor) -> Tensor:
    """Nothing else is known of a state than what is seen."""
    return state


def masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Logits (batch, actions) with illegal actions at the finite minimum."""
    return logits.masked_fill(mask < 0.5, ILLEGAL)


class EncodedPolicy(nn.Module, ABC):
    """A policy in two parts, so that critics may judge by what it encodes.

    Attributes:
        width: numbers that stand for a state.
    """

    width: int

    @abstractmethod
    def encode(self, vector: Tensor, mask: Tensor, recall: Recall = unchanged) -> Any:
        """What states and actions mean: a tensor, or a tuple of them that can be detached."""

    @abstractmethod
    def choose(self, encoded: Any, mask: Tensor) -> Tensor:
        """Masked logits (batch, actions)."""

    @abstractmethod
    def judge(self) -> nn.Module:
        """Something new that judges all actions by what is encoded: -> (batch, actions)."""

    @abstractmethod
    def shift_noop(self, amount: float) -> None:
        """Add an amount to the logit of the no-op, the last action, in every state."""

    def forward(self, vector: Tensor, mask: Tensor) -> Tensor:
        """Masked logits (batch, actions)."""
        return self.choose(self.encode(vector, mask), mask)


class Blocks:
    """Cuts a vector into its blocks; where each begins is found once, not at every step."""

    def __init__(self, layout: Layout) -> None:
        self.blocks = {block.name: block for block in layout.blocks}
        self.context_slices = {
            privileged: neighbours(context_blocks(layout, privileged=privileged))
            for privileged in (False, True)
        }

    def __call__(self, vector: Tensor, name: str) -> Tensor:
        """The block (batch, *shape) of (batch, size) vectors.

        Raises:
            KeyError: nothing like it is observed.
        """
        block = self.blocks[name]
        return vector.narrow(1, block.offset, block.size).view(-1, *block.shape)

    def context(self, vector: Tensor, *, privileged: bool) -> list[Tensor]:
        """Everything but the jobs, each (batch, n); with `privileged` also what only a critic may see."""
        return [vector.narrow(1, offset, size) for offset, size in self.context_slices[privileged]]


def context_blocks(layout: Layout, *, privileged: bool) -> list[Block]:
    """The blocks beside the jobs; some only for a critic."""
    hidden = {"jobs"} if privileged else {"jobs", *PRIVILEGED}
    return [block for block in layout.blocks if block.name not in hidden]


def neighbours(blocks: list[Block]) -> list[tuple[int, int]]:
    """Offsets and sizes of what stands next to each other in the vector."""
    begin = [k for k in range(len(blocks)) if k == 0 or blocks[k].offset != end_of(blocks[k - 1])]
    return [
        (blocks[first].offset, end_of(blocks[last - 1]) - blocks[first].offset)
        for first, last in pairwise([*begin, len(blocks)])
    ]


def end_of(block: Block) -> int:
    """Where the next block may begin."""
    return block.offset + block.size


def order_features(layout: Layout) -> tuple[str, ...]:
    """What scores a job linearly: its features and, where the history is observed, their products with it."""
    jobs = layout.features("jobs")
    known = layout.features("history") if layout.block("history") is not None else ()
    return (*jobs, *(f"{job}*{name}" for name in known for job in jobs))


def context_size(layout: Layout, *, privileged: bool) -> int:
    """Numbers in the context."""
    return sum(block.size for block in context_blocks(layout, privileged=privileged))
