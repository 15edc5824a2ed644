"""What feeds the cluster: supply, battery and grid, what is forecast of them, where the energy goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, sqrt

from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim.noise import QUANTILES

from .task import added

ALL_BITS = 2**64 - 1


def quantile_number(seed: int, tick: int, lead: int) -> int:
    """The finaliser of SplitMix64 over three numbers: its twelve highest bits."""
    x = (seed + tick * 0x9E3779B97F4A7C15 + lead * 0xBF58476D1CE4E5B9) & ALL_BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL_BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL_BITS
    return (x ^ (x >> 31)) >> 52


@dataclass(frozen=True)
class Flow:
    """Watts during one tick: renewable + battery + brown = used + charged + curtailed."""

    used: float
    renewable: float
    battery: float
    brown: float
    charged: float
    curtailed: float


@dataclass(frozen=True)
class Energy:
    """What one tick took, in kWh and kg."""

    used: float = 0.0
    renewable: float = 0.0
    battery: float = 0.0
    brown: float = 0.0
    charged: float = 0.0
    curtailed: float = 0.0
    carbon_kg: float = 0.0


class Plant:
    """The power of one episode.

    Attributes:
        hours: of a tick.
        full: watts of the cluster with all units on and at work.
        level: of the battery, Wh; 0 where there is none.
    """

    def __init__(self, scenario: Scenario, units: Sequence[int], series: PowerSeries, first: int) -> None:
        assert scenario.power is not None
        self.power, self.series, self.first = scenario.power, series, first
        self.units = tuple(units)
        self.hours = scenario.cluster.tick_s / 3600
        self.grid = self.power.grid_kw * 1000
        self.idle = [resource.idle_w for resource in scenario.cluster.resources]
        self.busy = [
            resource.idle_w + (resource.full_w - resource.idle_w) * self.power.utilization
            for resource in scenario.cluster.resources
        ]
        self.full = added(total * watts for total, watts in zip(self.units, self.busy, strict=True))
        battery = self.power.battery
        self.capacity = battery.capacity_kwh * 1000 if battery else 0.0
        self.charge_rate = battery.charge_kw * 1000 if battery else 0.0
        self.discharge_rate = battery.discharge_kw * 1000 if battery else 0.0
        self.efficiency = battery.efficiency if battery else 1.0
        self.level = battery.initial * self.capacity if battery else 0.0

    # what there is

    def supply(self, tick: int) -> float:
        """Watts of wind and sun; the series begins again when it ends."""
        return float(self.series.supply_w[(tick - self.first) % len(self.series.supply_w)])

    def carbon(self, tick: int) -> float:
        """gCO2/kWh of the grid."""
        return float(self.series.carbon_g_per_kwh[(tick - self.first) % len(self.series.carbon_g_per_kwh)])

    def discharge_limit(self, level: float) -> float:
        """Watts that a battery with this level can give for a tick."""
        return min(self.discharge_rate, level / self.hours)

    def availability(self, tick: int, level: float) -> float:
        """Share of the full draw that could be fed; a cluster that draws nothing is always fed."""
        if self.full == 0:
            return 1.0
        potential = self.supply(tick) + self.discharge_limit(level) + self.grid
        return min(1.0, potential / self.full)

    def units_on(self, share: float) -> list[int]:
        return [floor(total * share + 1e-9) for total in self.units]

    # where it goes

    def draw(self, on: Sequence[int], running: Sequence[int]) -> float:
        """Watts of the units that are on: those at work, and the idle ones."""
        return added(
            run * busy + (lit - run) * idle
            for run, busy, lit, idle in zip(running, self.busy, on, self.idle, strict=True)
        )

    def flow(self, supply: float, used: float, level: float) -> Flow:
        """A lack is met by the battery, then by the grid; what is left over is charged, then curtailed."""
        if used > supply:
            discharge = min(self.discharge_limit(level), used - supply)
            return Flow(used, supply, discharge, used - supply - discharge, 0.0, 0.0)
        room = (self.capacity - level) / (self.efficiency * self.hours)
        charge = min(self.charge_rate, room, supply - used)
        return Flow(used, supply, 0.0, 0.0, charge, supply - used - charge)

    def level_after(self, level: float, flow: Flow) -> float:
        moved = (self.efficiency * flow.charged - flow.battery) * self.hours
        return min(self.capacity, max(0.0, level + moved))

    def pass_tick(self, tick: int, on: Sequence[int], running: Sequence[int]) -> Energy:
        """Feed the cluster for a tick: the battery's level changes."""
        flow = self.flow(self.supply(tick), self.draw(on, running), self.level)
        self.level = self.level_after(self.level, flow)
        brown = self.kwh(flow.brown)
        return Energy(
            used=self.kwh(flow.used),
            renewable=self.kwh(flow.renewable),
            battery=self.kwh(flow.battery),
            brown=brown,
            charged=self.kwh(flow.charged),
            curtailed=self.kwh(flow.curtailed),
            carbon_kg=brown * self.carbon(tick) / 1000,
        )

    def kwh(self, watts: float) -> float:
        return watts * self.hours / 1000

    # what is known of it beforehand

    def forecast(self, now: int, horizon: int) -> list[float]:
        """Availability of the next ticks if the cluster drew all it can from now on, with errors."""
        shares, level = [], self.level
        for k in range(horizon):
            share = self.availability(now + k, level)
            level = self.level_after(level, self.flow(self.supply(now + k), self.full, level))
            shares.append(self.blurred(share, now, k))
        return shares

    def blurred(self, share: float, now: int, lead: int) -> float:
        """The error grows with the square root of the lead time; the present is known."""
        error = self.power.forecast_error
        if lead == 0 or error == 0:
            return share
        z = float(QUANTILES[quantile_number(self.series.seed, now, lead)])
        return min(1.0, max(0.0, share + error * sqrt(lead) * z))
