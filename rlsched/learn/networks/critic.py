"""Critic: the value network, which in training may see privileged blocks that no policy sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlsched.learn.networks.blocks import Blocks, context_blocks, context_size
from rlsched.learn.networks.policies import JobEncoder, mean_job, mlp
from rlsched.sim.columns import JOB_PRESENT
from rlsched.sim.layout import Layout

SMALL = 0.1
"""Factor of the sum of job values, so that a long queue does not outweigh the rest at the start."""

FAR = 5.0
"""Largest distance of a normalised entry of the `coming` block from its mean, in spreads; clipped there."""


UNIT, LARGEST = 0.01, 18.5
"""Scale of `squash`, for returns of about 1: linear far below `UNIT` and logarithmic above it.

The largest value of a state is about e^18.5 units.
"""


BINS, FARTHEST = 41, 10.0
"""Number of bins of a critic's distribution, and the position of the last on the logarithmic scale."""

INITIAL_SPREAD = 0.5
"""Standard deviation of the initial distribution on the logarithmic scale."""

LOWEST_LOGIT = -8.0
"""Lowest initial logit of a bin: a bin that starts almost impossible takes long to be learned."""


def squash(values: Tensor) -> Tensor:
    """Symmetric logarithm [Hafner et al. 2023]: some states have a hundred times the value of others."""
    return values.sign() * (values.abs() / UNIT).log1p()


def unsquash(values: Tensor) -> Tensor:
    """The inverse of `squash`."""
    return values.sign() * UNIT * values.abs().clamp(max=LARGEST).expm1()


def centres() -> Tensor:
    """Centres (bin,) of the bins of a distribution, evenly spaced on the logarithmic scale."""
    return unsquash(torch.linspace(-FARTHEST, FARTHEST, BINS))


def two_hot(values: Tensor, at: Tensor) -> Tensor:
    """(..., bin) weights of the two bins next to each value; their mean is the value [Hafner et al. 2023].

    Args:
        values: (...)
        at: (bin,) centres of the bins, rising.
    """
    values = values.clamp(float(at[0]), float(at[-1]))
    upper = torch.searchsorted(at, values, right=True).clamp(1, len(at) - 1)
    low, high = at[upper - 1], at[upper]
    share = (values - low) / (high - low)
    weights = values.new_zeros((*values.shape, len(at)))
    weights.scatter_(-1, (upper - 1).unsqueeze(-1), (1.0 - share).unsqueeze(-1))
    return weights.scatter_(-1, upper.unsqueeze(-1), share.unsqueeze(-1))


def initial_logits(values: Tensor, at: Tensor) -> Tensor:
    """(value, bin) logits of distributions around these values (value,), for the first bias of a critic."""
    distance = squash(at) - squash(values).unsqueeze(1)
    return (-0.5 * (distance / INITIAL_SPREAD).square()).clamp(min=LOWEST_LOGIT)


class CriticView(NamedTuple):
    """Inputs of a critic; they do not depend on its weights."""

    around: Tensor  # (batch, n) the context and, with a `jobs` block, the mean of the visible jobs
    env: Tensor  # (m,) row of the batch that each visible job is from
    jobs: Tensor  # (m, feature) observed features of these jobs


class Critic(nn.Module):
    """Value network: an MLP over the context, plus a learned value of each waiting job.

    Costs are sums over waiting jobs, and so is their expectation. The critic shares no layers with the
    policy [Cunha 2022, 5.3]. It also sees privileged blocks (`outlook`, `coming`), since only training uses
    it.

    Args:
        layout: of the observation vector.
        hidden: units per layer.
        coming: mean and spread of each entry of the `coming` block, where there is one.
        outputs: number of estimates per state, of rewards and of costs.
    """

    mean: Tensor
    spread: Tensor

    def __init__(
        self,
        layout: Layout,
        hidden: Sequence[int],
        coming: tuple[Sequence[float], Sequence[float]] = ((), ()),
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.outputs = outputs
        self.blocks = Blocks(layout)
        # Entries of `coming` vary little and are informative: once normalised they are learned at once.
        block = layout.block("coming") if coming[0] else None
        self.coming = None
        if block is not None:  # offset in the context, and size
            context = context_blocks(layout, privileged=True)
            before = sum(part.size for part in context if part.offset < block.offset)
            self.coming = (before, block.size)
        for name, values in zip(("mean", "spread"), coming, strict=True):
            self.register_buffer(name, torch.tensor(values), persistent=False)
        jobs = layout.block("jobs")
        features = jobs.shape[1] if jobs is not None else 0
        self.net = mlp([context_size(layout, privileged=True) + features, *hidden, outputs], last_gain=0.1)
        self.encoder, self.of_job = None, None
        if jobs is not None:
            width = max(1, hidden[0] // 2)
            self.encoder = JobEncoder(layout, width, privileged=True)
            self.of_job = mlp([width, width, outputs], last_gain=0.1)

    @torch.no_grad()
    def begin_with(self, *values: float) -> None:
        """Set the last bias, so that before training each output is about its value in every state."""
        self.last(self.net).bias.copy_(torch.tensor(values))

    @torch.no_grad()
    def rescale(self, factor: float, offset: float) -> None:
        """Change the weights so that outputs are multiplied by `factor` and moved by `offset`."""
        parts = [self.net] if self.of_job is None else [self.net, self.of_job]
        for part in parts:
            last = self.last(part)
            last.weight.mul_(factor)
            last.bias.mul_(factor)
        self.last(self.net).bias.add_(offset)

    @staticmethod
    def last(part: nn.Sequential) -> nn.Linear:
        """Last layer of a part."""
        layer = part[-1]
        assert isinstance(layer, nn.Linear)
        return layer

    def look(self, vector: Tensor) -> CriticView:
        """Prepare the inputs of this critic; its twin can share them."""
        around, env, jobs = self.blocks.context(vector, privileged=True), vector[:0, 0].long(), vector[:0]
        if self.encoder is not None:
            slots = self.blocks(vector, "jobs")
            env, slot = torch.nonzero(slots[..., JOB_PRESENT.base] > 0.5, as_tuple=True)
            around, jobs = [*around, mean_job(slots)], slots[env, slot]
        features = torch.cat([vector[:, :0], *around], dim=1)
        if self.coming is not None:
            features.narrow(1, *self.coming).sub_(self.mean).div_(self.spread).clamp_(-FAR, FAR)
        return CriticView(features, env, jobs)

    def judge(self, view: CriticView) -> Tensor:
        """Values (batch,) from prepared inputs; with several outputs (batch, output)."""
        value: Tensor = self.net(view.around)
        if self.encoder is not None and self.of_job is not None:
            around = self.encoder.of_state(view.around).index_select(0, view.env)
            hidden = self.of_job[:-1](self.encoder(view.jobs, around))
            # The last layer is linear, so it can be applied once to the sum over jobs.
            last, pool = self.last(self.of_job), hidden.new_zeros((len(value), hidden.shape[1]))
            jobs = torch.bincount(view.env, minlength=len(value)).unsqueeze(1)
            summed = pool.index_add(0, view.env, hidden) @ last.weight.T + jobs * last.bias
            value = value + SMALL * summed
        return value.squeeze(-1) if self.outputs == 1 else value

    def forward(self, vector: Tensor) -> Tensor:
        """Values (batch,); with several outputs (batch, output)."""
        return self.judge(self.look(vector))
