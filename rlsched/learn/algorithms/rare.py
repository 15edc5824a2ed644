"""RARE: an actor and twin critics, offline or online [Venkataswamy 2023]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from rlsched.learn.algorithms.base import DatasetUse, RllibAlgorithm, RllibParts, check_buffer, register
from rlsched.learn.algorithms.bc import AGREEMENT
from rlsched.learn.algorithms.cql import GAP
from rlsched.learn.config.sections import CriticSettings
from rlsched.settings import Frozen, SettingError

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig, TrainConfig


class Rare(CriticSettings):
    """Actor and twin critics, trained from a dataset or online [Venkataswamy 2023]."""

    renamed: ClassVar[Mapping[str, str]] = {
        **CriticSettings.renamed,
        "conservative": "cql_alpha",
        "conservative_temperature": "cql_temperature",
        "spreads": "value_scale",
    }

    logit_scale: float = Field(
        0.05, gt=0, description="initial scale from logits to Q values, for returns of about 1"
    )
    norm_rate: float = Field(
        2e-3, gt=0, le=1, description="update rate of the critics' normalisation, per minibatch"
    )
    value_scale: float = Field(
        20.0,
        ge=1,
        le=100,
        description="standard deviations of the targets in a unit of the critics; Adam moves outputs by "
        "a fixed share of a unit, so critics follow slowly in units of 1",
    )
    imitate: int = Field(200_000, ge=0, description="first rows of a dataset, which are imitated unweighted")
    weights: Literal["best", "binary", "exp"] = Field(
        "best",
        description="actions imitated after these rows: best, the critics' best action; of recorded ones "
        "(CRR) binary, those above the policy's value; exp, all, weighted by their exponentiated "
        "advantage",
    )
    best_temperature: float = Field(
        0.003,
        ge=1e-6,
        description="with weights=best: temperature of the softmax over Q values, in units of returns of "
        "about 1",
    )
    cql_alpha: float = Field(0.001, ge=0, description="with weights=best, offline: as cql.alpha")
    cql_temperature: float = Field(
        0.01, ge=1e-6, description="with weights=best, offline: as cql.temperature"
    )
    beta: float = Field(
        1.0, gt=0, description="with weights=exp: divisor of advantages, in their standard deviations"
    )
    actor: Literal["critics", "played"] = Field(
        "played",
        description="how the actor learns online: critics, from their Q values of all actions; played, "
        "by PPO's surrogate on the newest decisions, with the critics as baseline",
    )
    clip: float = Field(0.2, gt=0, description="with actor=played: largest change of the probability ratio")
    epochs: int = Field(2, ge=1, description="with actor=played: passes over the newest decisions")
    actor_minibatch: int = Field(2048, ge=1, description="with actor=played: decisions per minibatch")
    temperature: float = Field(
        1e-4, gt=0, description="with actor=critics: initial weight of the entropy, for returns of about 1"
    )
    entropy: float = Field(
        0.03,
        ge=0,
        lt=1,
        description="with actor=critics: goal of the entropy, as a share of the largest possible",
    )
    every: int = Field(512, ge=1, description="decisions per environment between updates, online")
    batch: int = Field(
        32_768, ge=1, description="decisions per update of the critics, in minibatches, online"
    )
    buffer: int = Field(200_000, ge=1, description="capacity of the replay buffer, in decisions")
    learning_starts: int = Field(
        10_000, ge=0, description="decisions before the first online update, and again after --resume"
    )
    epsilon: float = Field(0.0, ge=0, le=1, description="share of random decisions at first, online")
    final_epsilon: float = Field(0.0, ge=0, le=1, description="share of random decisions at the end")
    epsilon_steps: int = Field(100_000, ge=1, description="online decisions until final_epsilon is reached")


@dataclass(frozen=True)
class Phases:
    """Phases of a run: offline training, then online training."""

    read: float  # decisions of offline training from the dataset; infinite: all
    imitate: int  # first decisions of the dataset, which are imitated unweighted
    share: float  # share of a batch that comes from the dataset in online training


@register
class RareAlgorithm(RllibAlgorithm):
    """An actor and twin critics on one encoder [Venkataswamy 2023].

    Critics: the Huber loss against n-step double-Q targets of the less optimistic critic, with the
    conservative term of CQL while a dataset is read [Kumar et al. 2020]. Actor, from a dataset: it imitates
    the critics' best action, or the recorded ones by their advantage [Wang et al. 2020]; from play: the
    clipped surrogate of PPO [Schulman et al. 2017], or soft actor-critic [Christodoulou 2019].
    """

    name = "rare"
    summary = (
        "actor and twin critics on one encoder: with --dataset conservative or critic-regularised (CRR) "
        "learning; from its own episodes policy gradients, or discrete soft actor-critic (SAC)"
    )
    source = (
        "Venkataswamy 2023; Kumar et al. 2020; Wang et al. 2020; Schulman et al. 2017; Christodoulou 2019"
    )
    sections: ClassVar[dict[str, type[Frozen]]] = {"rare": Rare}
    dataset: ClassVar[DatasetUse] = "optional"
    whole_iterations = True
    reports = (
        "policy_loss",
        "critic_loss",
        "value_mean",
        "vf_explained_var",
        "better_share",
        GAP,
        "entropy",
        "temperature",
        AGREEMENT,
    )

    def check(self, config: TrainConfig) -> None:
        """Refuse a buffer or batch that is too small, and priority functions."""
        rare = config.section(Rare)
        if config.network.kind == "priority":
            raise SettingError(
                "network.kind", f"value priority: not supported by algo={self.name}", "remove it"
            )
        if not self.plays(config):
            return
        check_buffer(config, "rare", rare.every, rare.buffer)
        if rare.batch < rare.minibatch:
            raise SettingError(
                "rare.batch",
                f"value {rare.batch} is less than rare.minibatch {rare.minibatch}",
                "set more, or a smaller minibatch",
            )

    def fragment(self, config: TrainConfig) -> int:
        """Decisions per environment between updates."""
        return config.section(Rare).every

    def module_settings(self, config: ResolvedConfig) -> dict[str, Any]:
        """Temperature of rollouts."""
        return {"rollout_temperature": 1.0}

    def phases(self, config: ResolvedConfig) -> Phases:
        """Offline training alone, where there is a dataset; else online training alone."""
        return Phases(0.0 if config.dataset is None else inf, config.section(Rare).imitate, 0.0)

    def parts(self) -> RllibParts:
        """RLlib classes of our own."""
        from rlsched.learn.algorithms.learners.rare import RareLearner
        from rlsched.learn.algorithms.learners.rare_algorithm import RareConfig
        from rlsched.learn.networks.actor_critic import RareModule

        return RllibParts(RareConfig(), RareLearner, RareModule)

    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of `RareConfig.training`."""
        rare, decisions = config.section(Rare), config.decisions_per_iteration
        return {
            "grad_clip": rare.gradient_clip,
            "minibatch_size": rare.minibatch,
            "train_batch_size_per_learner": decisions // max(1, config.learners),
            "run_settings": {
                "phases": self.phases(config),
                "dataset": None if config.dataset is None else str(config.dataset),
                "read_before": steps,
                "rows": decisions,
            },
        }

    def shorten(self, config: ResolvedConfig, rllib: Any, share: float) -> None:
        """Reduce the decisions of a training step."""
        rllib.run_settings = rllib.run_settings | {"rows": ceil(share * config.decisions_per_iteration)}
