"""Reward and cost scales: networks and gradient clipping need returns of about 1 under any objective.

The error of a critic whose returns are -50 outweighs the policy's gradient where both are clipped together.
The critic itself needs very long to get that far from 0: on deeprm it explained 5 % of the returns' variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlsched.envs.episodes import EpisodeFeed
from rlsched.evaluate.costs import allowed, limited_costs
from rlsched.jobs import FloatArray
from rlsched.scenario import RelativeLimit
from rlsched.scenario.terms import MAKESPAN, TERMS, UTILIZATION
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode

EPISODES = 16
REFERENCES = 64
"""Episodes from which limits relative to a heuristic are computed."""
LEAST_SPREAD = 1e-4  # of the `coming` block
STREAM = 0x7363616C65  # of the episodes that are played for it


@dataclass(frozen=True)
class Constraint:
    """A cost with a limit, for the learner and its multiplier.

    Attributes:
        name: of the cost.
        limit: largest mean per episode or per job (`Objective.limits_per`), in the cost's own unit. A limit
            relative to a heuristic is a mean over some training episodes.
        unit: divisor of costs and limits for the controller: the limit, where it is relative to a heuristic;
            else the cost of first come, first served, or the limit if that is larger; 1 where both are 0.
        scale: factor of the costs of transitions in training.
        mean: mean scaled return of costs from a decision on, before training.
        weight: of scaled costs against rewards where the multiplier is 1. Where a baseline scales rewards, an
            episode that costs `unit` weighs as much as the baseline's slowdown does on average.
    """

    name: str
    limit: float
    unit: float
    scale: float
    mean: float
    weight: float


@dataclass(frozen=True)
class Returns:
    """Statistics of returns before training."""

    scale: float = 1.0  # factor of rewards in training
    mean: float = 0.0  # mean scaled return from a decision on, the critic's initial estimate
    coming: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Mean and spread of each entry of the `coming` block; empty where it is not observed."""
    constraints: tuple[Constraint, ...] = ()  # costs that have a limit


UNKNOWN = Returns()


def training_costs(terms: FloatArray, costs: Sequence[int]) -> FloatArray:
    """Costs (env, cost) of transitions, as used in training.

    The makespan is the work over the units, which no policy changes, plus idle time. So its cost is the idle
    share of units: the same total but for a constant, given when it arises and not only at the end.

    Args:
        terms: (env, term) of the transitions.
        costs: indices of the terms that are costs.
    """
    trained = -terms[:, costs]
    for column, term in enumerate(costs):
        if term == MAKESPAN:
            trained[:, column] -= terms[:, UTILIZATION]
    return trained


def expected_returns(feed: EpisodeFeed, seed: int) -> Returns:
    """Measure the discounted returns of some training episodes, played first come, first served.

    The scale is one over their root mean square, also for costs. Returns are `UNKNOWN` but for constraints
    where nothing is rewarded. Where the objective has a baseline, first come, first served may be many times
    worse than a trained policy. Then the scale makes the baseline's mean return -1, as the environment has
    done with an exponent of 1.

    Args:
        feed: of training episodes, and the scenario.
        seed: of the training; the same arguments give the same result.
    """
    objective = feed.scenario.objective
    if objective.baseline and not objective.limits and objective.baseline_exponent == 1.0:
        return UNKNOWN
    rng = np.random.default_rng([seed, STREAM])
    episodes = [feed.training(rng) for _ in range(EPISODES)]
    played = Sample.of(feed, episodes)
    # The environment's reward scale leaves this power of the baseline's slowdown.
    remaining_exponent = 1.0 - objective.baseline_exponent if objective.baseline else 0.0
    more = REFERENCES - EPISODES if objective.limits or remaining_exponent else 0
    references = [*episodes, *(feed.training(rng) for _ in range(more))]
    limits = allowed(feed.scenario, feed.units, references)
    jobs = float(np.mean([len(episode.jobs) for episode in episodes]))
    constraints = []
    for name, limit in objective.limits.items():
        scale, mean = played.size_of(played.costs[name]) or (1.0, 0.0)
        most = float(limits[name].mean())
        # The cost of first come, first served is far above a multiple of a heuristic's cost.
        unit = (most if isinstance(limit, RelativeLimit) else max(played.usual[name], most)) or 1.0
        weight = 1.0
        if objective.baseline:
            weight /= scale * unit * (jobs if objective.limits_per == "job" else 1)
        constraints.append(Constraint(name, most, unit, scale, mean, weight))
    known = Returns(constraints=tuple(constraints))
    if objective.baseline:
        slowdowns = [episode.baseline**remaining_exponent for episode in references]
        return replace(known, scale=1.0 / float(np.mean(slowdowns)))
    size = played.size_of(played.rewards)
    return known if size is None else replace(known, scale=size[0], mean=size[1], coming=played.coming)


