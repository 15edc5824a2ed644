"""Objectives: reward terms, presets and their weights, and limits on costs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import inf, nan
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from rlsched.scenario.bounds import MOST, MOST_SECONDS
from rlsched.scenario.terms import CostTerm, Term
from rlsched.settings import Frozen, SettingError


@dataclass(frozen=True)
class RelativeLimit:
    """A limit as a multiple of what a heuristic costs on the same episodes; written as in 1.6:sjf."""

    times: float
    heuristic: str  # a priority rule with greedy backfilling; with a horizon placed now

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.times:g}:{self.heuristic}"


def read_limit(value: object) -> float | RelativeLimit:
    """A limit as it is written: a number, or as in 1.6:sjf.

    Raises:
        SettingError: it is neither.
    """
    if isinstance(value, RelativeLimit):
        return value
    amount, heuristic = value, ""
    if isinstance(value, str):
        amount, _, heuristic = value.partition(":")
    number = nan
    if isinstance(amount, int | float | str) and not isinstance(amount, bool):
        with suppress(ValueError):
            number = float(amount)
    if not 0 <= number < inf or (isinstance(value, str) and value.endswith(":")):
        raise SettingError(
            "", f"value {value!r} is no limit", "give a number from 0 on, or a multiple as in 1.6:sjf"
        )
    return RelativeLimit(number, heuristic) if heuristic else number


def _plain(limit: float | RelativeLimit) -> float | str:
    return str(limit) if isinstance(limit, RelativeLimit) else limit


Limit = Annotated[
    float | RelativeLimit, PlainValidator(read_limit), PlainSerializer(_plain, return_type=float | str)
]

OBJECTIVE_PRESETS: dict[str, dict[str, Any]] = {
    "slowdown": {"reward": {"slowdown": 1.0}},
    "bounded_slowdown": {"reward": {"bounded_slowdown": 1.0}},
    "utilization": {"reward": {"utilization": 1.0}},
    "makespan": {"reward": {"makespan": 1.0}},
    "total_value": {"reward": {"finished_value": 1.0}},
    "total_value_at_start": {"reward": {"started_value": 1.0}},
    "total_value_dense": {"reward": {"running_value": 1.0}},
    "value_under_delay": {"reward": {"finished_value": 1.0}, "costs": {"delayed_jobs": None}},
    "value_under_delay_and_carbon": {
        "reward": {"finished_value": 1.0},
        "costs": {"delayed_jobs": None, "carbon": None},
    },
}


class Objective(Frozen):
    """The objective: a weighted sum of named reward terms, and limits on costs.

    Without a baseline, RLlib's algorithms train on returns that are scaled to a size of about 1
    (`learn.rllib.scale`): the weight of a single term has no effect on them.
    """

    reward: dict[Term, Annotated[float, Field(ge=-MOST, le=MOST)]] = Field(
        {"bounded_slowdown": 1.0}, min_length=1, description="term -> weight; rlsched objectives lists them"
    )
    costs: dict[CostTerm, Limit | None] = Field(
        {},
        description="cost -> its limit, or as in 1.6:sjf a multiple of a heuristic's cost; null: none",
    )
    limits_per: Literal["episode", "job"] = Field(
        "episode", description="what limits are of: a whole episode, or each of its submitted jobs"
    )
    scope: Literal["all", "window"] = Field(
        "all", description="jobs that count: all, or those that wait in sight (window)"
    )
    gamma: float = Field(1.0, gt=0, le=1, description="discount per tick inside a decision (smdp)")
    baseline: tuple[str, ...] = Field(
        (),
        description="greedy heuristics; rewards are divided by jobs x the best one's slowdown ** "
        "the exponent",
    )
    baseline_exponent: float = Field(
        1.0,
        gt=0,
        le=1,
        description="that exponent; below 1 episodes with a large slowdown count for more",
    )
    starvation_s: int = Field(
        86_400,
        ge=1,
        le=MOST_SECONDS,
        description="a job that waits longer counts for job_starvation and long_waits",
    )

    @property
    def limits(self) -> dict[str, Limit]:
        """Cost -> its limit, of those that have one."""
        return {name: limit for name, limit in self.costs.items() if limit is not None}

    def limited(self, cost: float, jobs: int) -> float:
        """The cost of an episode as limits count it: whole, or per submitted job (`limits_per: job`)."""
        return cost / max(jobs, 1) if self.limits_per == "job" else cost

    @classmethod
    def preset(cls, word: str) -> dict[str, Any] | None:
        """Settings of a preset, which reset the costs and the baseline; None: there is no such preset."""
        named = OBJECTIVE_PRESETS.get(word)
        return None if named is None else {"costs": {}, "baseline": (), **named}

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        named = cls.preset(value)
        if named is None:
            remedy = f"use one of {', '.join(OBJECTIVE_PRESETS)}, or a mapping with reward and costs"
            raise SettingError("", f"value {value!r} is no preset", remedy)
        return named
