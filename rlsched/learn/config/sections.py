"""Sections of a training file: the networks, each algorithm, who plays, how the best is found."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from rlsched.evaluate.measures import METRICS
from rlsched.settings import Frozen, SettingError

Width = Annotated[int, Field(ge=1)]


class Network(Frozen):
    """The policy and value networks."""

    kind: Literal["job_scorer", "mlp", "cnn", "priority"] = Field(
        "job_scorer",
        description="job_scorer: every job scored alike, in its context; mlp: one flat network; cnn: "
        "convolutions over the image of the grid; priority: a linear or small function of job and queue",
    )
    size: Literal["small", "medium", "large"] = Field("small", description="of the encoder (cnn)")
    units: tuple[Width, ...] | None = Field(
        None, description="units of each resource, columns of the image (cnn); null: those of the scenario"
    )
    priority_units: int = Field(0, ge=0, description="hidden units of a priority function; 0: linear")
    hidden: tuple[Width, ...] = Field((64, 64), min_length=1, description="units per layer of the policy")
    critic_hidden: tuple[Width, ...] = Field((128, 128), min_length=1, description="of the value function")
    attention: int = Field(
        0,
        ge=0,
        le=256,
        description="means over the jobs in sight, weighted by what is learned (job_scorer), as 4, where it "
        "matters which of many jobs wait; costs grow with the jobs; 0: the plain mean alone",
    )
    lstm: int = Field(
        0,
        ge=0,
        description="units of an LSTM that remembers what the policy has seen of an episode (job_scorer, "
        "mlp, cnn; ppo, cocorl); 0: none",
    )
    lstm_steps: int = Field(32, ge=1, description="decisions in a row that it learns from")


class Pid(Frozen):
    """A controller of what breaking a limit costs, one for each [Stooke et al. 2020].

    Costs and errors are in units of what an episode usually costs, first come, first served, or of the limit
    where that is more; those of a search in units of what validation allows.
    """

    kp: float = Field(10.0, ge=0, description="gain of the error, smoothed")
    ki: float = Field(0.5, ge=0, description="gain of the sum of errors")
    kd: float = Field(10.0, ge=0, description="gain of the rise of costs; kp=0 kd=0: plain Lagrange")
    error_smoothing: float = Field(0.95, ge=0, lt=1, description="share of the old error kept per move")
    cost_smoothing: float = Field(0.9, ge=0, lt=1, description="share of the old cost kept per move")
    delay: int = Field(15, ge=1, description="moves over which a rise is looked at")
    integral_limit: float = Field(10.0, ge=0, description="largest sum of errors times its gain")
    largest_error: float | None = Field(None, gt=0, description="that counts, up or down; null: any")
    initial: float = Field(
        0.0,
        ge=0,
        description="integral at first; the multiplier of ppo and cocorl until costs are known",
    )


class Ppo(Frozen):
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
        description="of advantages, per tick; left out: 0.9 an hour, with a horizon 0.98 a tick, "
        "of cocorl gamma",
    )
    clip: float = Field(0.2, gt=0)
    learning_rate: float = Field(2e-3, gt=0, description="of the policy it falls with the temperature, too")
    final_learning_rate: float = Field(1e-4, ge=0, description="reached linearly at the end")
    entropy: float = Field(0.03, ge=0, description="weight of the entropy bonus")
    final_entropy: float = Field(5e-4, ge=0, description="reached linearly at the end")
    final_temperature: float = Field(
        0.05, gt=0, description="that logits are divided by, falling from 1 over the first half of a run"
    )
    value_weight: float = Field(0.5, ge=0)
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")
    epochs: int = Field(4, ge=1)
    minibatch: int = Field(1024, ge=1, description="decisions")
    cost_lambda: float | None = Field(
        None, ge=0, le=1, description="of the advantages of costs, per tick; left out: as gae_lambda"
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
        description="share of a run after which validations move the no-op's bias, where another is better "
        "within the limits; null: they never do",
    )


class Cocorl(Ppo):
    """The same where limits are what matters: a cost without a limit is refused [Venkataswamy 2023, 6]."""

    fragment: int | None = Field(128, ge=1, description="decisions per environment and batch")
    learning_rate: float = Field(1e-3, gt=0)
    epochs: int = Field(2, ge=1)
    minibatch: int = Field(2048, ge=1, description="decisions")
    entropy: float = Field(0.0, ge=0, description="weight of the entropy bonus")
    final_entropy: float = Field(0.0, ge=0, description="reached linearly at the end")
    final_temperature: float = Field(
        1.0, gt=0, description="that logits are divided by, falling from 1 over the first half of a run"
    )
    cost_lambda: float | None = Field(0.98, ge=0, le=1, description="of the advantages of costs, per tick")
    pid: Pid = Field(Pid(), description="of the multipliers of limits")
    calibration: float | None = Field(None, ge=0, lt=1, description="as of ppo")


class Appo(Frozen):
    """Asynchronous PPO: runners play on while a thread learns, corrected by V-trace [Luo et al. 2020]."""

    fragment: int = Field(32, ge=1, description="decisions per environment and update")
    buffer_batches: int = Field(4, ge=1, description="batches that are learned from at random")
    epochs: int = Field(2, ge=1, description="times that each of them is")
    target_every: float = Field(4.0, gt=0, description="rounds of the buffer between moves of the target")
    clip: float = Field(0.2, gt=0)
    learning_rate: float = Field(3e-4, gt=0)
    final_learning_rate: float = Field(1e-5, ge=0, description="reached linearly at the last step")
    entropy: float = Field(0.0, ge=0)
    value_weight: float = Field(0.5, ge=0)
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")


class Dqn(Frozen):
    """Deep Q-learning: double and dueling [van Hasselt et al. 2016; Wang et al. 2016]."""

    every: int = Field(8, ge=1, description="decisions per environment between updates")
    batch: int = Field(1024, ge=1, description="decisions per update")
    buffer: int = Field(
        200_000, ge=1, description="decisions that are remembered, somewhat less where episodes are short"
    )
    learning_starts: int = Field(
        10_000, ge=0, description="decisions before the first update, and again after --resume"
    )
    target_share: float = Field(0.02, gt=0, le=1, description="of the way that targets follow per update")
    epsilon: float = Field(0.1, ge=0, le=1, description="share of random decisions at first")
    final_epsilon: float = Field(0.02, ge=0, le=1)
    epsilon_steps: int = Field(200_000, ge=1, description="decisions until then")
    logit_value: float = Field(
        0.01, gt=0, description="what a logit of the policy network is worth at first, of returns of about 1"
    )
    learning_rate: float = Field(5e-5, gt=0)
    final_learning_rate: float = Field(1e-5, ge=0, description="reached linearly at the last step")
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")


class Bc(Frozen):
    """Behavioural cloning: to choose what a dataset's behaviours chose."""

    rows: int = Field(32_768, ge=1, description="decisions of the dataset per iteration")
    minibatch: int = Field(1024, ge=1, description="decisions")
    learning_rate: float = Field(1e-3, gt=0)
    final_learning_rate: float = Field(1e-5, ge=0, description="reached linearly at the last step")
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")


