"""Evaluation of one policy under the settings of a point."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.evaluate.costs import limited_costs, play_heuristic
from rlsched.evaluate.references import heuristics
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.learn.selection import Validation, limited_name, margin_name
from rlsched.tune.evaluation import evaluate_policy


@pytest.mark.parametrize("limit", [0.0, 10_000.0, "0.5:sjf"])
def test_the_violation_of_a_limit_is_that_of_validation(limit: float | str) -> None:
    """A share of the limit; with a limit of 0 a share of the cost of the cheapest heuristic."""
    settings = [
        "episode.jobs=48",
        "objective.starvation_s=600",
        f"objective.costs={{job_starvation: {limit}}}",
    ]
    made = scenario.load("lublin-256", settings)
    feed = EpisodeFeed(made)
    episodes = [feed.evaluation(index, 0) for index in range(3)]

    def cost(policy: str, rule: str) -> np.floating:
        starts = play_heuristic(PolicyLabel(policy, rule), feed.scenario, feed.units, episodes)
        return limited_costs(feed.scenario, feed.units, "job_starvation", starts).mean()

    cheapest = min(cost(*known) for known in heuristics(feed.scenario))
    fcfs_cost = cost("fcfs", "greedy")
    maximum = 0.5 * cost("sjf", "greedy") if isinstance(limit, str) else limit
    expected = (fcfs_cost - maximum) / (maximum or cheapest)
    assert expected > 0
    _, excess = evaluate_policy(made, "fcfs:greedy", 3, 0)
    assert excess == pytest.approx(expected)
    validation = Validation.of(feed.scenario, feed.units, episodes, "bounded_slowdown")
    known = {limited_name("job_starvation"): float(fcfs_cost), margin_name("job_starvation"): 0.0}
    assert validation.checks(known)["job_starvation"].excess == pytest.approx(expected)
