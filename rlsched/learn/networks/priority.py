"""Priority functions of `priority_search`: a score per job, linear or with one small hidden layer.

There are two implementations: a torch network (`PriorityNet`), which is saved, and compiled code that plays
many candidates side by side, each in environments of its own (`PriorityCandidates`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
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


# Its parts are compiled into it: as functions of their own they would be called for every job.
# Nothing is allocated, so references need no counting, which would cost as much as the scores.
COMPILER: dict[str, Any] = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
    "_nrt": False,
}
part = numba.njit(forceinline=True, **COMPILER)


class _Sizes(NamedTuple):
    """Offsets of the inputs of a row, and numbers of weights."""

    jobs_at: int
    history_at: int
    history: int
    window: int
    features: int
    hidden: int
    of_best: int
    """Features of the best job among the inputs of another action."""


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
        self.state_at = np.concatenate([block.offset + np.arange(block.size) for block in state])
        window, features = jobs.shape
        history = layout.block("history")
        history_at, num_history = (0, 0) if history is None else (history.offset, history.size)
        of_best = features if competes(layout) else 0
        self.sizes = _Sizes(jobs.offset, history_at, num_history, window, features, hidden, of_best)
        # Weights of the hidden layer by input, not by unit: so all units are computed side by side.
        at = (1 + num_history) * features
        for inputs in (features, len(self.state_at)):
            part = self.values[:, at : at + hidden * inputs]
            part[:] = part.reshape(len(part), hidden, inputs).swapaxes(1, 2).reshape(part.shape)
            at += hidden * inputs

    def act(self, obs: NDArray[np.float32], mask: NDArray[np.int8], envs: IntArray) -> IntArray:
        """Actions (batch,) for observations (batch, size) and masks (batch, actions) of `envs`."""
        actions = np.empty(len(obs), np.int64)
        _decide_compiled(
            obs,
            mask,
            self.values,
            self.of[envs],
            self.state_at,
            self.sizes,
            np.zeros(self.sizes.features, np.float32),
            np.zeros((2, self.sizes.hidden), np.float32),
            actions,
        )
        return actions


@part
def _add_state(
    x: NDArray[np.float32],
    p: NDArray[np.float32],
    sizes: _Sizes,
    state_at: IntArray,
    weights: NDArray[np.float32],
    context: NDArray[np.float32],
) -> None:
    """Write a row's weights of jobs, and what its state adds to the hidden units."""
    features, hidden = sizes.features, sizes.hidden
    state_weights = (1 + sizes.history + hidden) * features
    biases = state_weights + hidden * len(state_at)
    for h in range(hidden):
        context[h] = p[biases + h]
    for f in range(len(state_at)):
        value = x[state_at[f]]
        for h in range(hidden):
            context[h] += p[state_weights + f * hidden + h] * value
    for f in range(features):
        weights[f] = p[f]
    for k in range(sizes.history):
        value = x[sizes.history_at + k]
        for f in range(features):
            weights[f] += p[(1 + k) * features + f] * value


@part
def _job_score(
    x: NDArray[np.float32],
    p: NDArray[np.float32],
    sizes: _Sizes,
    num_state: int,
    weights: NDArray[np.float32],
    context: NDArray[np.float32],
    unit: NDArray[np.float32],
    job: int,
) -> np.float32:
    """Score of a job of the window."""
    features, hidden = sizes.features, sizes.hidden
    job_weights = (1 + sizes.history) * features
    out = job_weights + hidden * (features + num_state + 1)
    at = sizes.jobs_at + job * features
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
    return score


@part
def _other_score(
    x: NDArray[np.float32],
    p: NDArray[np.float32],
    sizes: _Sizes,
    state_at: IntArray,
    num_others: int,
    k: int,
    best_job: int,
    level: np.float32,
) -> np.float32:
    """Score of another action, relative to the `level` of the best job, which is -1 where none is legal."""
    features, of_best = sizes.features, sizes.of_best
    inputs = of_best + len(state_at)
    other_weights = (1 + sizes.history) * features + sizes.hidden * (features + len(state_at) + 2)
    at = other_weights + k * inputs
    score = level + p[other_weights + num_others * inputs + k]
    if best_job >= 0:
        for f in range(of_best):
            score += p[at + f] * x[sizes.jobs_at + best_job * features + f]
    for f in range(len(state_at)):
        score += p[at + of_best + f] * x[state_at[f]]
    return score


def _decide(
    obs: NDArray[np.float32],
    mask: NDArray[np.int8],
    values: NDArray[np.float32],
    of: IntArray,
    state_at: IntArray,
    sizes: _Sizes,
    weights: NDArray[np.float32],
    units: NDArray[np.float32],
    actions: IntArray,
) -> None:
    """Write into `actions` the legal action of each row with the highest score; of equal ones the first."""
    context, unit = units
    num_actions = mask.shape[1]
    for n in range(len(obs)):
        x, p = obs[n], values[of[n]]
        _add_state(x, p, sizes, state_at, weights, context)
        best, chosen = np.float32(0), -1
        level, best_job = np.float32(0), -1  # of the best job, which other actions may compete with
        for action in range(num_actions):
            if mask[n, action] == 0:
                continue
            if action < sizes.window:
                score = _job_score(x, p, sizes, len(state_at), weights, context, unit, action)
            else:
                k, rest = action - sizes.window, num_actions - sizes.window
                score = _other_score(x, p, sizes, state_at, rest, k, best_job, level)
            if chosen < 0 or score > best:
                best, chosen = score, action
                if sizes.of_best and action < sizes.window:
                    level, best_job = score, action
        actions[n] = chosen


_decide_compiled = cached(_decide, **COMPILER)
