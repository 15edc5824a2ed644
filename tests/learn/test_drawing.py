"""Draws of actions: as likely as the logits say, and a no-op that goes on."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.learn.config.training import make_config
from rlsched.learn.networks.drawing import draw_actions
from rlsched.learn.networks.module import ConstrainedModule
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.fragment import Ongoing
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.scenario import Scenario

from .conftest import TINY

DRAWS = 40_000
LOGITS = np.array([0.0, -np.inf, 1.0, -1.0, 0.5], np.float32)


def test_actions_are_as_likely_as_the_logits_say_where_the_last_is_drawn_apart() -> None:
    rng = np.random.default_rng(0)
    actions, logp = draw_actions(np.tile(LOGITS, (DRAWS, 1)), rng.random(DRAWS), rng.random(DRAWS))
    expected = np.exp(LOGITS) / np.exp(LOGITS).sum()
    shares = np.bincount(actions, minlength=5) / DRAWS
    assert shares == pytest.approx(expected, abs=4 * np.sqrt(0.25 / DRAWS))
    assert np.exp(logp) == pytest.approx(expected[actions], rel=1e-5)


def test_the_first_chance_decides_on_the_last_action_alone() -> None:
    probability = np.exp(LOGITS[-1]) / np.exp(LOGITS).sum()
    rest = np.linspace(0.0, 1.0, 101)[:-1]
    for chance, waits in ((1.0 - probability + 1e-6, True), (1.0 - probability - 1e-6, False)):
        actions, _ = draw_actions(np.tile(LOGITS, (100, 1)), np.full(100, chance), rest)
        assert ((actions == 4) == waits).all()
        if not waits:
            assert set(actions.tolist()) == {0, 2, 3}


@pytest.mark.parametrize("chance", [0.0, 1.0 - 1e-12])
def test_an_only_legal_action_is_taken_whatever_the_chances(chance: float) -> None:
    least = np.finfo(np.float32).min
    for only in (0, 3, 4):
        logits = np.full((2, 5), least, np.float32)
        logits[:, only] = 3.0
        actions, logp = draw_actions(logits, np.full(2, chance), np.array([0.0, 1.0 - 1e-12]))
        assert actions.tolist() == [only, only]
        assert logp == pytest.approx(0.0)


@pytest.mark.parametrize("persistence", [0.0, 1.0])
def test_a_no_op_goes_on_where_its_draw_holds(
    small: Scenario, monkeypatch: pytest.MonkeyPatch, persistence: float
) -> None:
    """In one state that never changes: with persistence 1 no environment leaves the no-op."""
    monkeypatch.setattr(ConstrainedModule, "persistence", persistence)
    runner = BatchedEnvRunner(
        config=build_config(
            small, make_config({}, "test", [*TINY, "sampling.envs_per_runner=64"]).resolve(small), 1
        )
    )
    obs = runner._reset(seed=[0])
    idle = runner.clusters.layout.num_actions - 1
    ongoing = Ongoing.start(obs, {})
    rounds = np.array([runner._choose(ongoing, True, 0)[0] == idle for _ in range(40)])
    assert rounds[0].any()
    assert not rounds[0].all()
    ends = (rounds[:-1] & ~rounds[1:]).any()
    assert ends == (persistence == 0.0)
    # Replicas that take over a state draw anew.
    ongoing.copy(np.arange(64))
    assert np.isnan(ongoing.noop_draws).all()


def test_draws_hold_longer_the_lower_the_temperature(small: Scenario) -> None:
    module = BatchedEnvRunner(
        config=build_config(small, make_config({}, "test", TINY).resolve(small), 1)
    ).module
    assert module.persistence == 0.0
    module.temperature.fill_(0.25)
    assert module.persistence == 0.75