class Marwil(Bc):
    """The same, more so where more was earned than expected [Wang et al. 2018]."""

    beta: float = Field(
        1.0, gt=0, le=1, description="weight of what was earned beyond expectation; towards 0 it is bc"
    )
    value_weight: float = Field(1.0, gt=0)


class WithCritics(Bc):
    """What learns what actions are worth."""

    minibatch: int = Field(512, ge=1, description="decisions")
    learning_rate: float = Field(4e-4, gt=0)
    target_share: float = Field(0.04, gt=0, le=1, description="of the way that targets follow per minibatch")
    n_step: int = Field(
        64,
        ge=1,
        description="decisions that are looked at as they were before critics say what follows; fewer where "
        "no more of an episode stand together in a row group of a dataset",
    )
    logit_value: float = Field(
        0.01, gt=0, description="what a logit is worth to the critics at first, of returns of about 1"
    )


class Cql(WithCritics):
    """Q-learning that trusts what the dataset shows, for choices among actions [Kumar et al. 2020]."""

    conservative: float = Field(
        0.001,
        ge=0,
        description="weight of how far the dataset's actions are below the soft maximum; 0: plain Q-learning",
    )
    temperature: float = Field(
        0.01, ge=1e-6, description="of the soft maximum, in units of reward of returns of about 1"
    )


class Rare(WithCritics):
    """An actor and twin critics, from a dataset or from play [Venkataswamy 2023]."""

    logit_value: float = Field(
        0.05, gt=0, description="what a logit is worth to the critics at first, of returns of about 1"
    )
    norm_rate: float = Field(
        2e-3, gt=0, le=1, description="by which the scale of the critics follows the targets, per minibatch"
    )
    spreads: float = Field(
        20.0,
        ge=1,
        le=100,
        description="of the targets, that a unit of the critics is: Adam moves what they say by so much of a "
        "unit per minibatch, so that they follow slowly in units of 1",
    )
    imitate: int = Field(
        200_000, ge=0, description="rows of a dataset that are imitated as they are, before others are judged"
    )
    weights: Literal["best", "binary", "exp"] = Field(
        "best",
        description="what is imitated then: best, the critics' best action; of recorded ones (CRR) binary, "
        "those above the policy's value; exp, all by their exponentiated advantage",
    )
    best_temperature: float = Field(
        0.003,
        ge=1e-6,
        description="of best: what actions have to differ by to be told apart, of returns of about 1",
    )
    conservative: float = Field(0.001, ge=0, description="of best, while reading: as cql.conservative")
    conservative_temperature: float = Field(
        0.01, ge=1e-6, description="of best, while reading: as cql.temperature"
    )
    beta: float = Field(1.0, gt=0, description="of exp, in standard deviations of the advantages")
    actor: Literal["critics", "played"] = Field(
        "played",
        description="what the actor goes by while playing: critics, what they think of every action; played, "
        "what came of the newest decisions, and critics say only what was to be expected",
    )
    clip: float = Field(0.2, gt=0, description="of played: how far a decision's probability goes at once")
    epochs: int = Field(2, ge=1, description="of played: times that the newest decisions are learned from")
    actor_minibatch: int = Field(2048, ge=1, description="of played: decisions")
    temperature: float = Field(
        1e-4, gt=0, description="of critics: what entropy is worth at first, of returns of about 1"
    )
    entropy: float = Field(
        0.03, ge=0, lt=1, description="of critics: to be kept, of the greatest that a choice can have"
    )
    every: int = Field(512, ge=1, description="decisions per environment between lessons, while playing")
    batch: int = Field(
        32_768, ge=1, description="decisions that critics remember in a lesson, in minibatches, while playing"
    )
    buffer: int = Field(200_000, ge=1, description="decisions that are remembered of what was played")
    learning_starts: int = Field(
        10_000, ge=0, description="decisions played before the first update by them, and after --resume"
    )
    epsilon: float = Field(0.0, ge=0, le=1, description="share of random decisions at first, while playing")
    final_epsilon: float = Field(0.0, ge=0, le=1)
    epsilon_steps: int = Field(100_000, ge=1, description="decisions played until then")


