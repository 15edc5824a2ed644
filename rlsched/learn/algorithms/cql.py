"""CQL: conservative Q-learning among actions [Kumar et al. 2020]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import RllibAlgorithm, RllibParts, register
from rlsched.learn.algorithms.bc import AGREEMENT, offline_training
from rlsched.learn.config.sections import CriticSettings
from rlsched.settings import Frozen

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig

GAP = "conservative_gap"
"""Figure: mean difference of the soft maximum of Q over the actions from Q of the dataset's action."""


class Cql(CriticSettings):
    """Conservative Q-learning among discrete actions, from a dataset [Kumar et al. 2020]."""

    renamed: ClassVar[Mapping[str, str]] = {**CriticSettings.renamed, "conservative": "alpha"}

    alpha: float = Field(
        0.001,
        ge=0,
        description="weight of the conservative gap, by which the soft maximum of Q exceeds Q of the "
        "dataset's action; 0: plain Q-learning",
    )
    temperature: float = Field(
        0.01, ge=1e-6, description="temperature of the soft maximum, in units of returns of about 1"
    )


@register
class CqlAlgorithm(RllibAlgorithm):
    """Double Q-learning from a dataset with a conservative term, CQL(H) [Kumar et al. 2020, eq. 4].

    The loss of DQN plus alpha (t log sum_a exp(Q(s, a) / t) - Q(s, a of the dataset)), with the temperature
    t in units of reward.
    """

    name = "cql"
    summary = (
        "conservative Q-learning among discrete actions, double and dueling: lowers the values of actions "
        "that the dataset does not show; --dataset"
    )
    source = "Kumar et al. 2020"
    sections: ClassVar[dict[str, type[Frozen]]] = {"cql": Cql}
    dataset = "required"
    reports = ("qf_loss", "qf_mean", "td_error_mean", GAP, AGREEMENT)

    def parts(self) -> RllibParts:
        """RLlib's DQN with our dataset and learner."""
        from rlsched.learn.algorithms.learners.cql import CQLLearner, ReadingCQLConfig
        from rlsched.learn.networks.module import QModule
        from rlsched.learn.rllib.dataset import TRANSITIONS

        return RllibParts(ReadingCQLConfig(), CQLLearner, QModule, TRANSITIONS)

    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of RLlib's DQN."""
        return offline_training(config) | {
            "tau": config.section(Cql).tau,
            # Our learner moves the targets after every gradient step, RLlib only after sampled decisions.
            "target_network_update_freq": float("inf"),
            "num_steps_sampled_before_learning_starts": 0,
            "replay_buffer_config": {"no_local_replay_buffer": True},
        }
