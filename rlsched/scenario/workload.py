"""Where jobs come from: models that draw them, traces, and what is added to those."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from rlsched.settings import Frozen, SettingError


class LublinWorkload(Frozen):
    """Jobs drawn from the Lublin-Feitelson model (JPDC 63(11), 2003)."""

    kind: Literal["lublin"]
    load: float | None = Field(
        None,
        gt=0,
        description="offered work / capacity; arrivals are stretched to it; left out: the model's own",
    )
    max_runtime_s: int | None = Field(None, ge=1, description="longer jobs are drawn again")


Ticks = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
Share = Annotated[float, Field(ge=0, le=1)]


def ordered(value: tuple[Any, Any]) -> tuple[Any, Any]:
    """A range whose ends are in order.

    Raises:
        SettingError: they are not.
    """
    if value[0] > value[1]:
        raise SettingError("", f"value {list(value)} ends before it begins", "put the smaller number first")
    return value


class PoissonWorkload(Frozen):
    """Poisson arrivals of short and long jobs with qos [G 4.4.1]."""

    kind: Literal["poisson"]
    load: float = Field(1.0, gt=0, description="offered work / capacity of the most loaded resource")
    short: Ticks = Field((1, 10), description="ticks, uniform, both ends included")
    long: Ticks = Field((10, 30), description="ticks, likewise")
    long_share: Share = 0.3
    max_demand: float = Field(0.5, gt=0, le=1, description="share of a resource's units a job may ask for")
    high_qos: tuple[Share, Share] = Field((0.6, 1.0), description="uniform")
    low_qos: tuple[Share, Share] = Field((0.1, 0.6), description="uniform")
    high_qos_share: Share = 0.6
    value_scale: float = Field(1.0, gt=0, description="factor on every job's value")

    _ordered = field_validator("short", "long", "high_qos", "low_qos")(ordered)


class MaoWorkload(Frozen):
    """Bernoulli arrivals of jobs with one dominant resource [Mao et al. 2016, 4.1]."""

    kind: Literal["mao"]
    rate: float = Field(0.7, gt=0, le=1, description="probability of an arrival per tick")
    short: Ticks = Field((1, 3), description="ticks, uniform, both ends included")
    long: Ticks = Field((10, 15), description="ticks, likewise")
    long_share: Share = 0.2
    dominant: tuple[Share, Share] = Field((0.5, 1.0), description="share of `max_demand`, uniform")
    other: tuple[Share, Share] = Field((0.1, 0.2), description="share of `max_demand`, uniform")
    max_demand: float = Field(0.5, gt=0, le=1, description="share of a resource's units")

    _ordered = field_validator("short", "long", "dominant", "other")(ordered)


class Enrichment(Frozen):
    """What traces lack, drawn from a seed of its own: the same for a job in every episode [G 4.4.2]."""

    seed: int = Field(0, ge=0)
    max_demand: float = Field(
        0.5, gt=0, le=1, description="share of the units of each further resource that a job may ask for"
    )
    high_qos: tuple[Share, Share] = Field((0.6, 1.0), description="uniform")
    low_qos: tuple[Share, Share] = Field((0.1, 0.6), description="uniform")
    high_qos_share: Share = 0.6

    _ordered = field_validator("high_qos", "low_qos")(ordered)


class SwfWorkload(Frozen):
    """Jobs read from a trace in the Standard Workload Format."""

    kind: Literal["swf"]
    file: Path
    rules: Literal["standard", "rlscheduler"] = Field(
        "standard", description="rlscheduler: the loading rules of that simulator, for published figures"
    )
    training_jobs: tuple[int, int | None] | None = Field(
        None, description="rows [from, to) that training may see; left out: the first 80 %"
    )
    enrich: Enrichment | None = Field(None, description="add further resources and qos")
    max_job_duration: int | None = Field(None, ge=1, description="ticks; longer jobs are `oversized`")
    max_job_demand: float = Field(
        1.0, gt=0, le=1, description="share of the units; larger jobs are `oversized`"
    )
    oversized: Literal["reject", "scale"] = Field(
        "reject", description="reject: left out and counted; scale: cut down to what is allowed, and counted"
    )
    value_scale: float = Field(1.0, gt=0, description="factor on every job's value")


Workload = Annotated[
    LublinWorkload | SwfWorkload | PoissonWorkload | MaoWorkload, Field(discriminator="kind")
]
