"""DQN on RLlib's new API stack: Bellman targets in simulated time, and replay from flat arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.algorithms.dqn import DQN
from ray.rllib.algorithms.dqn.dqn_learner import (
    QF_LOSS_KEY,
    QF_MEAN_KEY,
    QF_NEXT_PREDS,
    QF_PREDS,
    QF_TARGET_NEXT_PREDS,
    TD_ERROR_MEAN_KEY,
)
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)
from torch import Tensor
from torch.nn.functional import huber_loss

from rlsched.learn.rllib.learner import LeanLearner, discounts
from rlsched.learn.rllib.ray_compat import sample
from rlsched.learn.rllib.replay import REPLAY_STREAM, ReplayBuffer
from rlsched.learn.supervisor import Supervised


class ReplayingDQN(Supervised, DQN):
    """RLlib's DQN with a replay buffer of our own.

    `replay_buffer_config` holds `capacity` and `no_local_replay_buffer`, so that RLlib makes none itself.
    """

    def setup(self, config: Any) -> None:
        """Build as RLlib does, with an empty replay buffer."""
        super().setup(config)
        capacity = self.config.replay_buffer_config["capacity"]
        # A piece of an episode takes a row more than it has decisions; most are as long as a fragment.
        rows = capacity + -(-capacity // self.config.rollout_fragment_length) + 1
        rng = np.random.default_rng((REPLAY_STREAM, *self.config.env_config["stream"]))
        self.replay = ReplayBuffer(rows, rng)

    def training_step(self) -> None:
        """Sample a fragment, store it, and make one update from the buffer."""
        episodes, played = sample(self)
        self.metrics.aggregate(played, key=ENV_RUNNER_RESULTS)
        self.replay.add(episodes)
        decisions = self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0)
        if decisions < self.config.num_steps_sampled_before_learning_starts or not len(self.replay):
            return
        drawn = SampleBatch(self.replay.sample(self.config.total_train_batch_size))
        learned = self.learner_group.update(
            batch=MultiAgentBatch({DEFAULT_MODULE_ID: drawn}, env_steps=len(drawn)),
            timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: decisions},
        )
        self.metrics.aggregate(learned, key=LEARNER_RESULTS)
        self.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.learner_group,
            policies=[DEFAULT_MODULE_ID],
            inference_only=True,
        )


class TimedDQNLearner(LeanLearner, DQNTorchLearner):
    """RLlib's DQN learner with transitions discounted by their ticks, with 1-step targets.

    `learner_config_dict` holds `gamma`, per tick.
    """

    def compute_loss_for_module(
        self, *, module_id: str, batch: dict[str, Any], fwd_out: dict[str, Tensor], **kwargs: Any
    ) -> Tensor:
        """Compute and report the Huber loss of double Q-learning [van Hasselt et al. 2016].

        The last number of an observation is the clock of its episode.
        """
        chosen = fwd_out[QF_PREDS].gather(1, batch[Columns.ACTIONS].long().unsqueeze(1)).squeeze(1)
        best = fwd_out[QF_NEXT_PREDS].argmax(dim=1, keepdim=True)
        worth = fwd_out[QF_TARGET_NEXT_PREDS].gather(1, best).squeeze(1)
        ticks = batch[Columns.NEXT_OBS][:, -1] - batch[Columns.OBS][:, -1]
        bootstrap = discounts(ticks, self.config.learner_config_dict["gamma"]) * worth
        targets = batch[Columns.REWARDS] + bootstrap.masked_fill(batch[Columns.TERMINATEDS].bool(), 0.0)
        loss = huber_loss(chosen, targets)
        error = (chosen.detach() - targets).abs().mean()
        figures = {QF_LOSS_KEY: loss.detach(), QF_MEAN_KEY: chosen.detach().mean(), TD_ERROR_MEAN_KEY: error}
        self.metrics.log_dict(figures, key=module_id, window=1)
        return loss