@dataclass(frozen=True, eq=False)
class Sample:
    """Sample of training episodes, played first come, first served."""

    rewards: FloatArray  # (step, episode) of each transition
    costs: dict[str, FloatArray]  # cost with a limit -> (step, episode) cost of each transition
    discounts: FloatArray  # (step, episode) discount of the next state
    playing: NDArray[np.bool_]  # (step, episode) whether there was a transition
    coming: tuple[tuple[float, ...], tuple[float, ...]]  # as in `Returns`
    usual: dict[str, float]  # cost with a limit -> mean over episodes of the amount that is compared with it

    @classmethod
    def of(cls, feed: EpisodeFeed, episodes: Sequence[Episode]) -> Sample:
        """Play the episodes."""
        objective = feed.scenario.objective
        sim = VectorSimulator(feed.scenario, feed.units, len(episodes), feed.max_jobs)
        for env, episode in enumerate(episodes):
            sim.load(env, episode.jobs, episode.scale, episode.power)
        window, last = sim.layout.window, sim.layout.num_actions - 1
        terms = {name: TERMS.index(name) for name in objective.limits}
        rewards, discounts, playing, coming = [], [], [], []
        costs: dict[str, list[FloatArray]] = {name: [] for name in terms}
        observed = sim.layout.block("coming") is not None
        while not (over := sim.terminated | sim.truncated).all():
            first = sim.mask[:, :window].argmax(axis=1)
            waits = sim.mask[:, :window].any(axis=1)
            if observed:
                coming.append(sim.layout.view(sim.obs, "coming")[~over])
            sim.step(np.where(waits, first, last))
            playing.append(~over)
            rewards.append(sim.reward.copy())
            for name, term in terms.items():
                costs[name].append(training_costs(sim.terms, [term])[:, 0])
            discounts.append(objective.gamma ** sim.elapsed.astype(np.float64))
        runs = [sim.played(env, episode.jobs) for env, episode in enumerate(episodes)]
        usual = {name: float(limited_costs(feed.scenario, feed.units, name, runs).mean()) for name in terms}
        spread = np.concatenate(coming) if coming else np.zeros((1, 0))
        return cls(
            np.array(rewards),
            {name: np.array(amounts) for name, amounts in costs.items()},
            np.array(discounts),
            np.array(playing),
            (tuple(spread.mean(0).tolist()), tuple((spread.std(0) + LEAST_SPREAD).tolist())),
            usual,
        )

    def size_of(self, earned: FloatArray) -> tuple[float, float] | None:
        """Scale and scaled mean of the discounted returns from each decision on.

        The scale is one over their root mean square. The result is None where all are 0.

        Args:
            earned: (step, episode) rewards or costs of each transition.
        """
        total, squares, following = 0.0, 0.0, np.zeros(earned.shape[1:])
        for reward, discount, counts in zip(
            reversed(earned), reversed(self.discounts), reversed(self.playing), strict=True
        ):
            following = np.where(counts, reward + discount * following, 0.0)
            total += float(following.sum())
            squares += float(following @ following)
        count = max(int(self.playing.sum()), 1)
        size = (squares / count) ** 0.5
        return (1.0 / size, total / count / size) if size > 0 else None
