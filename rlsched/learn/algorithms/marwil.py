"""MARWIL: monotonic advantage re-weighted imitation learning [Wang et al. 2018]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import RllibAlgorithm, RllibParts, register
from rlsched.learn.algorithms.bc import AGREEMENT, offline_training
from rlsched.learn.config.sections import OfflineSettings
from rlsched.settings import Frozen

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig

NORM_RATE = 1e-2
"""Update rate of the moving mean of squared advantages, per minibatch."""


class Marwil(OfflineSettings):
    """Behavioural cloning with weights by advantage [Wang et al. 2018]."""

    beta: float = Field(
        1.0, gt=0, le=1, description="factor of advantages in the exponential weights; towards 0 it is bc"
    )
    value_weight: float = Field(1.0, gt=0, description="weight of the critic's loss")


@register
class MarwilAlgorithm(RllibAlgorithm):
    """Maximises the mean of exp(beta A / c) log pi(a | s) over a dataset.

    A is the return from the decision on less the critic's value, and c the root of a moving mean of A squared
    [Wang et al. 2018, eq. 6].
    """

    name = "marwil"
    summary = "behavioral cloning weighted by advantages: better actions of a dataset count more; --dataset"
    source = "Wang et al. 2018"
    sections: ClassVar[dict[str, type[Frozen]]] = {"marwil": Marwil}
    dataset = "required"
    reports = ("policy_loss", "vf_loss", "vf_explained_variance", "moving_avg_sqd_adv_norm", AGREEMENT)

    def parts(self) -> RllibParts:
        """RLlib's MARWIL with our dataset and learner."""
        from ray.rllib.algorithms.marwil import MARWILConfig

        from rlsched.learn.algorithms.learners.cloning import CloningLearner, ReadingMARWIL
        from rlsched.learn.networks.module import MaskedModule
        from rlsched.learn.rllib.dataset import CHOICES
        from rlsched.offline.reader import RETURN

        config = MARWILConfig(algo_class=ReadingMARWIL)
        return RllibParts(config, CloningLearner, MaskedModule, (*CHOICES, RETURN))

    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of RLlib's MARWIL."""
        marwil = config.section(Marwil)
        return offline_training(config) | {
            "beta": marwil.beta,
            "vf_coeff": marwil.value_weight,
            # Returns are about 1. RLlib's initial 100 hardly changes, so all weights would be 1.
            "moving_average_sqd_adv_norm_start": 1.0,
            "moving_average_sqd_adv_norm_update_rate": NORM_RATE,
        }
