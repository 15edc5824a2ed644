"""Episodes drawn from a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Cluster, Estimates, LublinWorkload
from rlsched.workloads.episodes import (
    EpisodeJobs,
    Source,
    Supply,
    all_repairs,
    episode,
    evaluation_power_rng,
    evaluation_rng,
)
from rlsched.workloads.estimates import estimated
from rlsched.workloads.lublin import LublinModel, draw_apart
from rlsched.workloads.machine import at_requested, whole_nodes
from rlsched.workloads.ticks import in_ticks


class Model(Protocol):
    """Draws jobs for one cluster."""

    @property
    def longest(self) -> int:
        """Ticks that a job may run."""

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """So many jobs in the order of their arrival; times in ticks, demands not rounded to nodes."""

    def most_jobs(self, ticks: int) -> int:
        """Bound on the jobs of so many ticks from the first arrival on, which is hardly ever reached.

        Raises:
            BadInputError: the model knows none.
        """


KINDS: dict[str, tuple[Callable[[], LublinModel], ...]] = {
    "all": (LublinModel,),
    "batch": (LublinModel.batch,),
    "interactive": (LublinModel.interactive,),
    "apart": (LublinModel.interactive, LublinModel.batch),
}
"""Models of the kinds of jobs that a Lublin workload may have, in the order of their queues."""


@dataclass(frozen=True)
class LublinJobs:
    """The Lublin-Feitelson model on a cluster, in its ticks.

    Attributes:
        models: of the kinds of jobs that come side by side; they draw in seconds.
        processors: of the cluster.
        tick_s: seconds per tick.
    """

    models: tuple[LublinModel, ...]
    processors: int
    tick_s: int

    @classmethod
    def of(cls, workload: LublinWorkload, processors: int, tick_s: int) -> LublinJobs:
        """The model as the settings have it.

        Raises:
            BadInputError: hardly any job is as short as it must be, or shares are more than all jobs.
        """
        changes: dict[str, Any] = workload.parameters.given | {"max_runtime_s": workload.max_runtime_s}
        if not workload.daily_cycle:
            changes["cycle"] = None
        models = [replace(kind(), **changes) for kind in KINDS[workload.jobs]]
        for model in models:
            if model.serial + model.power_of_two > 1:
                raise BadInputError(
                    "workload.parameters.serial",
                    f"value {model.serial:g} beside power_of_two {model.power_of_two:g}: more than all jobs",
                    "set at most 1 in sum",
                )
        loads = [model.natural_load(processors) for model in models]  # refuses impossible limits
        if workload.load is not None:
            share = workload.load / sum(loads)
            models = [replace(model, load=load * share) for model, load in zip(models, loads, strict=True)]
        return cls(tuple(models), processors, tick_s)

    @property
    def longest(self) -> int:
        """Ticks that a job may run."""
        seconds = max(model.longest_runtime_s for model in self.models)
        return -(-seconds // self.tick_s)

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """So many jobs in the order of their arrival."""
        if len(self.models) == 1:
            drawn = self.models[0].draw(rng, jobs, self.processors)
        else:
            drawn = draw_apart(self.models, rng, jobs, self.processors)
        return in_ticks(drawn, self.tick_s)

    def most_jobs(self, ticks: int) -> int:
        """None is known: arrivals come in bursts, and whole days may be without."""
        raise BadInputError(
            "episode.jobs",
            f"value None: the Lublin model draws so many jobs, not all of {ticks} ticks",
            "set a number of jobs",
        )


@dataclass(frozen=True)
class EstimatedJobs:
    """A model whose users do not ask for what their jobs take.

    Attributes:
        model: of the jobs.
        estimates: of the users.
        tick_s: seconds per tick.
        horizon: ticks that may be asked for at most; None: any number.
    """

    model: Model
    estimates: Estimates
    tick_s: int
    horizon: int | None

    @property
    def longest(self) -> int:
        """Ticks that a job may run."""
        return self.model.longest

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """So many jobs in the order of their arrival."""
        longest_s = self.longest * self.tick_s
        drawn = estimated(self.model.draw(rng, jobs), self.estimates, rng, self.tick_s, longest_s)
        if self.horizon is None:
            return drawn
        return replace(drawn, requested=np.minimum(drawn.requested, self.horizon))

    def most_jobs(self, ticks: int) -> int:
        """As the model has it."""
        return self.model.most_jobs(ticks)


@dataclass(frozen=True)
class OwnCluster:
    """A model whose jobs come to a cluster of their own size.

    Attributes:
        model: of the jobs.
        units: of that cluster.
    """

    model: Model
    units: int

    @property
    def longest(self) -> int:
        """Ticks that a job may run."""
        return self.model.longest

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """So many jobs in the order of their arrival, which name their cluster."""
        return replace(self.model.draw(rng, jobs), units=np.array([self.units]))

    def most_jobs(self, ticks: int) -> int:
        """As the model has it."""
        return self.model.most_jobs(ticks)


@dataclass(frozen=True)
class MixedModels:
    """Several models, one of which draws all jobs of an episode.

    Attributes:
        models: that draw.
        shares: (model,) of episodes, in any unit.
    """

    models: tuple[Model, ...]
    shares: tuple[float, ...]

    @property
    def longest(self) -> int:
        """Ticks that a job may run."""
        return max(model.longest for model in self.models)

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """So many jobs in the order of their arrival."""
        ends = np.cumsum(self.shares)
        return self.models[int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))].draw(rng, jobs)

    def most_jobs(self, ticks: int) -> int:
        """Of the busiest model."""
        return max(model.most_jobs(ticks) for model in self.models)


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

    @property
    def parts(self) -> Sequence[tuple[float, Source]]:
        """(share of episodes, where they come from), each model of a mixture; else this alone."""
        if not isinstance(self.model, MixedModels):
            return [(1.0, self)]
        own = (replace(self, model=model) for model in self.model.models)
        return list(zip(self.model.shares, own, strict=True))

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
        return at_requested(whole_nodes(jobs, self.cluster), self.cluster)
