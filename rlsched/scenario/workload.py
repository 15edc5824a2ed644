"""The workload of a scenario: models of jobs, traces, estimates and enrichment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from rlsched.scenario.bounds import (
    LEAST_LOAD,
    MOST,
    MOST_LOAD,
    MOST_PARAMETER,
    MOST_ROW,
    MOST_SECONDS,
    MOST_SEED,
    MOST_TICKS,
    MOST_UNITS,
)
from rlsched.settings import Frozen, SettingError


class ExactEstimates(Frozen):
    """Requested times are the runtimes."""

    kind: Literal["exact"]


class GaussianEstimates(Frozen):
    """Requested times have a normally distributed error, relative to the runtime [Cunha 2022, eq. 2.6]."""

    kind: Literal["gaussian"]
    nu: float = Field(
        1.0, ge=0, le=MOST, description="standard deviation of the error, as a share of the runtime"
    )
    side: Literal["two", "over", "under"] = Field(
        "two", description="over: requested times are never too short; under: never too long"
    )
    seed: int = Field(
        0,
        ge=0,
        le=MOST_SEED,
        description="random seed for a trace; a model draws errors with its jobs",
    )


class TsafrirEstimates(Frozen):
    """Users request round values; twenty hold nearly all jobs [Tsafrir, Etsion and Feitelson 2005]."""

    kind: Literal["tsafrir"]
    longest_s: int | None = Field(
        None,
        ge=60,
        le=MOST_SECONDS,
        description="longest requested time; left out: the longest job, in whole hours",
    )
    seed: int = Field(
        0,
        ge=0,
        le=MOST_SEED,
        description="random seed for a trace; a model draws requests with its jobs",
    )


Estimates = Annotated[ExactEstimates | GaussianEstimates | TsafrirEstimates, Field(discriminator="kind")]


class Jobs(Frozen):
    """Settings that all workloads have."""

    estimates: Estimates | None = Field(
        None, description="how users estimate runtimes; left out: exact, or the requested times of the trace"
    )


def _not_vanishing(load: float) -> float:
    """Refuse a load so small that arrival times overflow."""
    if load < LEAST_LOAD:
        raise SettingError("", f"value {load:g}", f"set at least {LEAST_LOAD:g}")
    return load


Load = Annotated[float, Field(gt=0, le=MOST_LOAD), AfterValidator(_not_vanishing)]
Share = Annotated[float, Field(ge=0, le=1)]
Above0 = Annotated[float, Field(gt=0, le=MOST_PARAMETER)]
Parameter = Annotated[float, Field(ge=-MOST_PARAMETER, le=MOST_PARAMETER)]
Gamma = tuple[Above0, Above0]


class LublinParameters(Frozen):
    """Parameters of the Lublin-Feitelson model; default: the fitted ones."""

    serial: Share | None = Field(None, description="share of jobs on one processor")
    power_of_two: Share | None = Field(None, description="share of jobs whose size is a power of two")
    size_low: float | None = Field(
        None, ge=0, le=MOST_PARAMETER, description="log2 of the smallest size of parallel jobs"
    )
    size_middle: float | None = Field(
        None, ge=0, le=MOST_PARAMETER, description="log2 below the largest size, where large sizes begin"
    )
    size_high: float | None = Field(
        None,
        ge=0,
        le=MOST_PARAMETER,
        description="log2 of the largest size; left out: the whole machine, or the fitted value",
    )
    size_first: Share | None = Field(None, description="share of sizes that are not large")
    runtime_first: Gamma | None = Field(None, description="(shape, scale) of ln(runtime in s), short jobs")
    runtime_second: Gamma | None = Field(None, description="(shape, scale) of ln(runtime in s), long jobs")
    runtime_mix: tuple[Parameter, Parameter] | None = Field(
        None, description="(per processor, constant) of the share of short jobs"
    )
    arrival: Gamma | None = Field(None, description="(shape, scale) of ln(gap in s) at rush hours")
    arrival_all_day: Above0 | None = Field(None, description="factor on that shape, for the whole day")
    cycle: Gamma | None = Field(
        None,
        description="(shape, scale) of arrivals over the half-hours of a day that begins at half past five",
    )

    @model_validator(mode="after")
    def _shares(self) -> LublinParameters:
        total = (self.serial or 0.0) + (self.power_of_two or 0.0)
        if total > 1:
            problem = f"and power_of_two are {total:g} of all jobs"
            raise SettingError("serial", problem, "set a sum of at most 1")
        return self

    @property
    def changed(self) -> dict[str, Any]:
        """The parameters that the scenario sets."""
        return self.model_dump(exclude_none=True)


class LublinWorkload(Jobs):
    """Jobs drawn from the Lublin-Feitelson model [Lublin and Feitelson 2003]."""

    kind: Literal["lublin"]
    jobs: Literal["all", "batch", "interactive", "apart"] = Field(
        "all",
        description="jobs that the parameters were fitted to; all: interactive and batch jobs together; "
        "apart: both, with separate parameters, in queues 0 and 1",
    )
    load: Load | None = Field(
        None,
        description="offered work / capacity, by whole runtimes; times between arrivals are scaled to it; "
        "left out: that of the model",
    )
    max_runtime_s: int | None = Field(None, ge=1, le=MOST_SECONDS, description="longer jobs are drawn again")
    daily_cycle: bool = Field(True, description="whether the arrival rate depends on the time of day")
    parameters: LublinParameters = LublinParameters()

    @model_validator(mode="after")
    def _one_kind(self) -> LublinWorkload:
        if self.jobs == "apart" and self.parameters.changed:
            name = next(iter(self.parameters.changed))
            raise SettingError(
                f"parameters.{name}",
                "has no effect with jobs=apart, where interactive and batch jobs have their own",
                "set workload.jobs to all, batch or interactive",
            )
        return self


Row = Annotated[int, Field(le=MOST_ROW)]
Length = Annotated[int, Field(ge=1, le=MOST_TICKS)]
Ticks = tuple[Length, Length]


def ordered(value: tuple[Any, Any]) -> tuple[Any, Any]:
    """Check that the ends of a range are in order.

    Raises:
        SettingError: they are not.
    """
    if value[0] > value[1]:
        raise SettingError("", f"value {list(value)} ends before it begins", "put the smaller number first")
    return value


class PoissonWorkload(Jobs):
    """Poisson arrivals of short and long jobs with qos [Venkataswamy 2023, 4.4.1]."""

    kind: Literal["poisson"]
    load: Load = Field(1.0, description="offered work / capacity of the most loaded resource")
    short: Ticks = Field((1, 10), description="ticks, uniform, both ends included")
    long: Ticks = Field((10, 30), description="ticks, uniform, both ends included")
    long_share: Share = 0.3
    max_demand: float = Field(0.5, gt=0, le=1, description="largest demand, as a share of a resource's units")
    high_qos: tuple[Share, Share] = Field((0.6, 1.0), description="uniform")
    low_qos: tuple[Share, Share] = Field((0.1, 0.6), description="uniform")
    high_qos_share: Share = 0.6
    value_scale: float = Field(1.0, gt=0, le=MOST, description="factor on every job's value")

    _ordered = field_validator("short", "long", "high_qos", "low_qos")(ordered)


class MaoWorkload(Jobs):
    """Bernoulli arrivals of jobs with one dominant resource [Mao et al. 2016, 4.1]."""

    renamed: ClassVar[Mapping[str, str]] = {"other": "minor"}

    kind: Literal["mao"]
    rate: float = Field(0.7, gt=0, le=1, description="probability of an arrival per tick")
    short: Ticks = Field((1, 3), description="ticks, uniform, both ends included")
    long: Ticks = Field((10, 15), description="ticks, uniform, both ends included")
    long_share: Share = 0.2
    dominant: tuple[Share, Share] = Field(
        (0.5, 1.0), description="demand of the dominant resource, share of `max_demand`, uniform"
    )
    minor: tuple[Share, Share] = Field(
        (0.1, 0.2),
        description="demand of the resources that are not dominant, share of `max_demand`, uniform",
    )
    max_demand: float = Field(0.5, gt=0, le=1, description="share of a resource's units")

    _ordered = field_validator("short", "long", "dominant", "minor")(ordered)


class Enrichment(Frozen):
    """Columns that traces lack, drawn from a seed and fixed per job [Venkataswamy 2023, 4.4.2]."""

    seed: int = Field(0, ge=0, le=MOST_SEED)
    max_demand: float = Field(
        0.5, gt=0, le=1, description="largest demand, as a share of the units of each further resource"
    )
    high_qos: tuple[Share, Share] = Field((0.6, 1.0), description="uniform")
    low_qos: tuple[Share, Share] = Field((0.1, 0.6), description="uniform")
    high_qos_share: Share = 0.6

    _ordered = field_validator("high_qos", "low_qos")(ordered)


class SwfWorkload(Jobs):
    """Jobs read from a trace in the Standard Workload Format."""

    kind: Literal["swf"]
    file: Path
    rules: Literal["standard", "rlscheduler"] = Field(
        "standard", description="rlscheduler: the loading rules of that simulator, for published figures"
    )
    load: Load | None = Field(
        None,
        description="offered work / capacity, by whole runtimes; times between arrivals are scaled to it",
    )
    resample: Literal["never", "training", "always"] = Field(
        "never",
        description="resample episodes from days of the trace with replacement: training episodes, or "
        "evaluation episodes too, each from its part of the trace",
    )
    training_jobs: tuple[Row, Row | None] | None = Field(
        None, description="rows [from, to) for training; left out: the first 80 %"
    )
    dependencies: Literal["ignore", "follow"] = Field(
        "ignore",
        description="follow: a job with a preceding job in its episode is submitted its think time after the "
        "end of that job, or without a think time not before that end; ignore: at its submit time",
    )
    enrich: Enrichment | None = Field(None, description="add further resources and qos")
    max_job_duration: int | None = Field(
        None, ge=1, le=MOST_TICKS, description="ticks; longer jobs are `oversized`"
    )
    max_job_demand: float = Field(
        1.0, gt=0, le=1, description="share of the units; larger jobs are `oversized`"
    )
    oversized: Literal["reject", "scale"] = Field(
        "reject", description="reject: drop and count such jobs; scale: cut them to the limit, and count them"
    )
    value_scale: float = Field(1.0, gt=0, le=MOST, description="factor on every job's value")


ModelWorkload = Annotated[LublinWorkload | PoissonWorkload | MaoWorkload, Field(discriminator="kind")]


class Part(Frozen):
    """One of several models."""

    share: float = Field(1.0, gt=0, le=MOST, description="relative frequency of its episodes")
    units: int | None = Field(
        None,
        ge=1,
        le=MOST_UNITS,
        description="processors of the cluster in its episodes, at most cluster.resources.0.units; left out: "
        "all of them",
    )
    workload: ModelWorkload = Field(description="model of jobs")


class MixtureWorkload(Frozen):
    """Every episode is drawn from one of several models."""

    kind: Literal["mixture"]
    parts: tuple[Part, ...] = Field(min_length=1)

    def sizes(self, units: int | None) -> tuple[int | None, ...]:
        """Sizes of clusters, each once; `units` is the size of parts without one."""
        sizes = {units if part.units is None else part.units for part in self.parts}
        return tuple(sorted(sizes, key=lambda size: -1 if size is None else size))


Workload = Annotated[
    LublinWorkload | SwfWorkload | PoissonWorkload | MaoWorkload | MixtureWorkload,
    Field(discriminator="kind"),
]
