"""Episodes drawn from a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Cluster
from rlsched.workloads.episodes import (
    EpisodeJobs,
    Supply,
    all_repairs,
    episode,
    evaluation_power_rng,
    evaluation_rng,
)
from rlsched.workloads.lublin import LublinModel
from rlsched.workloads.machine import whole_nodes
from rlsched.workloads.ticks import in_ticks


class Model(Protocol):
    """Draws jobs for one cluster."""

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """So many jobs in the order of their arrival; times in ticks, demands not rounded to nodes."""

    def most_jobs(self, ticks: int) -> int:
        """Bound on the jobs of so many ticks from the first arrival on, which is hardly ever reached.

        Raises:
            BadInputError: the model knows none.
        """


@dataclass(frozen=True)
class LublinJobs:
    """The Lublin-Feitelson model on a cluster, in its ticks.

    Attributes:
        model: draws in seconds.
        processors: of the cluster.
        tick_s: seconds per tick.
    """

    model: LublinModel
    processors: int
    tick_s: int

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """So many jobs in the order of their arrival."""
        return in_ticks(self.model.draw(rng, jobs, self.processors), self.tick_s)

    def most_jobs(self, ticks: int) -> int:
        """None is known: arrivals come in bursts, and whole days may be without."""
        raise BadInputError(
            "episode.jobs",
            f"value None: the Lublin model draws so many jobs, not all of {ticks} ticks",
            "set a number of jobs",
        )


@dataclass(frozen=True, eq=False)
class ModelSource:
    """Episodes drawn from a model, each a fresh one.

    The load of a model is that of the units asked for, before they are rounded up to whole nodes.

    Attributes:
        cluster: the machine.
        model: draws the jobs.
        max_jobs: jobs in an episode; where `ticks` are given, what is cut off of an episode of more.
        ticks: an episode is all jobs that come in so many ticks from the first on; None: `max_jobs` jobs.
        supply: draws the power, if there is any.
    """

    cluster: Cluster
    model: Model
    max_jobs: int
    ticks: int | None = None
    supply: Supply | None = None

    @property
    def repairs(self) -> dict[str, int]:
        """What was put right in what feeds the cluster."""
        return all_repairs({}, self.supply)

    def training(self, rng: np.random.Generator) -> EpisodeJobs:
        """One random episode to train on."""
        return episode(self._jobs(rng), -1, self.supply, rng)

    def evaluation(self, index: int, seed: int) -> EpisodeJobs:
        """Evaluation episode number `index` of a seed, from streams of its own."""
        jobs = self._jobs(evaluation_rng(index, seed))
        return episode(jobs, -1, self.supply, evaluation_power_rng(index, seed))

    def _jobs(self, rng: np.random.Generator) -> JobTable:
        jobs = self.model.draw(rng, self.max_jobs)
        if self.ticks is not None:
            jobs = jobs.take(slice(np.searchsorted(jobs.submit, jobs.submit[0] + self.ticks)))
        return whole_nodes(jobs, self.cluster)
