"""Training environments for RLlib's algorithms, and the metrics reported of their episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.callbacks.callbacks import RLlibCallback

from rlsched.envs.episodes import EpisodeFeed
from rlsched.envs.vector import Arrays, SchedulingVectorEnv
from rlsched.evaluate.costs import allowed, limited_costs
from rlsched.jobs import IntArray
from rlsched.learn.rllib.scale import training_costs
from rlsched.scenario import ResolvedScenario
from rlsched.scenario.terms import TERMS
from rlsched.workloads.episodes import Episode

ENV_NAME = "rlsched-vector"
COSTS = "costs"
"""Column of a transition's costs with a limit, (cost,)."""

SHARED = "shared"
"""Column of a number that is the same for all replicas of an episode."""

LIMITED = "limited"
"""Metric of episodes that ended in an iteration: cost -> amount of each."""

PROJECTED = "projected"
"""Metric of unfinished episodes, projected to their end: cost -> mean over environments."""

REPORTED = ("bounded_slowdown", "wait", "utilization", "schedule_span")


class EpisodeStream:
    """The episodes that a group of replicas plays, one after the other.

    Args:
        feed: of training episodes.
        rng: draws them.
        share: of the first episode's jobs that are played, so that groups are not all in the same phase.
        candidates: number of episodes that each is drawn from (`EpisodeFeed.contended`).
    """

    def __init__(self, feed: EpisodeFeed, rng: np.random.Generator, share: float, candidates: int) -> None:
        self.feed, self.rng, self.share, self.candidates = feed, rng, share, candidates
        self.drawn: dict[int, Episode] = {}
        self.count = 0

    def episode(self, number: int) -> Episode:
        """Episode number `number`, from 0; it must not have been forgotten."""
        while self.count <= number:
            episode = self.feed.contended(self.rng, self.candidates)
            if self.count == 0 and self.share < 1.0:
                episode = self.feed.shortened(episode, self.share)
            self.drawn[self.count] = episode
            self.count += 1
        return self.drawn[number]

    def forget(self, before: int) -> None:
        """Drop episodes before that number: no replica plays them any more."""
        self.drawn = {number: episode for number, episode in self.drawn.items() if number >= before}


