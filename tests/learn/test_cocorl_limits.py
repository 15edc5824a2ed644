"""Episodes that exceed their limits before they end."""

from __future__ import annotations

from typing import Any

import pytest

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import make_config
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.scenario import Scenario

from .conftest import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_address")]


def test_episodes_that_go_on_count_where_they_cost_far_too_much(small: Scenario) -> None:
    """Long before one of every environment has ended."""
    costs = {"wait_time": 1.0, "makespan": 1e9}
    limited = small.model_copy(update={"objective": small.objective.model_copy(update={"costs": costs})})
    config = make_config({}, "test", [*TINY, "sampling.replicas=1"]).resolve(limited)
    engine = RllibEngine(config, EpisodeFeed(limited), 0)
    try:
        algorithm: Any = engine.algorithm
        learner = algorithm.learner_group._learner
        assert learner.multipliers.tolist() == [1.0, 1.0], "from the first batch on"
        row = engine.iterate().row
        assert len(algorithm.episode_costs["wait_time"]) < algorithm.wave
        assert row["wait_time_cost"] > 1.0
        assert row["wait_time_multiplier"] > 0.0
        assert "makespan" not in algorithm.controls  # of which nothing is known yet
        assert learner.multipliers[1] == row["makespan_multiplier"] == algorithm.pid.initial == 1.0
    finally:
        engine.stop()
