"""Attention pooling over a queue of any length, with learned weights of its jobs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlsched.learn.networks.blocks import ILLEGAL


class QueueAttention(nn.Module):
    """Attention pooling: weighted means over the jobs of a queue, with weights computed from the jobs.

    The queries are learned [Lee et al. 2019, Set Transformer, 3.2]. A query that is the same for every queue
    turns a key into one linear score per job, so that score is learned directly. The time grows linearly
    with the number of jobs. The result does not depend on their order.
    """

    def __init__(self, features: int, width: int, heads: int) -> None:
        super().__init__()
        self.of_job = nn.Linear(features, width)
        self.score = nn.Linear(width, heads)
        self.size = heads * width

    def forward(self, jobs: Tensor) -> Tensor:
        """Pooled queues (batch, heads x width) of jobs (batch, slots, feature); zeros for empty queues."""
        present = jobs[..., :1] > 0.5
        filled = present.any(dim=0).nonzero()  # most of thousands of slots are empty, the last ones
        slots = int(filled[-1, 0]) + 1 if len(filled) else 1
        jobs, present = jobs[:, :slots], present[:, :slots]
        hidden = self.of_job(jobs).relu_()
        weights = self.score(hidden).masked_fill(~present, ILLEGAL).softmax(dim=1)
        means = torch.bmm(weights.transpose(1, 2), hidden)
        return (means * present.any(dim=1, keepdim=True)).flatten(1)
