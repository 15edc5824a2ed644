"""Power between supply and cluster: battery, grid, forecast, and the account of every tick.

Source: Venkataswamy 2023, eq. 4.1, 4.2 and algorithm 5. Rules: docs/reference/green-rules.md. All amounts are
in watts, watt-hours and ticks.
"""

from __future__ import annotations

from math import floor, sqrt
from typing import NamedTuple

from rlsched.sim.compiled import kernel, shared, step
from rlsched.sim.noise import QUANTILES, quantile_of
from rlsched.sim.rules import Plant, Rules
from rlsched.sim.state import State

ACCOUNTS = (
    "energy_kwh",
    "renewable_kwh",
    "battery_kwh",
    "brown_kwh",
    "charged_kwh",
    "curtailed_kwh",
    "carbon_kg",
    "used_share",
    "on_share",
)
"""Accounts per tick: energies, renewable + battery + brown = energy + charged + curtailed, and the
shares of the units that run jobs and that are on, mean over resources."""

(
    ENERGY_KWH,
    RENEWABLE_KWH,
    BATTERY_KWH,
    BROWN_KWH,
    CHARGED_KWH,
    CURTAILED_KWH,
    CARBON_KG,
    USED_SHARE,
    ON_SHARE,
) = range(len(ACCOUNTS))


class Flow(NamedTuple):
    """Power flows of a tick in watts, besides the supply and the use, and the battery after it."""

    discharge: float
    brown: float
    charge: float
    curtailed: float
    level: float  # Wh of the battery afterwards


@step
def flow(plant: Plant, supply: float, used: float, level: float) -> Flow:
    """Watts in and out of battery and grid for a supply and a use [Venkataswamy 2023, algorithm 5]."""
    if used > supply:
        discharge = min(plant.discharge_w, level / plant.tick_h, used - supply)
        brown = used - supply - discharge
        charge = 0.0
        curtailed = 0.0
    else:
        room = (plant.capacity_wh - level) / (plant.efficiency * plant.tick_h)
        charge = min(plant.charge_w, room, supply - used)
        curtailed = supply - used - charge
        discharge = 0.0
        brown = 0.0
    level = level + (plant.efficiency * charge - discharge) * plant.tick_h
    return Flow(discharge, brown, charge, curtailed, min(plant.capacity_wh, max(0.0, level)))


@step
def availability(plant: Plant, supply: float, level: float) -> float:
    """Share of the full draw that supply, battery and grid can carry for a tick."""
    potential = supply + min(plant.discharge_w, level / plant.tick_h) + plant.grid_w
    return min(1.0, potential / plant.full_w)


@step
def write_row(s: State, i: int, k: int, share: float) -> None:
    """Set the units on in row k of the forecast."""
    for r in range(len(s.resources)):
        s.on[i, r, k] = floor(s.units[i, r] * share + 1e-9)


@step
def power_index(s: State, i: int, tick: int) -> int:
    """Index of the tick in the power series, which repeats."""
    e = s.episodes[i]
    return (tick - e.first_submit) % e.power_ticks


@step
def with_error(share: float, error: float, seed: int, now: int, lead: int) -> float:
    """A share of the full draw as it is forecast: its error grows with the square root of the lead time."""
    if error == 0.0 or lead == 0:
        return share
    z = QUANTILES[quantile_of(seed, now, lead)]
    return min(1.0, max(0.0, share + error * sqrt(float(lead)) * z))


@kernel
def forecast_share(share: float, error: float, seed: int, now: int, lead: int) -> float:
    """`with_error`, for Python."""
    return with_error(share, error, seed, now, lead)


@shared
def forecast(s: State, rules: Rules, i: int) -> None:
    """Forecast the units on in every row, as of now; row 0 holds the actual ones."""
    e = s.episodes[i]
    plant = rules.plant
    rows = s.on.shape[2]
    if not plant.powered:
        for r in range(len(s.resources)):
            for k in range(rows):
                s.on[i, r, k] = s.units[i, r]
        return
    level = e.battery_wh
    index = power_index(s, i, e.now)
    for k in range(rows):
        supply = s.supply_w[i, index]
        share = availability(plant, supply, level)
        if plant.capacity_wh > 0.0:
            level = flow(plant, supply, plant.full_w, level).level
        write_row(s, i, k, with_error(share, plant.forecast_error, e.noise_seed, e.now, k))
        index += 1
        if index == e.power_ticks:
            index = 0


@step
def forecast_next(s: State, rules: Rules, i: int) -> bool:
    """Bring the forecast up to now, one tick after the last.

    Returns:
        Whether rows may have changed beyond moving up.
    """
    plant = rules.plant
    if plant.powered and (plant.forecast_error > 0.0 or plant.capacity_wh > 0.0):
        forecast(s, rules, i)
        return True
    rows = s.on.shape[2]
    if plant.powered:
        for r in range(len(s.resources)):
            on = s.on[i, r]
            for k in range(rows - 1):
                on[k] = on[k + 1]
        last = s.supply_w[i, power_index(s, i, s.episodes[i].now + rows - 1)]
        write_row(s, i, rows - 1, availability(plant, last, 0.0))
    return False
