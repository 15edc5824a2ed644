"""Scenarios with a horizon: the compiled core against the slow twin, and what must always be true."""

from __future__ import annotations

import random
from typing import Any, get_args

import numpy as np
import pytest

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario, Term
from rlsched.scenario.terms import TERMS, terms_that_need
from rlsched.sim.columns import COMING_JOBS, GREEN_WITHIN
from rlsched.sim.noise import QUANTILES
from rlsched.sim.simulator import VectorSimulator, effective_prices
from tests.strategies import random_jobs
from tests.twin.green import TwinGreen
from tests.twin.power import quantile_number

from .drive import close, over, random_legal

EXPIRY: tuple[dict[str, Any], ...] = (
    *(4 * ({"expiry": None},)),  # in half of them
    {"expiry": 0},
    {"expiry": 5},
    {"expiry": 0, "expiry_rule": "latest_start"},
    {"expiry": 3, "expiry_rule": "latest_start"},
)

ENERGIES = {
    "used": "energy_kwh",
    "renewable": "renewable_kwh",
    "battery": "battery_kwh",
    "brown": "brown_kwh",
    "charged": "charged_kwh",
    "curtailed": "curtailed_kwh",
    "carbon_kg": "carbon_kg",
}


def random_power(rng: random.Random) -> dict[str, Any] | None:
    """Settings under which supply, battery, grid and forecast all matter; sometimes none."""
    if rng.random() < 0.15:
        return None
    battery = {
        "capacity_kwh": rng.choice([0.5, 2.0, 10.0]),
        "charge_kw": rng.choice([0.1, 0.4]),
        "discharge_kw": rng.choice([0.1, 0.7]),
        "efficiency": rng.choice([1.0, 0.8]),
        "initial": rng.choice([0.0, 0.5, 1.0]),
    }
    return {
        "kind": "synthetic",
        "utilization": rng.choice([1.0, 0.5]),
        "battery": battery if rng.random() < 0.5 else None,
        "grid_kw": rng.choice([0.0, 0.0, 0.2]),
        "forecast_error": rng.choice([0.0, 0.0, 0.05, 0.3]),
    }


def random_scenario(rng: random.Random, units: tuple[int, ...], horizon: int) -> Scenario:
    power = random_power(rng)
    expiry = rng.choice(EXPIRY)
    terms = [term for term in get_args(Term) if power is not None or term not in terms_that_need("power")]
    return Scenario.model_validate(
        {
            "cluster": {
                "tick_s": rng.choice([3600, 600]),
                "resources": [
                    {
                        "name": f"r{r}",
                        "price": rng.choice([0.5, 0.25]),
                        "idle_w": 50.0,
                        "full_w": 100.0 + 50 * r,
                    }
                    for r in range(len(units))
                ],
            },
            "power": power,
            "workload": {"kind": "swf", "file": "none", "value_scale": rng.choice([1.0, 2.0])},
            "decision": {
                "action_rule": "fit",
                "time_rule": rng.choice(["tick", "sparse", "smdp"]),
                "placement": rng.choice(["now", "horizon"]),
                "horizon": horizon,
                "window": rng.randint(1, 4),
                "wait_pool": rng.choice([None, 0, 2, 10]),
                "admission": rng.choice(["fcfs", "sjf", "qos", "hvf"]),
                "suspend": "expiry_rule" not in expiry and rng.random() < 0.5,
                "suspend_pool": rng.choice([1, 3]),
                **expiry,
                "skip_forced": rng.random() < 0.7,
            },
            "observation": {
                "blocks": ["jobs", "queue", "event_horizon", "image", "profile", "coming"]
                + (["supply"] if power is not None else []),
                "event_horizon": 5,
            },
            "objective": {
                "reward": {term: 1.0 + k for k, term in enumerate(terms)},
                "scope": rng.choice(["all", "window"]),
                "gamma": rng.choice([1.0, 0.99]),
                "starvation_s": rng.choice([7200, 5000]),
            },
            "episode": random_end(rng, power is not None),
        }
    )


def random_end(rng: random.Random, may_fail: bool) -> dict[str, Any]:
    """By the clock, or when the last job has come; the latter only where power never fails."""
    if may_fail or rng.random() < 0.5:
        return {"jobs": None, "end": "max_ticks", "max_ticks": rng.randint(10, 60)}
    return {"jobs": None, "end": "no_new_job"}


def random_series(rng: random.Random, full_w: float) -> PowerSeries:
    """Supply that comes and goes; shorter than the episode, so that it repeats."""
    ticks = rng.choice([7, 40, 100])
    level, supply = rng.random(), []
    for _ in range(ticks):
        if rng.random() < 0.3:
            level = rng.choice([0.0, 0.3, 0.5, 0.8, 1.0, 1.4])
        supply.append(level * full_w)
    carbon = [rng.choice([100.0, 400.0]) for _ in range(ticks)]
    return PowerSeries(np.array(supply), np.array(carbon), seed=rng.randrange(2**62))


