"""TrainConfig: settings of a training as written. ResolvedConfig: the same with all defaults, of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, create_model, model_validator

from rlsched.learn.algorithms.base import ALGORITHMS, Algorithm
from rlsched.learn.config.sections import (
    Network,
    OfflineSettings,
    ResolvedSampling,
    ResolvedValidation,
    Sampling,
    Validation,
    WarmStart,
)
from rlsched.offline.manifest import read_manifest
from rlsched.scenario import Scenario
from rlsched.scenario.combined_file import parse_combined
from rlsched.scenario.terms import TERM_SPECS
from rlsched.settings import Frozen, SettingError, validate
from rlsched.settings_files import read_text, read_yaml

REPLICAS = 8
"""Default number of environments that play the same episodes."""

WAIT_REWARDS = {spec.name for spec in TERM_SPECS.values() if spec.short_first}
"""Reward terms that favour short jobs first."""

Section = TypeVar("Section", bound=Frozen)


class Training(Frozen):
    """Settings of a training run for all algorithms; `TrainConfig` adds the algorithms' sections."""

    schema_version: Literal[1] = 1
    algo: str = "ppo"
    seed: int = Field(0, ge=0, description="random seed of weights, training episodes and actions")
    steps: int | None = Field(
        None,
        ge=1,
        description="decisions; left out: 1,000,000, for launchpad 2,000,000 with those it reads, for "
        "priority_search 100,000,000",
    )
    minutes: float | None = Field(None, gt=0, description="stop after this long, whatever the steps")
    network: Network = Network()
    dataset: Path | None = Field(None, description="folder of the dataset to learn from")
    warm_start: WarmStart = WarmStart()
    sampling: Sampling = Sampling()
    validation: Validation = Validation()
    averaging: float = Field(
        0.8,
        ge=0,
        lt=1,
        description="share of the old weights kept per iteration in the policy that is validated and "
        "saved, an average over training [Polyak and Juditsky 1992]; 0: the newest",
    )
    stalled_minutes: float | None = Field(
        30.0, gt=0, description="longest time of an iteration; then the run stops; null: no limit"
    )
    learners: int = Field(0, ge=0, description="remote learners; 0 learns in the driver's process")
    gpus_per_learner: float = Field(0, ge=0, description="GPUs, or a share of one")

    def resolve(self, scenario: Scenario) -> ResolvedConfig:
        """The settings of a run: omitted ones get their defaults by scenario and algorithm.

        A setting that stays None means none: no limit of minutes, no dataset, no teacher.

        Raises:
            BadInputError: a default does not go with the other settings.
        """
        by_clock, algorithm = scenario.episode.end == "max_ticks", self.algorithm
        # Costs differ much more from episode to episode than values do.
        episodes = algorithm.clock_episodes if by_clock else 128
        value = "on_time_value_ratio" if scenario.objective.reward.get("on_time_value") else "job_value_ratio"
        metric = value if by_clock else "bounded_slowdown"
        sampling, validation = self.sampling, self.validation
        replicas = sampling.replicas or 1
        if sampling.replicas is None and algorithm.replicated:
            even = sampling.batched and sampling.envs_per_runner % REPLICAS == 0
            replicas = REPLICAS if even else 1
        runners = algorithm.default_runners if sampling.runners is None else sampling.runners
        checked = {"metric": validation.metric or metric, "episodes": validation.episodes or episodes}
        values = {
            **dict(self),
            "validation": ResolvedValidation(**dict(validation) | checked),
            "steps": self.steps or algorithm.default_steps,
            "sampling": ResolvedSampling(**dict(sampling) | {"replicas": replicas, "runners": runners}),
            **algorithm.defaults(self._config(), scenario),
        }
        return validate(ResolvedConfig, values, f"defaults of algo={self.algo}")

    def _config(self) -> TrainConfig:
        assert isinstance(self, TrainConfig)
        return self

    @property
    def algorithm(self) -> Algorithm:
        """The chosen algorithm."""
        return ALGORITHMS[self.algo]

    def section(self, kind: type[Section]) -> Section:
        """The algorithm's section of this class.

        Raises:
            TypeError: it has none.
        """
        for name in self.algorithm.sections:
            settings = getattr(self, name)
            if isinstance(settings, kind):
                return settings
        raise TypeError(f"{self.algo} has no settings {kind.__name__}")

    def imitation(self, scenario: Scenario) -> WarmStart | None:
        """The warm start, with its teacher; None: training begins with random weights."""
        warm_start = self.warm_start
        if not self.algorithm.warm_starts or not warm_start.decisions:
            return None
        if warm_start.teacher is None:
            if not scenario.decision.tick_driven:
                return None
            rewarded = {term for term, weight in scenario.objective.reward.items() if weight}
            teacher = "sjf" if rewarded & WAIT_REWARDS else "packing"
            return warm_start.model_copy(update={"teacher": teacher})
        return warm_start

    @property
    def plays(self) -> bool:
        """Whether the algorithm samples episodes; else it learns from a dataset alone."""
        return self.algorithm.plays(self._config())

    @property
    def has_privileged_critic(self) -> bool:
        """Whether a critic learns from sampled episodes alone, and so may see the privileged blocks."""
        return self.algorithm.uses_ray and self.dataset is None

    @property
    def decisions_per_iteration(self) -> int:
        """Decisions of all runners together, or from the dataset, in an iteration."""
        if not self.plays:
            learners = max(1, self.learners)
            return self.section(OfflineSettings).rows // learners * learners
        sampling = self.sampling
        return sampling.envs_per_runner * sampling.fragment * max(1, sampling.runners or 0)

    @property
    def engine(self) -> str:
        """Kind of the algorithm's engine, and name of its folder in a checkpoint."""
        return self.algorithm.engine

    @model_validator(mode="after")
    def _fit_together(self) -> Training:
        self._check_initial_policy()
        self.algorithm.check(self._config())
        self._check_memory()
        self._check_replicas()
        self._check_dataset()
        return self

    def _check_initial_policy(self) -> None:
        algorithm, config = self.algorithm, self._config()
        if self.warm_start.teacher is not None and not algorithm.warm_starts:
            remedy = "remove it"
            if "start" in algorithm.sections[algorithm.section].model_fields:
                remedy += f", or set {algorithm.section}.start"
            elif algorithm.dataset != "none":
                remedy += ", or give a dataset of the teacher"
            raise SettingError("warm_start.teacher", f"not supported by algo={self.algo}", remedy)
        for unused in ALGORITHMS.values():
            if unused is not algorithm and unused.initial_policy(config) is not None:
                raise SettingError(
                    f"{unused.section}.start",
                    f"not supported by algo={self.algo}",
                    "remove it, or set warm_start.teacher",
                )

    def _check_memory(self) -> None:
        if not self.network.lstm:
            if self.network.lstm_steps != Network.model_fields["lstm_steps"].default:
                raise SettingError("network.lstm_steps", "not supported without network.lstm", "remove it")
            return
        if not self.algorithm.recurrent:
            able = " or ".join(name for name, entry in ALGORITHMS.items() if entry.recurrent)
            raise SettingError(
                "network.lstm", f"not supported by algo={self.algo}", f"remove it, or set algo to {able}"
            )
        if not self.sampling.batched:
            raise SettingError(
                "sampling.batched", "value false does not go with network.lstm", "leave one of them out"
            )

    def _check_replicas(self) -> None:
        sampling = self.sampling
        if (sampling.replicas or 1) == 1:
            return
        if not self.algorithm.replicated or not sampling.batched:
            unsupported = f"algo={self.algo}" if sampling.batched else "sampling.batched=false"
            problem = f"value {sampling.replicas}: not supported by {unsupported}"
            raise SettingError("sampling.replicas", problem, "leave it out")
        if sampling.envs_per_runner % (sampling.replicas or 1):
            problem = f"value {sampling.replicas} does not divide envs_per_runner {sampling.envs_per_runner}"
            raise SettingError("sampling.replicas", problem, "set a number that does")

    def _check_dataset(self) -> None:
        use = self.algorithm.dataset
        if use == "required" and self.dataset is None:
            raise SettingError("dataset", f"is missing, which {self.algo} learns from", "add --dataset DIR")
        if use == "none" and self.dataset is not None:
            able = next(name for name, entry in ALGORITHMS.items() if entry.dataset == "required")
            raise SettingError(
                "dataset", f"not supported by algo={self.algo}", f"remove it, or set algo={able}"
            )
        if self.plays:
            return
        unsupported = f"not supported by algo={self.algo}, which"
        if self.sampling.runners:
            raise SettingError("sampling.runners", f"{unsupported} samples no episodes", "remove it")
        if self.validation.patience is not None:
            raise SettingError("validation.patience", f"{unsupported} keeps its newest", "remove it")
        offline = self.section(OfflineSettings)
        rows = offline.rows // max(1, self.learners)
        if offline.minibatch > rows:
            problem = f"value {offline.minibatch} is more than rows {rows} a learner"
            raise SettingError(f"{self.algo}.minibatch", problem, "set less")


