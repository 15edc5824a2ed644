"""REINFORCE with the mean of trajectories as the baseline [Williams 1992; Cunha 2022, algorithm 1]."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator

from rlsched.learn.algorithms.base import Algorithm, register
from rlsched.learn.config.sections import Sampling
from rlsched.settings import Frozen, SettingError

if TYPE_CHECKING:
    from rlsched.envs.episodes import EpisodeFeed
    from rlsched.learn.config.training import ResolvedConfig, TrainConfig
    from rlsched.learn.engine import Engine


class Reinforce(Frozen):
    """Policy gradient against the mean of trajectories of the same jobs [Cunha 2022, algorithm 1]."""

    episodes: int = Field(1, ge=1, description="training episodes per step")
    trajectories: int = Field(16, ge=2, description="trajectories of each episode, side by side")
    workers: int = Field(
        1,
        ge=1,
        description="workers that share the trajectories of an episode, each with the mean of its own as "
        "baseline; 1: the mean of all (centralised)",
    )
    learning_rate: float = Field(1e-3, gt=0, description="constant learning rate")
    entropy: float = Field(
        0.0,
        ge=0,
        description="weight of the entropy of every decision, relative to its return to the end of the "
        "episode",
    )
    minibatch: int = Field(4096, ge=1, description="decisions whose gradients are computed at once")

    @model_validator(mode="after")
    def _shares(self) -> Reinforce:
        if self.trajectories % self.workers or self.trajectories < 2 * self.workers:
            raise SettingError(
                "workers",
                f"value {self.workers}: {self.trajectories} trajectories are not two or more for each",
                "set a smaller number that divides reinforce.trajectories",
            )
        return self


@register
class ReinforceAlgorithm(Algorithm):
    """REINFORCE: policy gradient without a critic.

    REINFORCE maximises the mean of log pi(a_k | s_k) (R_k - mean of R_k over trajectories of the same jobs).
    R_k is the discounted return from the k-th decision on [Williams 1992; Mao et al. 2016, 3.3; Cunha 2022,
    algorithm 1].
    """

    name = "reinforce"
    summary = (
        "Monte Carlo policy gradient; the baseline is the mean return of trajectories of the same jobs, of "
        "all or by worker; needs no Ray"
    )
    source = "Williams 1992; Mao et al. 2016; Cunha 2022"
    sections: ClassVar[dict[str, type[Frozen]]] = {"reinforce": Reinforce}
    engine = "reinforce"

    def check(self, config: TrainConfig) -> None:
        """Refuse settings of runners and learners, which this algorithm does not use."""
        if config.network.kind == "priority":
            raise SettingError("network.kind", "value priority: not supported by algo=reinforce", "remove it")
        if config.sampling.runners:
            raise SettingError(
                "sampling.runners",
                "not supported by algo=reinforce, which samples in its own process",
                "remove it",
            )
        for name, field in Sampling.model_fields.items():
            value = getattr(config.sampling, name)
            resolved = (name, value) == ("replicas", 1)
            if name != "runners" and value != field.default and not resolved:
                raise SettingError(
                    f"sampling.{name}",
                    "not supported by algo=reinforce",
                    "remove it, or set reinforce.trajectories",
                )
        for name in ("learners", "gpus_per_learner"):
            if getattr(config, name) != type(config).model_fields[name].default:
                raise SettingError(
                    name, "not supported by algo=reinforce, which learns in its own process", "remove it"
                )

    def open_engine(self, config: ResolvedConfig, feed: EpisodeFeed, iteration: int, steps: int) -> Engine:
        """Build the engine, ready to train."""
        from rlsched.learn.algorithms.learners.reinforce import ReinforceEngine

        return ReinforceEngine(config, feed, iteration)
