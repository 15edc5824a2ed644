"""Sections of a training file that all algorithms share: networks, sampling, warm start, validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from rlsched.evaluate.measures import METRICS
from rlsched.settings import Frozen

Width = Annotated[int, Field(ge=1)]


class Network(Frozen):
    """The policy and value networks."""

    kind: Literal["job_scorer", "mlp", "cnn", "priority"] = Field(
        "job_scorer",
        description="job_scorer: every job scored alike, in its context; mlp: one flat network; cnn: "
        "convolutions over the image of the grid; priority: a linear or small function of job and queue",
    )
    size: Literal["small", "medium", "large"] = Field("small", description="size of the encoder (cnn)")
    units: tuple[Width, ...] | None = Field(
        None, description="units of each resource, columns of the image (cnn); null: those of the scenario"
    )
    priority_units: int = Field(0, ge=0, description="hidden units of a priority function; 0: linear")
    hidden: tuple[Width, ...] = Field((64, 64), min_length=1, description="units per layer of the policy")
    critic_hidden: tuple[Width, ...] = Field(
        (128, 128), min_length=1, description="units per layer of the value function"
    )
    attention: int = Field(
        0,
        ge=0,
        le=256,
        description="attention heads that pool the visible jobs (job_scorer), as 4, where it matters "
        "which of many jobs wait; the time grows with the jobs; 0: the plain mean alone",
    )
    lstm: int = Field(
        0,
        ge=0,
        description="units of an LSTM, the policy's memory of the episode (job_scorer, mlp, cnn; ppo, "
        "cocorl); 0: none",
    )
    lstm_steps: int = Field(32, ge=1, description="decisions per training sequence of the LSTM")


class Pid(Frozen):
    """PID controller of the penalty multiplier of a limit, one for each limit [Stooke et al. 2020].

    Costs and errors are in units of an episode's usual cost under first come, first served, or of the limit
    where that is more; those of a search in units of validation's limit.
    """

    kp: float = Field(10.0, ge=0, description="gain of the error, smoothed")
    ki: float = Field(0.5, ge=0, description="gain of the sum of errors")
    kd: float = Field(10.0, ge=0, description="gain of the rise of costs; kp=0 kd=0: plain Lagrange")
    error_smoothing: float = Field(0.95, ge=0, lt=1, description="share of the old error kept per move")
    cost_smoothing: float = Field(0.9, ge=0, lt=1, description="share of the old cost kept per move")
    delay: int = Field(15, ge=1, description="moves over which the rise of costs is measured")
    integral_limit: float = Field(10.0, ge=0, description="largest sum of errors times its gain")
    largest_error: float | None = Field(
        None, gt=0, description="errors are clipped to it, up and down; null: not clipped"
    )
    initial: float = Field(
        0.0,
        ge=0,
        description="initial integral; also the multiplier of ppo and cocorl until costs are known",
    )


class LearningRates(Frozen):
    """Settings of every algorithm of RLlib's: the learning rate falls linearly over a run."""

    learning_rate: float = Field(1e-3, gt=0, description="learning rate at the start of training")
    final_learning_rate: float = Field(
        1e-5, ge=0, description="learning rate at the last step, reached linearly"
    )


class OfflineSettings(LearningRates):
    """Settings of every algorithm that learns from a dataset."""

    rows: int = Field(32_768, ge=1, description="decisions of the dataset per iteration")
    minibatch: int = Field(1024, ge=1, description="decisions per minibatch")
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")


class CriticSettings(OfflineSettings):
    """Settings of every algorithm with critics that can learn from a dataset."""

    renamed: ClassVar[Mapping[str, str]] = {"target_share": "tau", "logit_value": "logit_scale"}

    minibatch: int = Field(512, ge=1, description="decisions per minibatch")
    learning_rate: float = Field(4e-4, gt=0, description="learning rate at the start of training")
    tau: float = Field(0.04, gt=0, le=1, description="update rate of the target networks, per minibatch")
    n_step: int = Field(
        64,
        ge=1,
        description="decisions of the critics' n-step targets; fewer where a row group of a dataset "
        "holds no more of an episode",
    )
    logit_scale: float = Field(
        0.01, gt=0, description="initial scale from logits to Q values, for returns of about 1"
    )


class WarmStart(Frozen):
    """Imitation of a teacher before reinforcement learning."""

    teacher: str | None = Field(
        None,
        description="a heuristic, or the folder of a trained policy; left out: none, but with a horizon "
        "sjf where waits are rewarded, else packing (ppo, cocorl, appo, dqn)",
    )
    decisions: int = Field(50_000, ge=0, description="decisions of the teacher to imitate; 0: none")
    epochs: int = Field(4, ge=1, description="passes over the teacher's decisions")
    learning_rate: float = Field(1e-3, gt=0, description="learning rate of the imitation")


class Sampling(Frozen):
    """Runners, environments, and decisions per iteration."""

    envs_per_runner: int = Field(64, ge=1, description="environments that a runner steps together")
    replicas: int | None = Field(
        None,
        ge=1,
        description="environments that play the same episodes, a baseline for each other; left out: 8 where "
        "that divides envs_per_runner and algo is ppo or cocorl, else 1",
    )
    candidates: int = Field(
        8,
        ge=1,
        description="random episodes from which each training episode is drawn, likelier the more its "
        "jobs wait under objective.baseline; without a baseline all are alike",
    )
    runners: int | None = Field(
        None,
        ge=0,
        description="remote runners; 0 plays in the learner's own process; left out: 0, or 1 for appo",
    )
    fragment: int = Field(512, ge=1, description="decisions per environment and iteration")
    hung_seconds: float | None = Field(
        60.0,
        gt=0,
        le=86_400,
        description="longest time for a remote runner to answer, a fragment included; then it is "
        "restarted; null: no limit",
    )
    restarts: int = Field(30, ge=0, description="largest number of restarts of each remote runner")
    batched: bool = Field(
        True, description="environments are stepped in arrays; false: one by one, by RLlib's own runner"
    )


class Validation(Frozen):
    """Selection of the best checkpoint, on fixed episodes of the training split, played greedily."""

    episodes: int | None = Field(
        None,
        ge=1,
        description="validation episodes; left out: 128, or 32 where the clock ends them (not cocorl)",
    )
    every: int = Field(3, ge=1, description="iterations between validations")
    patience: int | None = Field(None, ge=1, description="validations without a better one before stopping")
    until_better: bool = Field(
        False,
        description="stop once a policy within all limits is better than the best heuristic by interval",
    )
    metric: str | None = Field(
        None,
        description="metric that chooses the best policy; left out: bounded_slowdown; where the clock ends "
        "episodes job_value_ratio, or on_time_value_ratio with the reward on_time_value",
    )

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and name not in METRICS:
            raise ValueError(f"unknown metric; one of {', '.join(METRICS)}")
        return name


class ResolvedSampling(Sampling):
    """Sampling of a run whose defaults are resolved."""

    replicas: int
    runners: int


class ResolvedValidation(Validation):
    """Validation of a run whose defaults are resolved."""

    episodes: int
    metric: str
