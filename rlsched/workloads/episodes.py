"""Episodes: what they are, where they come from, and which random streams they are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Cluster

EVALUATION_STREAM = 0x6576616C
"""Marks the random streams of evaluation episodes.

They are the streams SeedSequence(seed, spawn_key=(EVALUATION_STREAM, index)), and those of their power
with POWER_STREAM as a third number. Training streams are made from a seed alone or spawned one after the
other, with spawn keys 0, 1, ..., and so never meet them.
"""
POWER_STREAM = 1


@dataclass(frozen=True, eq=False)
class EpisodeJobs:
    """The jobs of one episode, and what feeds it.

    Attributes:
        jobs: in submit order; times in ticks, of a trace counted as there (the first submit is not 0).
        offset: row of the trace at which the episode starts, -1 where jobs come from a model.
        power: from the first submit on, for the ticks of the episode and of the horizon behind it; None
            where the scenario has no power.
    """

    jobs: JobTable
    offset: int
    power: PowerSeries | None = None


class Source(Protocol):
    """Where episodes come from."""

    @property
    def cluster(self) -> Cluster:
        """The machine, with the units of every resource known."""

    @property
    def repairs(self) -> dict[str, int]:
        """What was dropped or put right on reading: a name of `swf.REPAIRS` -> count."""

    @property
    def max_jobs(self) -> int:
        """The most jobs that an episode can have."""

    @property
    def parts(self) -> Sequence[tuple[float, Source]]:
        """(share of episodes, where they come from): of a mixture its models, else this alone."""

    def training(self, rng: np.random.Generator) -> EpisodeJobs:
        """One random episode to train on.

        Raises:
            BadInputError: the rows that training may see hold no whole episode.
        """

    def evaluation(self, index: int, seed: int) -> EpisodeJobs:
        """Evaluation episode number `index` of a seed: the same at every call, and not for training.

        Raises:
            BadInputError: there are fewer episodes, or no row is left for evaluation.
        """


class DrawsPower(Protocol):
    """What draws the power of an episode: `rlsched.power.model.PowerModel`."""

    @property
    def repairs(self) -> dict[str, int]:
        """What was put right in its file: a name of `swf.REPAIRS` -> count."""

    def draw(self, rng: np.random.Generator, ticks: int) -> PowerSeries:
        """A series of so many ticks."""


@dataclass(frozen=True, eq=False)
class Supply:
    """Gives an episode the power of all ticks that it can ask about.

    Attributes:
        model: what draws the series.
        max_ticks: ticks of an episode, None where it ends when its jobs do; then the series lasts from
            the first submit to the last, and repeats.
        horizon: ticks that are forecast at every tick.
    """

    model: DrawsPower
    max_ticks: int | None
    horizon: int

    def draw(self, rng: np.random.Generator, jobs: JobTable) -> PowerSeries:
        """The power of an episode with these jobs, in submit order."""
        ticks = self.max_ticks or int(jobs.submit[-1] - jobs.submit[0]) + 1
        return self.model.draw(rng, ticks + self.horizon + 1)


def all_repairs(jobs: dict[str, int], supply: Supply | None) -> dict[str, int]:
    """What was put right in the jobs and in what feeds them."""
    return jobs if supply is None else jobs | supply.model.repairs


def episode(jobs: JobTable, offset: int, supply: Supply | None, rng: np.random.Generator) -> EpisodeJobs:
    """The episode of these jobs with its power; without a supply nothing is drawn."""
    return EpisodeJobs(jobs, offset, None if supply is None else supply.draw(rng, jobs))


def evaluation_rng(index: int, seed: int) -> np.random.Generator:
    """The stream of the jobs of an evaluation episode."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(EVALUATION_STREAM, index)))


def evaluation_power_rng(index: int, seed: int) -> np.random.Generator:
    """The stream of the power of an evaluation episode.

    It is not that of the jobs: so the same jobs come with and without power, and the same weather for
    other jobs.
    """
    key = (EVALUATION_STREAM, index, POWER_STREAM)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
