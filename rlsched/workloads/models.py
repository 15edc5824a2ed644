"""Workload models on a cluster, and their combinations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Estimates, LublinWorkload
from rlsched.workloads.estimates import estimated
from rlsched.workloads.lublin import LublinModel, draw_apart


class Model(Protocol):
    """Draws jobs for one cluster."""

    @property
    def longest(self) -> int:
        """Longest runtime of a job, ticks."""

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """Draw jobs in the order of their arrival; times in ticks, demands not rounded to nodes."""

    def most_jobs(self, ticks: int) -> int:
        """Bound on the jobs in `ticks` from the first arrival on; reached with negligible probability.

        Raises:
            BadInputError: the model has no such bound.
        """


KINDS: dict[str, tuple[Callable[[], LublinModel], ...]] = {
    "all": (LublinModel,),
    "batch": (LublinModel.batch,),
    "interactive": (LublinModel.interactive,),
    "apart": (LublinModel.interactive, LublinModel.batch),
}
"""Setting `workload.jobs` -> constructors of its models, in the order of their queues."""


@dataclass(frozen=True)
class LublinJobs:
    """The Lublin-Feitelson model on a cluster, in its ticks.

    Attributes:
        models: one per kind of job, which arrive concurrently; they draw in seconds.
    """

    models: tuple[LublinModel, ...]
    processors: int
    tick_s: int

    @classmethod
    def of(cls, workload: LublinWorkload, processors: int, tick_s: int) -> LublinJobs:
        """Build the model of the settings.

        Raises:
            BadInputError: the limits accept next to no job, or shares exceed 1.
        """
        changes: dict[str, Any] = workload.parameters.changed | {"max_runtime_s": workload.max_runtime_s}
        if not workload.daily_cycle:
            changes["cycle"] = None
        models = [replace(kind(), **changes) for kind in KINDS[workload.jobs]]
        for model in models:
            if model.serial + model.power_of_two > 1:
                problem = f"value {model.serial:g} and power_of_two {model.power_of_two:g} have a sum above 1"
                raise BadInputError("workload.parameters.serial", problem, "set a sum of at most 1")
        loads = [model.natural_load(processors) for model in models]  # refuses impossible limits
        if workload.load is not None:
            share = workload.load / sum(loads)
            models = [replace(model, load=load * share) for model, load in zip(models, loads, strict=True)]
        return cls(tuple(models), processors, tick_s)

    @property
    def longest(self) -> int:
        """Longest runtime of a job, ticks."""
        seconds = max(model.longest_runtime_s for model in self.models)
        return -(-seconds // self.tick_s)

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """Draw jobs in the order of their arrival."""
        if len(self.models) == 1:
            drawn = self.models[0].draw(rng, jobs, self.processors)
        else:
            drawn = draw_apart(self.models, rng, jobs, self.processors)
        return drawn.in_ticks(self.tick_s)

    def most_jobs(self, ticks: int) -> int:
        """Not supported: arrivals come in bursts, and whole days may have none."""
        problem = f"value None: the Lublin model draws a number of jobs, not the jobs of {ticks} ticks"
        raise BadInputError("episode.jobs", problem, "set a number of jobs")


@dataclass(frozen=True)
class AdjustedModel:
    """A model with requested times that differ from runtimes, or with a cluster of its own size.

    Attributes:
        estimates: how users estimate runtimes; None: as the model has it.
        horizon: longest estimate, ticks; None: unlimited.
        units: size of the cluster of its episodes; None: that of the scenario.
    """

    model: Model
    tick_s: int
    estimates: Estimates | None = None
    horizon: int | None = None
    units: int | None = None

    @property
    def longest(self) -> int:
        """Longest runtime of a job, ticks."""
        return self.model.longest

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """Draw jobs in the order of their arrival."""
        longest_s = self.longest * self.tick_s
        drawn = estimated(self.model.draw(rng, jobs), self.estimates, rng, self.tick_s, longest_s)
        if self.horizon is not None:
            drawn = replace(drawn, requested=np.minimum(drawn.requested, self.horizon))
        return drawn if self.units is None else replace(drawn, units=np.array([self.units]))

    def most_jobs(self, ticks: int) -> int:
        """The bound of the model."""
        return self.model.most_jobs(ticks)


@dataclass(frozen=True)
class MixedModels:
    """A mixture: one of several models draws all jobs of an episode.

    Attributes:
        shares: (model,) relative frequency.
    """

    models: tuple[Model, ...]
    shares: tuple[float, ...]

    @property
    def longest(self) -> int:
        """Longest runtime of a job, ticks."""
        return max(model.longest for model in self.models)

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """Draw jobs in the order of their arrival."""
        ends = np.cumsum(self.shares)
        return self.models[int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))].draw(rng, jobs)

    def most_jobs(self, ticks: int) -> int:
        """The largest bound of the models."""
        return max(model.most_jobs(ticks) for model in self.models)
