"""Which policy is kept: within the hoarding limits first, then by the metric."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT
from rlsched.learn.selection import MARGIN, Score, Validation
from rlsched.scenario import Scenario
from rlsched.sim.metrics import job_metrics
from rlsched.sim.replay import replay

REFERENCE = {"bounded_slowdown": 10.0, "schedule_span": 2.0, "wait": 1000.0, "utilization": 0.5}


def validation(scenario: Scenario, metric: str = "bounded_slowdown", **sjf: float) -> Validation:
    area = {**REFERENCE, "bounded_slowdown": 9.0, "utilization": 0.4}
    return Validation(scenario, [256], [], metric, {"sjf": {**REFERENCE, **sjf}, "area": area})


def test_scores_are_ordered_by_excess_then_value() -> None:
    ordered = [Score(0, -3), Score(0, 5), Score(0, 6), Score(0.1, 1), Score(2, 0), Score()]
    assert sorted(ordered[::-1]) == ordered
    assert not Score(0, 5) < Score(0, 5)  # as good is not better: the older one stays


def test_within_the_limits_the_metric_decides(small: Scenario) -> None:
    chosen = validation(small)
    at_limit = {**REFERENCE, "schedule_span": 2.0 * SPAN_LIMIT * MARGIN, "wait": 1000 * WAIT_LIMIT * MARGIN}
    assert chosen.score(at_limit) == Score(pytest.approx(0.0), 10.0)
    assert chosen.score({**at_limit, "bounded_slowdown": 8.0}) < chosen.score(REFERENCE)


def test_a_hoarder_loses_against_anybody_who_does_not(small: Scenario) -> None:
    chosen = validation(small)
    honest = chosen.score({**REFERENCE, "bounded_slowdown": 500.0})
    span = chosen.score({**REFERENCE, "bounded_slowdown": 1.0, "schedule_span": 2.0 * SPAN_LIMIT})
    wait = chosen.score({**REFERENCE, "bounded_slowdown": 1.0, "wait": 1000.0 * WAIT_LIMIT})
    assert honest < span
    assert honest < wait
    assert span.excess == pytest.approx(1 / MARGIN - 1)
    assert wait.excess == pytest.approx(1 / MARGIN - 1)
    both = chosen.score({**REFERENCE, "schedule_span": 8.0, "wait": 1000.0 * WAIT_LIMIT})
    assert both.excess == pytest.approx(4 / (SPAN_LIMIT * MARGIN) - 1)  # the worse of the two


def test_less_hoarding_is_better_than_more(small: Scenario) -> None:
    chosen = validation(small)
    less, more = (chosen.score({**REFERENCE, "schedule_span": span}) for span in (4.0, 5.0))
    assert less < more


def test_more_is_better_where_it_is(small: Scenario) -> None:
    chosen = validation(small, "utilization")
    assert chosen.score({**REFERENCE, "utilization": 0.9}) < chosen.score({**REFERENCE, "utilization": 0.8})
    assert chosen.best_heuristic == ("sjf", 0.5)
    assert validation(small).best_heuristic == ("area", 9.0)


def test_a_queue_that_is_always_empty_allows_seconds(small: Scenario) -> None:
    chosen = validation(small, wait=0.0)
    assert chosen.score({**REFERENCE, "wait": 1.0}).excess == 0
    assert chosen.score({**REFERENCE, "wait": 2.0}).excess > 0


class First:
    """Takes the first legal action."""

    def act(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return mask.argmax(axis=1)


def test_heuristics_and_policies_play_the_same_episodes(small: Scenario) -> None:
    feed, rng = EpisodeFeed(small), np.random.default_rng(0)
    episodes = [feed.training(rng).jobs for _ in range(3)]
    chosen = Validation.of(small, feed.units, episodes, "bounded_slowdown")
    assert list(chosen.heuristics) == ["sjf", "area", "smallest"]
    for name, means in chosen.heuristics.items():
        each = [job_metrics(jobs, replay(jobs, feed.units, name, "greedy"), feed.units) for jobs in episodes]
        for metric in REFERENCE:
            assert means[metric] == pytest.approx(np.mean([one[metric] for one in each]))
    first = chosen.run(First())
    assert first == chosen.run(First())
    assert first["completion_ratio"] == 1.0
    assert chosen.score(chosen.heuristics["sjf"]) == Score(0.0, chosen.heuristics["sjf"]["bounded_slowdown"])


def test_a_metric_that_is_not_measured(small: Scenario) -> None:
    feed = EpisodeFeed(small)
    with pytest.raises(BadInputError, match="'carbon_kg' is not measured; use one of wait,"):
        Validation.of(small, feed.units, [feed.evaluation(0, 0).jobs], "carbon_kg")
