"""Base classes of algorithms, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from rlsched.learn.config.sections import LearningRates
from rlsched.settings import Frozen, SettingError

if TYPE_CHECKING:
    from pathlib import Path

    from rlsched.envs.episodes import EpisodeFeed
    from rlsched.learn.config.training import Config, ResolvedConfig, TrainConfig
    from rlsched.learn.engine import Engine
    from rlsched.scenario import Scenario

DatasetUse = Literal["none", "optional", "required"]

ALGORITHMS: dict[str, Algorithm] = {}
"""Name -> algorithm."""


class Algorithm(ABC):
    """Interface of an algorithm to the rest of the package; only `open_engine` imports ray and torch.

    Attributes:
        name: value of the setting `algo`.
        summary: description in a line of `rlsched algorithms`.
        source: papers.
        sections: name of a section of the training settings -> its class. The last section is the one that
            no other algorithm has.
        dataset: whether the algorithm learns from a dataset.
        reads_rewards: whether it uses the rewards of a dataset, which must then be those of the scenario.
        warm_starts: whether the policy may imitate a teacher first (`TrainConfig.warm_start`).
        recurrent: whether it can train policies with an LSTM.
        replicated: whether it compares replicas of an episode (`Sampling.replicas`).
        within_limits: whether it keeps costs within their limits, by multipliers.
        requires_limits: whether it refuses an objective without a cost with a limit.
        engine: kind of its engine, and name of the engine's folder in a checkpoint.
        default_steps: default decisions of a run.
        default_runners: default number of remote runners.
        clock_episodes: default number of validation episodes where the clock ends them.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    sections: ClassVar[dict[str, type[Frozen]]]
    dataset: ClassVar[DatasetUse] = "none"
    reads_rewards: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = False
    recurrent: ClassVar[bool] = False
    replicated: ClassVar[bool] = False
    within_limits: ClassVar[bool] = False
    requires_limits: ClassVar[bool] = False
    engine: ClassVar[str] = "rllib"
    default_steps: ClassVar[int] = 1_000_000
    default_runners: ClassVar[int] = 0
    clock_episodes: ClassVar[int] = 32

    @property
    def section(self) -> str:
        """Name of the section that no other algorithm has."""
        return next(reversed(self.sections))

    @property
    def uses_ray(self) -> bool:
        """Whether RLlib runs the algorithm."""
        return self.engine == "rllib"

    def plays(self, config: TrainConfig) -> bool:
        """Whether the algorithm samples episodes; else it learns from a dataset alone."""
        return self.dataset == "none" or config.dataset is None

    def check(self, config: TrainConfig) -> None:  # noqa: B027
        """Refuse settings that do not fit together.

        Raises:
            SettingError: some do not.
        """

    def defaults(self, config: TrainConfig, scenario: Scenario) -> Mapping[str, object]:
        """Default settings that depend on the scenario, for `TrainConfig.model_copy`."""
        return {}

    def pretraining_steps(self, config: TrainConfig) -> int:
        """Decisions of offline pre-training from a dataset, before any are sampled."""
        return 0

    def calibration(self, config: TrainConfig) -> float | None:
        """Share of a run after which validation calibrates the no-op's bias; None: never."""
        return None

    def initial_policy(self, config: TrainConfig) -> str | None:
        """Folder of the policy that training begins with, where a setting names one."""
        return None

    def with_initial_policy(self, config: Config, folder: Path) -> Config:
        """Copy of the settings with another folder of the initial policy."""
        raise NotImplementedError(f"{self.name} begins with no policy")

    def check_initial_policy(self, config: ResolvedConfig, feed: EpisodeFeed) -> None:  # noqa: B027
        """Check that training can begin with `initial_policy`.

        Raises:
            BadInputError: it cannot.
        """

    @abstractmethod
    def open_engine(self, config: ResolvedConfig, feed: EpisodeFeed, iteration: int, steps: int) -> Engine:
        """Build the engine, ready to train.

        Args:
            config: resolved settings.
            feed: of episodes, and the scenario.
            iteration: at which the run begins or resumes.
            steps: decisions of the run until then.
        """