class TrainingVectorEnv(SchedulingVectorEnv):
    """Environments for learners, with their own streams of episodes and scaled rewards.

    Environments form groups of `replicas`, which play the same episodes
    (see `rlsched.learn.rllib.baseline`).

    No other runner, seed or part of a resumed run has these streams.

    RLlib seeds neighbouring runners with neighbouring numbers, and Gymnasium neighbouring environments; both
    at once would have most episodes drawn twice.

    The flat observation also holds the privileged blocks, which only critics read.
    """

    def __init__(self, context: Any) -> None:
        scenario = ResolvedScenario.model_validate(context["scenario"])
        envs = int(context.get("num_envs", 1))
        super().__init__(scenario, envs, flat=True, privileged=True, on_illegal="raise")
        self._privileged = None  # they are in the observation, not in info
        self._show(self.simulator.layout)
        self.reward_scale = float(context["reward_scale"])
        scales: Mapping[str, float] = context.get("cost_scales", {})
        self.terms = [TERMS.index(name) for name in scales]
        self.cost_scales = np.array(list(scales.values()), np.float32)
        self.limits: Mapping[str, float] = context.get("limits", {})
        self.stream = tuple(context["stream"])
        self.replicas = int(context.get("replicas", 1))
        self.candidates = int(context.get("candidates", 1))
        self.group = np.arange(envs) // self.replicas
        self.streams: list[EpisodeStream] = []
        self.accrued = np.zeros((envs, len(self.terms)))  # of these terms, in the episode that each plays
        self.allowed = np.zeros((envs, len(self.terms)))  # limits of these episodes, as amounts
        self.number = np.zeros(envs, np.int64)  # of the episode in its stream that each plays
        self.choice = np.random.default_rng(self.stream)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Arrays, dict[str, Any]]:
        """Begin a new episode in every environment, in the streams of this runner where a seed is given.

        The seed distinguishes runners: RLlib's context knows their number, but a vectorised environment gets
        a plain dict without it.
        """
        if seed is not None or not self.streams:
            seeds = seed if isinstance(seed, Sequence) else (0 if seed is None else seed,)
            groups = int(self.group[-1]) + 1
            drawn = np.random.SeedSequence((*self.stream, *seeds)).generate_state(groups + 1).tolist()
            self.choice = np.random.default_rng(drawn.pop())
            self.streams = [
                EpisodeStream(
                    self.feed, np.random.default_rng(group_seed), (group + 1) / groups, self.candidates
                )
                for group, group_seed in enumerate(drawn)
            ]
            self.number[:] = -1
        return super().reset(options=options)

    def _next_episode(self, k: int) -> Episode:
        stream, self.number[k] = self.streams[self.group[k]], self.number[k] + 1
        episode = stream.episode(int(self.number[k]))
        stream.forget(int(self.number[self.group == self.group[k]].min()))
        if self.terms:
            self.accrued[k] = 0.0
            replicas = np.flatnonzero((self.group == self.group[k]) & (self.number == self.number[k]))
            known = replicas[replicas != k]
            if len(known):
                self.allowed[k] = self.allowed[known[0]]
            else:
                limits = allowed(self.scenario, self.feed.units, [episode])
                self.allowed[k] = [limits[name][0] for name in self.limits]
        return episode

    @property
    def shared(self) -> IntArray:
        """(env,) the same number where replicas play the same episode."""
        return (self.group << 32) + self.number

    def synchronise(self) -> IntArray:
        """Copy the state of one random replica of each group to all others of the group.

        The policy reached each of these states, so sampling stays on-policy. From here on replicas differ by
        their actions alone [Schulman et al. 2015, "vine"].

        Returns:
            (env,) environment whose state each has taken over.
        """
        chosen = self.choice.integers(self.replicas, size=int(self.group[-1]) + 1)
        source = (self.group * self.replicas + chosen[self.group]).astype(np.int64)
        self.simulator.copy(source)
        self.episodes = [self.episodes[k] for k in source]
        for column in (self.number, self._clock, self.has_ended, self.accrued, self.allowed):
            column[:] = column[source]
        return source

    def costs(self) -> NDArray[np.float32]:
        """(env, cost) scaled costs of the last transition, which also count towards `projected`."""
        terms = self.simulator.terms
        self.accrued -= terms[:, self.terms]
        return (training_costs(terms, self.terms) * self.cost_scales).astype(np.float32)

    def limited(self, env: int) -> dict[str, float]:
        """Cost with a limit -> the usual limit plus the violation of the limit of its episode."""
        if not self.terms:
            return {}
        played = self.simulator.played(env, self.episodes[env].jobs)
        return {
            name: usual
            + float(limited_costs(self.scenario, self.feed.units, name, [played])[0])
            - float(self.allowed[env, column])
            for column, (name, usual) in enumerate(self.limits.items())
        }

    def projected(self) -> dict[str, float]:
        """Cost with a limit -> projected mean cost of unfinished episodes at their present pace.

        The projection is the usual limit times the cost so far over the cost allowed so far. The latter is an
        episode's limit times the share of its jobs that is submitted. Both are sums over environments, since
        the start of one episode tells little. The cost so far is discounted within transitions, so it is too
        low, if anything.
        """
        episodes, limited = self.simulator.state.episodes, self.scenario.objective.limited
        submitted = episodes["next_arrival"] / episodes["num_jobs"]
        costs = {}
        for k, (name, usual) in enumerate(self.limits.items()):
            so_far = sum(
                limited(cost, len(episode.jobs))
                for cost, episode in zip(self.accrued[:, k].tolist(), self.episodes, strict=True)
            )
            by_now = float(submitted @ self.allowed[:, k])
            costs[name] = usual * so_far / by_now if by_now > 0.0 else so_far / len(submitted)
        return costs


class DomainMetrics(RLlibCallback):
    """Reports scheduling metrics of episodes in addition to the return."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Log the metrics that the environment put into the last step's info."""
        log_domain_metrics(metrics_logger, episode.get_infos(-1).get("metrics") or {})


def log_domain_metrics(metrics_logger: Any, values: Mapping[str, float]) -> None:
    """Log the metrics of an episode that are in `REPORTED`."""
    for name in REPORTED:
        if name in values:
            metrics_logger.log_value(name, values[name], reduce="mean", window=100)


def log_limited(metrics_logger: Any, values: Mapping[str, float]) -> None:
    """Log the costs of an episode that are compared with limits; episodes are not averaged."""
    for name, value in values.items():
        metrics_logger.log_value((LIMITED, name), value, reduce="item_series")
