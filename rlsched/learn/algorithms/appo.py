"""APPO: asynchronous PPO, corrected by V-trace [Luo et al. 2020; Espeholt et al. 2018]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import RllibAlgorithm, RllibParts, register
from rlsched.learn.config.sections import LearningRates
from rlsched.settings import Frozen

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig, TrainConfig


class Appo(LearningRates):
    """Asynchronous PPO: runners sample while a thread learns, corrected by V-trace [Luo et al. 2020]."""

    fragment: int = Field(32, ge=1, description="decisions per environment and update")
    buffer_batches: int = Field(4, ge=1, description="batches that updates draw from at random")
    epochs: int = Field(2, ge=1, description="passes over each batch")
    target_every: float = Field(4.0, gt=0, description="rounds of the buffer between moves of the target")
    clip: float = Field(0.2, gt=0, description="largest change of the probability ratio")
    learning_rate: float = Field(3e-4, gt=0, description="learning rate at the start of training")
    entropy: float = Field(0.0, ge=0, description="weight of the entropy bonus")
    value_weight: float = Field(0.5, ge=0, description="weight of the critic's loss")
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")


@register
class AppoAlgorithm(RllibAlgorithm):
    """Asynchronous PPO: runners sample while a thread learns.

    The clipped surrogate of PPO, with advantages and value targets by V-trace: importance ratios of the
    target policy to the policy that sampled, cut off at 1 [Luo et al. 2020; Espeholt et al. 2018, eq. 1].
    """

    name = "appo"
    summary = "asynchronous PPO: runners sample while a learner trains, with V-trace correction, by Ray RLlib"
    source = "Luo et al. 2020; Espeholt et al. 2018"
    sections: ClassVar[dict[str, type[Frozen]]] = {"appo": Appo}
    warm_starts = True
    default_runners = 1
    reports = ("policy_loss", "vf_loss", "entropy", "mean_IS")

    def fragment(self, config: TrainConfig) -> int:
        """Decisions per environment and update."""
        return config.section(Appo).fragment

    def parts(self) -> RllibParts:
        """RLlib's APPO with our learner."""
        from ray.rllib.algorithms.appo import APPOConfig

        from rlsched.learn.algorithms.learners.appo import SupervisedAPPO, TimedAPPOLearner
        from rlsched.learn.networks.module import TargetedModule

        return RllibParts(APPOConfig(algo_class=SupervisedAPPO), TimedAPPOLearner, TargetedModule)

    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of RLlib's APPO."""
        appo = config.section(Appo)
        return {
            "clip_param": appo.clip,
            "entropy_coeff": appo.entropy,
            "vf_loss_coeff": appo.value_weight,
            "use_kl_loss": False,
            "grad_clip": appo.gradient_clip,
            "circular_buffer_num_batches": appo.buffer_batches,
            "circular_buffer_iterations_per_batch": appo.epochs,
            "target_network_update_freq": appo.target_every,
            "train_batch_size_per_learner": config.sampling.envs_per_runner * appo.fragment,
        }
