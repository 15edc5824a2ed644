"""What all networks share: cutting the observation vector into blocks, and the one mask."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlsched.sim.layout import Layout

ILLEGAL = torch.finfo(torch.float32).min


def masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Logits (batch, actions) with illegal actions at the finite minimum."""
    return logits.masked_fill(mask < 0.5, ILLEGAL)


class Blocks(nn.Module):
    """Cuts a vector into its blocks."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout

    def forward(self, vector: Tensor, name: str) -> Tensor:
        """The block (batch, *shape) of (batch, size) vectors."""
        block = self.layout.block(name)
        if block is None:
            raise KeyError(name)
        return vector[:, block.offset : block.offset + block.size].view(-1, *block.shape)

    def context(self, vector: Tensor, *, privileged: bool) -> Tensor:
        """(batch, n) everything but the jobs; with `privileged` also what only a critic may see."""
        names = context_blocks(self.layout, privileged=privileged)
        parts = [self(vector, name).flatten(1) for name in names]
        return torch.cat(parts, dim=1) if parts else vector[:, :0]


def context_blocks(layout: Layout, *, privileged: bool) -> list[str]:
    """Names of the blocks beside the jobs; the outlook only for a critic."""
    return [b.name for b in layout.blocks if b.name != "jobs" and (privileged or b.name != "outlook")]


def context_size(layout: Layout, *, privileged: bool) -> int:
    """Numbers in those blocks."""
    return sum(
        block.size for block in layout.blocks if block.name in context_blocks(layout, privileged=privileged)
    )
