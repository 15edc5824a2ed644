"""Policy networks: (observation vector, mask) -> masked logits.

The mask is applied here and nowhere else. Logits of illegal actions are at a finite minimum, so that softmax,
entropy and imitation losses stay finite and illegal actions have no probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.attention import QueueAttention
from rlsched.learn.networks.blocks import (
    ILLEGAL,
    Blocks,
    EncodedPolicy,
    Recall,
    accept_former_names,
    context_size,
    masked,
    unchanged,
)
from rlsched.learn.networks.images import ImagePolicy
from rlsched.learn.networks.priority import STATE_BLOCKS, PriorityNet
from rlsched.learn.networks.recurrent import RecurrentPolicy
from rlsched.sim.columns import JOB_PRESENT
from rlsched.sim.layout import Layout

NEEDED = {"job_scorer": ("jobs",), "priority": ("jobs", STATE_BLOCKS[0]), "cnn": ("jobs", "profile")}
"""Kind of network -> blocks that it needs."""

LINEAR_SCALE, SCORE_SCALE = 60.0, 6.0
"""Logits per unit of a job's linear score, and per unit of the layers' score that is added to it.

Adam moves all weights by the same amount, and few weights can learn an order from little data. So the linear
score moves faster (docs/experiments/0009-imitation-instead-of-weights.md).
"""


def mlp(sizes: Sequence[int], *, last_gain: float | None = None) -> nn.Sequential:
    """Linear layers with ReLU between them, orthogonal weights; `last_gain` scales the last layer's."""
    layers: list[nn.Module] = []
    for k, (n, m) in enumerate(pairwise(sizes)):
        linear = nn.Linear(n, m)
        last = k == len(sizes) - 2
        nn.init.orthogonal_(linear.weight, last_gain if last and last_gain is not None else 2**0.5)
        nn.init.zeros_(linear.bias)
        layers.append(linear)
        if not last:
            layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


def mean_job(jobs: Tensor) -> Tensor:
    """Mean job (batch, feature) over the slots with a job; rows of empty slots must be zero."""
    return jobs.sum(1) / jobs[..., JOB_PRESENT.base].sum(1, keepdim=True).clamp(min=1)


class FlatPolicy(EncodedPolicy):
    """One MLP over the whole vector [Cunha 2022, 5.3]; tied to its window and cluster."""

    def __init__(self, layout: Layout, hidden: Sequence[int]) -> None:
        super().__init__()
        self.blocks = Blocks(layout)
        jobs = layout.block("jobs")
        self.jobs = "jobs" if jobs is not None else None
        inputs = context_size(layout, privileged=False) + (jobs.size if jobs is not None else 0)
        self.net = mlp([inputs, *hidden, layout.num_actions], last_gain=0.01)
        self.width, self.num_actions = hidden[-1], layout.num_actions

    def encode(self, vector: Tensor, mask: Tensor, recall: Recall = unchanged) -> Tensor:
        """Inputs (batch, width) of the last layer."""
        inputs = self.blocks.context(vector, privileged=False)
        if self.jobs is not None:
            inputs = [self.blocks(vector, self.jobs).flatten(1), *inputs]
        return recall(self.net[:-1](torch.cat(inputs, dim=1)))

    def choose(self, encoded: Tensor, mask: Tensor) -> Tensor:
        """Masked logits (batch, actions)."""
        return masked(self.net[-1](encoded), mask)

    def noop_layer(self) -> tuple[nn.Module, float]:
        """The last layer."""
        return self.net[-1], 1.0

    def judge(self) -> nn.Module:
        """New head that scores all actions from the encoding: -> (batch, actions)."""
        return mlp([self.width, self.num_actions], last_gain=0.01)


