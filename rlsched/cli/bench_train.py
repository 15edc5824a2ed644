"""What `rlsched bench train` measures: whole iterations of PPO, beside RLlib's, a plain loop's and others'.

All take turns, an iteration each, so that whatever else the machine does is shared; the first turn of each
compiles and warms up and does not count.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import numpy as np
import torch

from rlsched.cli import repository
from rlsched.cli.bench_core import Figure
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.config.training import TrainConfig
from rlsched.scenario import Scenario

OURS, STOCK, PLAIN = "rlsched", "RLlib", "plain loop"
MASKABLE, UNTOLD = "MaskablePPO", "MaskablePPO as it comes"


class Turn(Protocol):
    """What an iteration took, in seconds and decisions."""

    steps: int
    simulate: float
    forward: float
    learn: float


@dataclass(frozen=True)
class Timed:
    """A turn of a contestant that is part of the package."""

    steps: int
    simulate: float
    forward: float
    learn: float


@dataclass(frozen=True)
class Speed:
    """How fast a contestant was, in the median turn.

    Attributes:
        name: of the contestant.
        decisions: per second, end to end.
        sampled: per second while it sampled; NaN where that cannot be told.
        shares: of the time that went into what.
    """

    name: str
    decisions: float
    sampled: float
    shares: dict[str, float]


class Rllib:
    """PPO by RLlib in this process: as `rlsched train` has it, or as RLlib does itself.

    Args:
        config: as for `rlsched train`.
        feed: of training episodes, and what is simulated.
        stock: RLlib's own runner and learner.

    Attributes:
        last: returns of the last hundred episodes.
    """

    def __init__(self, config: TrainConfig, feed: EpisodeFeed, *, stock: bool) -> None:
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
            told = built.learner_config_dict
            built = built.learners(learner_class=built.get_default_learner_class())
            built = built.training(gamma=told["gamma"], lambda_=lambda_of(told))
        self.scale = returns.scale
        self.algorithm = PPO(config=built) if stock else built.build_algo()
        self.spent: dict[str, float] = {}
        runner, learners = self.algorithm.env_runner, self.algorithm.learner_group
        clusters = runner.env.unwrapped
        self.sums = np.zeros(clusters.num_envs)
        self.last: deque[float] = deque(maxlen=100)
        clusters.step = self._timed("simulate", self._summed(clusters.step))
        module = runner.module
        module._forward_exploration = self._timed("forward", module._forward_exploration)
        learners.update = self._timed("learn", learners.update)

    def _timed(self, name: str, does: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return does(*args, **kwargs)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - began

        return timed

    def _summed(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def summed(actions: Any) -> Any:
            found = step(actions)
            self.sums += found[1]
            for env in np.flatnonzero(found[2] | found[3]):
                self.last.append(self.sums[env] / self.scale)
                self.sums[env] = 0.0
            return found

        return summed

    def iterate(self) -> Timed:
        """One iteration of the algorithm."""
        self.spent = {}
        played = self.algorithm.train()["env_runners"]
        spent = self.spent
        return Timed(
            int(played["num_env_steps_sampled"]), spent["simulate"], spent["forward"], spent["learn"]
        )

    def stop(self) -> None:
        """Let go of RLlib's processes."""
        self.algorithm.stop()


def contestants(config: TrainConfig, feed: EpisodeFeed, until: ExitStack) -> Iterator[tuple[str, Any]]:
    """Who takes turns, by name: what is installed and in the repository."""
    for name, stock in ((OURS, False), (STOCK, True)):
        engine = Rllib(config, feed, stock=stock)
        until.callback(engine.stop)
        yield name, engine
    plain = repository.module("benchmarks.plain_ppo")
    if plain is not None:
        yield PLAIN, plain.PlainPPO(config, feed)
    try:
        other = repository.module("benchmarks.maskable_ppo")
    except ImportError:  # the extra `bench` is not installed
        other = None
    if other is not None:
        yield MASKABLE, other.Maskable(feed.scenario, config, alike=True)
        yield UNTOLD, other.Maskable(feed.scenario, config, alike=False)


def measure(
    scenario: Scenario, config: TrainConfig, turns: int, told: Callable[[str], None] = lambda _: None
) -> list[Speed]:
    """Let everybody take so many turns.

    Args:
        scenario: as it is trained on.
        config: as for `rlsched train`.
        turns: that count, of each.
        told: called with the name of whose turn it is.

    Raises:
        BadInputError: a policy with a memory, which not all of them know.
    """
    from rlsched.learn.rllib.session import session_for

    if config.network.lstm:
        raise BadInputError("network.lstm", "is not known to all that are measured", "leave it out")
    feed = EpisodeFeed(scenario)
    config = config.settled(feed.scenario)
    taken: dict[str, list[tuple[Turn, float]]] = {}
    torch.manual_seed(config.seed)
    with session_for(config, None), ExitStack() as until:
        everybody = list(contestants(config, feed, until))
        for turn in range(turns + 1):
            for name, one in everybody:
                told(f"{name}, turn {turn} of {turns}")
                began = time.perf_counter()
                did = one.iterate()
                if turn:
                    taken.setdefault(name, []).append((did, time.perf_counter() - began))
    return [_speed(name, turns_of) for name, turns_of in taken.items()]


def _speed(name: str, turns: list[tuple[Turn, float]]) -> Speed:
    shares = {
        what: median(getattr(turn, what) / seconds for turn, seconds in turns)
        for what in ("simulate", "forward", "learn")
    }
    return Speed(
        name,
        median(turn.steps / seconds for turn, seconds in turns),
        median(turn.steps / max(1e-9, seconds - turn.learn) for turn, seconds in turns),
        shares | {"rest": 1.0 - sum(shares.values())},
    )


def figures(case: str, speeds: list[Speed]) -> list[Figure]:
    """In the shape of cli.md, against the plain loop where that ran and RLlib's own otherwise."""
    by_name = {speed.name: speed for speed in speeds}
    against = by_name.get(PLAIN, by_name[STOCK])
    found = []
    for speed in speeds:
        for what, value, other in (
            ("train_decisions_per_s", speed.decisions, against.decisions),
            ("sampled_decisions_per_s", speed.sampled, against.sampled),
        ):
            found.append(
                Figure(what, f"{case}, {speed.name}", value, against=against.name, ratio=value / other)
            )
    return found