def game(seed: int) -> tuple[Scenario, tuple[int, ...], JobTable, PowerSeries | None]:
    rng = random.Random(seed)
    units = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 2)))
    horizon = rng.choice([9, 12, 20])  # no shorter than the longest requested time
    scenario = random_scenario(rng, units, horizon)
    table = random_jobs(rng, units, rng.randint(1, 25), span=rng.choice([0, 10, 40]), longest=9)
    power = None
    if scenario.power is not None:
        watts = [
            r.idle_w + (r.full_w - r.idle_w) * scenario.power.utilization for r in scenario.cluster.resources
        ]
        power = random_series(rng, sum(n * w for n, w in zip(units, watts, strict=True)))
    return scenario, units, table, power


def open_core(
    scenario: Scenario, units: tuple[int, ...], table: JobTable, power: PowerSeries | None
) -> VectorSimulator:
    core = VectorSimulator(scenario, units, 1, len(table), every_term=True, draw_images=True)
    core.load(0, table, power=power)
    return core


def rows_of(core: VectorSimulator) -> dict[str, list[int]]:
    """Jobs by place, as rows of the table."""
    state = core.state
    e = state.episodes[0]
    queue = state.queue[0, e["queue_lo"] : e["queue_hi"]].tolist()
    running = [int(state.started[0, code & ((1 << 20) - 1)]) for code in state.ends[0, : e["num_running"]]]
    n = int(e["num_jobs"])
    return {
        "ready": queue[: e["num_ready"]],
        "wait": queue[e["num_ready"] :],
        "suspended": state.suspended[0, : e["num_suspended"]].tolist(),
        "planned": sorted(state.planned[0, : e["num_planned"]].tolist()),
        "running": sorted(running),
        "rejected": np.flatnonzero(state.job_values[0, :n]["rejected"]).tolist(),
    }


def check(core: VectorSimulator, twin: TwinGreen, table: JobTable) -> None:
    """The core stands where the twin stands, got there for the same, and shows what is there."""
    assert int(core.now[0]) == twin.now
    assert bool(core.terminated[0]) == twin.terminated
    assert bool(core.truncated[0]) == twin.truncated
    places = rows_of(core)
    assert places == {name: getattr(twin, name) for name in places}
    assert core.state.used[0].T.tolist() == [list(row) for row in twin.used]
    assert core.state.on[0].T.tolist() == [list(row) for row in twin.on]
    assert close(float(core.state.episodes["battery_wh"][0]), twin.battery_wh)
    if not over(core, 0):
        assert core.mask[0].tolist() == twin.mask
    assert int(core.elapsed[0]) == twin.elapsed
    for k, name in enumerate(TERMS):
        assert close(core.terms[0, k], twin.terms[name]), name
        assert close(core.outcome.totals[0, k], twin.totals[name]), name
    assert close(float(core.reward[0]), twin.reward)
    played = core.played(0, table)
    assert played.start.tolist() == twin.starts
    assert played.end.tolist() == twin.ends
    assert played.suspensions.tolist() == twin.suspensions
    if core.scenario.power is not None:
        for name, account in ENERGIES.items():
            assert close(played.accounts[account], twin.energies[name]), name


def check_image(core: VectorSimulator) -> None:
    """The image is what drawing it anew from the grid gives, and the profile says the same in shares."""
    state, expected = core.state, []
    for k in range(state.used.shape[2]):
        row: list[int] = []
        for r, units in enumerate(state.units[0].tolist()):
            on, used = int(state.on[0, r, k]), int(state.used[0, r, k])
            row += [1] * min(used, on) + [0] * max(0, on - used) + [-1] * (units - on)
        expected.append(row)
    assert core.images[0].tolist() == expected
    profile = core.layout.view(core.obs[0], "profile")
    shares = np.asarray(state.on[0] / state.units[0][:, None])
    np.testing.assert_allclose(profile[:, 2], 1.0 - shares, atol=1e-6)
    np.testing.assert_allclose(profile[:, 0], state.used[0] / state.units[0][:, None], atol=1e-6)


def check_coming(core: VectorSimulator, twin: TwinGreen, table: JobTable) -> None:
    """What comes into the pool next, added up job by job."""
    first = twin.wait[0] if twin.wait else int(core.state.episodes[0]["next_arrival"])
    prices = effective_prices(core.scenario)
    tallest = core.scenario.decision.horizon * sum(core.state.units[0].tolist())
    expected = []
    for count in COMING_JOBS:
        rows = range(first, min(first + count, len(table)))
        work = sum(int(table.demand[row].sum() * table.runtime[row]) for row in rows)
        value = sum(float(table.demand[row] @ prices * table.qos[row] * table.runtime[row]) for row in rows)
        expected += [value / work / prices.max(), min(1.0, work / len(rows) / tallest)] if rows else [0.0] * 2
    np.testing.assert_allclose(core.layout.view(core.obs[0], "coming"), expected, rtol=1e-5)