class JobEncoder(nn.Module):
    """Embedding of a job in its state: a layer over the job plus an MLP over the state around it.

    Args:
        layout: with a `jobs` block.
        width: size of the embedding.
        privileged: also sees blocks for critics only.
        more: number of state inputs beyond the context and the mean job.
    """

    def __init__(self, layout: Layout, width: int, *, privileged: bool, more: int = 0) -> None:
        super().__init__()
        features = len(layout.features("jobs"))
        self.of_job = nn.Linear(features, width)
        # The context and the mean of all visible jobs, also of those that are not encoded.
        around = context_size(layout, privileged=privileged) + features + more
        self.of_state = mlp([around, width, width])

    def forward(self, chosen: Tensor, around: Tensor) -> Tensor:
        """Embeddings (n, width) of jobs (n, feature), with the embedded state (n, width) of each."""
        return self.of_job(chosen).add_(around).relu_()


class Encoded(NamedTuple):
    """Encoding of a batch: the n legal jobs, and the states around them."""

    env: Tensor  # (n,) row of the batch that each job is from
    slot: Tensor  # (n,) slot of each job in the window
    jobs: Tensor  # (n, feature) observed features
    hidden: Tensor  # (n, width) embeddings of the jobs in their states
    around: Tensor  # (batch, 2 width) inputs of the heads of other actions
    legal: Tensor  # (batch, window) 1 where a job may be chosen
    history: Tensor  # (batch, feature) the `history` block; no columns where it is not observed

    def detach(self) -> Encoded:
        """Copy without gradients to the encoder."""
        return self._replace(hidden=self.hidden.detach(), around=self.around.detach())


class JobHeads(nn.Module):
    """Heads that score each job, and every other action, from the encoding.

    Args:
        hidden: units per layer; the first is the size of the embedding.
        num_others: actions other than jobs: the no-op and, with a horizon, suspending before it.
    """

    def __init__(self, hidden: Sequence[int], num_others: int) -> None:
        super().__init__()
        accept_former_names(self)
        width = hidden[0]
        self.hidden = tuple(hidden)
        self.body = mlp([width, *hidden[1:], 1], last_gain=0.01)
        self.other_actions = nn.ModuleList(
            mlp([2 * width, width, 1], last_gain=0.01) for _ in range(num_others)
        )

    def action_scores(self, scores: Tensor, encoded: Encoded, scale: float = 1.0) -> Tensor:
        """Scores (batch, actions), `ILLEGAL` where a job may not be chosen.

        Args:
            scores: (n,) of the legal jobs.
            encoded: the same jobs, and the states around them.
            scale: factor of the scores of other actions.
        """
        jobs = torch.full_like(encoded.legal, ILLEGAL).index_put((encoded.env, encoded.slot), scores)
        return torch.cat([jobs, *(scale * head(encoded.around) for head in self.other_actions)], dim=1)


class JobAdvantage(JobHeads):
    """Advantage head: scores all actions; those other than jobs relative to the best job."""

    def forward(self, encoded: Encoded) -> Tensor:
        """Scores (batch, actions), `ILLEGAL` where a job may not be chosen."""
        scores = self.action_scores(self.body(encoded.hidden).squeeze(-1), encoded)
        jobs, other_scores = torch.split(scores, [encoded.legal.shape[1], len(self.other_actions)], dim=1)
        best = jobs.max(dim=1, keepdim=True).values
        return torch.cat([jobs, other_scores + best.where(best > ILLEGAL / 2, 0.0)], dim=1)


