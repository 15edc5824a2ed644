"""DQN: deep Q-learning [Mnih et al. 2015], double and dueling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import RllibAlgorithm, RllibParts, check_buffer, register
from rlsched.learn.config.sections import LearningRates
from rlsched.settings import Frozen

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig, TrainConfig


class Dqn(LearningRates):
    """Deep Q-learning: double and dueling [van Hasselt et al. 2016; Wang et al. 2016]."""

    renamed: ClassVar[Mapping[str, str]] = {"target_share": "tau", "logit_value": "logit_scale"}

    every: int = Field(8, ge=1, description="decisions per environment between updates")
    batch: int = Field(1024, ge=1, description="decisions per update")
    buffer: int = Field(
        200_000,
        ge=1,
        description="capacity of the replay buffer, in decisions; somewhat less where episodes are short",
    )
    learning_starts: int = Field(
        10_000, ge=0, description="decisions before the first update, and again after --resume"
    )
    tau: float = Field(0.02, gt=0, le=1, description="update rate of the target networks, per update")
    epsilon: float = Field(0.1, ge=0, le=1, description="share of random decisions at first")
    final_epsilon: float = Field(0.02, ge=0, le=1, description="share of random decisions at the end")
    epsilon_steps: int = Field(200_000, ge=1, description="decisions until final_epsilon is reached")
    logit_scale: float = Field(
        0.01, gt=0, description="initial scale from logits to Q values, for returns of about 1"
    )
    learning_rate: float = Field(5e-5, gt=0, description="learning rate at the start of training")
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")


@register
class DqnAlgorithm(RllibAlgorithm):
    """Double Q-learning of a dueling network, from uniform replay.

    The Huber loss of Q(s, a) against r + gamma^k Q_target(s', argmax Q(s', .)), where k is the ticks of the
    transition [van Hasselt et al. 2016; Wang et al. 2016]. Targets follow by tau per update.
    """

    name = "dqn"
    summary = "deep Q-learning, double and dueling, from uniform replay, by Ray RLlib"
    source = "Mnih et al. 2015; van Hasselt et al. 2016; Wang et al. 2016"
    sections: ClassVar[dict[str, type[Frozen]]] = {"dqn": Dqn}
    warm_starts = True
    reports = ("qf_loss", "qf_mean", "td_error_mean")

    def check(self, config: TrainConfig) -> None:
        """Refuse a buffer or a run that is too small."""
        dqn = config.section(Dqn)
        check_buffer(config, "dqn", dqn.every, dqn.buffer)
        if config.steps is not None and dqn.learning_starts >= config.steps:
            raise ValueError(
                f"dqn.learning_starts {dqn.learning_starts} is no less than steps {config.steps}: "
                "nothing would be learned"
            )

    def fragment(self, config: TrainConfig) -> int:
        """Decisions per environment between updates."""
        return config.section(Dqn).every

    def parts(self) -> RllibParts:
        """RLlib's DQN with our replay buffer and learner."""
        from ray.rllib.algorithms.dqn import DQNConfig

        from rlsched.learn.algorithms.learners.dqn import ReplayingDQN, TimedDQNLearner
        from rlsched.learn.networks.module import QModule

        return RllibParts(DQNConfig(algo_class=ReplayingDQN), TimedDQNLearner, QModule)

    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of RLlib's DQN."""
        dqn = config.section(Dqn)
        return {
            "epsilon": [[0, dqn.epsilon], [dqn.epsilon_steps, dqn.final_epsilon]],
            "grad_clip": dqn.gradient_clip,
            "train_batch_size_per_learner": dqn.batch,
            # Of all decisions of a run; one that resumes does so with an empty buffer.
            "num_steps_sampled_before_learning_starts": steps + dqn.learning_starts,
            "target_network_update_freq": 1,
            "tau": dqn.tau,
            # RLlib makes no buffer of its own; see ReplayingDQN.
            "replay_buffer_config": {"no_local_replay_buffer": True, "capacity": dqn.buffer},
        }
