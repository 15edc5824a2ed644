"""The decision process: the compiled core against the slow twin, and what must always be true."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.scenario import load as load_scenario
from rlsched.scenario.terms import TERMS
from rlsched.sim.simulator import VectorSimulator
from tests.strategies import ACTION_RULES, TIME_RULES, Instance, instances, random_jobs, scenario, scenarios
from tests.twin.env import TwinEnv

from .drive import check_state, check_transition, over, random_legal, single, usage

SCALES = st.sampled_from([1.0, 0.25])
SEEDS = st.integers(0, 2**16)


def drawn(data: st.DataObject, **fixed: object) -> tuple[Scenario, Instance]:
    instance = data.draw(instances())
    return data.draw(scenarios(num_resources=len(instance.units), **fixed)), instance


@pytest.mark.parametrize("skip_forced", [True, False])
@pytest.mark.parametrize("time_rule", TIME_RULES)
@pytest.mark.parametrize("action_rule", ACTION_RULES)
@settings(max_examples=150)
@given(data=st.data(), scale=SCALES)
def test_agrees_with_the_twin(
    action_rule: str, time_rule: str, skip_forced: bool, data: st.DataObject, scale: float
) -> None:
    """The same legal actions lead to the same states, masks, rewards and ends at every step."""
    rules, instance = drawn(data, action_rule=action_rule, time_rule=time_rule, skip_forced=skip_forced)
    core = single(rules, instance, scale)
    twin = TwinEnv(rules, instance.units, instance.table, scale)
    check_state(core, 0, twin)
    while not twin.over:
        legal = [action for action, allowed in enumerate(twin.mask) if allowed]
        action = data.draw(st.sampled_from(legal))
        twin.step(action)
        core.step(np.array([action]))
        check_state(core, 0, twin)
        check_transition(core, 0, twin)
        assert core.starts(0).tolist() == twin.starts


def episode(core: VectorSimulator, seed: int) -> Iterator[None]:
    """Step a vector of one with random legal actions; stands at every decision and at the end."""
    rng = random.Random(seed)
    yield
    while not over(core, 0):
        core.step(np.array([random_legal(core.mask[0], rng)]))
        yield


@settings(max_examples=150)
@given(data=st.data(), seed=SEEDS)
def test_jobs_are_conserved_and_run_for_their_runtime_on_units_that_are_there(
    data: st.DataObject, seed: int
) -> None:
    rules, instance = drawn(data)
    table, units = instance.table, np.array(instance.units)
    core = single(rules, instance)
    now, starts_before = -1, np.full(len(table), -1)
    for _ in episode(core, seed):
        assert core.now[0] >= now
        now = int(core.now[0])
        starts = core.starts(0)
        assert ((starts == starts_before) | (starts_before == -1)).all()  # nobody starts twice
        starts_before = starts.copy()
        started = starts >= 0
        assert (starts[started] >= table.submit[started]).all()
        assert (starts[started] <= now).all()
        running = started & (starts + table.runtime > now)
        assert (core.free[0] == units - table.demand[running].sum(axis=0)).all()
        assert (core.free[0] >= 0).all()
        assert (usage(table, starts) <= units).all()
    finished = started & ~running
    if core.terminated[0] and rules.episode.end == "all_finished":
        assert finished.all()
    if core.truncated[0]:
        assert now - table.submit.min() == rules.episode.max_ticks


@settings(max_examples=100)
@given(data=st.data(), seed=SEEDS)
def test_rewards_are_weighted_terms_and_observations_stay_in_range(data: st.DataObject, seed: int) -> None:
    rules, instance = drawn(data)
    core = single(rules, instance, scale=0.5)
    weights = rules.objective.reward
    for number, _ in enumerate(episode(core, seed)):
        if number:  # before the first transition nothing is rewarded
            terms = dict(zip(TERMS, core.terms[0].tolist(), strict=True))
            expected = 0.5 * sum(weight * terms[name] for name, weight in weights.items())
            assert core.reward[0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert np.isfinite(core.obs).all()
        assert (np.abs(core.obs) <= 1).all()
        assert np.isin(core.mask, (0, 1)).all()
        assert core.mask[0].any() or over(core, 0)


@settings(max_examples=100)
@given(data=st.data(), seed=SEEDS)
def test_skipping_forced_decisions_changes_neither_schedule_nor_clock(data: st.DataObject, seed: int) -> None:
    """Where there was no choice, being asked makes no difference."""
    instance = data.draw(instances())
    drawn_once = data.draw(scenarios(num_resources=len(instance.units), skip_forced=True))
    unforced = drawn_once.model_copy(
        update={"decision": drawn_once.decision.model_copy(update={"skip_forced": False})}
    )
    fast, slow = single(drawn_once, instance), single(unforced, instance)
    rng = random.Random(seed)
    while not over(slow, 0):
        action = random_legal(slow.mask[0], rng)
        if slow.mask[0].sum() > 1:
            assert slow.now[0] == fast.now[0]
            assert slow.mask.tobytes() == fast.mask.tobytes()
            fast.step(np.array([action]))
        slow.step(np.array([action]))
    assert over(fast, 0)
    assert slow.now[0] == fast.now[0]
    assert slow.starts(0).tolist() == fast.starts(0).tolist()


def snapshot(core: VectorSimulator, env: int) -> bytes:
    """Everything that can be observed of one environment."""
    parts = [core.obs, core.mask, core.reward, core.terms, core.elapsed, core.terminated, core.truncated]
    return b"".join(np.ascontiguousarray(part[env]).tobytes() for part in [*parts, core.now, core.free])


@settings(max_examples=40)
@given(data=st.data(), seed=SEEDS)
def test_environment_k_of_a_vector_is_the_single_environment(data: st.DataObject, seed: int) -> None:
    """Each has its own actions and episodes, loaded anew when they end; the bytes are the same."""
    units = data.draw(st.sampled_from([(3,), (4, 2)]))
    rules = data.draw(scenarios(num_resources=len(units)))
    rng = random.Random(seed)
    vector = VectorSimulator(rules, units=list(units), num_envs=3, max_jobs=20)
    single = [VectorSimulator(rules, units=list(units), num_envs=1, max_jobs=20) for _ in range(3)]

    def load(env: int) -> None:
        """An episode with something to decide; a window of one, say, under `commit` has none."""
        for _ in range(20):
            table = random_jobs(rng, units, num_jobs=rng.randint(5, 20))
            vector.load(env, table)
            single[env].load(0, table)
            assert snapshot(vector, env) == snapshot(single[env], 0)
            if not over(vector, env):
                return
        assume(False)

    for env in range(3):
        load(env)
    for _ in range(25):
        actions = np.array([random_legal(vector.mask[env], rng) for env in range(3)])
        vector.step(actions)
        for env in range(3):
            single[env].step(actions[env : env + 1])
            assert snapshot(vector, env) == snapshot(single[env], 0)
            assert vector.starts(env).tolist() == single[env].starts(0).tolist()
            if over(vector, env):
                load(env)


@pytest.mark.slow
@pytest.mark.parametrize("skip_forced", [True, False])
@pytest.mark.parametrize("time_rule", TIME_RULES)
@pytest.mark.parametrize("action_rule", ACTION_RULES)
def test_mask_is_sound_and_complete_over_many_steps(
    action_rule: str, time_rule: str, skip_forced: bool
) -> None:
    """6,000 steps per rule, over 100,000 in all: bigger clusters and windows, the action limit is met.

    Sound: the twin refuses what is not legal. Complete: it finds nothing else that is.
    """
    rng = random.Random(f"{action_rule} {time_rule} {skip_forced}")
    num_steps = 0
    while num_steps < 6000:
        units = rng.choice([(6,), (16,), (8, 3), (5, 5, 2)])
        rules = scenario(
            action_rule=action_rule,
            time_rule=time_rule,
            skip_forced=skip_forced,
            window=rng.choice([2, 5, 8]),
            scope=rng.choice(["all", "window"]),
            gamma=rng.choice([1.0, 0.99]),
            max_ticks=rng.choice([None, None, 40]),
            tick_s=rng.choice([1, 4]),
            starvation_s=rng.choice([3, 30, 86_400]),
            num_resources=len(units),
        )
        core = VectorSimulator(rules, units=list(units), num_envs=4, max_jobs=60)
        twins = {}
        for env in range(4):
            table = random_jobs(rng, units, num_jobs=rng.randint(30, 60), span=rng.choice([20, 120]))
            core.load(env, table)
            twins[env] = TwinEnv(rules, units, table)
            check_state(core, env, twins[env])
        while not any(twin.over for twin in twins.values()):
            actions = np.array([random_legal(core.mask[env], rng) for env in range(4)])
            core.step(actions)
            for env, twin in twins.items():
                twin.step(int(actions[env]))
                check_state(core, env, twin)
                check_transition(core, env, twin)
            num_steps += 4


@pytest.mark.parametrize("time_rule", TIME_RULES)
@pytest.mark.parametrize("gamma", [1.0, 0.99, 0.999999])
def test_long_times_are_discounted_as_the_sum_over_their_ticks(time_rule: str, gamma: float) -> None:
    """Jumps of thousands of ticks, against the twin that counts them one by one."""
    rng = random.Random(11)
    rules = scenario(time_rule=time_rule, gamma=gamma, tick_s=1, starvation_s=700)
    for _ in range(3):
        table = random_jobs(rng, (4,), num_jobs=15, span=4000, longest=1500)
        core, twin = single(rules, Instance((4,), table)), TwinEnv(rules, (4,), table)
        while not twin.over:
            action = random_legal(core.mask[0], rng)
            twin.step(action)
            core.step(np.array([action]))
            check_state(core, 0, twin)
            check_transition(core, 0, twin)


@settings(max_examples=50)
@given(data=st.data(), seed=SEEDS)
def test_what_the_mask_forbids_is_refused_and_changes_nothing(data: st.DataObject, seed: int) -> None:
    rules, instance = drawn(data)
    core = single(rules, instance)
    for _ in episode(core, seed):
        if over(core, 0):
            return
        before, starts = snapshot(core, 0), core.starts(0).tolist()
        for action in (-1, *np.flatnonzero(core.mask[0] == 0).tolist(), core.mask.shape[1]):
            with pytest.raises(ValueError, match="illegal"):
                core.step(np.array([action]))
            assert snapshot(core, 0) == before
            assert core.starts(0).tolist() == starts


def test_actions_come_in_any_kind_of_whole_numbers_one_for_every_environment() -> None:
    """What is called compiled gets one kind of array only, and would read any other wrongly."""
    rules = scenario(num_resources=1)
    jobs = random_jobs(random.Random(5), (4,), num_jobs=12)
    cores = [VectorSimulator(rules, units=[4], num_envs=2, max_jobs=12) for _ in range(3)]
    for core in cores:
        core.load(0, jobs)
        core.load(1, jobs)
    while not (over(cores[0], 0) and over(cores[0], 1)):
        chosen = cores[0].mask.argmax(axis=1)
        cores[0].step(chosen)
        cores[1].step(chosen.astype(np.int32))
        every_other = np.full(4, -99)
        every_other[::2] = chosen
        cores[2].step(every_other[::2])
        assert snapshot(cores[0], 1) == snapshot(cores[1], 1) == snapshot(cores[2], 1)
    for wrong in (np.zeros(1, np.int64), np.zeros((2, 1), np.int64), np.zeros(2), np.zeros(3, np.int64)):
        with pytest.raises(ValueError, match="give a whole number for each of 2 environments"):
            cores[0].step(wrong)
    for sign in (-1, -2):  # -1 means something inside
        with pytest.raises(ValueError, match=f"action {sign} of environment 0 is illegal"):
            cores[0].step(np.full(2, sign))


@pytest.mark.parametrize("env", [-1, 2])
def test_an_episode_is_loaded_into_an_environment_that_is_there(env: int) -> None:
    core = VectorSimulator(scenario(), units=[4], num_envs=2, max_jobs=12)
    with pytest.raises(IndexError, match=f"environment {env} of 2"):
        core.load(env, random_jobs(random.Random(1), (4,), num_jobs=12))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda core: pickle.loads(pickle.dumps(core))])
def test_a_copy_goes_on_alike_and_alone(copied: Callable[[VectorSimulator], VectorSimulator]) -> None:
    rng = random.Random(3)
    core = VectorSimulator(scenario(), units=[4], num_envs=2, max_jobs=12)
    for env in range(2):
        core.load(env, random_jobs(rng, (4,), num_jobs=12))
    core.step(np.array([random_legal(core.mask[env], rng) for env in range(2)]))
    duplicate = copied(core)
    before = core.obs.copy()
    for _ in range(6):
        for either in (duplicate, core):  # one after the other: they share nothing
            either.step(either.mask.argmax(axis=1))
        for name in ("obs", "mask", "reward", "elapsed", "terminated"):
            np.testing.assert_array_equal(getattr(core, name), getattr(duplicate, name))
    assert (core.obs != before).any()


def test_addresses_are_not_copied() -> None:
    core = VectorSimulator(scenario(), units=[4], num_envs=2, max_jobs=12)
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="addresses of its own process"):
            copied(core.arguments)


def fingerprint() -> str:
    """A hash over all that is observed in a few random episodes, of queues and of a grid with its image."""
    rng, digest = random.Random(3), hashlib.sha256()
    rules = [scenario(action_rule=rule, gamma=0.99, starvation_s=3, num_resources=2) for rule in ACTION_RULES]
    changes = ["observation.blocks=[jobs, queue, image]", "decision.horizon=36", "decision.window=3"]
    for played in (*rules, load_scenario("green-10", changes)):
        core = VectorSimulator(played, units=[4, 2], num_envs=1, max_jobs=12, draw_images=True)
        jobs = random_jobs(rng, (4, 2), num_jobs=12, longest=9)
        core.load(0, jobs, power=PowerSeries(np.array([400.0, 900.0, 100.0]), np.full(3, 400.0), seed=0))
        for _ in range(200):
            if over(core, 0):
                break
            digest.update(snapshot(core, 0) + core.images.tobytes())
            core.step(np.array([random_legal(core.mask[0], rng)]))
        digest.update(snapshot(core, 0) + core.images.tobytes())
    return digest.hexdigest()


def test_the_same_seed_gives_the_same_bytes_compiled_or_not() -> None:
    script = f"from {__name__} import fingerprint; print(fingerprint())"
    interpreted = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert interpreted.returncode == 0, interpreted.stderr
    assert fingerprint() == fingerprint() == interpreted.stdout.strip()
