"""Priority functions of `priority_search`: a score per job, linear or with one small hidden layer.

There are two implementations: a torch network (`PriorityNet`), which is saved, and compiled code that plays
many candidates side by side, each in environments of its own (`PriorityCandidates`).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.networks.blocks import ILLEGAL, Blocks, accept_former_names, masked, order_features
from rlsched.sim.caching import cached
from rlsched.sim.layout import Block, Layout

STATE_BLOCKS = ("queue", "history")
"""Blocks, where observed, that are inputs of the hidden layer and of the scores of waiting and suspending."""

PACKING = {"match": 1.0, "fits": 3.0}
"""First weights on a horizon, where the no-op scores 1: fill free units, and let jobs wait that do not fit.
From zeros a search ended at 0.828 of the value on green-10, with these at 0.838 (docs/experiments/0009)."""

SUSPENDING = -1.0
"""Initial score of suspending a job minus that of the no-op: no job is stopped just because none fits."""


def state_blocks(layout: Layout) -> list[Block]:
    """Blocks of `STATE_BLOCKS` that are observed."""
    return [block for name in STATE_BLOCKS if (block := layout.block(name)) is not None]


def state_features(layout: Layout) -> tuple[str, ...]:
    """Names of the state's features."""
    return tuple(name for block in state_blocks(layout) for name in layout.features(block.name))


def competes(layout: Layout) -> bool:
    """Whether scores of other actions are relative to the best job; on a horizon they are absolute.

    On a horizon a job that does not fit now is to wait, however good it is. Without a horizon, a job is good
    only relative to a job that was chosen and holds a reservation now.
    """
    return layout.horizon == 0


def other_features(layout: Layout) -> tuple[str, ...]:
    """Names of inputs of other actions' scores: the best job, where they compete with it, and the state."""
    return (*(layout.features("jobs") if competes(layout) else ()), *state_features(layout))


class PriorityNet(nn.Module):
    """score(job) = (w + W history) x job + v x relu(A job + B state + b); of another action = u x + c.

    The highest legal score wins, of equal ones the first. `x` of another action is the state. Where other
    actions compete with the best legal job (`competes`), its features come before the state, and their scores
    are relative to that job. Parameters are ordered as in `PriorityCandidates`: w, W, A, B, b, v, u, c.
    Without a history there is no W.

    Args:
        layout: with a `jobs` and a `queue` block; a `history` block is read, too, and part of the state.
        hidden: units of the hidden layer; 0: none.
    """

    def __init__(self, layout: Layout, hidden: int) -> None:
        super().__init__()
        accept_former_names(self)
        self.blocks = Blocks(layout)
        names = layout.features("jobs")
        self.state_names = [block.name for block in state_blocks(layout)]
        state = len(state_features(layout))
        first = PACKING if layout.horizon else {}
        self.weights = nn.Parameter(torch.tensor([first.get(name, 0.0) for name in names]))
        products = len(order_features(layout)) // len(names) - 1
        self.order = nn.Parameter(torch.zeros(products, len(names))) if products else None
        self.of_job = nn.Parameter(torch.zeros(hidden, len(names)))
        self.of_state = nn.Parameter(torch.zeros(hidden, state))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.out = nn.Parameter(torch.zeros(hidden))
        self.window, self.competes = layout.window, competes(layout)
        num_others = layout.num_actions - layout.window
        self.other_actions = nn.Parameter(torch.zeros(num_others, len(other_features(layout))))
        noop = 1.0 if layout.horizon else 0.0
        constants = torch.full((num_others,), noop + SUSPENDING)
        constants[-1] = noop
        self.constants = nn.Parameter(constants)

    def forward(self, vector: Tensor, mask: Tensor) -> Tensor:
        """Masked scores (batch, actions)."""
        jobs = self.blocks(vector, "jobs")
        state = torch.cat([self.blocks(vector, name) for name in self.state_names], dim=1)
        hidden = torch.relu(jobs @ self.of_job.T + (state @ self.of_state.T + self.bias).unsqueeze(1))
        scores = jobs @ self.weights + hidden @ self.out
        if self.order is not None:
            scores = scores + (jobs @ (self.blocks(vector, "history") @ self.order).unsqueeze(2)).squeeze(2)
        level, reasons = scores.new_zeros(len(scores), 1), state
        if self.competes:
            best, slot = masked(scores, mask[:, : self.window]).max(dim=1, keepdim=True)
            has_job = best > ILLEGAL
            level = best.where(has_job, 0.0)
            chosen = jobs.take_along_dim(slot.unsqueeze(2), dim=1).squeeze(1)
            reasons = torch.cat([chosen.where(has_job, 0.0), state], dim=1)
        other_scores = level + reasons @ self.other_actions.T + self.constants
        return masked(torch.cat([scores, other_scores], dim=1), mask)

    def flat(self) -> FloatArray:
        """All parameters in one array (parameters,)."""
        return nn.utils.parameters_to_vector(self.parameters()).detach().double().numpy()

    def set_flat(self, values: FloatArray) -> None:
        """Set all parameters from a copy of values (parameters,)."""
        vector = torch.tensor(values, dtype=torch.float32)
        nn.utils.vector_to_parameters(vector, self.parameters())


