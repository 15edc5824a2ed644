"""Power of the slow twin against results worked out on paper."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.sim.noise import QUANTILES
from tests.twin.green import TwinGreen
from tests.twin.power import Flow, Plant, quantile_number

from .green_by_hand import BATTERY, column, green, jobs, quantile_of, series, wait

# power


def plant(tick_s: int = 3600, units: int = 4, **power: Any) -> Plant:
    return Plant(green(power=power, max_ticks=9, tick_s=tick_s), [units], series(400), first=0)


@pytest.mark.parametrize(
    ("supply", "used", "level", "discharged", "brown", "charged", "curtailed", "after"),
    [
        (100, 150, 500, 50, 0, 0, 0, 450),  # what is lacking
        (100, 500, 500, 200, 200, 0, 0, 300),  # the rate; the grid gives the rest
        (100, 500, 50, 50, 350, 0, 0, 0),  # the level
        (400, 0, 500, 0, 0, 300, 100, 650),  # the rate; half of it is lost
        (400, 300, 500, 0, 0, 100, 0, 550),  # what is left over
        (400, 0, 950, 0, 0, 100, 300, 1000),  # the room for 50 takes 100
        (400, 400, 500, 0, 0, 0, 0, 500),
    ],
)
def test_battery(
    supply: float,
    used: float,
    level: float,
    discharged: float,
    brown: float,
    charged: float,
    curtailed: float,
    after: float,
) -> None:
    site = plant(battery=BATTERY)
    assert site.level == 500
    flow = site.flow(supply, used, level)
    assert flow == Flow(used, supply, discharged, brown, charged, curtailed)
    assert site.level_after(level, flow) == after


def test_battery_with_half_hour_ticks() -> None:
    site = plant(tick_s=1800, battery=BATTERY)
    assert site.discharge_limit(50) == 100  # W for half an hour
    assert site.level_after(500, site.flow(100, 250, 500)) == 425
    assert site.flow(400, 0, 960).charged == pytest.approx(40 / 0.5 / 0.5)
    assert site.kwh(500) == 0.25


def test_without_a_battery_its_terms_are_zero() -> None:
    site = plant()
    assert site.flow(100, 150, 0) == Flow(150, 100, 0, 50, 0, 0)
    assert site.flow(100, 50, 0) == Flow(50, 100, 0, 0, 0, 50)


def test_availability_and_draw() -> None:
    """At half load a unit at work draws 150 W, four of them 600."""
    site = plant(utilization=0.5, grid_kw=0.025, battery=BATTERY)
    assert site.full == 600
    assert site.availability(0, 0) == 425 / 600
    assert site.availability(0, 1) == (400 + 1 + 25) / 600
    assert site.availability(0, 500) == 1
    assert site.units_on(0.75) == [3]
    assert site.units_on(0.74) == [2]
    assert site.draw([3], [1]) == 150 + 2 * 100
    fifteen_of_22 = 15 * 200 / (22 * 200)
    assert 22 * fifteen_of_22 < 15
    assert plant(units=22).units_on(fifteen_of_22) == [15]


def test_the_series_repeats_and_begins_at_the_first_submit() -> None:
    table = JobTable.build(submit=[5], runtime=[1], demand=[1])
    twin = TwinGreen(green(power={}, max_ticks=9), [4], table, series(800, 600, 200))
    assert column(twin.on) == [4, 3, 1, 4]


def test_forecast_drains_the_battery_by_full_draw() -> None:
    """400 W and 500 Wh, of which 300 W may come: 700, 600, 400, 400 W of 800; the grid may add 100 W."""
    battery = {**BATTERY, "discharge_kw": 0.3}
    table = jobs(runtime=[1, 1], demand=[1, 3])
    twin = TwinGreen(green(power={"battery": battery}, max_ticks=9), [4], table, series(400))
    assert column(twin.on) == [3, 3, 2, 2]
    twin.step(0)
    twin.step(3)
    # one at work and two idle took 400 W, the battery is as it was
    assert (twin.battery_wh, column(twin.on)) == (500, [3, 3, 2, 2])
    twin.step(0)
    wait(twin, 2)
    assert (twin.battery_wh, column(twin.on)) == (300, [3, 2, 2, 2])  # 200 W were lacking
    fed = TwinGreen(green(power={"battery": battery, "grid_kw": 0.1}, max_ticks=9), [4], table, series(400))
    assert column(fed.on) == [4, 3, 2, 2]


def test_forecast_charges_the_battery_in_surplus() -> None:
    """1000 W feed 800 and store half of 200; then 300 W and 600 Wh, 200 W at a time."""
    twin = TwinGreen(
        green(power={"battery": BATTERY}, max_ticks=9, horizon=6),
        [4],
        jobs(runtime=[1], demand=[1]),
        series(1000, 300, 300, 300, 300, 300),
    )
    assert twin.plant is not None
    assert twin.plant.forecast(0, 6) == [1, 500 / 800, 500 / 800, 500 / 800, 300 / 800, 300 / 800]
    assert column(twin.on) == [4, 2, 2, 2, 1, 1]


def test_noise_is_the_finaliser_of_splitmix() -> None:
    assert quantile_number(0, 0, 0) == 0
    for numbers in [(0, 0, 1), (7, 3, 2), (2**31, 10**6, 47), (2**63 - 1, 8760, 1)]:
        assert quantile_number(*numbers) == quantile_of(*numbers)


def test_forecast_errors_grow_with_the_lead_and_are_drawn_at_every_tick() -> None:
    table = jobs(runtime=[4], requested=[1], demand=[1])
    rules = green(power={"forecast_error": 0.2}, max_ticks=9, horizon=6)
    twin = TwinGreen(rules, [100], table, series(10_000, seed=7))
    twin.step(0)
    forecasts = []
    for now in range(3):
        wait(twin, now)
        shares = [0.5] + [0.5 + 0.2 * sqrt(k) * QUANTILES[quantile_of(7, now, k)] for k in range(1, 6)]
        assert column(twin.on) == [int(100 * min(1, max(0, share)) + 1e-9) for share in shares]
        forecasts.append(tuple(column(twin.on)))
    assert len(set(forecasts)) == 3
    perfect = TwinGreen(green(power={}, max_ticks=9, horizon=6), [100], table, series(10_000, seed=7))
    assert column(perfect.on) == [50] * 6


def test_energy_of_an_episode() -> None:
    """Two units, A on one of them for three ticks.

    tick   supply  on  used  charged  curtailed  battery  brown  level after
    0      500     2   300   100      100        0        0      150
    1      100     1   200   0        0          50       50     100
    2      300     2   300   0        0          0        0      100
    """
    battery = {"capacity_kwh": 1, "charge_kw": 0.1, "discharge_kw": 0.05, "efficiency": 0.5, "initial": 0.1}
    terms = ("energy", "brown_energy", "carbon", "curtailment")
    objective = {"reward": dict.fromkeys(terms, 1.0), "gamma": 0.5}
    rules = green(
        power={"battery": battery, "grid_kw": 0.1}, max_ticks=5, objective=objective, time_rule="smdp"
    )
    supply = PowerSeries(np.array([500.0, 100, 300]), np.array([100.0, 500, 200]))
    twin = TwinGreen(rules, [2], jobs(runtime=[3], demand=[1]), supply)
    assert column(twin.on) == [2, 1, 2, 2]
    twin.step(0)
    assert (twin.now, twin.terminated) == (3, True)
    assert twin.battery_wh == pytest.approx(100)
    assert twin.energies == pytest.approx(
        {
            "used": 0.8,
            "renewable": 0.9,
            "battery": 0.05,
            "brown": 0.05,
            "charged": 0.1,
            "curtailed": 0.1,
            "carbon_kg": 0.05 * 500 / 1000,
        }
    )
    assert [twin.totals[term] for term in terms] == pytest.approx([-0.8, -0.05, -0.025, -0.1])
    discounted = [-(0.3 + 0.5 * 0.2 + 0.25 * 0.3), -0.5 * 0.05, -0.5 * 0.025, -0.1]
    assert [twin.terms[term] for term in terms] == pytest.approx(discounted)
    assert twin.reward == pytest.approx(sum(discounted))


def test_without_power_all_is_on_and_nothing_is_counted() -> None:
    twin = TwinGreen(green(), [3], jobs(runtime=[2], demand=[1]), None)
    assert column(twin.on) == [3] * 4
    twin.step(0)
    wait(twin, 2)
    assert not any(twin.energies.values())
    assert (twin.totals["energy"], twin.battery_wh) == (0, 0)
