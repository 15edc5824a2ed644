"""Behavioural cloning [Pomerleau 1989]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rlsched.learn.algorithms.base import RllibAlgorithm, RllibParts, register
from rlsched.learn.config.sections import OfflineSettings
from rlsched.settings import Frozen

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig

AGREEMENT = "agreement"
"""Figure of algorithms that learn from a dataset: share of its actions that the greedy policy would take."""


class Bc(OfflineSettings):
    """Behavioural cloning: imitate the actions of a dataset."""


@register
class BcAlgorithm(RllibAlgorithm):
    """Maximises the mean of log pi(a | s) over the decisions (s, a) of a dataset [Pomerleau 1989]."""

    name = "bc"
    summary = "behavioral cloning: a network learns the actions of a dataset by cross-entropy; --dataset"
    source = "Pomerleau 1989"
    sections: ClassVar[dict[str, type[Frozen]]] = {"bc": Bc}
    dataset = "required"
    reads_rewards = False
    reports = ("policy_loss", AGREEMENT)

    def parts(self) -> RllibParts:
        """RLlib's BC with our dataset and learner."""
        from ray.rllib.algorithms.bc import BCConfig

        from rlsched.learn.algorithms.learners.cloning import CloningLearner, ReadingBC
        from rlsched.learn.networks.module import ClonedModule
        from rlsched.learn.rllib.dataset import CHOICES

        return RllibParts(BCConfig(algo_class=ReadingBC), CloningLearner, ClonedModule, CHOICES)

    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of RLlib's offline algorithms."""
        return offline_training(config)


def offline_training(config: ResolvedConfig) -> dict[str, Any]:
    """Keywords of `AlgorithmConfig.training` shared by algorithms that learn from a dataset alone."""
    offline = config.section(OfflineSettings)
    return {
        "grad_clip": offline.gradient_clip,
        "minibatch_size": offline.minibatch,
        "train_batch_size_per_learner": offline.rows // max(1, config.learners),
    }