class PriorityCandidates:
    """Plays many priority functions at once: environment k decides by candidate `of[k]`.

    Args:
        layout: of the observations.
        hidden: units of the hidden layer.
        values: (candidate, parameters) as `PriorityNet.flat` gives them.
        of: (env,) candidate of each environment.
    """

    def __init__(self, layout: Layout, hidden: int, values: FloatArray, of: IntArray) -> None:
        jobs, state = layout.block("jobs"), state_blocks(layout)
        if jobs is None or layout.block(STATE_BLOCKS[0]) is None:
            raise KeyError("jobs, queue")
        self.values = np.array(values, dtype=np.float32)
        self.of = of
        self.jobs_at = jobs.offset
        self.state_at = np.concatenate([block.offset + np.arange(block.size) for block in state])
        self.window, self.features = jobs.shape
        self.hidden = hidden
        self.competes = competes(layout)
        history = layout.block("history")
        self.history_at, self.history = (0, 0) if history is None else (history.offset, history.size)
        # Weights of the hidden layer by input, not by unit: so all units are computed side by side.
        at = (1 + self.history) * self.features
        for inputs in (self.features, len(self.state_at)):
            part = self.values[:, at : at + hidden * inputs]
            part[:] = part.reshape(len(part), hidden, inputs).swapaxes(1, 2).reshape(part.shape)
            at += hidden * inputs

    def act(self, obs: NDArray[np.float32], mask: NDArray[np.int8], envs: IntArray) -> IntArray:
        """Actions (batch,) for observations (batch, size) and masks (batch, actions) of `envs`."""
        actions = np.empty(len(obs), np.int64)
        _decide(
            obs,
            mask,
            self.values,
            self.of[envs],
            self.state_at,
            (self.jobs_at, self.history_at, self.history, self.window, self.features, self.hidden),
            self.competes,
            np.zeros(self.features, np.float32),
            np.zeros((2, self.hidden), np.float32),
            actions,
        )
        return actions


# One loop over rows and actions, longer and more complex than the house allows: in functions of their own its
# parts would be inlined or called for every job, and float sums could be rounded otherwise.
@partial(cached, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _decide(  # noqa: C901
    obs: NDArray[np.float32],
    mask: NDArray[np.int8],
    values: NDArray[np.float32],
    of: IntArray,
    state_at: IntArray,
    sizes: tuple[int, int, int, int, int, int],
    competes: bool,
    weights: NDArray[np.float32],
    units: NDArray[np.float32],
    actions: IntArray,
) -> None:
    """Write into `actions` the legal action of each row with the highest score; of equal ones the first."""
    context, unit = units
    jobs_at, history_at, history, window, features, hidden = sizes
    state = len(state_at)
    of_best = features if competes else 0
    reasons = of_best + state
    for n in range(len(obs)):
        x, p = obs[n], values[of[n]]
        job_weights = (1 + history) * features
        state_weights = job_weights + hidden * features
        biases = state_weights + hidden * state
        out = biases + hidden
        other_weights = out + hidden
        constants = other_weights + (mask.shape[1] - window) * reasons
        for h in range(hidden):
            context[h] = p[biases + h]
        for f in range(state):
            value = x[state_at[f]]
            for h in range(hidden):
                context[h] += p[state_weights + f * hidden + h] * value
        for f in range(features):
            weights[f] = p[f]
        for k in range(history):
            value = x[history_at + k]
            for f in range(features):
                weights[f] += p[(1 + k) * features + f] * value
        best, chosen = np.float32(0), -1
        level, slot = np.float32(0), -1  # of the best job, which other actions may compete with
        for action in range(mask.shape[1]):
            if mask[n, action] == 0:
                continue
            if action < window:
                at = jobs_at + action * features
                score = np.float32(0)
                for f in range(features):
                    score += weights[f] * x[at + f]
                for h in range(hidden):
                    unit[h] = context[h]
                for f in range(features):
                    value = x[at + f]
                    for h in range(hidden):
                        unit[h] += p[job_weights + f * hidden + h] * value
                for h in range(hidden):
                    score += p[out + h] * max(unit[h], np.float32(0))
            else:
                k = action - window
                at = other_weights + k * reasons
                score = level + p[constants + k]
                if slot >= 0:
                    for f in range(of_best):
                        score += p[at + f] * x[jobs_at + slot * features + f]
                for f in range(state):
                    score += p[at + of_best + f] * x[state_at[f]]
            if chosen < 0 or score > best:
                best, chosen = score, action
                if competes and action < window:
                    level, slot = score, action
        actions[n] = chosen
