"""Parts that all networks share: cutting the observation vector into blocks, and the action mask."""

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
"""State embedding (batch, width) -> the same shape, changed by the memory of earlier decisions."""


def unchanged(state: Tensor) -> Tensor:
    """Return the state embedding as it is: the `Recall` of policies without memory."""
    return state


FORMER_NAMES = {"others": "other_actions", "seen": "updates"}
"""Attribute of networks before 0.2 -> its name now, for weights that were saved then."""


def present_name(parameter: str) -> str:
    """The name that a saved parameter has now."""
    return ".".join(FORMER_NAMES.get(part, part) for part in parameter.split("."))


def former_name(parameter: str) -> str:
    """The name that a parameter had first; fingerprints hold it, so that they stay."""
    first = {now: former for former, now in FORMER_NAMES.items()}
    return ".".join(first.get(part, part) for part in parameter.split("."))


def accept_former_names(module: nn.Module) -> None:
    """Let a module load states that were saved when its attributes had the `FORMER_NAMES`."""
    module.register_load_state_dict_pre_hook(_rename_parameters)  # type: ignore[no-untyped-call]


def _rename_parameters(_module: nn.Module, state: dict[str, Tensor], prefix: str, *_details: Any) -> None:
    for name in [name for name in state if name.startswith(prefix) and name != present_name(name)]:
        state[present_name(name)] = state.pop(name)


def masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Logits (batch, actions) with illegal actions at the finite minimum."""
    return logits.masked_fill(mask < 0.5, ILLEGAL)


class EncodedPolicy(nn.Module, ABC):
    """Policy of an encoder and heads, so that critics can share the encoder."""

    width: int  # size of the state embedding

    @abstractmethod
    def encode(self, vector: Tensor, mask: Tensor, recall: Recall = unchanged) -> Any:
        """Encoding of states and actions: a tensor, or a tuple of tensors with a `detach` method."""

    @abstractmethod
    def choose(self, encoded: Any, mask: Tensor) -> Tensor:
        """Masked logits (batch, actions)."""

    @abstractmethod
    def judge(self) -> nn.Module:
        """New head that scores all actions from the encoding, for a critic: -> (batch, actions)."""

    @abstractmethod
    def noop_layer(self) -> tuple[nn.Module, float]:
        """Linear layer whose last output is the score of the no-op, the last action; and logits per score."""

    @torch.no_grad()
    def shift_noop(self, amount: float) -> None:
        """Add an amount to the logit of the no-op in every state."""
        layer, scale = self.noop_layer()
        assert isinstance(layer, nn.Linear)
        layer.bias[-1] += amount / scale

    def forward(self, vector: Tensor, mask: Tensor) -> Tensor:
        """Masked logits (batch, actions)."""
        return self.choose(self.encode(vector, mask), mask)


class Blocks:
    """Cuts a vector into its blocks; their offsets are computed once, not at every step."""

    def __init__(self, layout: Layout) -> None:
        self.blocks = {block.name: block for block in layout.blocks}
        self.context_slices = {
            privileged: neighbours(context_blocks(layout, privileged=privileged))
            for privileged in (False, True)
        }

    def __call__(self, vector: Tensor, name: str) -> Tensor:
        """The block (batch, *shape) of (batch, size) vectors.

        Raises:
            KeyError: the block is not observed.
        """
        block = self.blocks[name]
        return vector.narrow(1, block.offset, block.size).view(-1, *block.shape)

    def context(self, vector: Tensor, *, privileged: bool) -> list[Tensor]:
        """All blocks but the jobs, each (batch, n); with `privileged` also those for critics only."""
        return [vector.narrow(1, offset, size) for offset, size in self.context_slices[privileged]]


def context_blocks(layout: Layout, *, privileged: bool) -> list[Block]:
    """All blocks but the jobs; with `privileged` also those for critics only."""
    hidden = {"jobs"} if privileged else {"jobs", *PRIVILEGED}
    return [block for block in layout.blocks if block.name not in hidden]


def neighbours(blocks: list[Block]) -> list[tuple[int, int]]:
    """Offset and size of each run of adjacent blocks in the vector."""
    begin = [k for k in range(len(blocks)) if k == 0 or blocks[k].offset != end_of(blocks[k - 1])]
    return [
        (blocks[first].offset, end_of(blocks[last - 1]) - blocks[first].offset)
        for first, last in pairwise([*begin, len(blocks)])
    ]


def end_of(block: Block) -> int:
    """Offset after the last number of a block."""
    return block.offset + block.size


def order_features(layout: Layout) -> tuple[str, ...]:
    """Names of the linear inputs of a job's score: its features and, if observed, products with history."""
    jobs = layout.features("jobs")
    known = layout.features("history") if layout.block("history") is not None else ()
    return (*jobs, *(f"{job}*{name}" for name in known for job in jobs))


def context_size(layout: Layout, *, privileged: bool) -> int:
    """Number of values in the context."""
    return sum(block.size for block in context_blocks(layout, privileged=privileged))