class JobScorer(JobHeads, EncodedPolicy):
    """Scores every legal job of the window with shared weights, from its features and the state around it.

    Permutation-equivariant over the window, so its size depends neither on the window nor on the cluster.
    Illegal jobs are not scored: on real queues that saves most of the work.

    A linear path from a job's features to its score is added to the layers. Its weights start at zero. Where
    the history is observed, they depend on it, since the best order does. The no-op has a score of its own,
    so whether to wait depends on the jobs.

    Args:
        layout: with a `jobs` block.
        hidden: units per layer.
        attention: attention heads over the queue, in addition to its plain mean; 0: none.
    """

    def __init__(self, layout: Layout, hidden: Sequence[int], attention: int = 0) -> None:
        super().__init__(hidden, layout.num_actions - layout.window)
        self.blocks = Blocks(layout)
        features = len(layout.features("jobs"))
        self.knows_history = layout.block("history") is not None
        self.width = hidden[0]
        self.attention = QueueAttention(features, self.width, attention) if attention else None
        self.encoder = JobEncoder(
            layout, self.width, privileged=False, more=self.attention.size if self.attention else 0
        )
        self.linear = nn.Linear(features, 1, bias=False)
        nn.init.zeros_(self.linear.weight)
        self.order: nn.Linear | None = None
        if self.knows_history:
            self.order = nn.Linear(len(layout.features("history")), features, bias=False)
            nn.init.zeros_(self.order.weight)

    def encode(self, vector: Tensor, mask: Tensor, recall: Recall = unchanged) -> Encoded:
        """Encoding of the legal jobs, and of the states around them."""
        jobs = self.blocks(vector, "jobs")
        around = [*self.blocks.context(vector, privileged=False), mean_job(jobs)]
        if self.attention is not None:
            around.append(self.attention(jobs))
        state = recall(self.encoder.of_state(torch.cat(around, dim=1)))
        legal = mask.narrow(1, 0, jobs.shape[1])
        env, slot = torch.nonzero(legal > 0.5, as_tuple=True)
        chosen = jobs[env, slot]
        hidden = self.encoder(chosen, state.index_select(0, env))
        pool = torch.zeros_like(state).index_add(0, env, hidden) / (legal.sum(1, keepdim=True) + 1)
        history = self.blocks(vector, "history") if self.knows_history else vector[:, :0]
        return Encoded(env, slot, chosen, hidden, torch.cat([state, pool], dim=1), legal, history)

    def choose(self, encoded: Encoded, mask: Tensor) -> Tensor:
        """Masked logits (batch, actions)."""
        linear, body = self.linear(encoded.jobs), self.body(encoded.hidden)
        if self.order is not None:
            weights = self.order(encoded.history).index_select(0, encoded.env)
            linear = linear + (encoded.jobs * weights).sum(dim=1, keepdim=True)
        scores = torch.add(LINEAR_SCALE * linear, body, alpha=SCORE_SCALE).squeeze(-1)
        return masked(self.action_scores(scores, encoded, SCORE_SCALE), mask)

    def noop_layer(self) -> tuple[nn.Module, float]:
        """The last layer of the head of the no-op."""
        head = self.other_actions[-1]
        assert isinstance(head, nn.Sequential)
        return head[-1], SCORE_SCALE

    def judge(self) -> nn.Module:
        """New head that scores all actions from the encoding: -> (batch, actions)."""
        return JobAdvantage(self.hidden, len(self.other_actions))


def build_policy(layout: Layout, network: Network) -> nn.Module:
    """The policy network that these settings describe: (vector, mask) -> masked logits.

    With `network.lstm` it is a `RecurrentPolicy`, which also takes its recurrent state.

    Raises:
        BadInputError: the network needs a block that is not observed.
    """
    policy = _of_state(layout, network)
    if not network.lstm:
        return policy
    if not isinstance(policy, EncodedPolicy):
        raise BadInputError("network.lstm", f"not supported by network.kind={network.kind}", "remove it")
    return RecurrentPolicy(policy, network.lstm)


def _of_state(layout: Layout, network: Network) -> nn.Module:
    """The policy network without memory."""
    observed = [block.name for block in layout.blocks]
    if network.attention and network.kind != "job_scorer":
        raise BadInputError("network.attention", f"not supported by network.kind={network.kind}", "remove it")
    if network.kind == "mlp":
        return FlatPolicy(layout, network.hidden)
    needed = NEEDED[network.kind]
    for name in needed:
        if name not in observed:
            raise BadInputError(
                "observation.blocks",
                f"value {observed}: network.kind {network.kind} reads {name}",
                f"add {name}, or set network.kind=mlp",
            )
    if network.kind == "cnn":
        if network.units is None:
            raise BadInputError("network.units", "are not known", "give the units of each resource")
        return ImagePolicy(layout, network.units, network.size)
    if network.kind == "priority":
        return PriorityNet(layout, network.priority_units)
    return JobScorer(layout, network.hidden, network.attention)