class Launchpad(Frozen):
    """The same, from a dataset first and then from play [Venkataswamy 2023, 7.4]."""

    rows: int = Field(1_000_000, ge=1, description="of the dataset that are read before anything is played")
    share: float = Field(
        0.25, ge=0, lt=1, description="of every batch that still comes from the dataset while playing"
    )
    heat: float = Field(
        3.0,
        ge=1,
        description="that the policy's logits are divided by while playing: what was read makes it too sure, "
        "and who is sure tries nothing",
    )


class Reinforce(Frozen):
    """Policy gradient against the mean of trajectories of the same jobs [Cunha 2022, algorithm 1]."""

    episodes: int = Field(1, ge=1, description="training episodes per step")
    trajectories: int = Field(16, ge=2, description="times that each of them is played, side by side")
    workers: int = Field(
        1,
        ge=1,
        description="that share the trajectories of an episode, each with the mean of its own as baseline; "
        "1: the mean of all (centralised)",
    )
    learning_rate: float = Field(1e-3, gt=0)
    entropy: float = Field(
        0.0, ge=0, description="of every decision, beside what is earned from it to the end of the episode"
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


class Search(Frozen):
    """Evolution of a priority function [Hansen 2016]."""

    population: int = Field(24, ge=4, description="candidates per generation")
    episodes: int = Field(16, ge=1, description="training episodes that all of them play")
    sigma: float = Field(0.3, gt=0, description="initial step size")
    pid: Pid = Field(
        Pid(kp=1.0, ki=0.2, kd=0.0, error_smoothing=0.9),
        description="of what waits, spans and unfinished jobs near the limits of hoarding cost a candidate, "
        "in shares of the usual return",
    )
    start: str | None = Field(
        None,
        description="folder of a trained priority function that the search begins with, of any cluster or "
        "window; null: zeros, on a horizon what fills the cluster",
    )


class WarmStart(Frozen):
    """Imitation of a teacher before reinforcement learning."""

    teacher: str | None = Field(
        None,
        description="a queue order, or the folder of a trained policy; left out: none, but with a horizon "
        "sjf where waits are rewarded, else packing (ppo, cocorl, appo, dqn)",
    )
    decisions: int = Field(50_000, ge=0, description="of the teacher, that are learned from; 0: none")
    epochs: int = Field(4, ge=1)
    learning_rate: float = Field(1e-3, gt=0)


class Sampling(Frozen):
    """Who plays, and how much per iteration."""

    envs_per_runner: int = Field(64, ge=1)
    replicas: int | None = Field(
        None,
        ge=1,
        description="environments that play the same episodes, a baseline for each other; left out: 8 where "
        "that divides envs_per_runner and algo is ppo or cocorl, else 1",
    )
    candidates: int = Field(
        8,
        ge=1,
        description="random episodes that each is drawn from, likelier the more its jobs wait under the "
        "baseline; without objective.baseline any",
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
        description="that a remote runner may take to answer, a fragment included; then it is started again; "
        "null: for ever",
    )
    restarts: int = Field(30, ge=0, description="times that each remote runner may be started again")
    batched: bool = Field(
        True, description="environments are stepped in arrays; false: one by one, by RLlib's own runner"
    )


class Validation(Frozen):
    """How the best checkpoint is found: fixed episodes of the training split, played greedily."""

    episodes: int | None = Field(
        None, ge=1, description="left out: 128, or 32 where the clock ends them, which is late (not cocorl)"
    )
    every: int = Field(3, ge=1, description="iterations")
    patience: int | None = Field(None, ge=1, description="validations without a better one before stopping")
    until_better: bool = Field(
        False,
        description="stop once a policy within all limits is better than the best heuristic by interval",
    )
    metric: str | None = Field(
        None,
        description="which is to be best; left out: bounded_slowdown, or job_value_ratio where the clock "
        "ends episodes",
    )

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and name not in METRICS:
            raise ValueError(f"unknown metric; one of {', '.join(METRICS)}")
        return name
