"""The cluster of a scenario: its resources and its tick."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from rlsched.scenario.bounds import (
    MOST,
    MOST_SECONDS,
    MOST_UNITS,
)
from rlsched.settings import Frozen, SettingError


class Resource(Frozen):
    """One resource type of the cluster."""

    name: str = Field("processors", description="resource type, as in cpu or gpu")
    units: int | None = Field(None, ge=1, description="units in the cluster; left out: the trace's header")
    units_per_node: int | None = Field(
        None, ge=1, description="demand is rounded up to whole nodes of this size; left out: one unit"
    )
    price: float = Field(0.5, ge=0, le=MOST, description="value of one unit for one tick")
    idle_w: float = Field(100.0, ge=0, le=MOST, description="watts of a unit that is on and idle")
    full_w: float = Field(200.0, gt=0, le=MOST, description="watts of a unit at full load")

    @field_validator("units", "units_per_node")
    @classmethod
    def _at_most(cls, units: int | None) -> int | None:
        if units is not None and units > MOST_UNITS:
            raise SettingError("", f"value {units}", f"use at most {MOST_UNITS}")
        return units

    @model_validator(mode="after")
    def _watts(self) -> Resource:
        if self.idle_w > self.full_w:
            raise SettingError(
                "idle_w", f"value {self.idle_w:g} is more than full_w {self.full_w:g}", "set at most that"
            )
        return self


class Cluster(Frozen):
    """The machine that jobs run on."""

    tick_s: int = Field(1, ge=1, le=MOST_SECONDS, description="seconds per tick")
    resources: tuple[Resource, ...] = Field((Resource(),), min_length=1)
    kill_at_requested: bool = Field(
        False, description="end jobs at their requested time, even before their runtime is over"
    )
