"""TrainConfig: how a policy is trained; with the Scenario beside it, all that a run depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rlsched.evaluate.measures import METRICS
from rlsched.offline.manifest import read_manifest
from rlsched.scenario import Scenario
from rlsched.scenario.beside import read_beside
from rlsched.settings import Frozen, SettingError, read_text, read_yaml, validate

Algorithm = Literal["ppo", "appo", "dqn", "priority_search", "bc", "marwil", "cql", "rare", "launchpad"]
FROM_DATASETS = ("bc", "marwil", "cql", "launchpad")
"""Algorithms that nothing can be learned with without a dataset; `rare` may have one."""
USUAL_STEPS, SEARCH_STEPS = 1_000_000, 100_000_000

IMPATIENT = {"slowdown", "bounded_slowdown", "wait_time", "terminal_bsld"}
"""Rewards for which short jobs should not wait for long ones."""

SLOWDOWN_PRIOR = {"duration": -1.0}
"""Where those are planned on a horizon: the shortest job first."""

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
    prior: dict[str, float] | None = Field(
        None,
        description="initial weights from job features straight to the score (job_scorer), learned further; "
        "null: networks.QUEUE_PRIOR, or with a horizon SLOWDOWN_PRIOR where slowdown or wait is rewarded and "
        "else HORIZON_PRIOR",
    )
    sharpness: float = Field(60.0, gt=0, description="logits per unit of the linear score (job_scorer)")
    gain: float = Field(6.0, gt=0, description="logits per unit of the network's score (job_scorer)")
    waiting: float | None = Field(
        None,
        description="initial logits of waiting over the best job (job_scorer), or its score (priority); "
        "above 0 where keeping processors for short jobs to come pays, as on overloaded machines; null: -4, "
        "or with a horizon 1 (priority)",
    )


class Ppo(Frozen):
    """Proximal policy optimisation from live rollouts [Schulman et al. 2017]."""

    gae_lambda: float | None = Field(
        None,
        ge=0,
        le=1,
        description="weight of what was seen against what the critic expects, per tick; left out: as "
        "objective.gamma",
    )
    clip: float = Field(0.2, gt=0)
    learning_rate: float = Field(3e-4, gt=0)
    final_learning_rate: float = Field(1e-5, ge=0, description="reached linearly at the last step")
    entropy: float = Field(0.0, ge=0)
    value_weight: float = Field(0.5, ge=0)
    gradient_clip: float = Field(0.5, gt=0, description="largest global norm of a gradient")
    epochs: int = Field(2, ge=1)
    minibatch: int = Field(2048, ge=1, description="decisions")


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

    minibatch: int = Field(256, ge=1, description="decisions")
    learning_rate: float = Field(3e-4, gt=0)
    target_share: float = Field(0.02, gt=0, le=1, description="of the way that targets follow per minibatch")
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
        0.01, gt=0, description="of the soft maximum, in units of reward of returns of about 1"
    )


class Rare(WithCritics):
    """An actor and twin critics, from a dataset or from play [Venkataswamy 2023]."""

    norm_rate: float = Field(
        1e-3, gt=0, le=1, description="by which the scale of the critics follows the targets, per minibatch"
    )
    imitate: int = Field(
        200_000, ge=0, description="rows of a dataset that are imitated as they are, before others are judged"
    )
    weights: Literal["binary", "exp"] = Field(
        "binary",
        description="what is imitated then: binary, what is better than what the policy does; exp, all, the "
        "more so the better",
    )
    beta: float = Field(1.0, gt=0, description="of exp, in standard deviations of the advantages")
    temperature: float = Field(
        0.001, gt=0, description="what entropy is worth at first, while playing, of returns of about 1"
    )
    entropy: float = Field(
        0.1, ge=0, lt=1, description="to be kept while playing, of the greatest that a choice can have"
    )
    every: int = Field(64, ge=1, description="decisions per environment between lessons, while playing")
    batch: int = Field(8192, ge=1, description="decisions that a lesson has, in minibatches, while playing")
    buffer: int = Field(200_000, ge=1, description="decisions that are remembered of what was played")
    learning_starts: int = Field(
        10_000, ge=0, description="decisions played before the first update by them, and after --resume"
    )
    epsilon: float = Field(0.1, ge=0, le=1, description="share of random decisions at first, while playing")
    final_epsilon: float = Field(0.0, ge=0, le=1)
    epsilon_steps: int = Field(100_000, ge=1, description="decisions played until then")


class Launchpad(Frozen):
    """The same, from a dataset first and then from play [Venkataswamy 2023, 7.4]."""

    rows: int = Field(1_000_000, ge=1, description="of the dataset that are read before anything is played")
    share: float = Field(
        0.5, ge=0, lt=1, description="of every batch that still comes from the dataset while playing"
    )


class Search(Frozen):
    """Evolution of a priority function [Hansen 2016]."""

    population: int = Field(24, ge=4, description="candidates per generation")
    episodes: int = Field(16, ge=1, description="training episodes that all of them play")
    sigma: float = Field(0.3, gt=0, description="initial step size")
    start: str | None = Field(
        None,
        description="folder of a trained priority function that the search begins with, of any cluster or "
        "window; null: as network.prior and network.waiting say",
    )


class WarmStart(Frozen):
    """Imitation of a teacher before reinforcement learning."""

    teacher: str = Field(description="a queue order, or the folder of a trained policy")
    decisions: int = Field(200_000, ge=1, description="of the teacher, that are learned from")
    epochs: int = Field(4, ge=1)
    learning_rate: float = Field(1e-3, gt=0)


class Sampling(Frozen):
    """Who plays, and how much per iteration."""

    envs_per_runner: int = Field(64, ge=1)
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
        None, ge=1, description="left out: 128, or 32 where the clock ends them, which is late"
    )
    every: int = Field(5, ge=1, description="iterations")
    patience: int | None = Field(None, ge=1, description="validations without a better one before stopping")
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


class TrainConfig(Frozen):
    """How a policy is trained."""

    schema_version: Literal[1] = 1
    algo: Algorithm = "ppo"
    seed: int = Field(0, ge=0)
    steps: int | None = Field(
        None, ge=1, description="decisions; left out: 1,000,000, or 100,000,000 for priority_search"
    )
    minutes: float | None = Field(None, gt=0, description="stop after this long, whatever the steps")
    network: Network = Network()
    ppo: Ppo = Ppo()
    appo: Appo = Appo()
    dqn: Dqn = Dqn()
    bc: Bc = Bc()
    marwil: Marwil = Marwil()
    cql: Cql = Cql()
    rare: Rare = Rare()
    launchpad: Launchpad = Launchpad()
    search: Search = Search()
    dataset: Path | None = Field(None, description="folder of the dataset that is learned from")
    warm_start: WarmStart | None = Field(None, description="null: as the network is built")
    sampling: Sampling = Sampling()
    validation: Validation = Validation()
    averaging: float = Field(
        0.8,
        ge=0,
        lt=1,
        description="share of the old weights kept per iteration in the policy that is validated and kept, "
        "an average of what was learned [Polyak and Juditsky 1992]; 0: the newest",
    )
    stalled_minutes: float | None = Field(
        30.0, gt=0, description="that an iteration may take; then the run stops; null: for ever"
    )
    learners: int = Field(0, ge=0, description="remote learners; 0 learns in the driver's process")
    gpus_per_learner: float = Field(0, ge=0)

    def settled(self, scenario: Scenario) -> TrainConfig:
        """The same with what was left out to be told by the scenario and the algorithm."""
        by_clock = scenario.episode.end == "max_ticks"
        checked = self.validation
        validation = checked.model_copy(
            update={
                "metric": checked.metric or ("job_value_ratio" if by_clock else "bounded_slowdown"),
                "episodes": checked.episodes or (32 if by_clock else 128),
            }
        )
        network, usual = self.network, USUAL_STEPS
        if self.algo == "priority_search":
            network, usual = network.model_copy(update={"kind": "priority"}), SEARCH_STEPS
        rewarded = {term for term, weight in scenario.objective.reward.items() if weight != 0}
        if (
            network.kind == "job_scorer"
            and network.prior is None
            and scenario.decision.horizon
            and IMPATIENT & rewarded
        ):
            network = network.model_copy(update={"prior": SLOWDOWN_PRIOR})
        sampling = self.sampling
        if sampling.runners is None:
            sampling = sampling.model_copy(update={"runners": int(self.algo == "appo")})
        return self.model_copy(
            update={
                "validation": validation,
                "steps": self.steps or usual,
                "network": network,
                "sampling": sampling,
            }
        )

    @property
    def own(self) -> Ppo | Appo | Dqn | Bc:
        """The settings of the algorithm of RLlib's that is chosen."""
        sections: dict[str, Ppo | Appo | Dqn | Bc] = {
            "ppo": self.ppo,
            "appo": self.appo,
            "dqn": self.dqn,
            "bc": self.bc,
            "marwil": self.marwil,
            "cql": self.cql,
            "rare": self.rare,
            "launchpad": self.rare,
        }
        return sections[self.algo]

    @property
    def plays(self) -> bool:
        """Whether anything is learned from play; else all is from a dataset."""
        alone = self.algo in FROM_DATASETS and self.algo != "launchpad"
        return not alone and not (self.algo == "rare" and self.dataset is not None)

    @property
    def reading(self) -> Bc:
        """The settings of the algorithm that learns from a dataset."""
        own = self.own
        if not isinstance(own, Bc):
            raise TypeError(f"{self.algo} learns from no dataset")
        return own

    @property
    def decisions_per_iteration(self) -> int:
        """Of all runners together, or of the dataset."""
        if not self.plays:
            learners = max(1, self.learners)
            return self.reading.rows // learners * learners
        sampling = self.sampling
        return sampling.envs_per_runner * sampling.fragment * max(1, sampling.runners or 0)

    @property
    def engine(self) -> str:
        """What runs the algorithm; names its folder in a checkpoint."""
        return "search" if self.algo == "priority_search" else "rllib"

    @model_validator(mode="after")
    def _together(self) -> TrainConfig:
        if self.algo == "priority_search" and self.network.kind in ("mlp", "cnn"):
            raise ValueError(f"priority_search finds no network.kind {self.network.kind}: leave that out")
        if self.algo == "priority_search" and self.warm_start is not None:
            raise SettingError(
                "warm_start", "means nothing to priority_search", "leave it out, or set search.start"
            )
        for name in ("prior", "waiting"):
            if self.search.start is not None and getattr(self.network, name) is not None:
                raise SettingError(
                    f"network.{name}",
                    "is given together with search.start, which brings its own",
                    f"leave network.{name} out",
                )
        if self.algo != "priority_search" and self.search.start is not None:
            raise SettingError(
                "search.start", f"means nothing to {self.algo}", "leave it out, or set warm_start.teacher"
            )
        if self.algo == "ppo" and self.ppo.minibatch > self.decisions_per_iteration:
            raise ValueError(
                f"ppo.minibatch {self.ppo.minibatch} is more than an iteration's "
                f"{self.decisions_per_iteration} decisions"
            )
        if self.algo == "dqn":
            self._check_dqn()
        if self.algo in FROM_DATASETS and self.dataset is None:
            raise SettingError("dataset", f"is missing, which {self.algo} learns from", "add --dataset DIR")
        if self.algo not in (*FROM_DATASETS, "rare") and self.dataset is not None:
            raise SettingError(
                "dataset", f"means nothing to {self.algo}", f"leave it out, or set algo={FROM_DATASETS[0]}"
            )
        if not self.plays:
            self._check_reading()
        if self.algo in ("rare", "launchpad"):
            self._check_rare()
        return self

    def _check_rare(self) -> None:
        if self.network.kind == "priority":
            raise SettingError("network.kind", f"priority means nothing to {self.algo}", "leave it out")
        if self.warm_start is not None:
            raise SettingError(
                "warm_start",
                f"means nothing to {self.algo}",
                "leave it out, or give a dataset of the teacher",
            )
        if self.plays:
            self._check_buffer("rare", self.rare.every, self.rare.buffer)
            if self.rare.batch < self.rare.minibatch:
                raise SettingError(
                    "rare.batch",
                    f"value {self.rare.batch} is less than rare.minibatch {self.rare.minibatch}",
                    "set more, or a smaller minibatch",
                )
        if self.algo == "launchpad" and self.steps is not None and self.steps <= self.launchpad.rows:
            raise SettingError(
                "launchpad.rows",
                f"value {self.launchpad.rows} is no less than steps {self.steps}: nothing would be played",
                "set less, or more steps",
            )

    def _check_buffer(self, section: str, every: int, buffer: int) -> None:
        at_once = self.sampling.envs_per_runner * every * max(1, self.sampling.runners or 0)
        if buffer < at_once:
            raise SettingError(
                f"{section}.buffer",
                f"value {buffer} is less than the {at_once} decisions that come between updates",
                "set more",
            )

    def _check_reading(self) -> None:
        if self.sampling.runners:
            raise SettingError(
                "sampling.runners", f"mean nothing to {self.algo}, which plays nothing", "leave it out"
            )
        if self.warm_start is not None:
            raise SettingError("warm_start", f"means nothing to {self.algo}", "leave it out")
        if self.validation.patience is not None:
            raise SettingError(
                "validation.patience", f"means nothing to {self.algo}, which keeps its newest", "leave it out"
            )
        own = self.reading
        rows = own.rows // max(1, self.learners)
        if own.minibatch > rows:
            raise SettingError(
                f"{self.algo}.minibatch",
                f"value {own.minibatch} is more than rows {rows} a learner",
                "set less",
            )

    def _check_dqn(self) -> None:
        self._check_buffer("dqn", self.dqn.every, self.dqn.buffer)
        if self.steps is not None and self.dqn.learning_starts >= self.steps:
            raise ValueError(
                f"dqn.learning_starts {self.dqn.learning_starts} is no less than steps {self.steps}: "
                "nothing would be learned"
            )


def read_config(
    path: Path, overrides: Iterable[str] = (), beside: Mapping[str, str] | None = None
) -> tuple[Scenario, TrainConfig]:
    """Read a training file: TrainConfig's keys, and `scenario`: a name, a file or a mapping.

    Args:
        path: of the file.
        overrides: `--set` assignments.
        beside: other settings, that come before those of the file.

    Raises:
        BadInputError: the file, a key or a value is wrong.
    """
    values = read_yaml(read_text(path), str(path)) | dict(beside or {})
    usual: str | dict[str, Any] = "lublin-256"
    if "scenario" not in values and isinstance(values.get("dataset"), str):
        usual = read_manifest(Path(values["dataset"])).scenario.model_dump(mode="json")
    return read_beside(path, TrainConfig, overrides, usual, beside)


def make_config(values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> TrainConfig:
    """Check plain values and make them a TrainConfig.

    Raises:
        BadInputError: a key or a value is wrong.
    """
    return validate(TrainConfig, values, where, overrides)
