"""Episodes as environments consume them: the jobs, and the scale of their rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlsched.jobs import IntArray, JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim.metrics import JobOutcome, Played
from rlsched.sim.replay import Replayer, make_order
from rlsched.workloads.source import EpisodeJobs, Source, open_source

LEAST_CHANCE = 1e-3
"""Added to the weight of every episode, so that one can be drawn where no job waits in any."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode that is ready to be played.

    Attributes:
        jobs: of the episode.
        offset: where in the trace they begin.
        scale: factor on its rewards.
        power: of the site; None without.
        baseline: mean bounded slowdown of the best baseline order; 1 without a baseline.
    """

    jobs: JobTable
    offset: int
    scale: float
    power: PowerSeries | None = None
    baseline: float = 1.0


class EpisodeFeed:
    """Draws episodes of a scenario and works out their reward scale.

    The scale is 1 / (jobs x slowdown ** `baseline_exponent`), with the best bounded slowdown of the baseline
    orders under greedy backfilling. With an exponent of 1 a return of -1 means as good as that baseline,
    whatever the load of the episode. Without a baseline the scale is 1.

    Args:
        scenario: what is simulated.
        source: where its episodes come from; opened from the scenario where left out.

    Attributes:
        scenario: with the units of every resource known.
        units: of every resource.

    Raises:
        BadInputError: the workload cannot be opened, or a baseline is no known order.
    """

    def __init__(self, scenario: Scenario, source: Source | None = None) -> None:
        self.source = open_source(scenario) if source is None else source
        self.scenario = scenario.model_copy(update={"cluster": self.source.cluster})
        self.units = [int(resource.units or 0) for resource in self.source.cluster.resources]
        self._replayer: Replayer | None = None
        for name in scenario.objective.baseline:
            make_order(np.zeros((1, 1)), name, "greedy", None)  # refuses unknown names before anything starts

    def __getstate__(self) -> dict[str, Any]:
        """All but the replayer, which a copy makes for itself."""
        return self.__dict__ | {"_replayer": None}

    @property
    def max_jobs(self) -> int:
        """The longest episode, in jobs."""
        return self.source.max_jobs

    def training(self, rng: np.random.Generator) -> Episode:
        """A random episode to train on."""
        return self.scaled(self.source.training(rng))

    def contended(self, rng: np.random.Generator, candidates: int) -> Episode:
        """One of several random episodes to train on, likelier the more its jobs wait under the baseline.

        The chance is in proportion to the baseline's mean bounded slowdown beyond 1. Where hardly a job waits
        all policies are alike, and nothing can be learned [Zhang et al. 2020, RLScheduler, filters such
        sequences]; and the mean slowdown is mostly that of contended episodes.

        Args:
            rng: draws them.
            candidates: how many are drawn; one without a baseline, and where jobs do not end episodes.
        """
        if not self.scenario.objective.baseline or self.scenario.episode.jobs is None:
            return self.training(rng)
        episodes = [self.training(rng) for _ in range(candidates)]
        weights = np.array([episode.baseline for episode in episodes]) - 1.0 + LEAST_CHANCE
        return episodes[int(rng.choice(candidates, p=weights / weights.sum()))]

    def stratified(
        self, rng: np.random.Generator, count: int, *, least: int = 0
    ) -> tuple[list[Episode], IntArray]:
        """Random episodes to train on, of every part of a mixture its share, and (episode,) of which part.

        What shares do not come to in whole episodes goes to parts by chance, so that on average each has its
        share exactly: systematic sampling.

        Args:
            rng: draws them.
            count: how many.
            least: episodes that every part has, however small its share, where there are enough.
        """
        shares, sources = zip(*self.source.parts, strict=True)
        each = least if count >= least * len(shares) else 0
        ends = (count - each * len(shares)) * np.cumsum(shares) / sum(shares)
        if len(shares) > 1:
            ends[:-1] = np.floor(ends[:-1] + rng.random())
        given = np.diff(np.rint(ends).astype(np.int64), prepend=0)
        parts = np.repeat(np.arange(len(shares)), each + given)
        return [self.scaled(sources[part].training(rng)) for part in parts], parts

    def evaluation(self, index: int, seed: int) -> Episode:
        """Evaluation episode `index` of a seed; training never sees it."""
        return self.scaled(self.source.evaluation(index, seed))

    def shortened(self, episode: Episode, share: float) -> Episode:
        """The first share of an episode's jobs, at least one; the same where the clock ends episodes."""
        if self.scenario.episode.end == "max_ticks":
            return episode
        jobs = episode.jobs.take(slice(max(1, round(share * len(episode.jobs)))))
        return self.scaled(EpisodeJobs(jobs, episode.offset, episode.power))

    def scaled(self, episode: EpisodeJobs) -> Episode:
        """The episode with the scale its baseline gives it."""
        objective, jobs = self.scenario.objective, episode.jobs
        scale = baseline = 1.0
        if objective.baseline:
            baseline = self.baseline_slowdown(jobs)
            scale /= len(jobs) * baseline**objective.baseline_exponent
        return Episode(jobs, episode.offset, scale, episode.power, baseline)

    def baseline_slowdown(self, jobs: JobTable) -> float:
        """Mean bounded slowdown of an episode's jobs under the best of the baseline orders."""
        if self._replayer is None:
            self._replayer = Replayer(1, self.max_jobs, self.units, linked=self.scenario.linked)
        tick_s = self.scenario.cluster.tick_s
        window = self.scenario.decision.window
        return min(
            _mean_bounded_slowdown(jobs, starts, tick_s)
            for name in self.scenario.objective.baseline
            for starts in self._replayer.run([jobs], name, "greedy", window=window)
        )


def _mean_bounded_slowdown(jobs: JobTable, starts: IntArray, tick_s: int) -> float:
    return float(JobOutcome.of(Played.of_starts(jobs, starts), tick_s).bounded_slowdown.mean())
