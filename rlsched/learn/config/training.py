"""TrainConfig: how a policy is trained; with the Scenario beside it, all that a run depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from rlsched.learn.config.sections import (
    Appo,
    Bc,
    Cocorl,
    Cql,
    Dqn,
    Launchpad,
    Marwil,
    Network,
    Ppo,
    Rare,
    Reinforce,
    Sampling,
    Search,
    Validation,
    WarmStart,
)
from rlsched.offline.manifest import read_manifest
from rlsched.scenario import Scenario
from rlsched.scenario.beside import parse_beside
from rlsched.settings import Frozen, SettingError, read_text, read_yaml, validate

Algorithm = Literal[
    "ppo", "appo", "dqn", "cocorl", "reinforce", "priority_search", "bc", "marwil", "cql", "rare", "launchpad"
]
SECTIONS: Mapping[str, tuple[str, ...]] = {algo: (algo,) for algo in get_args(Algorithm)} | {
    "priority_search": ("search",),
    "launchpad": ("rare", "launchpad"),
}
"""Algorithm -> sections of its own, that of what learns first."""
FROM_DATASETS = ("bc", "marwil", "cql", "launchpad")
"""Algorithms that nothing can be learned with without a dataset; `rare` may have one."""
OWN_ENGINES: Mapping[str, str] = {"priority_search": "search", "reinforce": "reinforce"}
"""Algorithms that are not RLlib's, and what runs them."""
PPO_KINDS = ("ppo", "cocorl")
"""PPO: may learn recurrent policies, and compares replicas."""
REPLICAS, FRAGMENT = 8, 64
"""Environments that play the same episodes, and decisions of each in a batch, where nothing else is asked
for."""
LAMBDA_AN_HOUR, LAMBDA_A_TICK = 0.9, 0.98
"""`ppo.gae_lambda` where it is left out: per simulated hour, and per tick with a horizon
(docs/decisions/0012-advantages-of-hours.md, 0013-imitation-instead-of-weights.md)."""
USUAL_STEPS, SEARCH_STEPS = 1_000_000, 100_000_000
IMITATORS = ("ppo", "cocorl", "appo", "dqn")
"""Algorithms that may begin with imitation of a teacher."""
WAIT_REWARDS = {"slowdown", "bounded_slowdown", "wait_time", "terminal_bsld"}
"""Rewards for which short jobs should not wait for long ones."""


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
    cocorl: Cocorl = Cocorl()
    reinforce: Reinforce = Reinforce()
    bc: Bc = Bc()
    marwil: Marwil = Marwil()
    cql: Cql = Cql()
    rare: Rare = Rare()
    launchpad: Launchpad = Launchpad()
    search: Search = Search()
    dataset: Path | None = Field(None, description="folder of the dataset that is learned from")
    warm_start: WarmStart = WarmStart()
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
        few = by_clock and self.algo != "cocorl"  # costs differ much more from episode to episode than values
        validation = checked.model_copy(
            update={
                "metric": checked.metric or ("job_value_ratio" if by_clock else "bounded_slowdown"),
                "episodes": checked.episodes or (32 if few else 128),
            }
        )
        network, usual = self.network, USUAL_STEPS
        if self.algo == "priority_search":
            network, usual = network.model_copy(update={"kind": "priority"}), SEARCH_STEPS
        sampling = self.sampling
        if sampling.runners is None:
            sampling = sampling.model_copy(update={"runners": int(self.algo == "appo")})
        if sampling.replicas is None and self.algo in PPO_KINDS:
            even = sampling.batched and sampling.envs_per_runner % REPLICAS == 0
            sampling = sampling.model_copy(update={"replicas": REPLICAS if even else 1})
        lambdas: dict[str, Ppo] = {}
        if self.algo in PPO_KINDS and self.ppo_like.gae_lambda is None:
            per_tick = scenario.objective.gamma
            if self.algo == "ppo":
                per_tick = LAMBDA_A_TICK
                if scenario.decision.horizon is None:
                    per_tick = LAMBDA_AN_HOUR ** (scenario.cluster.tick_s / 3600)
            lambdas[self.algo] = self.ppo_like.model_copy(update={"gae_lambda": per_tick})
        return self.model_copy(
            update=lambdas
            | {
                "validation": validation,
                "steps": self.steps or usual,
                "network": network,
                "sampling": sampling,
            }
        )

    @property
    def own(self) -> Ppo | Appo | Dqn | Bc:
        """The settings of the algorithm of RLlib's that is chosen."""
        if self.engine != "rllib":
            raise TypeError(f"{self.algo} is none of RLlib's")
        found: Ppo | Appo | Dqn | Bc = getattr(self, SECTIONS[self.algo][0])
        return found

    @property
    def ppo_like(self) -> Ppo:
        """The settings of ppo, or of cocorl."""
        own = self.own
        if not isinstance(own, Ppo):
            raise TypeError(f"{self.algo} is no PPO")
        return own

    @property
    def ppo_fragment(self) -> int:
        """Decisions per environment in a batch of PPO."""
        sampled, given = self.sampling.fragment, self.ppo_like.fragment
        return given or (FRAGMENT if sampled % FRAGMENT == 0 else sampled)

    def imitation(self, scenario: Scenario) -> WarmStart | None:
        """What the policy imitates first, with its teacher; None: it begins with random weights."""
        warm_start = self.warm_start
        if self.algo not in IMITATORS or not warm_start.decisions:
            return None
        if warm_start.teacher is None:
            if scenario.decision.horizon is None:
                return None
            rewarded = {term for term, weight in scenario.objective.reward.items() if weight}
            teacher = "sjf" if rewarded & WAIT_REWARDS else "packing"
            return warm_start.model_copy(update={"teacher": teacher})
        return warm_start

    @property
    def plays(self) -> bool:
        """Whether anything is learned from play; else all is from a dataset."""
        alone = self.algo in FROM_DATASETS and self.algo != "launchpad"
        return not alone and not (self.algo == "rare" and self.dataset is not None)

    @property
    def has_privileged_critic(self) -> bool:
        """Whether a critic learns from play alone, and so may see the privileged blocks."""
        return self.engine == "rllib" and self.dataset is None

    @property
    def read_first(self) -> int:
        """Decisions of a dataset that are read before anything is played."""
        return self.launchpad.rows if self.algo == "launchpad" else 0

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
    def decisions_per_batch(self) -> int:
        """Decisions of all runners together in a batch of PPO, after which multipliers move."""
        sampling = self.sampling
        return sampling.envs_per_runner * self.ppo_fragment * max(1, sampling.runners or 0)

    @property
    def engine(self) -> str:
        """What runs the algorithm; names its folder in a checkpoint."""
        return OWN_ENGINES.get(self.algo, "rllib")

    @model_validator(mode="after")
    def _together(self) -> TrainConfig:
        if self.algo == "priority_search" and self.network.kind in ("mlp", "cnn"):
            raise ValueError(f"priority_search finds no network.kind {self.network.kind}: leave that out")
        if self.warm_start.teacher is not None and self.algo not in IMITATORS:
            remedy = "remove it"
            if self.algo == "priority_search":
                remedy += ", or set search.start"
            elif self.algo in ("rare", "launchpad"):
                remedy += ", or give a dataset of the teacher"
            raise SettingError("warm_start.teacher", f"not supported by algo={self.algo}", remedy)
        if self.algo != "priority_search" and self.search.start is not None:
            raise SettingError(
                "search.start", f"means nothing to {self.algo}", "leave it out, or set warm_start.teacher"
            )
        if self.algo == "reinforce":
            self._check_reinforce()
        self._check_memory()
        self._check_replicas()
        if self.algo in ("ppo", "cocorl"):
            self._check_ppo()
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

    def _check_reinforce(self) -> None:
        if self.network.kind == "priority":
            raise SettingError("network.kind", "priority means nothing to reinforce", "leave it out")
        if self.sampling.runners:
            raise SettingError(
                "sampling.runners",
                "mean nothing to reinforce, which plays in its own process",
                "leave it out",
            )
        for name, field in Sampling.model_fields.items():
            if name != "runners" and getattr(self.sampling, name) != field.default:
                raise SettingError(
                    f"sampling.{name}",
                    "means nothing to reinforce",
                    "leave it out, or set reinforce.trajectories",
                )
        for name in ("learners", "gpus_per_learner"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise SettingError(
                    name, "means nothing to reinforce, which learns in its own process", "leave it out"
                )

    def _check_replicas(self) -> None:
        sampling = self.sampling
        if (sampling.replicas or 1) == 1:
            return
        if self.algo not in PPO_KINDS or not sampling.batched:
            which = f"algo={self.algo}" if sampling.batched else "sampling.batched=false"
            raise SettingError(
                "sampling.replicas", f"value {sampling.replicas}: not supported by {which}", "leave it out"
            )
        if sampling.envs_per_runner % (sampling.replicas or 1):
            raise SettingError(
                "sampling.replicas",
                f"value {sampling.replicas} does not divide envs_per_runner {sampling.envs_per_runner}",
                "set a number that does",
            )

    def _check_rare(self) -> None:
        if self.network.kind == "priority":
            raise SettingError("network.kind", f"priority means nothing to {self.algo}", "leave it out")
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

    def _check_memory(self) -> None:
        together = self.network.lstm_steps
        if not self.network.lstm:
            if together != Network.model_fields["lstm_steps"].default:
                raise SettingError("network.lstm_steps", "means nothing without network.lstm", "leave it out")
            return
        if self.algo not in PPO_KINDS:
            raise SettingError(
                "network.lstm",
                f"is not learned by {self.algo}",
                f"leave it out, or set algo to {' or '.join(PPO_KINDS)}",
            )
        if not self.sampling.batched:
            raise SettingError(
                "sampling.batched", "value false does not go with network.lstm", "leave one of them out"
            )
        own = self.ppo_like
        if together > min(self.ppo_fragment, own.minibatch):
            raise SettingError(
                "network.lstm_steps",
                f"value {together} is more than the decisions of a fragment, {self.ppo_fragment}, or of a "
                f"minibatch, {own.minibatch}",
                "set less",
            )

    def _check_ppo(self) -> None:
        own, sampling, at_once = self.ppo_like, self.sampling, self.decisions_per_batch
        if sampling.fragment % self.ppo_fragment:
            raise SettingError(
                "sampling.fragment",
                f"value {sampling.fragment} is no multiple of {self.algo}.fragment {own.fragment}",
                "set one of them so that an iteration is whole batches",
            )
        if own.minibatch > at_once:
            raise ValueError(
                f"{self.algo}.minibatch {own.minibatch} is more than the {at_once} decisions of a batch"
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

    A file without `scenario` trains on that of its `dataset`; without either it is refused.

    Args:
        path: of the file.
        overrides: `--set` assignments.
        beside: other settings, that come before those of the file.

    Raises:
        BadInputError: the file, a key or a value is wrong.
    """
    values = read_yaml(read_text(path), str(path)) | dict(beside or {})
    return parse_config(values, str(path), overrides)


def parse_config(
    values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()
) -> tuple[Scenario, TrainConfig]:
    """The same of plain values.

    Raises:
        BadInputError: a key or a value is wrong.
    """
    usual: dict[str, Any] | None = None
    if values.get("scenario") is None and isinstance(values.get("dataset"), str):
        usual = read_manifest(Path(values["dataset"])).scenario.model_dump(mode="json")
    return parse_beside(values, where, TrainConfig, overrides, usual)


def make_config(values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> TrainConfig:
    """Check plain values and make them a TrainConfig.

    Raises:
        BadInputError: a key or a value is wrong.
    """
    return validate(TrainConfig, values, where, overrides)