if TYPE_CHECKING:

    class TrainConfig(Training):
        """Settings of a training, as written."""

        def __getattr__(self, section: str) -> Any:
            """Settings of an algorithm, by the name of their section."""

    class ResolvedConfig(TrainConfig):
        """Settings of a training, with the defaults that depend on algorithm and scenario."""

        steps: int
        sampling: ResolvedSampling
        validation: ResolvedValidation
else:
    TrainConfig = create_model(
        "TrainConfig",
        __base__=Training,
        __doc__="Settings of a training, as written.",
        __module__=__name__,
        algo=(Literal[tuple(ALGORITHMS)], Field("ppo", description="learning algorithm")),
        **{
            name: (kind, kind())
            for algorithm in ALGORITHMS.values()
            for name, kind in algorithm.sections.items()
        },
    )
    ResolvedConfig = create_model(
        "ResolvedConfig",
        __base__=TrainConfig,
        __doc__="Settings of a training, with the defaults that depend on algorithm and scenario.",
        __module__=__name__,
        steps=(int, Field(ge=1)),
        sampling=(ResolvedSampling, Field()),
        validation=(ResolvedValidation, Field()),
    )

Config = TypeVar("Config", bound=TrainConfig)
"""Settings as written, or resolved."""


def read_config(
    path: Path, overrides: Iterable[str] = (), options: Mapping[str, str] | None = None
) -> tuple[Scenario, TrainConfig]:
    """Read a training file: TrainConfig's keys, and `scenario`: a name, a file or a mapping.

    A file without `scenario` trains on that of its `dataset`; without either it is refused.

    Args:
        path: of the file.
        overrides: `--set` assignments.
        options: other settings, which override those of the file.

    Raises:
        BadInputError: the file, a key or a value is wrong.
    """
    values = read_yaml(read_text(path), str(path)) | dict(options or {})
    return parse_config(values, str(path), overrides)


def parse_config(
    values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()
) -> tuple[Scenario, TrainConfig]:
    """Check the plain values of a training file, and make them a scenario and a TrainConfig.

    Raises:
        BadInputError: a key or a value is wrong.
    """
    if values.get("scenario") is None and isinstance(values.get("dataset"), str):
        recorded = read_manifest(Path(values["dataset"])).scenario
        values = {**values, "scenario": recorded.model_dump(mode="json")}
    return parse_combined(values, where, TrainConfig, overrides)


def make_config(values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> TrainConfig:
    """Check plain values and make them a TrainConfig.

    Raises:
        BadInputError: a key or a value is wrong.
    """
    return validate(TrainConfig, values, where, overrides)
