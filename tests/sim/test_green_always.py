"""What is always true with a horizon, with suspension, shortfall and erring forecasts."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.sim.simulator import VectorSimulator

from .drive import over, random_legal
from .test_twin_green import game, open_core, rows_of

PLACES = ("ready", "wait", "suspended", "planned", "running", "rejected")


def every_tick(scenario: Scenario) -> Scenario:
    decision = scenario.decision.model_copy(update={"time_rule": "tick", "skip_forced": False})
    return scenario.model_copy(update={"decision": decision})


def check_places(core: VectorSimulator, table: JobTable) -> None:
    """Every job is in exactly one place."""
    places = rows_of(core)
    played = core.played(0, table)
    listed = [row for name in PLACES for row in places[name]] + np.flatnonzero(played.finished).tolist()
    coming = list(range(int(core.state.episodes["next_arrival"][0]), len(table)))
    assert sorted(listed + coming) == list(range(len(table)))


def check_grid(core: VectorSimulator, table: JobTable) -> None:
    """Running jobs hold what is on at most, and no plan stands in a row that is overfull for its sake."""
    state, places = core.state, rows_of(core)
    running = table.demand[places["running"]].sum(axis=0)
    assert (running <= state.on[0, :, 0]).all()
    assert (core.free[0] == state.on[0, :, 0] - running).all()
    for row in places["planned"]:
        first = int(state.job_values["planned"][0, row] - core.now[0])
        rows = slice(first, first + int(state.jobs["requested"][0, row]))
        held = table.demand[row] > 0
        assert (state.used[0, held, rows] <= state.on[0, held, rows]).all()


@pytest.mark.parametrize("first_seed", range(1000, 1200, 50))
def test_jobs_units_and_energy_are_accounted_for_at_every_tick(first_seed: int) -> None:
    counts = {"suspensions": 0, "short": 0, "rejected": 0, "finished": 0}
    for seed in range(first_seed, first_seed + 50):
        scenario, units, table, power = game(seed)
        scenario = every_tick(scenario)
        core, rng = open_core(scenario, units, table, power), random.Random(seed)
        idle, ran, now = core.layout.num_actions - 1, np.zeros(len(table), int), -1
        while not over(core, 0):
            assert int(core.now[0]) >= now
            now = int(core.now[0])
            check_places(core, table)
            check_grid(core, table)
            action = random_legal(core.mask[0], rng)
            if action == idle:  # what runs now runs for this tick
                ran[rows_of(core)["running"]] += 1
                counts["short"] += int((core.state.on[0, :, 0] < np.array(units)).any())
            core.step(np.array([action]))
        check_places(core, table)
        played = core.played(0, table)
        assert (played.start[played.started] >= table.submit[played.started]).all()
        assert (ran[played.finished] == table.runtime[played.finished]).all()
        assert (ran <= table.runtime).all()
        if power is not None:
            flows = played.accounts
            supplied = flows["renewable_kwh"] + flows["battery_kwh"] + flows["brown_kwh"]
            used = flows["energy_kwh"] + flows["charged_kwh"] + flows["curtailed_kwh"]
            assert abs(supplied - used) <= 1e-9 * max(supplied, 1e-9)
        counts["suspensions"] += int(played.suspensions.sum())
        counts["rejected"] += int(played.rejected.sum())
        counts["finished"] += int(played.finished.sum())
    assert min(counts.values()) > 0  # all of it was met


def test_an_environment_of_a_vector_is_the_same_as_one_alone() -> None:
    """Byte for byte: observations, images, masks, rewards, terms."""
    compared = 0
    for seed in range(2000, 2012):
        scenario, units, table, power = game(seed)
        alone = open_core(scenario, units, table, power)
        vector = VectorSimulator(scenario, units, 3, len(table), every_term=True, draw_images=True)
        for env in range(3):
            vector.load(env, table, power=power)
        rng = random.Random(seed)
        while not over(alone, 0):
            chosen = random_legal(alone.mask[0], rng)
            # The neighbours go their own ways.
            actions = [random_legal(vector.mask[0], rng), chosen, random_legal(vector.mask[2], rng)]
            alone.step(np.array([chosen]))
            vector.step(np.array(actions))
            for name in ("obs", "images", "mask", "reward", "terms", "elapsed"):
                assert getattr(alone, name)[0].tobytes() == getattr(vector, name)[1].tobytes(), name
            compared += 1
    assert compared > 100