@dataclass(frozen=True)
class RllibParts:
    """RLlib's classes for an algorithm."""

    config: Any  # a new `AlgorithmConfig`, which names the class of the algorithm
    learner: type[Any]  # class of the learner, which computes the loss
    module: type[Any]  # class of the RLModule, which holds the networks
    columns: tuple[str, ...] = ()  # columns of a dataset that are read


class RllibAlgorithm(Algorithm):
    """An algorithm that RLlib runs.

    Attributes:
        reports: figures of the learner for metrics.csv.
        limit_reports: figures of each cost with a limit for metrics.csv.
        whole_iterations: one training step is an iteration; else an iteration takes as many training steps as
            its decisions need.
    """

    reports: ClassVar[tuple[str, ...]]
    limit_reports: ClassVar[tuple[str, ...]] = ()
    whole_iterations: ClassVar[bool] = False

    @abstractmethod
    def parts(self) -> RllibParts:
        """RLlib's classes for this algorithm; imports ray and torch."""

    @abstractmethod
    def training(self, config: ResolvedConfig, steps: int) -> dict[str, Any]:
        """Keywords of `AlgorithmConfig.training`, where a run has taken `steps` decisions before."""

    def fragment(self, config: TrainConfig) -> int | None:
        """Decisions per environment in a rollout fragment; None: the algorithm samples no episodes."""
        return None

    def module_settings(self, config: ResolvedConfig) -> dict[str, Any]:
        """Entries of the module's `model_config` in addition to those of all modules."""
        return {}

    def parts_of_run(self, config: ResolvedConfig) -> tuple[int, ...]:
        """Decisions after which the learning rate begins anew, and those of the whole run."""
        return (config.steps,)

    def learning_rates(self, config: ResolvedConfig) -> float | list[list[float]]:
        """Learning rate over decisions, as RLlib takes it: it falls in each part of a run."""
        settings, ends = config.section(LearningRates), self.parts_of_run(config)
        schedule = []
        for begin, end in zip((0, *(end + 1 for end in ends)), ends, strict=False):
            schedule += [[begin, settings.learning_rate], [end, settings.final_learning_rate]]
        return schedule

    def shorten(self, config: ResolvedConfig, rllib: Any, share: float) -> int | None:
        """Change RLlib's configuration so that an iteration has a share of its usual decisions.

        Args:
            config: resolved settings.
            rllib: a copy of the `AlgorithmConfig`.
            share: of the decisions.

        Returns:
            Largest rollout fragment, in decisions per environment; None: unchanged.
        """
        decisions = ceil(share * config.decisions_per_iteration)
        if self.fragment(config) is None:
            rllib.train_batch_size_per_learner = ceil(decisions / max(1, config.learners))
        else:
            rllib.min_sample_timesteps_per_iteration = decisions
        return None

    def open_engine(self, config: ResolvedConfig, feed: EpisodeFeed, iteration: int, steps: int) -> Engine:
        """RLlib's algorithm, ready to train."""
        from rlsched.learn.rllib.engine import RllibEngine

        return RllibEngine(config, feed, iteration, steps)


Kind = TypeVar("Kind", bound=type[Algorithm])


def register(kind: Kind) -> Kind:
    """Add an algorithm to the registry."""
    ALGORITHMS[kind.name] = kind()
    return kind


def check_buffer(config: TrainConfig, section: str, every: int, buffer: int) -> None:
    """Refuse a replay buffer smaller than the decisions sampled between two updates."""
    sampling = config.sampling
    sampled = sampling.envs_per_runner * every * max(1, sampling.runners or 0)
    if buffer < sampled:
        raise SettingError(
            f"{section}.buffer",
            f"value {buffer} is less than the {sampled} decisions that come between updates",
            "set more",
        )
