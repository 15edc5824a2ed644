"""From a scenario's power to the supply of its episodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray
from rlsched.power import table
from rlsched.power.series import PowerSeries
from rlsched.power.steps import Steps
from rlsched.power.table import PowerTable
from rlsched.scenario import Cluster, Power

GENERATED_YEAR = Path(__file__).with_name("generated-year.csv.gz")
"""For scenarios that name no file: no real weather. `datasets/make_power_year.py` says how it is made."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerModel(ABC):
    """Where the power of episodes comes from.

    Attributes:
        full_w: watts of the whole cluster under load.
        repairs: what was put right in the file -> count; only counts above 0.
    """

    full_w: float
    repairs: dict[str, int] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, ticks: int) -> PowerSeries:
        """The power of one episode.

        Args:
            rng: where all randomness comes from.
            ticks: length of the series, >= 1; one that never changes has a single tick. Forecasts look beyond
                an episode's end by their horizon.
        """
        seed = int(rng.integers(2**62))
        supply, carbon = self._series(rng, ticks)
        return PowerSeries(supply_w=supply, carbon_g_per_kwh=carbon, seed=seed)

    @abstractmethod
    def _series(self, rng: np.random.Generator, ticks: int) -> tuple[FloatArray, FloatArray]:
        """(ticks,) watts of supply and (ticks,) gCO2 per kWh of the grid."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Constant(PowerModel):
    level: float
    carbon: float

    def _series(self, rng: np.random.Generator, ticks: int) -> tuple[FloatArray, FloatArray]:
        return np.full(1, self.level * self.full_w), np.full(1, self.carbon)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Synthetic(PowerModel):
    level: float
    probability: float
    block: int
    carbon: float

    def _series(self, rng: np.random.Generator, ticks: int) -> tuple[FloatArray, FloatArray]:
        low = rng.random(-(-ticks // self.block)) < self.probability
        supply = np.where(low, self.level * self.full_w, self.full_w).repeat(self.block)[:ticks]
        return supply, np.full(ticks, self.carbon)


@dataclass(frozen=True, eq=False, kw_only=True)
class _FromFile(PowerModel):
    steps: Steps  # (supply in W, carbon in gCO2 per kWh)
    tick_s: int

    def _series(self, rng: np.random.Generator, ticks: int) -> tuple[FloatArray, FloatArray]:
        supply, carbon = self.steps.over_ticks(int(rng.integers(len(self.steps))), ticks, self.tick_s)
        return supply, carbon


def open_power(power: Power, cluster: Cluster) -> PowerModel:
    """Make ready what a scenario takes its power from.

    A file that was read before in this process, and has not changed, is not read again.

    Args:
        power: of the scenario.
        cluster: with the units of each resource known.

    Raises:
        BadInputError: the file cannot be read or scaled, or the cluster draws nothing.
    """
    full_w = full_draw_w(cluster, power.utilization)
    if not full_w > 0:
        raise BadInputError(
            "power.utilization",
            f"value {power.utilization:g}: under load the cluster draws 0 W, of which no supply is a share",
            "set it above 0, or cluster.resources.*.idle_w",
        )
    if power.kind == "series":
        return _open_series(power, cluster, full_w)
    if power.kind == "constant":
        return _Constant(full_w=full_w, level=power.level, carbon=power.carbon_g_per_kwh)
    return _Synthetic(
        full_w=full_w,
        level=power.level,
        probability=power.probability,
        block=power.block,
        carbon=power.carbon_g_per_kwh,
    )


def full_draw_w(cluster: Cluster, utilization: float) -> float:
    """Watts of a cluster whose units all run jobs, each at this load.

    Source: [Venkataswamy 2023, eq. 4.1]: idle + (full - idle) x utilization per unit.

    Raises:
        BadInputError: the units of a resource are not known.
    """
    total = 0.0
    for number, resource in enumerate(cluster.resources):
        if resource.units is None:
            raise BadInputError(
                f"cluster.resources.{number}.units", "is not known, so neither is its draw", "set it"
            )
        total += resource.units * (resource.idle_w + (resource.full_w - resource.idle_w) * utilization)
    return total


def _open_series(power: Power, cluster: Cluster, full_w: float) -> PowerModel:
    path = GENERATED_YEAR if power.file is None else power.file
    asked = {"wind": power.wind_kw, "solar": power.solar_kw}
    peaks = {role: full_w if kw is None else kw * 1000 for role, kw in asked.items()}
    used = [role for role, peak in peaks.items() if peak > 0]
    roles = {role: getattr(power.columns, role) for role in used}
    if power.columns.carbon is not None:
        roles["carbon"] = power.columns.carbon
    read = _read(path, power.columns.time, tuple(roles.items()), power.time_zone)
    supply = np.zeros(read.steps)
    for role in used:
        highest, peak = read.columns[role].max(), peaks[role]
        if highest == 0:
            raise BadInputError(
                str(path),
                f"column {roles[role]!r} is zero throughout and cannot be scaled to {peak / 1000:g} kW",
                f"set power.{role}_kw=0, or power.columns.{role} to another column",
            )
        supply += read.columns[role] / highest * peak
    carbon = read.columns.get("carbon", np.full(read.steps, power.carbon_g_per_kwh))
    return _FromFile(
        full_w=full_w,
        repairs=dict(read.repairs),
        steps=Steps(np.stack([supply, carbon]), read.step_s),
        tick_s=cluster.tick_s,
    )


def _read(path: Path, time: str, columns: tuple[tuple[str, str], ...], zone: str | None) -> PowerTable:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return table.read(path, time=time, columns=dict(columns), zone=zone)  # says what is wrong with it
    return _read_once(path, path.resolve(), status.st_mtime_ns, status.st_size, time, columns, zone)


@lru_cache(maxsize=4)
def _read_once(
    path: Path,
    resolved: Path,
    mtime_ns: int,
    size: int,
    time: str,
    columns: tuple[tuple[str, str], ...],
    zone: str | None,
) -> PowerTable:
    """The table of this very state of a file."""
    return table.read(path, time=time, columns=dict(columns), zone=zone)
