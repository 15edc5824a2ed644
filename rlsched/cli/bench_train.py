"""Speed of whole iterations of PPO: that of `rlsched train`, and that of RLlib by itself.

Trainers take turns, an iteration each, so that other load on the machine affects all. The first turn of each
compiles and warms up; it is not measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, Protocol

import torch

from rlsched.cli.bench import Figure
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.config.training import ResolvedConfig, TrainConfig
from rlsched.scenario import Scenario

RLSCHED, RLLIB = "rlsched", "RLlib"


@dataclass(frozen=True)
class Iteration:
    """Decisions of an iteration, and its seconds in environments, inference, and advantages and updates."""

    steps: int
    simulate: float
    forward: float
    learn: float


class Trainer(Protocol):
    """Trains by iterations."""

    def iterate(self) -> Iteration:
        """Run one iteration."""


class Speed(NamedTuple):
    """Median decisions per second of a trainer, end to end and of sampling, and shares of time by phase."""

    name: str
    decisions: float
    sampled: float
    shares: dict[str, float]


class RllibTrainer:
    """PPO by RLlib in this process, with the runner and learner of rlsched or with RLlib's.

    Args:
        config: as for `rlsched train`.
        feed: training episodes and their scenario.
        stock: use RLlib's own runner and learner.
    """

    def __init__(self, config: ResolvedConfig, feed: EpisodeFeed, *, stock: bool) -> None:
        from ray.rllib.algorithms.ppo import PPO

        from rlsched.learn.algorithms.learners.ppo import lambda_of
        from rlsched.learn.rllib.build import build_config
        from rlsched.learn.rllib.scale import expected_returns

        if stock:
            sampling = config.sampling.model_copy(update={"batched": False})
            config = config.model_copy(update={"sampling": sampling})
        returns = expected_returns(feed, config.seed)
        built = build_config(feed.scenario, config, len(feed.units), 0, returns)
        if stock:
            settings = built.learner_config_dict
            built = built.learners(learner_class=built.get_default_learner_class())
            built = built.training(gamma=settings["gamma"], lambda_=lambda_of(settings))
        self.algorithm = PPO(config=built) if stock else built.build_algo()
        self.spent: dict[str, float] = {}
        runner, learners = self.algorithm.env_runner, self.algorithm.learner_group
        vector = runner.env.unwrapped
        vector.step = self._timed("simulate", vector.step)
        module = runner.module
        module._forward_exploration = self._timed("forward", module._forward_exploration)
        learners.update = self._timed("learn", learners.update)

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[phase] = self.spent.get(phase, 0.0) + time.perf_counter() - start

        return timed

    def iterate(self) -> Iteration:
        """Run one iteration of the algorithm."""
        self.spent = {}
        steps = int(self.algorithm.train()["env_runners"]["num_env_steps_sampled"])
        return Iteration(steps, *(self.spent[phase] for phase in ("simulate", "forward", "learn")))

    def stop(self) -> None:
        """End RLlib's processes."""
        self.algorithm.stop()


def measure_training(
    scenario: Scenario,
    config: TrainConfig,
    turns: int,
    more_trainers: Callable[[TrainConfig, EpisodeFeed], Mapping[str, Trainer]] | None = None,
) -> list[Speed]:
    """Measure trainers in turn; returns the speed of each, that of rlsched first.

    Args:
        scenario: that is simulated.
        config: as for `rlsched train`.
        turns: measured iterations of each trainer.
        more_trainers: builds further trainers by name.

    Raises:
        BadInputError: the policy has a memory, which not all trainers support.
    """
    from rlsched.learn.rllib.session import session_for

    if config.network.lstm:
        raise BadInputError("network.lstm", "is not supported by all trainers that are measured", "remove it")
    feed = EpisodeFeed(scenario)
    resolved = config.resolve(feed.scenario)
    measured: dict[str, list[tuple[Iteration, float]]] = {}
    torch.manual_seed(resolved.seed)
    with session_for(resolved, None), ExitStack() as stack:
        trainers: dict[str, Trainer] = {}
        for name, stock in ((RLSCHED, False), (RLLIB, True)):
            trainers[name] = trainer = RllibTrainer(resolved, feed, stock=stock)
            stack.callback(trainer.stop)
        if more_trainers is not None:
            trainers |= more_trainers(resolved, feed)
        for turn in range(turns + 1):
            for name, current in trainers.items():
                start = time.perf_counter()
                iteration = current.iterate()
                if turn:
                    measured.setdefault(name, []).append((iteration, time.perf_counter() - start))
    return [_speed(name, iterations) for name, iterations in measured.items()]


def _speed(name: str, iterations: list[tuple[Iteration, float]]) -> Speed:
    shares = {
        phase: median(getattr(iteration, phase) / seconds for iteration, seconds in iterations)
        for phase in ("simulate", "forward", "learn")
    }
    return Speed(
        name,
        median(iteration.steps / seconds for iteration, seconds in iterations),
        median(iteration.steps / max(1e-9, seconds - iteration.learn) for iteration, seconds in iterations),
        shares | {"rest": 1.0 - sum(shares.values())},
    )


def figures(case: str, speeds: list[Speed], against: str) -> list[Figure]:
    """The speeds as figures relative to the trainer named `against`."""
    (reference,) = (speed for speed in speeds if speed.name == against)
    return [
        Figure(name, f"{case}, {speed.name}", value, against=against, ratio=value / base)
        for speed in speeds
        for name, value, base in (
            ("train_decisions_per_s", speed.decisions, reference.decisions),
            ("sampled_decisions_per_s", speed.sampled, reference.sampled),
        )
    ]
