"""Calibration of the no-op's bias: the search by itself, the shift of every network, and runs that use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.calibration import LARGEST_STEP, PLAYS, TOLERANCE, calibrate
from rlsched.learn.config.training import make_config
from rlsched.learn.networks.blocks import ILLEGAL, EncodedPolicy
from rlsched.learn.networks.policies import SCORE_SCALE, build_policy
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator

from .conftest import TINY


def tried_of(
    excess: Callable[[float], float], value: Callable[[float], float] = lambda amount: -amount
) -> list[float]:
    """Amounts that are tried, where the metric is less the more is waited, or as told."""
    actual = calibrate(
        lambda amount: {"excess": excess(amount), "relative": value(amount)}, lambda item: item["relative"]
    )
    assert actual == [(amount, {"excess": excess(amount), "relative": value(amount)}) for amount, _ in actual]
    return [amount for amount, _ in actual]


def test_a_policy_that_just_keeps_its_limits_is_left_alone() -> None:
    assert tried_of(lambda amount: amount - TOLERANCE / 2) == [0.0]


def test_steps_grow_until_the_limit_lies_between_then_halve() -> None:
    """By hand: limits are kept up to a bias of 0.25."""
    assert tried_of(lambda amount: amount - 0.25) == pytest.approx([0.0, 0.1, 0.4, 0.25])


def test_a_policy_beyond_its_limits_waits_less() -> None:
    tried = tried_of(lambda amount: 3.0 + 10.0 * amount)
    assert tried == pytest.approx([0.0, -0.1, -0.4, -0.25, -0.325])


@pytest.mark.parametrize("limit", [0.15, 3.0])
def test_where_waiting_does_not_pay_less_of_it_is_tried(limit: float) -> None:
    tried = tried_of(lambda amount: amount - limit, lambda amount: amount)
    assert tried == pytest.approx([0.0, 0.1, -0.1, -0.4, -1.3])


def test_a_limit_on_the_way_down_ends_the_search() -> None:
    """Where costs rise both ways, as under a limit of the makespan."""
    assert tried_of(lambda amount: abs(amount - 0.05) - 0.1, lambda amount: amount) == pytest.approx(
        [0.0, 0.1, -0.1]
    )


def test_what_makes_no_difference_is_no_reason_to_wait_more() -> None:
    tried = tried_of(lambda amount: amount - 3.0, lambda amount: 0.0)
    assert tried == pytest.approx([0.0, 0.1, -0.1, -0.4, -1.3])


@pytest.mark.parametrize("excess", [-0.5, 0.5])
def test_where_the_bias_changes_nothing_it_stays_within_reach(excess: float) -> None:
    """A no-op that is taken always or never is learned no more."""
    assert [abs(amount) for amount in tried_of(lambda amount: excess)] == pytest.approx([0.0, 0.1, 0.4, 1.3])


@given(slope=st.floats(0.01, 100.0), limit=st.floats(-3.0, 3.0))
def test_of_monotone_policies_the_best_that_keeps_the_limits_is_never_worse_than_the_first(
    slope: float, limit: float
) -> None:
    amounts = tried_of(lambda amount: slope * (amount - limit))
    assert len(amounts) <= 1 + PLAYS
    assert len(set(amounts)) == len(amounts)
    assert max(map(abs, amounts)) <= 1.5 * LARGEST_STEP
    saved = [amount for amount in amounts if slope * (amount - limit) <= 0.0]
    if limit >= 0.0:
        assert max(saved) >= 0.0
    elif limit > -LARGEST_STEP / 2:
        assert saved


NETWORKS = {
    "job_scorer": ("lublin-256", {}),
    "attention": ("lublin-256", {"attention": 2}),
    "lstm": ("lublin-256", {"lstm": 8}),
    "mlp": ("lublin-256", {"kind": "mlp"}),
    "horizon": ("green-10", {}),
    "cnn": ("green-10", {"kind": "cnn"}),
}


def built(name: str, settings: dict[str, Any]) -> tuple[EncodedPolicy, torch.Tensor, torch.Tensor]:
    """A network, and states of a scenario: (vector, mask)."""
    grid = name == "green-10"
    simulated = scenario.load(
        name, ["observation.blocks=[jobs,profile,queue]" if grid else "episode.jobs=40"]
    )
    feed = EpisodeFeed(simulated)
    sim = VectorSimulator(feed.scenario.public, feed.units, 8, feed.max_jobs)
    rng = np.random.default_rng(0)
    for env in range(8):
        episode = feed.training(rng)
        sim.load(env, episode.jobs, episode.scale, episode.power)
    for _ in range(20):
        sim.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in sim.mask]))
    layout = Layout.of(feed.scenario.public.observation, feed.scenario.decision, len(feed.units))
    if settings.get("kind") == "cnn":
        settings = settings | {"units": feed.units}
    network = make_config({}, "test", [f"network.{key}={value}" for key, value in settings.items()]).network
    policy = build_policy(layout, network)
    return policy, torch.from_numpy(sim.obs.copy()), torch.from_numpy(sim.mask.copy()).float()  # type: ignore[return-value]


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_shift_moves_the_noop_alone_and_in_every_state(kind: str) -> None:
    policy, vector, mask = built(*NETWORKS[kind])

    def logits() -> torch.Tensor:
        memory = (policy.begin(len(vector)),) if kind == "lstm" else ()  # type: ignore[operator]
        actual = policy.step(vector, mask, *memory)[0] if memory else policy(vector, mask)  # type: ignore[operator]
        return torch.as_tensor(actual).detach()

    before = logits()
    policy.shift_noop(0.75)
    after = logits()
    legal = before > ILLEGAL / 2
    assert legal[:, -1].any()
    moved = torch.zeros_like(before)
    moved[:, -1] = 0.75
    torch.testing.assert_close(after[legal], (before + moved)[legal], rtol=0, atol=1e-5)
    assert torch.equal(after > ILLEGAL / 2, legal)


@pytest.fixture(scope="module")
def limited() -> Scenario:
    return scenario.load("lublin-256", ["episode.jobs=24"])


@pytest.mark.slow
@pytest.mark.usefixtures("ray_address")
def test_the_learner_and_the_saved_policy_are_shifted_equally(limited: Scenario) -> None:
    config = make_config({}, "test", TINY).resolve(limited)
    engine = RllibEngine(config, EpisodeFeed(limited), 0)
    try:
        engine.iterate(0.5)
        learned, saved = engine.learned(), {k: v.clone() for k, v in engine.net.state_dict().items()}
        engine.shift_noop(-0.3)
        runner = engine.algorithm.env_runner.module.policy.state_dict()
        shifted = engine.learned()
        differing = {name for name in learned if not torch.equal(learned[name], shifted[name])}
        assert len(differing) == 1, "the bias of the last layer of the no-op"
        (name,) = differing
        torch.testing.assert_close(shifted[name], learned[name] - 0.3 / SCORE_SCALE)
        torch.testing.assert_close(engine.net.state_dict()[name], saved[name] - 0.3 / SCORE_SCALE)
        torch.testing.assert_close(runner[name], shifted[name])
    finally:
        engine.stop()
