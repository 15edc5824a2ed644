"""Priority functions that are searched for: a score per job, linear or with one small hidden layer.

The same function twice: as a network like all others (`PriorityNet`), which is what is kept, and as compiled
code that plays many candidates side by side, each in environments of its own (`Candidates`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.blocks import Blocks, masked
from rlsched.sim.layout import Layout

STATE_BLOCK = "queue"
"""What waiting and suspending, and the hidden layer, are judged by beside the jobs."""

SUSPENDING = -1.0
"""Initial score of suspending a job above that of the no-op: nothing is stopped just because nothing fits."""


class PriorityNet(nn.Module):
    """score(job) = w x job + v x relu(A job + B state + b); score of another action = u x state + c.

    The highest legal score wins, of equal ones the first. Parameters in this order, as in `Candidates`:
    w, A, B, b, v, u, c.

    Args:
        layout: with a `jobs` and a `queue` block.
        hidden: units of the hidden layer; 0: none.
        prior: job feature -> initial weight.
        waiting: initial score of the no-op.
    """

    def __init__(self, layout: Layout, hidden: int, prior: Mapping[str, float], waiting: float) -> None:
        super().__init__()
        self.blocks = Blocks(layout)
        names = layout.job_features
        state = layout.size_of(STATE_BLOCK)
        self.weights = nn.Parameter(torch.tensor([prior.get(name, 0.0) for name in names]))
        self.of_job = nn.Parameter(torch.zeros(hidden, len(names)))
        self.of_state = nn.Parameter(torch.zeros(hidden, state))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.out = nn.Parameter(torch.zeros(hidden))
        others = layout.num_actions - layout.window
        self.others = nn.Parameter(torch.zeros(others, state))
        constants = torch.full((others,), waiting + SUSPENDING)
        constants[-1] = waiting
        self.constants = nn.Parameter(constants)

    def forward(self, vector: Tensor, mask: Tensor) -> Tensor:
        """Masked scores (batch, actions)."""
        jobs, state = self.blocks(vector, "jobs"), self.blocks(vector, STATE_BLOCK)
        hidden = torch.relu(jobs @ self.of_job.T + (state @ self.of_state.T + self.bias).unsqueeze(1))
        scores = jobs @ self.weights + hidden @ self.out
        others = state @ self.others.T + self.constants
        return masked(torch.cat([scores, others], dim=1), mask)

    def flat(self) -> FloatArray:
        """(parameters,) all parameters, one after the other."""
        return nn.utils.parameters_to_vector(self.parameters()).detach().double().numpy()

    def set_flat(self, values: FloatArray) -> None:
        """Take over (parameters,) values; the array stays the caller's."""
        vector = torch.tensor(values, dtype=torch.float32)
        nn.utils.vector_to_parameters(vector, self.parameters())


class Candidates:
    """Plays many priority functions at once: environment k decides by candidate `of[k]`.

    Args:
        layout: of the observations.
        hidden: units of the hidden layer.
        values: (candidate, parameters) as `PriorityNet.flat` gives them.
        of: (env,) candidate of each environment.
    """

    def __init__(self, layout: Layout, hidden: int, values: FloatArray, of: IntArray) -> None:
        jobs, state = layout.block("jobs"), layout.block(STATE_BLOCK)
        if jobs is None or state is None:
            raise KeyError("jobs, queue")
        self.values = np.array(values, dtype=np.float32)
        self.of = of
        self.jobs_at, self.state_at = jobs.offset, state.offset
        self.window, self.features = jobs.shape
        self.state, self.hidden = state.size, hidden
        # Weights of the hidden layer by input, not by unit: so all units are computed side by side.
        at = self.features
        for inputs in (self.features, self.state):
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
            (self.jobs_at, self.state_at, self.window, self.features, self.state, self.hidden),
            np.zeros((2, self.hidden), np.float32),
            actions,
        )
        return actions


@numba.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _decide(
    obs: NDArray[np.float32],
    mask: NDArray[np.int8],
    values: NDArray[np.float32],
    of: IntArray,
    sizes: tuple[int, int, int, int, int, int],
    units: NDArray[np.float32],
    actions: IntArray,
) -> None:
    """The highest legal score of each row; of equal ones the first."""
    context, unit = units
    jobs_at, state_at, window, features, state, hidden = sizes
    for n in range(len(obs)):
        x, p = obs[n], values[of[n]]
        job_weights = features
        state_weights = job_weights + hidden * features
        biases = state_weights + hidden * state
        out = biases + hidden
        others = out + hidden
        constants = others + (mask.shape[1] - window) * state
        for h in range(hidden):
            context[h] = p[biases + h]
        for f in range(state):
            value = x[state_at + f]
            for h in range(hidden):
                context[h] += p[state_weights + f * hidden + h] * value
        best, chosen = np.float32(0), -1
        for action in range(mask.shape[1]):
            if mask[n, action] == 0:
                continue
            if action < window:
                at = jobs_at + action * features
                score = np.float32(0)
                for f in range(features):
                    score += p[f] * x[at + f]
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
                score = p[constants + k]
                for f in range(state):
                    score += p[others + k * state + f] * x[state_at + f]
            if chosen < 0 or score > best:
                best, chosen = score, action
        actions[n] = chosen
