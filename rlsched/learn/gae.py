"""Generalised advantage estimation in simulated time, as a piece of RLlib's learner pipeline.

A discount per decision would be wrong where decisions take no time: starting a job, or reserving one, would
push all later costs one step further away and be rewarded for nothing but being one more decision. So a
transition of k ticks is discounted by gamma^k, as rewards are inside it [Cunha 2022, 4.7.3].

The same holds for lambda. With a lambda per decision every reservation is judged at once by the value of
the state it leads to, and the critic's error there is far larger than what is to be learned
(benchmarks/gradient_noise.py). So k ticks weigh lambda^k, and what takes no time is never judged by a guess.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from rlsched.sim.compiled import allocating

FloatArray = NDArray[np.float32]


@allocating
def advantages(
    values: FloatArray,
    rewards: FloatArray,
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    discounts: FloatArray,
    lambdas: FloatArray,
) -> FloatArray:
    """Advantages of rows that hold one episode chunk after the other [Schulman et al. 2016, eq. 16].

    Args:
        values: (row,) V(s_t); the last row of a chunk is its bootstrap state.
        rewards: (row,) of the transition from s_t.
        terminated: (row,) nothing follows that transition.
        truncated: (row,) the chunk ends with that transition; the next row is its bootstrap state.
        discounts: (row,) of the transition from s_t.
        lambdas: (row,) weight of what follows that transition against V(s_t+1).

    Returns:
        (row,) advantages; those of bootstrap rows mean nothing and are masked by RLlib.
    """
    result = np.zeros_like(values)
    running = np.float32(0.0)
    for t in range(len(values) - 1, -1, -1):
        following = np.float32(0.0)
        if not terminated[t] and t + 1 < len(values):
            following = values[t + 1]
        if terminated[t] or truncated[t]:
            running = np.float32(0.0)
        running = rewards[t] + discounts[t] * following - values[t] + discounts[t] * lambdas[t] * running
        result[t] = running
    return result


class TimedAdvantages(ConnectorV2):
    """Puts advantages and value targets into the batch, discounted by the ticks of each transition.

    Expects episodes that RLlib has lengthened by one row for the bootstrap state, and observations whose last
    number is the clock of their episode.

    Args:
        gamma: discount per tick.
        gae_lambda: weight of longer estimates per tick.
    """

    def __init__(self, *, gamma: float, gae_lambda: float) -> None:
        super().__init__()
        self.gamma, self.gae_lambda = gamma, gae_lambda

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add `Postprocessing.ADVANTAGES` (standardised) and `Postprocessing.VALUE_TARGETS`."""
        for module_id, columns in batch.items():
            with torch.no_grad():
                values = rl_module[module_id].compute_values(columns)
            clock = columns[Columns.OBS][:, -1].cpu().numpy().astype(np.float64)
            ticks = np.diff(clock, append=clock[-1:]).clip(min=0)  # below 0: to the row of another episode
            found = advantages(
                values.cpu().numpy(),
                columns[Columns.REWARDS].cpu().numpy().astype(np.float32),
                columns[Columns.TERMINATEDS].cpu().numpy().astype(np.bool_),
                columns[Columns.TRUNCATEDS].cpu().numpy().astype(np.bool_),
                (self.gamma**ticks).astype(np.float32),
                (self.gae_lambda**ticks).astype(np.float32),
            )
            advantage = torch.from_numpy(found).to(values.device)
            columns[Postprocessing.VALUE_TARGETS] = advantage + values
            counted = advantage[columns[Columns.LOSS_MASK]] if Columns.LOSS_MASK in columns else advantage
            columns[Postprocessing.ADVANTAGES] = (advantage - counted.mean()) / (counted.std() + 1e-8)
        return batch


class TimedPPOLearner(PPOTorchLearner):
    """RLlib's PPO with `TimedAdvantages` in the place of its own estimation.

    `learner_config_dict` holds `gamma` and `gae_lambda`, per tick.
    """

    def build(self) -> None:
        """Build as RLlib does, then swap the one piece of the pipeline."""
        super().build()
        pieces = self._learner_connector.connectors
        at = next(k for k, piece in enumerate(pieces) if isinstance(piece, GeneralAdvantageEstimation))
        pieces[at] = TimedAdvantages(
            gamma=self.config.learner_config_dict["gamma"],
            gae_lambda=self.config.learner_config_dict["gae_lambda"],
        )
