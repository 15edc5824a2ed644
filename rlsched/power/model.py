"""Power models: the supply and carbon intensity of a scenario's episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray
from rlsched.power import table
from rlsched.power.series import PowerSeries
from rlsched.reading import read_once
from rlsched.scenario import Power, ResolvedCluster

GENERATED_YEAR = Path(__file__).with_name("generated-year.csv.gz")
"""The file of scenarios without one: synthetic weather, made by `datasets/make_power_year.py`."""


class Steps:
    """Series that hold a value for each step, and start again when they end.

    Args:
        values: (series, steps).
        step_s: seconds of a step.
    """

    def __init__(self, values: FloatArray, step_s: int) -> None:
        self.values = values
        self.step_s = step_s
        self._sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)

    def __len__(self) -> int:
        return self.values.shape[1]

    def over_ticks(self, first: int, ticks: int, tick_s: int) -> FloatArray:
        """(series, ticks): means over ticks, each step weighted by how much of it the tick covers.

        A tick within one step has exactly its value.

        Args:
            first: step whose first second is that of the first tick.
            ticks: number of ticks.
            tick_s: seconds of a tick.
        """
        begin = first * self.step_s + np.arange(ticks, dtype=np.int64) * tick_s
        end = begin + tick_s
        head, tail = begin // self.step_s, (end - 1) // self.step_s
        at_head, at_tail = self.values[:, head % len(self)], self.values[:, tail % len(self)]
        between = self._sum_before(tail) - self._sum_before(head + 1)
        total = (
            at_head * ((head + 1) * self.step_s - begin)
            + between * self.step_s
            + at_tail * (end - tail * self.step_s)
        )
        return np.where(head == tail, at_head, total / tick_s)

    def _sum_before(self, step: IntArray) -> FloatArray:
        """(series, n): sums of all steps before step, counted on through the repetitions."""
        rounds, within = np.divmod(step, len(self))
        return rounds * self._sums[:, -1:] + self._sums[:, within]


Drawn = tuple[FloatArray, FloatArray]
"""(ticks,) watts of supply, and (ticks,) gCO2 per kWh of the grid."""


@dataclass(frozen=True, eq=False)
class PowerModel:
    """Draws the power of episodes.

    Attributes:
        full_w: watts of the whole cluster under load.
        series: draws a series of a number of ticks; a constant one has a single tick.
        repairs: kind of repair of the file -> count; only counts above 0.
    """

    full_w: float
    series: Callable[[np.random.Generator, int], Drawn]
    repairs: dict[str, int] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, ticks: int) -> PowerSeries:
        """The power of one episode.

        Args:
            rng: where all randomness comes from.
            ticks: length of the series, >= 1, with the planning horizon beyond the episode's end.
        """
        seed = int(rng.integers(2**62))
        supply, carbon = self.series(rng, ticks)
        return PowerSeries(supply_w=supply, carbon_g_per_kwh=carbon, seed=seed)


def _constant(power: Power, full_w: float, rng: np.random.Generator, ticks: int) -> Drawn:
    return np.full(1, power.level * full_w), np.full(1, power.carbon_g_per_kwh)


def _synthetic(power: Power, full_w: float, rng: np.random.Generator, ticks: int) -> Drawn:
    low = rng.random(-(-ticks // power.block)) < power.probability
    supply = np.where(low, power.level * full_w, full_w).repeat(power.block)[:ticks]
    return supply, np.full(ticks, power.carbon_g_per_kwh)


def _recorded(steps: Steps, tick_s: int, rng: np.random.Generator, ticks: int) -> Drawn:
    """A stretch of a file's steps: supply in W, and carbon intensity."""
    supply, carbon = steps.over_ticks(int(rng.integers(len(steps))), ticks, tick_s)
    return supply, carbon


def open_power(power: Power, cluster: ResolvedCluster) -> PowerModel:
    """Open the power model of a scenario.

    A file that has not changed since this process read it is not read again.

    Raises:
        BadInputError: the file cannot be read or scaled, or the cluster draws nothing.
    """
    full_w = full_draw_w(cluster, power.utilization)
    if not full_w > 0:
        raise BadInputError(
            "power.utilization",
            f"value {power.utilization:g}: under load the cluster draws 0 W, and supply is a share of that",
            "set it above 0, or cluster.resources.*.idle_w",
        )
    if power.kind == "series":
        return _open_series(power, cluster, full_w)
    return PowerModel(full_w, partial(_constant if power.kind == "constant" else _synthetic, power, full_w))


def full_draw_w(cluster: ResolvedCluster, utilization: float) -> float:
    """Watts of a cluster with jobs on all units, at this utilization of each.

    Source: [Venkataswamy 2023, eq. 4.1]: idle + (full - idle) x utilization per unit.
    """
    total = 0.0
    for resource in cluster.resources:
        total += resource.units * (resource.idle_w + (resource.full_w - resource.idle_w) * utilization)
    return total


def _open_series(power: Power, cluster: ResolvedCluster, full_w: float) -> PowerModel:
    path = GENERATED_YEAR if power.file is None else power.file
    peaks_kw = {"wind": power.wind_kw, "solar": power.solar_kw}
    peaks = {role: full_w if kw is None else kw * 1000 for role, kw in peaks_kw.items()}
    used = [role for role, peak in peaks.items() if peak > 0]
    roles = {role: getattr(power.columns, role) for role in used}
    if power.columns.carbon is not None:
        roles["carbon"] = power.columns.carbon
    columns = tuple(roles.items())
    power_table = read_once(table.read, path, time=power.columns.time, columns=columns, zone=power.time_zone)
    supply = np.zeros(power_table.steps)
    for role in used:
        highest, peak = power_table.columns[role].max(), peaks[role]
        if highest == 0:
            problem = f"column {roles[role]!r} is zero throughout and cannot be scaled to {peak / 1000:g} kW"
            remedy = f"set power.{role}_kw=0, or power.columns.{role} to another column"
            raise BadInputError(str(path), problem, remedy)
        supply += power_table.columns[role] / highest * peak
    carbon = power_table.columns.get("carbon", np.full(power_table.steps, power.carbon_g_per_kwh))
    steps = Steps(np.stack([supply, carbon]), power_table.step_s)
    return PowerModel(full_w, partial(_recorded, steps, cluster.tick_s), dict(power_table.repairs))
