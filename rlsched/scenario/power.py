"""The power of a scenario: constant, synthetic, or wind, sun, a battery and a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from rlsched.scenario.bounds import MOST, MOST_TICKS
from rlsched.settings import Frozen, SettingError, as_written


class PowerColumns(Frozen):
    """Names of the columns of a power file."""

    time: str = Field("timestamp", description="column of times")
    wind: str = Field("WND", description="column of wind, in any unit")
    solar: str = Field("SUN", description="column of sun, in any unit")
    carbon: str | None = Field("avg_CI", description="gCO2 per kWh of the grid; null: `carbon_g_per_kwh`")


FASTEST_BATTERY = 10.0
"""Highest power over capacity, 1/h, of batteries on the market."""


class Battery(Frozen):
    """Storage between the supply and the cluster."""

    capacity_kwh: float = Field(gt=0, le=MOST, description="energy of a full battery")
    charge_kw: float = Field(gt=0, description="highest charging power")
    discharge_kw: float = Field(gt=0, description="highest discharging power")
    efficiency: float = Field(0.9, gt=0, le=1, description="share of the charged energy that is stored")
    initial: float = Field(0.5, ge=0, le=1, description="share of the capacity at the start of an episode")

    @model_validator(mode="after")
    def _physics(self) -> Battery:
        for name, does in (("charge_kw", "fill"), ("discharge_kw", "empty")):
            rate, most = getattr(self, name), FASTEST_BATTERY * self.capacity_kwh
            if rate > most:
                raise SettingError(
                    name,
                    f"value {rate:g} would {does} {self.capacity_kwh:g} kWh in less than "
                    f"{60 / FASTEST_BATTERY:g} minutes, faster than any battery",
                    f"set at most {most:g}, or a larger capacity_kwh",
                )
        return self


_SETTINGS_OF_KINDS: dict[str, tuple[str, ...]] = {
    "level": ("constant", "synthetic"),
    "probability": ("synthetic",),
    "block": ("synthetic",),
    "file": ("series",),
    "columns": ("series",),
    "time_zone": ("series",),
    "wind_kw": ("series",),
    "solar_kw": ("series",),
}
"""Setting -> the kinds of power that use it; all kinds use the others."""


class Power(Frozen):
    """The power supply of the cluster, and its forecast."""

    kind: Literal["constant", "synthetic", "series"] = Field(
        "constant",
        description="constant: `level` of the full draw, always; synthetic: `level` in the share "
        "`probability` of the time, all otherwise, drawn per `block`; series: wind and sun of a file",
    )
    level: float = Field(1.0, ge=0, le=1, description="share of the full draw (constant, synthetic)")
    probability: float = Field(1.0, ge=0, le=1, description="share of the time at `level` (synthetic)")
    block: int = Field(6, ge=1, le=MOST_TICKS, description="ticks between draws (synthetic)")
    file: Path | None = Field(
        None, description="CSV of the series, one row per hour; null: the generated year of the package"
    )
    columns: PowerColumns = PowerColumns()
    time_zone: str | None = Field(
        None, description="time zone of times without one, as Europe/Stockholm; null: UTC"
    )
    wind_kw: float | None = Field(
        None,
        ge=0,
        le=MOST,
        description="the site's wind peak, to which the column is scaled; null: the full draw",
    )
    solar_kw: float | None = Field(
        None, ge=0, le=MOST, description="the site's solar peak; null: the full draw"
    )
    utilization: float = Field(1.0, ge=0, le=1, description="load of a unit that runs a job")
    battery: Battery | None = Field(None, description="null: the site has none")
    grid_kw: float = Field(0.0, ge=0, le=MOST, description="highest power from the grid, after the battery")
    carbon_g_per_kwh: float = Field(
        400.0, ge=0, le=MOST, description="carbon intensity of the grid, where the series has none"
    )
    forecast_error: float = Field(
        0.0,
        ge=0,
        le=MOST,
        description="standard deviation, as a share of the units, of the forecast of the next tick; grows "
        "with the square root of the lead time. 0: perfect",
    )

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        try:
            return None if name is None else ZoneInfo(name).key
        except (KeyError, ValueError, OSError):
            raise SettingError("", f"value {name!r} is unknown", "name one as Europe/Stockholm") from None

    @model_validator(mode="after")
    def _no_idle_settings(self) -> Power:
        """Refuse settings that have no effect, since users expect one."""
        for name, kinds in _SETTINGS_OF_KINDS.items():
            setting = getattr(self, name)
            if self.kind in kinds or setting == Power.model_fields[name].default:
                continue
            value = "" if isinstance(setting, PowerColumns) else f"value {as_written(setting)} "
            raise SettingError(
                name,
                f"{value}has no effect where kind is {self.kind}",
                f"set power.kind={' or '.join(kinds)}, or replace all of power, as in "
                f"power={{kind: {self.kind}}}",
            )
        standard = Power.model_fields["carbon_g_per_kwh"].default
        if self.kind == "series" and self.columns.carbon is not None and self.carbon_g_per_kwh != standard:
            raise SettingError(
                "carbon_g_per_kwh",
                f"value {self.carbon_g_per_kwh:g} has no effect where the file has it, in column "
                f"{self.columns.carbon!r}",
                "set power.columns.carbon=null, or remove it",
            )
        return self

    @property
    def may_fail(self) -> bool:
        """Whether units may be off, or be forecast to be."""
        return self.kind != "constant" or self.level < 1 or self.forecast_error > 0
