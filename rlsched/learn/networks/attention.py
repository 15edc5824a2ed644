"""What a queue comes to, by attention: which of its jobs matter is learned, however many there are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlsched.learn.networks.blocks import ILLEGAL


class QueueAttention(nn.Module):
    """Weighted means over the jobs of a queue, whose weights follow from the jobs.

    Pooling by attention with learned queries [Lee et al. 2019, Set Transformer, 3.2]. A query that is the
    same for every queue makes of keys one linear score per job, so that is what is learned, and costs grow
    with jobs, not with their square. It is the same for any order and any number of jobs.

    Args:
        features: of a job.
        width: numbers that stand for a job.
        heads: weighted means.
    """

    def __init__(self, features: int, width: int, heads: int) -> None:
        super().__init__()
        self.of_job = nn.Linear(features, width)
        self.score = nn.Linear(width, heads)
        self.size = heads * width

    def forward(self, jobs: Tensor) -> Tensor:
        """(batch, heads x width) of queues (batch, slots, feature); zeros of those without a job."""
        present = jobs[..., :1] > 0.5
        filled = present.any(dim=0).nonzero()  # of thousands of slots most are empty, and those are the last
        slots = int(filled[-1, 0]) + 1 if len(filled) else 1
        jobs, present = jobs[:, :slots], present[:, :slots]
        hidden = self.of_job(jobs).relu_()
        weights = self.score(hidden).masked_fill(~present, ILLEGAL).softmax(dim=1)
        means = torch.bmm(weights.transpose(1, 2), hidden)
        return (means * present.any(dim=1, keepdim=True)).flatten(1)
