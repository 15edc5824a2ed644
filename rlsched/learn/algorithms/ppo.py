"""PPO: proximal policy optimisation [Schulman et al. 2017], within limits of costs [Stooke et al. 2020]."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from rlsched.learn.algorithms.base import RllibAlgorithm, RllibParts, register
from rlsched.learn.config.sections import LearningRates, Pid
from rlsched.settings import Frozen, SettingError

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig, TrainConfig
    from rlsched.scenario import Scenario

FRAGMENT = 64
"""Default decisions per environment in a batch."""

LAMBDA_PER_HOUR, LAMBDA_PER_TICK = 0.9, 0.98
"""Default `ppo.gae_lambda`, per simulated hour, and per tick with a horizon.

Reasons are in docs/decisions/0012-advantages-of-hours.md and 0013-imitation-instead-of-weights.md.
"""

LIMIT_REPORTS = ("cost", "error", "proportional", "integral", "derivative", "multiplier")
"""Figures of each constraint for metrics.csv; costs and errors in the cost's own unit.

An error is a cost less its goal; the goal is the limit less its margin.
"""


class Ppo(LearningRates):
    """Proximal policy optimisation [Schulman et al. 2017], within the limits of objective.costs."""

    fragment: int | None = Field(
        None,
        ge=1,
        description="decisions per environment and batch; left out: 64, or sampling.fragment where that is "
        "no multiple of it",
    )
    gae_lambda: float | None = Field(
        None,
        ge=0,
        le=1,
        description="lambda of GAE, per tick; left out: 0.9 an hour, with a horizon 0.98 a tick, for "
        "cocorl gamma",
    )
    clip: float = Field(0.2, gt=0, description="largest change of the probability ratio")
    learning_rate: float = Field(
        2e-3,
        gt=0,
        description="learning rate at the start of training; that of the policy also falls with the "
        "temperature",
    )
    final_learning_rate: float = Field(1e-4, ge=0, description="learning rate at the end, reached linearly")
    entropy: float = Field(0.03, ge=0, description="weight of the entropy bonus")
    final_entropy: float = Field(5e-4, ge=0, description="weight at the end, reached linearly")
    final_temperature: float = Field(
        0.05, gt=0, description="final divisor of logits, falling from 1 over the first half of a run"
    )
    value_weight: float = Field(0.5, ge=0, description="weight of the critic's loss")
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")
    epochs: int = Field(4, ge=1, description="passes over each batch")
    minibatch: int = Field(1024, ge=1, description="decisions per minibatch")
    cost_lambda: float | None = Field(
        None, ge=0, le=1, description="lambda of GAE for costs, per tick; left out: as gae_lambda"
    )
    pid: Pid = Field(
        Pid(
            kp=2.0,
            ki=0.05,
            kd=0.0,
            error_smoothing=0.8,
            integral_limit=1.0,
            largest_error=0.5,
            initial=1.0,
        ),
        description="of the multipliers of limits",
    )
    calibration: float | None = Field(
        0.4,
        ge=0,
        lt=1,
        description="share of a run after which validations calibrate the no-op's bias within the "
        "limits; null: never",
    )


@register
class PpoAlgorithm(RllibAlgorithm):
    """Proximal policy optimisation with GAE, and with multipliers for costs with limits.

    PPO maximises E[min(r A, clip(r, 1 - c, 1 + c) A)] + entropy bonus, where r is the ratio of the action's
    probability under the new policy to that under the old one, and A is the advantage by GAE, less the
    advantages of costs times their multipliers [Schulman et al. 2017, eq. 7; Stooke et al. 2020].
    """

    name = "ppo"
    summary = "proximal policy optimisation of a network, from live rollouts by Ray RLlib"
    source = "Schulman et al. 2017"
    sections: ClassVar[dict[str, type[Frozen]]] = {"ppo": Ppo}
    warm_starts = True
    recurrent = True
    replicated = True
    within_limits = True
    reports = (
        "policy_loss",
        "vf_loss",
        "vf_explained_var",
        "cost_loss",
        "entropy",
        "approximate_kl",
        "clip_fraction",
        "gradient_norm",
        "noise_left",
    )
    limit_reports = LIMIT_REPORTS

    def check(self, config: TrainConfig) -> None:
        """Refuse sizes of batches, fragments and minibatches that do not fit together."""
        ppo, sampling, fragment = config.section(Ppo), config.sampling, self.fragment(config)
        if config.network.lstm and config.network.lstm_steps > min(fragment, ppo.minibatch):
            raise SettingError(
                "network.lstm_steps",
                f"value {config.network.lstm_steps} is more than the decisions of a fragment, {fragment}, or "
                f"of a minibatch, {ppo.minibatch}",
                "set less",
            )
        if sampling.fragment % fragment:
            raise SettingError(
                "sampling.fragment",
                f"value {sampling.fragment} is no multiple of {self.name}.fragment {ppo.fragment}",
                "set one of them so that an iteration is whole batches",
            )
        batch = self.batch(config)
        if ppo.minibatch > batch:
            raise ValueError(
                f"{self.name}.minibatch {ppo.minibatch} is more than the {batch} decisions of a batch"
            )

    def defaults(self, config: TrainConfig, scenario: Scenario) -> Mapping[str, object]:
        """Default lambda of GAE."""
        ppo = config.section(Ppo)
        if ppo.gae_lambda is not None:
            return {}
        return {self.section: ppo.model_copy(update={"gae_lambda": self.usual_lambda(scenario)})}

    def usual_lambda(self, scenario: Scenario) -> float:
        """Default lambda of GAE, per tick."""
        if scenario.decision.tick_driven:
            return LAMBDA_PER_TICK
        return LAMBDA_PER_HOUR ** (scenario.cluster.tick_s / 3600)

    def calibration(self, config: TrainConfig) -> float | None:
        """Share of a run after which validation calibrates the no-op's bias."""
        return config.section(Ppo).calibration

    def fragment(self, config: TrainConfig) -> int:
        """Decisions per environment in a batch."""
        sampled = config.sampling.fragment
        return config.section(Ppo).fragment or (FRAGMENT if sampled % FRAGMENT == 0 else sampled)

    def batch(self, config: TrainConfig) -> int:
        """Decisions of all runners together in a batch, after which multipliers move."""
        sampling = config.sampling
        return sampling.envs_per_runner * self.fragment(config) * max(1, sampling.runners or 0)

    def parts(self) -> RllibParts:
        """RLlib's PPO with our learner, and multipliers for limits."""
        from ray.rllib.algorithms.ppo import PPOConfig

        from rlsched.learn.algorithms.learners.cocorl import ConstrainedPPO
        from rlsched.learn.algorithms.learners.ppo import TimedPPOLearner
        from rlsched.learn.networks.module import ConstrainedModule

        return RllibParts(PPOConfig(algo_class=ConstrainedPPO), TimedPPOLearner, ConstrainedModule)

    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of RLlib's PPO."""
        ppo = config.section(Ppo)
        return {
            "clip_param": ppo.clip,
            "entropy_coeff": ppo.entropy,
            "vf_loss_coeff": ppo.value_weight,
            "vf_clip_param": float("inf"),
            "use_kl_loss": False,
            "grad_clip": ppo.gradient_clip,
            "num_epochs": ppo.epochs,
            "minibatch_size": ppo.minibatch,
            "train_batch_size_per_learner": self.batch(config) // max(1, config.learners),
        }

    def learning_rates(self, config: ResolvedConfig) -> float:
        """Initial learning rate; the learner lowers it (`TimedPPOLearner.set_run_fraction`)."""
        return config.section(Ppo).learning_rate

    def shorten(self, config: ResolvedConfig, rllib: Any, share: float) -> int:
        """Shorten fragments: a batch is one fragment of every environment."""
        length = ceil(share * self.fragment(config))
        batch = length * (self.batch(config) // self.fragment(config))
        batches = ceil(config.decisions_per_iteration / self.batch(config))
        rllib.train_batch_size_per_learner = batch // max(1, config.learners)
        rllib.min_sample_timesteps_per_iteration = batch * batches
        return length
