"""What states are worth: the value network, which may see in training what no policy does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlsched.learn.networks.blocks import Blocks, context_blocks, context_size
from rlsched.learn.networks.policies import JobEncoder, mean_job, mlp
from rlsched.sim.columns import JOB_PRESENT
from rlsched.sim.layout import Block, Layout

SMALL = 0.1
"""On the sum of the values of jobs, so that a long queue does not drown the rest at the start."""

FAR = 5.0
"""Spreads from the mean at which what is coming is cut off."""


UNIT, LARGEST = 0.01, 18.5
"""Of returns of about 1: values are linear far below `UNIT` and logarithmic above; e^18.5 of them are the
most that is expected of a state."""


BINS, FARTHEST = 41, 10.0
"""Number of bins of a critic's distribution, and the last one's place on the logarithmic scale."""

INITIAL_SPREAD = 0.5
"""Standard deviation of the initial distribution on the logarithmic scale."""

LOWEST_LOGIT = -8.0
"""Lowest initial logit of a bin: one that starts almost impossible takes long to be learned."""


def squash(values: Tensor) -> Tensor:
    """Symmetric logarithm [Hafner et al. 2023]: some states are worth a hundred times the others."""
    return values.sign() * (values.abs() / UNIT).log1p()


def unsquash(values: Tensor) -> Tensor:
    """The inverse of `squash`."""
    return values.sign() * UNIT * values.abs().clamp(max=LARGEST).expm1()


def centres() -> Tensor:
    """(bin,) values that stand for the bins of a distribution, evenly spaced on the logarithmic scale."""
    return unsquash(torch.linspace(-FARTHEST, FARTHEST, BINS))


def two_hot(values: Tensor, at: Tensor) -> Tensor:
    """(..., bin) weights of the two bins next to each value; their mean is the value [Hafner et al. 2023].

    Args:
        values: (...)
        at: (bin,) rising.
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
    """What a critic sees of states, whatever it has learned.

    Attributes:
        around: (batch, n) the context and, where there are jobs, the mean of those in sight.
        env: (m,) state of each of these jobs.
        jobs: (m, feature) as they are observed.
    """

    around: Tensor
    env: Tensor
    jobs: Tensor


class Critic(nn.Module):
    """The value of a state: that of what stands around the jobs, and of each job that waits.

    Costs are sums over waiting jobs, and so is their expectation. The critic is apart from the policy
    [Cunha 2022, 5.3]. It also sees blocks that no scheduler can see (`outlook`, `coming`), since only
    training uses it.

    Args:
        layout: of what it sees.
        hidden: units per layer.
        coming: mean and spread of each entry of the `coming` block, where there is one.
        outputs: what is expected: of rewards, and of costs.
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
        # What is coming differs little and says much: in units of what it differs by, it is learned at once.
        block = layout.block("coming") if coming[0] else None
        self.coming = None if block is None else (self._place(layout, block), block.size)
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

    @staticmethod
    def _place(layout: Layout, block: Block) -> int:
        """Where a block begins in the context."""
        before = [
            context for context in context_blocks(layout, privileged=True) if context.offset < block.offset
        ]
        return sum(context.size for context in before)

    @torch.no_grad()
    def begin_with(self, *values: float) -> None:
        """Expect about this everywhere, of each output, before anything is learned."""
        self.last(self.net).bias.copy_(torch.tensor(values))

    @torch.no_grad()
    def rescale(self, factor: float, offset: float) -> None:
        """Give factor times what it gave, and offset, from now on."""
        parts = [self.net] if self.of_job is None else [self.net, self.of_job]
        for part in parts:
            last = self.last(part)
            last.weight.mul_(factor)
            last.bias.mul_(factor)
        self.last(self.net).bias.add_(offset)

    @staticmethod
    def last(part: nn.Sequential) -> nn.Linear:
        """Its last layer."""
        layer = part[-1]
        assert isinstance(layer, nn.Linear)
        return layer

    def look(self, vector: Tensor) -> CriticView:
        """What this critic and all of its kind see, so that twins need only look once."""
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
        """(batch,) values of what was seen; of several outputs (batch, output)."""
        value: Tensor = self.net(view.around)
        if self.encoder is not None and self.of_job is not None:
            around = self.encoder.of_state(view.around).index_select(0, view.env)
            hidden = self.of_job[:-1](self.encoder(view.jobs, around))
            # The last layer is linear: what it makes of a sum is the sum of what it makes of each.
            last, pool = self.last(self.of_job), hidden.new_zeros((len(value), hidden.shape[1]))
            jobs = torch.bincount(view.env, minlength=len(value)).unsqueeze(1)
            summed = pool.index_add(0, view.env, hidden) @ last.weight.T + jobs * last.bias
            value = value + SMALL * summed
        return value.squeeze(-1) if self.outputs == 1 else value

    def forward(self, vector: Tensor) -> Tensor:
        """(batch,) values; of several outputs (batch, output)."""
        return self.judge(self.look(vector))