def check_green(core: VectorSimulator, twin: TwinGreen, shares: list[float]) -> None:
    """Start by start, tick by tick: what of a job's draw is left over by what is on and planned."""
    plant = twin.plant
    assert plant is not None
    horizon, names = len(shares), core.layout.features("jobs")
    left_over = [
        max(0.0, share - plant.draw(on, used) / plant.full)
        for share, on, used in zip(shares, twin.on, twin.used, strict=True)
    ]
    observed_jobs = core.layout.view(core.obs[0], "jobs")
    for slot, task in enumerate(twin.places.ready):
        ticks = task.requested
        draw = sum(
            units * (busy - idle) / plant.full
            for units, busy, idle in zip(task.job.demand, plant.busy, plant.idle, strict=True)
        )
        fed = [min(1.0, part / draw) if draw else 1.0 for part in left_over]
        first = min(max(0, int(core.outcome.first[0, slot])), horizon - ticks)
        for within in GREEN_WITHIN:
            starts = range(first, min(first + within, horizon - ticks) + 1)
            best = max(sum(fed[start : start + ticks]) / ticks for start in starts)
            assert observed_jobs[slot, names.index(f"green_{within}")] == pytest.approx(best, abs=1e-5)


def check_supply(core: VectorSimulator, twin: TwinGreen) -> None:
    """Wind and sun of each hour ahead, as far off as the forecast is, and what the grid emits then."""
    plant = twin.plant
    assert plant is not None
    shares, carbon = [], []
    for lead in range(core.scenario.decision.horizon):
        share = min(1.0, plant.supply(twin.now + lead) / plant.full) if plant.full else 1.0
        if lead and plant.power.forecast_error:
            z = float(QUANTILES[quantile_number(plant.series.seed, twin.now, lead)])
            share = min(1.0, max(0.0, share + plant.power.forecast_error * lead**0.5 * z))
        shares.append(share)
        carbon.append(min(1.0, plant.carbon(twin.now + lead) / 1000))
    check_green(core, twin, shares)
    np.testing.assert_allclose(core.layout.view(core.obs[0], "supply"), [shares, carbon], atol=1e-6)


@pytest.mark.parametrize("first_seed", range(0, 300, 50))
def test_agrees_with_the_twin(first_seed: int) -> None:
    """The same legal actions lead to the same places, grids, masks, terms and energies at every step."""
    for seed in range(first_seed, first_seed + 50):
        scenario, units, table, power = game(seed)
        core, twin = open_core(scenario, units, table, power), TwinGreen(scenario, units, table, power)
        rng = random.Random(seed)
        check(core, twin, table)
        while not twin.over:
            action = random_legal(core.mask[0], rng)
            core.step(np.array([action]))
            twin.step(action)
            check(core, twin, table)
            check_image(core)
            if not twin.over:
                check_coming(core, twin, table)
                if power is not None:
                    check_supply(core, twin)
            assert np.isfinite(core.obs).all()
            assert (core.obs >= 0).all()
            assert (core.obs <= 1).all()


def test_a_longer_power_series_moves_the_memory_that_others_read() -> None:
    """An episode goes on as if alone when another one, with more hours of power, is loaded beside it."""
    for seed in range(40):
        scenario, units, table, power = game(seed)
        if power is None:
            continue
        longer = PowerSeries(np.tile(power.supply_w[::-1], 30), np.tile(power.carbon_g_per_kwh, 30), seed=1)
        alone, alone_longer = (
            open_core(scenario, units, table, power),
            open_core(scenario, units, table, longer),
        )
        together = VectorSimulator(scenario, units, 2, len(table), every_term=True, draw_images=True)
        together.load(0, table, power=power)
        together.load(1, table, power=power)
        rng, moves = random.Random(seed), 0
        while not (over(alone, 0) and over(alone_longer, 0)):
            actions = np.array([random_legal(core.mask[0], rng) for core in (alone, alone_longer)])
            if moves == 3:
                before = together.state.supply_w
                together.load(1, table, power=longer)
                assert together.state.supply_w is not before
            alone.step(actions[:1])
            if moves < 3:
                actions[1] = random_legal(together.mask[1], rng)
            else:
                alone_longer.step(actions[1:])
            together.step(actions)
            moves += 1
            for env, core in enumerate((alone, alone_longer) if moves > 3 else (alone,)):
                assert together.obs[env].tobytes() == core.obs[0].tobytes()
                assert together.images[env].tobytes() == core.images[0].tobytes()
                assert together.reward[env] == core.reward[0]
                assert together.outcome.accounts[env].tolist() == core.outcome.accounts[0].tolist()


def test_what_is_written_only_where_it_changes_is_what_is_written_anew_at_every_step() -> None:
    suspended = 0
    for seed in range(60):
        scenario, units, table, power = game(seed)
        core, anew = open_core(scenario, units, table, power), open_core(scenario, units, table, power)
        rng = random.Random(seed)
        while not over(core, 0):
            action = np.array([random_legal(core.mask[0], rng)])
            core.step(action)
            anew.state.episodes["rewrite_slots"][0] = 1
            anew.step(action)
            assert core.obs.tobytes() == anew.obs.tobytes()
            suspended += int(core.state.episodes["num_suspended"][0])
    assert suspended > 0  # whose requested times are others when they come back
