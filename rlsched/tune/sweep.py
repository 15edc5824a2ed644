"""Settings of a sweep: the training or evaluation, the searched settings, the search, the objectives."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from rlsched.evaluate.measures import measure
from rlsched.learn.algorithms.base import ALGORITHMS
from rlsched.learn.config.training import TrainConfig, parse_config
from rlsched.scenario import Scenario
from rlsched.settings import Frozen, SettingError, present_path
from rlsched.tune.space import Domain, Point, assignments

MAX_DRAWS = 100
"""Draws for each new point, where most points have been drawn."""


class Search(Frozen):
    """Search method: the choice of points, and the length of their training."""

    renamed: ClassVar[Mapping[str, str]] = {"reduction": "reduction_factor", "halts": "rungs"}

    kind: Literal["grid", "random", "asha", "optuna"] = Field(
        "grid",
        description="grid: all combinations of listed values; random: random points; asha: random points, of "
        "which the worse ones stop early [Li et al. 2020]; optuna: points near good ones "
        "[Bergstra et al. 2011]",
    )
    samples: int | None = Field(None, ge=1, description="number of points (random, asha, optuna)")
    seed: int = Field(0, ge=0, description="seed of random points")
    reduction_factor: int = Field(3, ge=2, description="one of so many trials passes each rung (asha)")
    rungs: int = Field(
        2, ge=1, description="pauses of a training, each after `reduction_factor` times as many steps (asha)"
    )

    @model_validator(mode="after")
    def _together(self) -> Search:
        if self.kind == "grid" and self.samples is not None:
            raise SettingError("samples", f"value {self.samples} is not supported by kind=grid", "remove it")
        if self.kind != "grid" and self.samples is None:
            raise SettingError("samples", f"is missing for kind={self.kind}", "set a number of points")
        if self.kind != "asha":
            for name in ("reduction_factor", "rungs"):
                if getattr(self, name) != Search.model_fields[name].default:
                    raise SettingError(name, f"is not supported by kind={self.kind}", "remove it")
        return self


class Target(Frozen):
    """An objective: a metric to maximize or minimize."""

    metric: str = Field(description="a metric of the episodes, or a searched setting that is a number")
    mode: Literal["max", "min"] | None = Field(None, description="null: the better direction of the metric")


class Sweep(Frozen):
    """Settings of a sweep."""

    schema_version: Literal[1] = 1
    description: str = ""
    base: dict[str, Any] = Field(description="content of a training file; with `policy` only its `scenario`")
    set: tuple[str, ...] = Field((), description="assignments to the base, as after --set")
    space: dict[str, Domain] = Field(description="searched settings, named as after --set")
    search: Search = Search()
    seeds: tuple[int, ...] = Field((0, 1, 2), min_length=1, description="every point is trained with each")
    objectives: tuple[Target, ...] = Field(
        (), description="the first ranks trials, all together give the Pareto front; empty: the validation's"
    )
    policy: str | None = Field(
        None,
        description="heuristic (NAME[:RULE]) or folder of a trained policy to evaluate; nothing is trained",
    )
    episodes: int = Field(20, ge=1, description="episodes of its evaluation, for each seed")
    parallel: int | None = Field(None, ge=1, description="trials at a time; null: limited by resources")
    failures: int = Field(3, ge=0, description="restarts of a failed trial, as after the loss of a node")

    @field_validator("space", mode="before")
    @classmethod
    def _something(cls, values: object) -> object:
        if values in (None, {}):
            raise SettingError("", "is empty", "add a setting and its values")
        return values

    @field_validator("seeds", mode="before")
    @classmethod
    def _listed(cls, values: object) -> object:
        if isinstance(values, int):
            raise SettingError("", f"value {values} is one number", f"list seeds: [{values}], or [0, 1, 2]")
        return values

    @field_validator("seeds")
    @classmethod
    def _no_repeats(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise SettingError("", f"value {list(seeds)}", "list each once, 0 or more")
        return seeds

    @model_validator(mode="after")
    def _together(self) -> Sweep:
        if self.search.kind == "grid":
            for key, domain in self.space.items():
                if domain.values is None:
                    problem = "is a range, which has no grid"
                    raise SettingError(f"space.{key}", problem, "list values, or set search.kind")
        if self.search.kind == "asha" and self.policy is not None:
            problem = "value 'asha' needs trainings, and a policy is given"
            raise SettingError("search.kind", problem, "set random")
        if self.policy is None and self.episodes != Sweep.model_fields["episodes"].default:
            raise SettingError("episodes", "is only used with a policy", "set validation.episodes in base")
        if self.search.kind == "asha":
            for key in {"steps", "minutes", "algo"} & self.space.keys():
                problem = "changes the rungs, and asha needs common ones"
                raise SettingError(f"space.{key}", problem, "set search.kind=random")
        self._check_seeds()
        self._check_objectives()
        return self

    def _check_seeds(self) -> None:
        """Check that seeds and the scenario are not searched, and that searched settings are not set."""
        assigned = {assignment.partition("=")[0] for assignment in self.set}
        for key in ("seed", "scenario"):
            if key in self.space:
                raise SettingError(f"space.{key}", "cannot be searched", "list seeds outside of the space")
        if "seed" in {*self.base, *assigned}:
            raise SettingError("base", "sets a seed, and each point is trained with all seeds", "set seeds")
        present = {present_path(TrainConfig, key) for key in assigned}
        for key in self.space:
            self._check_used(key)
            if present_path(TrainConfig, key) in present:
                raise SettingError(f"space.{key}", "is set and searched", "set it, or search it")
        if self.policy is not None:
            for key in sorted({*self.base, *(name.partition(".")[0] for name in assigned)}):
                if key != "scenario" and key in TrainConfig.model_fields:
                    raise SettingError("base", f"{key} is not supported with a policy", "remove it")

    def _check_used(self, key: str) -> None:
        """Check that the trained algorithm has a searched setting."""
        section = key.partition(".")[0]
        known = {name for algorithm in ALGORITHMS.values() for name in algorithm.sections}
        if self.policy is not None or section not in known or "algo" in self.space:
            return
        assigned = dict(assignment.split("=", 1) for assignment in self.set if "=" in assignment)
        algo = assigned.get("algo", self.base.get("algo", TrainConfig.model_fields["algo"].default))
        if algo in ALGORITHMS and section not in ALGORITHMS[algo].sections:
            raise SettingError(f"space.{key}", f"is not supported by algo={algo}", "remove it, or set algo")

    def _check_objectives(self) -> None:
        names = [target.metric for target in self.objectives]
        if len(set(names)) < len(names):
            raise SettingError("objectives", f"value {names} repeats a metric", "list each once")
        for target in self.objectives:
            value = f"value {target.metric!r}"
            if target.metric in self.space:
                if not self.space[target.metric].numeric:
                    raise SettingError("objectives", f"{value} is searched, but not a number", "remove it")
                continue
            try:
                measure(target.metric)
            except KeyError:
                remedy = "use a metric of 'rlsched evaluate', or cost.NAME"
                raise SettingError(
                    "objectives", f"{value} is neither a metric nor searched", remedy
                ) from None

    def settings(self, where: str, point: Point | None = None) -> tuple[Scenario, TrainConfig]:
        """Scenario and training settings of a trial; without a point those that are not searched.

        Raises:
            BadInputError: a key or a value is wrong; `where`, the sweep's file or folder, is in the message.
        """
        return parse_config(self.base, f"{where}: base", [*self.set, *assignments(point or {})])

    def targets(self, where: str) -> tuple[Target, ...]:
        """The objectives with their directions."""
        scenario, config = self.settings(where)
        targets = self.objectives
        if not targets:
            metrics = [config.resolve(scenario).validation.metric]
            metrics += [f"cost.{name}" for name in scenario.objective.costs]
            targets = tuple(Target(metric=metric) for metric in metrics)
        lower = [target.metric in self.space or measure(target.metric).lower_is_better for target in targets]
        return tuple(
            Target(metric=target.metric, mode=target.mode or ("min" if minimized else "max"))
            for target, minimized in zip(targets, lower, strict=True)
        )

    def points(self) -> list[dict[str, Any]]:
        """The points in order; of optuna, which depends on results, random points instead."""
        if self.search.kind == "grid":
            listed = [domain.values or () for domain in self.space.values()]
            return [dict(zip(self.space, values, strict=True)) for values in product(*listed)]
        rng = np.random.default_rng(self.search.seed)
        points: list[dict[str, Any]] = []
        samples = min(self.search.samples or 1, self.size or sys.maxsize)
        for _ in range(MAX_DRAWS * samples):
            drawn = {key: domain.draw(rng) for key, domain in self.space.items()}
            if drawn not in points:
                points.append(drawn)
            if len(points) == samples:
                break
        return points

    @property
    def size(self) -> int | None:
        """Number of points in the space; None: infinite."""
        sizes = [domain.size for domain in self.space.values()]
        return None if None in sizes else prod(size for size in sizes if size is not None)

    def rungs(self, steps: int) -> list[int]:
        """Decisions at which trials are compared; the last is the end of the training."""
        if self.search.kind != "asha":
            return [steps]
        factor, powers = self.search.reduction_factor, range(self.search.rungs, 0, -1)
        return [*(max(1, steps // factor**power) for power in powers), steps]
