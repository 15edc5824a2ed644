"""A sweep: what is trained or played, which settings are searched and how, and by what trials compare."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from rlsched.errors import BadInputError
from rlsched.evaluate.measures import measure
from rlsched.evaluate.policy_names import is_checkpoint
from rlsched.learn.algorithms.base import ALGORITHMS
from rlsched.learn.config.training import TrainConfig, parse_config
from rlsched.learn.plan import check_teachers, fit, in_place
from rlsched.scenario import Scenario, rooted
from rlsched.settings import Frozen, SettingError, validate
from rlsched.settings_files import read_text, read_yaml
from rlsched.tune.playing import open_comparison
from rlsched.tune.space import Domain, Point, assignments

TRIES = 100
"""Draws for each new point, where most have been drawn."""


class Search(Frozen):
    """How points are chosen, and how long each is trained."""

    kind: Literal["grid", "random", "asha", "optuna"] = Field(
        "grid",
        description="grid: all combinations of listed values; random: drawn; asha: drawn, and the worse ones "
        "stopped early [Li et al. 2020]; optuna: near what was good [Bergstra et al. 2011]",
    )
    samples: int | None = Field(None, ge=1, description="points (random, asha, optuna)")
    seed: int = Field(0, ge=0, description="of what is drawn")
    reduction: int = Field(3, ge=2, description="one of so many goes on at each halt (asha)")
    halts: int = Field(2, ge=1, description="of a training, each after `reduction` times as long (asha)")

    @model_validator(mode="after")
    def _together(self) -> Search:
        if self.kind == "grid" and self.samples is not None:
            raise SettingError("samples", f"value {self.samples} means nothing to a grid", "leave it out")
        if self.kind != "grid" and self.samples is None:
            raise SettingError("samples", f"is missing, which {self.kind} needs", "say how many points")
        if self.kind != "asha":
            for name in ("reduction", "halts"):
                if getattr(self, name) != Search.model_fields[name].default:
                    raise SettingError(name, f"means nothing to {self.kind}", "leave it out")
        return self


class Target(Frozen):
    """What a good trial has much or little of."""

    metric: str = Field(description="a metric of the episodes, or a searched setting that is a number")
    mode: Literal["max", "min"] | None = Field(None, description="null: as the metric is better")


class Sweep(Frozen):
    """Settings of a sweep."""

    schema_version: Literal[1] = 1
    description: str = ""
    base: dict[str, Any] = Field(description="a training file; with `policy` just its `scenario`")
    set: tuple[str, ...] = Field((), description="assignments to that, as after --set")
    space: dict[str, Domain] = Field(description="searched settings, named as after --set")
    search: Search = Search()
    seeds: tuple[int, ...] = Field((0, 1, 2), min_length=1, description="each point is tried with all")
    objectives: tuple[Target, ...] = Field(
        (), description="the first ranks trials, all of them span the front; left out: as validation does"
    )
    policy: str | None = Field(
        None,
        description="queue order (NAME[:RULE]) or trained policy that plays everywhere; nothing is trained",
    )
    episodes: int = Field(20, ge=1, description="that it plays, for each seed")
    parallel: int | None = Field(None, ge=1, description="trials at once; null: as many as there is room for")
    failures: int = Field(3, ge=0, description="times that a trial is started again, as where a node is lost")

    @field_validator("space", mode="before")
    @classmethod
    def _not_null(cls, given: object) -> object:
        return {} if given is None else given

    @field_validator("seeds", mode="before")
    @classmethod
    def _listed(cls, given: object) -> object:
        if isinstance(given, int):
            raise SettingError("", f"value {given} is one number", f"list seeds: [{given}], or [0, 1, 2]")
        return given

    @field_validator("space")
    @classmethod
    def _something(cls, space: dict[str, Domain]) -> dict[str, Domain]:
        if not space:
            raise SettingError("", "is empty: nothing would be searched", "name a setting and its values")
        return space

    @field_validator("seeds")
    @classmethod
    def _no_repeats(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise SettingError("", f"value {list(seeds)}", "name each once, from 0 on")
        return seeds

    @model_validator(mode="after")
    def _together(self) -> Sweep:
        if self.search.kind == "grid":
            for key, domain in self.space.items():
                if domain.values is None:
                    raise SettingError(
                        f"space.{key}", "is a range, which has no grid", "list values, or set search.kind"
                    )
        if self.search.kind == "asha" and self.policy is not None:
            raise SettingError("search.kind", "asha stops trainings, and nothing is trained", "take random")
        if self.policy is None and self.episodes != Sweep.model_fields["episodes"].default:
            raise SettingError("episodes", "are played only with a policy", "set validation.episodes in base")
        self._check_seeds()
        self._check_asha()
        self._check_objectives()
        return self

    def _check_seeds(self) -> None:
        """Seeds and scenario have places of their own, and what is searched is not set beside."""
        set_beside = {one.partition("=")[0] for one in self.set}
        for key in ("seed", "scenario"):
            if key in self.space:
                raise SettingError(f"space.{key}", "cannot be searched", "list seeds beside the space")
        if "seed" in {*self.base, *set_beside}:
            raise SettingError("base", "names a seed, and each point is tried with all seeds", "set seeds")
        for key in self.space:
            self._check_used(key)
            if key in set_beside:
                raise SettingError(f"space.{key}", "is set, too", "set it, or search it")
        if self.policy is not None:
            for key in sorted({*self.base, *(one.partition(".")[0] for one in set_beside)}):
                if key != "scenario" and key in TrainConfig.model_fields:
                    raise SettingError(
                        "base", f"{key} means nothing where nothing is trained", "leave it out"
                    )

    def _check_used(self, key: str) -> None:
        """Settings of an algorithm are searched where it is trained."""
        section = key.partition(".")[0]
        known = {name for algorithm in ALGORITHMS.values() for name in algorithm.sections}
        if self.policy is not None or section not in known or "algo" in self.space:
            return
        beside = dict(one.split("=", 1) for one in self.set if "=" in one)
        algo = beside.get("algo", self.base.get("algo", TrainConfig.model_fields["algo"].default))
        if algo in ALGORITHMS and section not in ALGORITHMS[algo].sections:
            raise SettingError(
                f"space.{key}", f"means nothing to {algo}, which is trained", "leave it out, or set algo"
            )

    def _check_asha(self) -> None:
        """Trials that are compared on the way are of one length."""
        if self.search.kind != "asha":
            return
        for key in ("steps", "minutes", "algo"):
            if key in self.space:
                raise SettingError(
                    f"space.{key}", "has no common halts, at which asha compares", "set search.kind=random"
                )

    def _check_objectives(self) -> None:
        names = [target.metric for target in self.objectives]
        if len(set(names)) < len(names):
            raise SettingError("objectives", f"value {names}", "name each once")
        for target in self.objectives:
            if target.metric in self.space:
                if not self.space[target.metric].numeric:
                    raise SettingError(
                        "objectives", f"value {target.metric!r} is searched, but no number", "leave it out"
                    )
                continue
            try:
                measure(target.metric)
            except KeyError:
                raise SettingError(
                    "objectives",
                    f"value {target.metric!r} is no metric and not searched",
                    "name one as in the tables of 'rlsched evaluate', or cost.NAME",
                ) from None

    def settings(
        self, where: str, point: Point | None = None, more: Iterable[str] = ()
    ) -> tuple[Scenario, TrainConfig]:
        """Scenario and training settings of a trial.

        Args:
            where: the sweep is from.
            point: of the trial; None: as they are before anything is searched.
            more: `--set` assignments.

        Raises:
            BadInputError: a key or a value is wrong.
        """
        assigned = [*self.set, *more, *assignments(point or {})]
        return parse_config(self.base, f"{where}: base", assigned)

    def targets(self, where: str) -> tuple[Target, ...]:
        """The objectives, with their direction."""
        scenario, config = self.settings(where)
        found = self.objectives
        if not found:
            metric = config.settled(scenario).validation.metric or ""
            found = (
                Target(metric=metric),
                *(Target(metric=f"cost.{name}") for name in scenario.objective.costs),
            )
        return tuple(self._directed(one) for one in found)

    def _directed(self, target: Target) -> Target:
        if target.mode is not None:
            return target
        lower = target.metric in self.space or measure(target.metric).lower_is_better
        return target.model_copy(update={"mode": "min" if lower else "max"})

    def points(self) -> list[dict[str, Any]]:
        """What is tried, in order; of optuna, which looks at results first, what it may begin with."""
        if self.search.kind == "grid":
            listed = [domain.values or () for domain in self.space.values()]
            return [dict(zip(self.space, values, strict=True)) for values in product(*listed)]
        rng = np.random.default_rng(self.search.seed)
        found: list[dict[str, Any]] = []
        samples = min(self.search.samples or 1, self.size or sys.maxsize)
        for _ in range(TRIES * samples):
            drawn = {key: domain.draw(rng) for key, domain in self.space.items()}
            if drawn not in found:
                found.append(drawn)
            if len(found) == samples:
                break
        return found

    @property
    def size(self) -> int | None:
        """Points that there are; None: no end of them."""
        sizes = [domain.size for domain in self.space.values()]
        return None if None in sizes else prod(size for size in sizes if size is not None)

    def rungs(self, steps: int) -> list[int]:
        """Decisions after which trials are compared; the last is the end of the training."""
        if self.search.kind != "asha":
            return [steps]
        halts = range(self.search.halts, 0, -1)
        return [max(1, steps // self.search.reduction**halt) for halt in halts] + [steps]


def read_sweep(path: Path, overrides: Iterable[str] = ()) -> Sweep:
    """Read a sweep and see whether all of it can be.

    Args:
        path: of the file.
        overrides: `--set` assignments to its base.

    Raises:
        BadInputError: the file, a key or a value is wrong.
    """
    where = str(path)
    values = read_yaml(read_text(path), where)
    sweep = validate(Sweep, values, where)
    if more := list(overrides):
        sweep = validate(Sweep, {**values, "set": [*sweep.set, *more]}, where)
    check(sweep, where)
    return rooted_sweep(sweep, where)


PLACES = ("dataset", "workload.file", "power.file", "warm_start.teacher", "search.start")
"""Settings that name files."""


def rooted_sweep(sweep: Sweep, where: str) -> Sweep:
    """The same with all that it takes from files in it, or named from the root.

    So trials mean the same wherever they run, and whatever becomes of a scenario's file.
    """
    scenario, config = sweep.settings(where)
    trained = {} if sweep.policy is not None else in_place(config).model_dump(mode="json", exclude={"seed"})
    space = {
        key: domain.model_copy(update={"values": tuple(map(_rooted, domain.values))})
        if key in PLACES and domain.values is not None
        else domain
        for key, domain in sweep.space.items()
    }
    return sweep.model_copy(
        update={
            "base": {**trained, "scenario": rooted(scenario).model_dump(mode="json")},
            "set": (),
            "space": space,
            "policy": _rooted(sweep.policy) if is_checkpoint(sweep.policy or "") else sweep.policy,
        }
    )


def _rooted(path: Any) -> Any:
    return str(Path(path).resolve()) if isinstance(path, str) and Path(path).exists() else path


def check(sweep: Sweep, where: str) -> None:
    """Find what is wrong with any point before anything starts.

    Args:
        sweep: to be run.
        where: it is from.

    Raises:
        BadInputError: a setting cannot be what it is to be.
    """
    sweep.settings(where)
    if sweep.policy is not None:
        for key in sweep.space:
            if key.partition(".")[0] in TrainConfig.model_fields:
                raise BadInputError(
                    f"{where}: space.{key}", "means nothing where nothing is trained", "leave policy out"
                )
    for key, domain in sweep.space.items():
        for value in domain.ends():
            try:
                sweep.settings(where, {key: value})
            except BadInputError as error:
                if key not in error.where:
                    continue  # it may go with others; the whole points are looked at below
                raise _of_space(error, where, key) from None
    for point in looked_at(sweep):
        check_point(sweep, where, point)


def looked_at(sweep: Sweep) -> list[dict[str, Any]]:
    """Points that must be possible: all that are known; of optuna each value beside the first of others."""
    if sweep.search.kind != "optuna":
        return sweep.points()
    first = {key: domain.ends()[0] for key, domain in sweep.space.items()}
    return [first | {key: value} for key, domain in sweep.space.items() for value in domain.ends()]


def _of_space(error: BadInputError, where: str, key: str) -> BadInputError:
    """The same said of the sweep: not of an option that nobody gave."""
    return BadInputError(f"{where}: space.{key}", error.problem, error.remedy)


def check_point(sweep: Sweep, where: str, point: Point) -> None:
    """See whether a trial could run.

    Raises:
        BadInputError: it could not; says for which values.
    """
    try:
        scenario, config = sweep.settings(where, point)
        if sweep.policy is None:
            feed, config = fit(scenario, config)
            check_teachers(config, feed)
        else:
            open_comparison(scenario, sweep.policy, sweep.episodes, 0)
    except BadInputError as error:
        told = ", ".join(assignments(point))
        raise BadInputError(f"{where}: {told}: {error.where}", error.problem, error.remedy) from None
