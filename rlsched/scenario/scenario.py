"""Scenario: everything that shapes an experiment, in one frozen and checked object.

Every run folder and checkpoint holds its scenario, and can be run again from it. Units are in the names of
fields or in their descriptions; unknown keys are refused.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from rlsched.scenario.cluster import Cluster, ResolvedCluster
from rlsched.scenario.decision import Decision
from rlsched.scenario.episode import EpisodeSettings
from rlsched.scenario.objective import Objective
from rlsched.scenario.observation import Observation
from rlsched.scenario.power import Power
from rlsched.scenario.terms import terms_that_need
from rlsched.scenario.workload import MaoWorkload, MixtureWorkload, PoissonWorkload, Workload
from rlsched.settings import Frozen, SettingError


class Scenario(Frozen):
    """A scenario: all settings of a simulation."""

    schema_version: Literal[1] = 1
    name: str = Field("custom", description="shown in tables and stored in run folders")
    description: str = Field("", description="one line for `rlsched scenarios`")
    cluster: Cluster = Cluster()
    power: Power | None = Field(None, description="null: all units are always on, and energy is not counted")
    workload: Workload = Field(description="trace or model of jobs")
    decision: Decision = Decision()
    observation: Observation = Observation()
    objective: Objective = Objective()
    episode: EpisodeSettings = EpisodeSettings()

    @property
    def linked(self) -> bool:
        """Whether jobs may depend on the ends of others."""
        return getattr(self.workload, "dependencies", "ignore") == "follow"

    @model_validator(mode="after")
    def _together(self) -> Scenario:
        self._check_horizon()
        self._check_longest_job()
        self._check_cluster_sizes()
        self._check_history()
        self._check_terms()
        if self.power is not None and self.power.may_fail and self.episode.end != "max_ticks":
            raise SettingError(
                "episode.end",
                f"value {self.episode.end!r} does not go with power that may fail: a job may never get "
                "its units",
                "set episode.end=max_ticks and episode.max_ticks=N",
            )
        return self

    def _check_horizon(self) -> None:
        """Check the settings that need a planning horizon, power or an image."""
        remedy = "set decision.horizon=N, in ticks, or remove it"
        if not self.decision.tick_driven:
            if self.power is not None:
                raise SettingError("power", "has no effect without a horizon", remedy)
            for block in self.observation.blocks:
                if block in {"image", "profile", "coming", "supply"}:
                    problem = f"{block!r} has no effect without a horizon"
                    raise SettingError("observation.blocks", problem, remedy)
        if self.power is None and "supply" in self.observation.blocks:
            raise SettingError(
                "observation.blocks",
                "'supply' has no effect without power",
                "add power ('power: {}' has it always there), or remove it",
            )
        if self.observation.classic and "image" not in self.observation.blocks:
            raise SettingError(
                "observation.classic",
                "value true has no effect without an image",
                "add image to observation.blocks, or remove it",
            )

    def _check_longest_job(self) -> None:
        """Check that the horizon fits the longest job of a model; a trace is checked when it is read."""
        horizon, workload = self.decision.horizon, self.workload
        models: dict[str, Workload] = {"workload": workload}
        if isinstance(workload, MixtureWorkload):
            models = {f"workload.parts.{k}.workload": part.workload for k, part in enumerate(workload.parts)}
        for where, model in models.items():
            if horizon is None or not isinstance(model, PoissonWorkload | MaoWorkload):
                continue
            name = "long" if model.long[1] > model.short[1] else "short"
            longest = getattr(model, name)[1]
            if longest > horizon:
                raise SettingError(
                    "decision.horizon",
                    f"value {horizon} is shorter than the longest job, {longest} ticks ({where}.{name}), "
                    "which could never be planned",
                    f"set at least {longest}, or shorter jobs",
                )

    def resolve(self, cluster: ResolvedCluster) -> ResolvedScenario:
        """The scenario on a machine whose units are known, see `Cluster.resolve`."""
        values = dict(self) | {"cluster": cluster}
        return ResolvedScenario.model_construct(self.model_fields_set | {"cluster"}, **values)

    @property
    def public(self) -> Self:
        """The scenario of a policy: without the privileged blocks of the observation."""
        observation = self.observation.public
        if observation is self.observation:
            return self
        return self.model_copy(update={"observation": observation})

    @property
    def sizes(self) -> tuple[tuple[int | None, ...], ...]:
        """(resource,) sizes of clusters, units, each once; None: as in the trace."""
        units = [resource.units for resource in self.cluster.resources]
        if isinstance(self.workload, MixtureWorkload) and len(units) == 1:
            return (self.workload.sizes(units[0]),)
        return tuple((size,) for size in units)

    def _check_history(self) -> None:
        """Check that history has whole runs: a part of a run says nothing of the requested time."""
        if "history" in self.observation.blocks and self.decision.suspend:
            raise SettingError(
                "observation.blocks",
                "value history does not go with decision.suspend, where jobs run in parts",
                "remove one of them",
            )

    def _check_cluster_sizes(self) -> None:
        """Check that clusters have one size where jobs are planned."""
        parts = self.workload.parts if isinstance(self.workload, MixtureWorkload) else ()
        for k, part in enumerate(parts):
            if part.units is not None and self.decision.tick_driven:
                raise SettingError(
                    f"workload.parts.{k}.units",
                    "does not go with decision.horizon, under which all episodes are of one cluster",
                    "remove one of them",
                )

    def _check_terms(self) -> None:
        """Check that the terms of the objective are defined in this scenario."""
        objective = self.objective
        terms = [("reward", term) for term in objective.reward] + [
            ("costs", term) for term in objective.costs
        ]
        for kind, term in terms:
            if not self.decision.tick_driven and term in terms_that_need("horizon"):
                remedy = "set decision.horizon=N, in ticks, or take another term"
                raise SettingError(f"objective.{kind}.{term}", "is counted only with a horizon", remedy)
            if self.power is None and term in terms_that_need("power"):
                remedy = "add power ('power: {}' has it always there), or take another term"
                raise SettingError(f"objective.{kind}.{term}", "is counted only with power", remedy)


class ResolvedScenario(Scenario):
    """A scenario whose cluster is resolved: the units of every resource are known."""

    cluster: ResolvedCluster
