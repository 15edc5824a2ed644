"""EpisodeFeed: episodes of environments, with the scale of their rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.sim.metrics import JobOutcome, Played
from rlsched.sim.replay import Replayer, make_heuristic
from rlsched.workloads.episodes import Episode, Source
from rlsched.workloads.source import open_source

LEAST_CHANCE = 1e-3
"""Added to the weight of every episode, so that one can be drawn if no job waits in any of them."""


class EpisodeFeed:
    """Draws episodes of a scenario, and computes their reward scale.

    The scale is 1 / (jobs x slowdown ** `baseline_exponent`), with the mean bounded slowdown of the best
    baseline heuristic under greedy backfilling. With an exponent of 1, a return of -1 is as good as the
    baseline, at any load. Without a baseline the scale is 1.

    Args:
        scenario: to be simulated.
        source: of its episodes; by default it is opened from the scenario.

    Attributes:
        scenario: resolved.

    Raises:
        BadInputError: the workload cannot be opened, or a baseline is not a known heuristic.
    """

    def __init__(self, scenario: Scenario, source: Source | None = None) -> None:
        self.source = open_source(scenario) if source is None else source
        self.scenario = scenario.resolve(self.source.cluster)
        self._replayer: Replayer | None = None
        for name in scenario.objective.baseline:
            make_heuristic(
                np.zeros((1, 1)), name, "greedy", None
            )  # refuses unknown names before anything starts

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the replayer, which a copy creates when it needs one."""
        return self.__dict__ | {"_replayer": None}

    @property
    def units(self) -> list[int]:
        """(resource,) units of the cluster."""
        return self.scenario.cluster.units

    @property
    def max_jobs(self) -> int:
        """The longest episode, in jobs."""
        return self.source.max_jobs

    def training(self, rng: np.random.Generator) -> Episode:
        """A random episode to train on."""
        return self.scaled(self.source.training(rng))

    def contended(self, rng: np.random.Generator, candidates: int) -> Episode:
        """Draw one of several random training episodes, in proportion to the contention of each.

        Contention is the baseline's mean bounded slowdown minus 1. Where hardly a job waits, all policies are
        equally good and nothing can be learned [Zhang et al. 2020 filter such sequences].
        Contended episodes also dominate the mean slowdown.

        Args:
            rng: random generator.
            candidates: number of episodes to choose from. It is 1 without a baseline, and where episodes do
                not end after a number of jobs.
        """
        if not self.scenario.objective.baseline or self.scenario.episode.jobs is None:
            return self.training(rng)
        episodes = [self.training(rng) for _ in range(candidates)]
        weights = np.array([episode.baseline for episode in episodes]) - 1.0 + LEAST_CHANCE
        return episodes[int(rng.choice(candidates, p=weights / weights.sum()))]

    def stratified(
        self, rng: np.random.Generator, count: int, *, least: int = 0
    ) -> tuple[list[Episode], IntArray]:
        """Draw training episodes from every part of a mixture, by its share (systematic sampling).

        Fractions of episodes are drawn at random, so that on average every part has exactly its share.

        Args:
            rng: random generator.
            count: number of episodes.
            least: least number of episodes per part, if `count` allows it.

        Returns:
            The episodes, and (episode,) their part.
        """
        shares, sources = zip(*self.source.parts, strict=True)
        least_each = least if count >= least * len(shares) else 0
        ends = (count - least_each * len(shares)) * np.cumsum(shares) / sum(shares)
        if len(shares) > 1:
            ends[:-1] = np.floor(ends[:-1] + rng.random())
        extra = np.diff(np.rint(ends).astype(np.int64), prepend=0)
        parts = np.repeat(np.arange(len(shares)), least_each + extra)
        return [self.scaled(sources[part].training(rng)) for part in parts], parts

    def evaluation(self, index: int, seed: int) -> Episode:
        """Evaluation episode `index` of a seed; training never sees it."""
        return self.scaled(self.source.evaluation(index, seed))

    def shortened(self, episode: Episode, share: float) -> Episode:
        """The first `share` of an episode's jobs, at least one; unchanged where ticks end episodes."""
        if self.scenario.episode.end == "max_ticks":
            return episode
        jobs = episode.jobs.take(slice(max(1, round(share * len(episode.jobs)))))
        return self.scaled(replace(episode, jobs=jobs))

    def scaled(self, episode: Episode) -> Episode:
        """Add the reward scale to an episode."""
        objective, jobs = self.scenario.objective, episode.jobs
        scale = baseline = 1.0
        if objective.baseline:
            baseline = self.baseline_slowdown(jobs)
            scale /= len(jobs) * baseline**objective.baseline_exponent
        return replace(episode, scale=scale, baseline=baseline)

    def baseline_slowdown(self, jobs: JobTable) -> float:
        """Mean bounded slowdown of an episode's jobs under the best baseline heuristic."""
        if self._replayer is None:
            self._replayer = Replayer(1, self.max_jobs, self.units, linked=self.scenario.linked)
        tick_s = self.scenario.cluster.tick_s
        window = self.scenario.decision.window
        return min(
            float(JobOutcome.of(Played.of_starts(jobs, starts), tick_s).bounded_slowdown.mean())
            for name in self.scenario.objective.baseline
            for starts in self._replayer.run([jobs], name, "greedy", window=window)
        )
