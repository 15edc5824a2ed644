"""PowerSeries: the power of one episode."""

from __future__ import annotations

from dataclasses import dataclass

from rlsched.jobs import FloatArray


@dataclass(frozen=True, eq=False)
class PowerSeries:
    """The power of one episode, tick by tick from its first; repeats where an episode is longer.

    Attributes:
        supply_w: (ticks,) watts of renewable supply, >= 0.
        carbon_g_per_kwh: (ticks,) carbon intensity of the grid.
        seed: of the errors of the forecast.
    """

    supply_w: FloatArray
    carbon_g_per_kwh: FloatArray
    seed: int = 0
