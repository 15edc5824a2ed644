"""Episodes drawn from a model, and the models of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import (
    LublinWorkload,
    MixtureWorkload,
    ModelWorkload,
    Part,
    PoissonWorkload,
    ResolvedCluster,
    Scenario,
)
from rlsched.workloads.episodes import (
    Episode,
    Source,
    Supply,
    all_repairs,
    episode,
    evaluation_power_rng,
    evaluation_rng,
    open_supply,
)
from rlsched.workloads.machine import (
    at_requested,
    check_one_resource,
    usable_units,
    whole_nodes,
)
from rlsched.workloads.models import AdjustedModel, LublinJobs, MixedModels, Model
from rlsched.workloads.random_arrivals import MaoModel, PoissonModel


@dataclass(frozen=True, eq=False)
class ModelSource:
    """Episodes drawn from a model; every training episode is new.

    The load of a model is that of the requested units, before they are rounded up to whole nodes.

    Attributes:
        max_jobs: jobs in an episode; with `ticks`, the most that are drawn for one.
        ticks: length of an episode from its first arrival; None: an episode is `max_jobs` jobs.
    """

    cluster: ResolvedCluster
    model: Model
    max_jobs: int
    ticks: int | None = None
    supply: Supply | None = None

    @property
    def repairs(self) -> dict[str, int]:
        """Repairs of the power file: a key of `swf.REPAIRS` -> count."""
        return all_repairs({}, self.supply)

    @property
    def parts(self) -> Sequence[tuple[float, Source]]:
        """(share of episodes, source) for each model of a mixture; else this source alone."""
        if not isinstance(self.model, MixedModels):
            return [(1.0, self)]
        sources = (replace(self, model=model) for model in self.model.models)
        return list(zip(self.model.shares, sources, strict=True))

    def training(self, rng: np.random.Generator) -> Episode:
        """Draw a training episode."""
        return episode(self._jobs(rng), None, self.supply, rng)

    def evaluation(self, index: int, seed: int) -> Episode:
        """Evaluation episode number `index` of a seed, from its own random streams."""
        jobs = self._jobs(evaluation_rng(index, seed))
        return episode(jobs, None, self.supply, evaluation_power_rng(index, seed))

    def _jobs(self, rng: np.random.Generator) -> JobTable:
        jobs = self.model.draw(rng, self.max_jobs)
        if self.ticks is not None:
            jobs = jobs.take(slice(np.searchsorted(jobs.submit, jobs.submit[0] + self.ticks)))
        return at_requested(whole_nodes(jobs, self.cluster), self.cluster)


def open_model(scenario: Scenario, workload: ModelWorkload | MixtureWorkload) -> ModelSource:
    """Open the source of a scenario whose workload is a model.

    Raises:
        BadInputError: settings of the scenario do not go with the model.
    """
    cluster = scenario.cluster.resolve(None, f"workload: the {workload.kind} model")
    jobs, ticks = scenario.episode.jobs, scenario.episode.max_ticks
    if jobs is None and ticks is None:
        problem = "value None: a model draws any number of jobs"
        remedy = "set a number of jobs, or episode.end: max_ticks and episode.max_ticks: N"
        raise BadInputError("episode.jobs", problem, remedy)
    if scenario.episode.offsets:
        problem = "are rows of a trace, and the workload is a model"
        raise BadInputError("episode.offsets", problem, "remove them")
    model: Model
    if isinstance(workload, MixtureWorkload):
        sizes = [part.units for part in workload.parts if part.units is not None]
        largest = max(sizes, default=0)
        if len(sizes) == len(workload.parts) and largest != cluster.units[0]:
            problem = f"value {cluster.units[0]}, and the largest of workload.parts.N.units is {largest}"
            remedy = f"set it to {largest}, or remove the units of a part"
            raise BadInputError("cluster.resources.0.units", problem, remedy)
        models = tuple(_part(scenario, part, cluster, k) for k, part in enumerate(workload.parts))
        model = MixedModels(models, tuple(part.share for part in workload.parts))
    else:
        model = _model(scenario, workload, cluster)
    return ModelSource(
        cluster=cluster,
        model=model,
        max_jobs=model.most_jobs(ticks or 1) if jobs is None else jobs,
        ticks=ticks if jobs is None else None,
        supply=open_supply(scenario, cluster),
    )


def _part(scenario: Scenario, part: Part, cluster: ResolvedCluster, number: int) -> Model:
    """The model of a part of a mixture, on its own cluster if it has one."""
    if part.units is None:
        return _model(scenario, part.workload, cluster)
    where = f"workload.parts.{number}.units"
    if len(cluster.resources) > 1:
        raise BadInputError(where, "does not go with several cluster.resources", "keep one resource")
    (resource,) = cluster.resources
    least = resource.units_per_node or 1
    if not least <= part.units <= resource.units:
        problem = f"value {part.units}"
        remedy = f"use {least} to {resource.units}, which are cluster.resources.0.units"
        raise BadInputError(where, problem, remedy)
    part_cluster = cluster.model_copy(
        update={"resources": (resource.model_copy(update={"units": part.units}),)}
    )
    model = _model(scenario, part.workload, part_cluster)
    return AdjustedModel(model, cluster.tick_s, units=part.units)


def _model(scenario: Scenario, workload: ModelWorkload, cluster: ResolvedCluster) -> Model:
    model: Model
    horizon = scenario.decision.horizon
    if isinstance(workload, LublinWorkload):
        model = _lublin(workload, cluster, horizon)
    elif isinstance(workload, PoissonWorkload):
        model = PoissonModel.of(workload, cluster)
    else:
        model = MaoModel.of(workload, cluster)
    if workload.estimates is None:
        return model
    if getattr(workload.estimates, "seed", 0):
        problem = "is not supported by a model, which draws requested times with its jobs"
        raise BadInputError("workload.estimates.seed", problem, "remove it")
    return AdjustedModel(model, cluster.tick_s, workload.estimates, horizon)


def _lublin(workload: LublinWorkload, cluster: ResolvedCluster, horizon: int | None) -> LublinJobs:
    check_one_resource(cluster, "keep one resource")
    jobs = LublinJobs.of(workload, usable_units(cluster.resources[0]), cluster.tick_s)
    if horizon is not None and jobs.longest > horizon:
        longest = max(model.longest_runtime_s for model in jobs.models)
        raise BadInputError(
            "workload.max_runtime_s",
            f"jobs of up to {longest} s do not fit decision.horizon {horizon} of {cluster.tick_s} s each",
            f"set at most {horizon * cluster.tick_s}, or a longer horizon or cluster.tick_s",
        )
    return jobs
