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
    """Interface of an algorithm to the rest of the package; only `open_engine` imports ray and torch."""

    name: ClassVar[str]  # value of the setting `algo`
    summary: ClassVar[str]  # description in a line of `rlsched algorithms`
    source: ClassVar[str]  # papers
    sections: ClassVar[dict[str, type[Frozen]]]  # of the training settings; no other algorithm has the last
    dataset: ClassVar[DatasetUse] = "none"  # whether it learns from a dataset
    reads_rewards: ClassVar[bool] = True  # it uses a dataset's rewards, which must be those of the scenario
    warm_starts: ClassVar[bool] = False  # its policy may imitate a teacher first (`TrainConfig.warm_start`)
    recurrent: ClassVar[bool] = False  # it can train policies with an LSTM
    replicated: ClassVar[bool] = False  # it compares replicas of an episode (`Sampling.replicas`)
    within_limits: ClassVar[bool] = False  # it keeps costs within their limits, by multipliers
    requires_limits: ClassVar[bool] = False  # it refuses an objective without a cost with a limit
    engine: ClassVar[str] = "rllib"  # kind of its engine, and the engine's folder in a checkpoint
    default_steps: ClassVar[int] = 1_000_000  # decisions of a run
    default_runners: ClassVar[int] = 0  # remote ones
    clock_episodes: ClassVar[int] = 32  # default validation episodes where the clock ends them

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
    """An algorithm that RLlib runs."""

    reports: ClassVar[tuple[str, ...]]  # figures of the learner for metrics.csv
    limit_reports: ClassVar[tuple[str, ...]] = ()  # figures of each cost with a limit for metrics.csv
    whole_iterations: ClassVar[bool] = False  # an iteration is one training step, however many decisions

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
