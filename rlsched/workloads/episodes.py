"""Episodes, their sources and their random streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import ResolvedCluster, Scenario

if TYPE_CHECKING:
    from rlsched.power.model import PowerModel

EVALUATION_STREAM = 0x6576616C
"""Key of the random streams of evaluation episodes.

A stream is SeedSequence(seed, spawn_key=(EVALUATION_STREAM, index)), that of its power has POWER_STREAM as a
third number. Training streams have no spawn key, or 0, 1, ..., and so differ from all of them.
"""
POWER_STREAM = 1


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode of a scenario.

    A source sets jobs, offset and power; an environment its scale and baseline; an evaluation the rest.

    Attributes:
        jobs: in submit order; times in ticks, on the clock of the trace (the first submit is not 0).
        offset: row of the trace at which the episode starts; None: jobs are drawn.
        power: from the first submit on, for the ticks of the episode and the planning horizon after it;
            None: the scenario has no power.
        scale: factor of its rewards.
        baseline: mean bounded slowdown of the best baseline heuristic; 1 without a baseline.
        number: policies are paired by it.
        seed: of the random draws of the episode.
        rows: the same jobs in trace order, for replays that follow it; None: the order of `jobs`.
    """

    jobs: JobTable
    _: KW_ONLY
    offset: int | None = None
    power: PowerSeries | None = None
    scale: float = 1.0
    baseline: float = 1.0
    number: int = 0
    seed: int = 0
    rows: JobTable | None = None


class Source(Protocol):
    """A source of episodes."""

    @property
    def cluster(self) -> ResolvedCluster:
        """The machine, with the units of every resource."""

    @property
    def repairs(self) -> dict[str, int]:
        """Drops and repairs on reading: a key of `swf.REPAIRS` -> count."""

    @property
    def max_jobs(self) -> int:
        """Most jobs in an episode."""

    @property
    def parts(self) -> Sequence[tuple[float, Source]]:
        """(share of episodes, source) for each model of a mixture; else this source alone."""

    def training(self, rng: np.random.Generator) -> Episode:
        """Draw a training episode.

        Raises:
            BadInputError: the training rows have no whole episode.
        """

    def evaluation(self, index: int, seed: int) -> Episode:
        """Evaluation episode number `index` of a seed: the same at every call, and disjoint from training.

        Raises:
            BadInputError: there are fewer episodes, or no rows for evaluation.
        """


@dataclass(frozen=True, eq=False)
class Supply:
    """Draws the power of an episode, with the forecasts of its last tick.

    Attributes:
        max_ticks: ticks of an episode; None: it ends with its jobs, and the series lasts from the first
            submit to the last, and repeats.
        horizon: ticks of a forecast.
    """

    model: PowerModel
    max_ticks: int | None
    horizon: int

    def draw(self, rng: np.random.Generator, jobs: JobTable) -> PowerSeries:
        """Draw the power of an episode with these jobs, in submit order."""
        ticks = self.max_ticks or int(jobs.submit[-1] - jobs.submit[0]) + 1
        return self.model.draw(rng, ticks + self.horizon + 1)


def all_repairs(jobs: dict[str, int], supply: Supply | None) -> dict[str, int]:
    """Repairs of the jobs and of the power file."""
    return jobs if supply is None else jobs | supply.model.repairs


def episode(jobs: JobTable, offset: int | None, supply: Supply | None, rng: np.random.Generator) -> Episode:
    """Make an episode of jobs and draw its power; without a supply nothing is drawn."""
    return Episode(jobs, offset=offset, power=None if supply is None else supply.draw(rng, jobs))


def evaluation_rng(index: int, seed: int) -> np.random.Generator:
    """Random stream of the jobs of an evaluation episode."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(EVALUATION_STREAM, index)))


def evaluation_power_rng(index: int, seed: int) -> np.random.Generator:
    """Random stream of the power of an evaluation episode.

    It differs from that of the jobs. So jobs are the same with and without power, and the weather is the same
    for other jobs.
    """
    key = (EVALUATION_STREAM, index, POWER_STREAM)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def open_supply(scenario: Scenario, cluster: ResolvedCluster) -> Supply | None:
    """Open the power model of a scenario; None: it has no power."""
    if scenario.power is None:
        return None
    from rlsched.power.model import open_power  # pandas is slow to import

    return Supply(
        model=open_power(scenario.power, cluster),
        max_ticks=scenario.episode.max_ticks,
        horizon=scenario.decision.horizon or 0,
    )
