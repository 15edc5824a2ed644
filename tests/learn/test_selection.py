"""Which policy is kept: within the hoarding limits first, then by the metric."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import Episode, EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT
from rlsched.evaluate.play import play
from rlsched.jobs import JobTable
from rlsched.learn.selection import MARGIN, Score, Validation
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout, job_features
from rlsched.sim.metrics import Played, job_metrics
from rlsched.sim.replay import replay
from tests.policies import Forgetful

HEURISTIC = {
    "bounded_slowdown": 10.0,
    "schedule_span": 2.0,
    "wait": 1000.0,
    "utilization": 0.5,
    "completion_ratio": 0.9,
}
REFERENCE = {"relative": 1.0, **HEURISTIC}


def validation(scenario: Scenario, metric: str = "bounded_slowdown", **sjf: float) -> Validation:
    area = {**HEURISTIC, "bounded_slowdown": 9.0, "utilization": 0.4}
    return Validation(
        scenario, [256], [], metric, {"sjf": {**HEURISTIC, **sjf}, "area": area}, np.array([9.0])
    )


def test_scores_are_ordered_by_excess_then_value() -> None:
    ordered = [Score(0, -3), Score(0, 5), Score(0, 6), Score(0.1, 1), Score(2, 0), Score()]
    assert sorted(ordered[::-1]) == ordered
    assert not Score(0, 5) < Score(0, 5)  # as good is not better: the older one stays


def test_within_the_limits_the_metric_decides(small: Scenario) -> None:
    chosen = validation(small)
    at_limit = {**REFERENCE, "schedule_span": 2.0 * SPAN_LIMIT * MARGIN, "wait": 1000 * WAIT_LIMIT * MARGIN}
    assert chosen.score(at_limit) == Score(pytest.approx(0.0), 1.0)
    assert chosen.score({**at_limit, "relative": 0.8}) < chosen.score(REFERENCE)


def test_a_hoarder_loses_against_anybody_who_does_not(small: Scenario) -> None:
    chosen = validation(small)
    honest = chosen.score({**REFERENCE, "relative": 50.0})
    span = chosen.score({**REFERENCE, "relative": 0.1, "schedule_span": 2.0 * SPAN_LIMIT})
    wait = chosen.score({**REFERENCE, "relative": 0.1, "wait": 1000.0 * WAIT_LIMIT})
    assert honest < span
    assert honest < wait
    assert span.excess == pytest.approx(1 / MARGIN - 1)
    assert wait.excess == pytest.approx(1 / MARGIN - 1)
    both = chosen.score({**REFERENCE, "schedule_span": 8.0, "wait": 1000.0 * WAIT_LIMIT})
    assert both.excess == pytest.approx(4 / (SPAN_LIMIT * MARGIN) - 1)  # the worse of the two


def test_leaving_jobs_unfinished_is_hoarding(small: Scenario) -> None:
    chosen = validation(small)
    assert chosen.score({**REFERENCE, "completion_ratio": 0.95}).excess == 0
    assert chosen.score({**REFERENCE, "completion_ratio": 0.6}).excess == pytest.approx(0.5)
    assert chosen.score({**REFERENCE, "completion_ratio": 0.0}).excess > 10


def test_less_hoarding_is_better_than_more(small: Scenario) -> None:
    chosen = validation(small)
    less, more = (chosen.score({**REFERENCE, "schedule_span": span}) for span in (4.0, 5.0))
    assert less < more


def test_more_is_better_where_it_is(small: Scenario) -> None:
    chosen = validation(small, "utilization")
    assert chosen.score({**REFERENCE, "relative": 1.2}) < chosen.score({**REFERENCE, "relative": 1.1})
    assert chosen.best_heuristic == ("sjf", 0.5)
    assert validation(small).best_heuristic == ("area", 9.0)


def test_a_queue_that_is_always_empty_allows_seconds(small: Scenario) -> None:
    chosen = validation(small, wait=0.0)
    assert chosen.score({**REFERENCE, "wait": 1.0}).excess == 0
    assert chosen.score({**REFERENCE, "wait": 2.0}).excess > 0


def greedy(jobs: JobTable, name: str, units: list[int]) -> dict[str, float]:
    return job_metrics(Played.of_starts(jobs, replay(jobs, units, name, "greedy")), units)


class First(Forgetful):
    """Takes the first legal action."""

    def decide(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return mask.argmax(axis=1)


def test_heuristics_and_policies_play_the_same_episodes(small: Scenario) -> None:
    feed, rng = EpisodeFeed(small), np.random.default_rng(0)
    episodes = [feed.training(rng) for _ in range(3)]
    chosen = Validation.of(small, feed.units, episodes, "bounded_slowdown")
    assert list(chosen.heuristics) == ["sjf", "area", "smallest"]
    for name, means in chosen.heuristics.items():
        each = [greedy(one.jobs, name, feed.units) for one in episodes]
        for metric in HEURISTIC:
            assert means[metric] == pytest.approx(np.mean([one[metric] for one in each]))
    first = chosen.run(First())
    assert first == chosen.run(First())
    assert first["completion_ratio"] == 1.0
    assert chosen.score({**first, "schedule_span": 1.0, "wait": 0.0}) == Score(0.0, first["relative"])


class Always(Forgetful):
    """Plays a queue order: at every decision the job it would start first."""

    def __init__(self, layout: Layout, feature: str) -> None:
        self.layout, self.column = layout, job_features(1).index(feature)

    def decide(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        keys = self.layout.view(obs, "jobs")[..., self.column]
        return np.where(mask[:, :-1] == 1, keys, np.inf).argmin(axis=1)


@pytest.mark.parametrize("metric", ["bounded_slowdown", "utilization", "wait"])
def test_the_share_is_taken_in_every_episode(small: Scenario, metric: str) -> None:
    """Of the order that is best there, whatever is best on the whole."""
    feed, rng = EpisodeFeed(small), np.random.default_rng(1)
    episodes = [feed.training(rng) for _ in range(4)]
    chosen = Validation.of(small, feed.units, episodes, metric)
    policy = Always(Layout.of(small.observation, small.decision, 1), "requested")
    played = play(small, feed.units, episodes, policy)
    shares = []
    names = ("sjf", "area", "smallest")
    best = []
    for episode in episodes:
        each = [greedy(episode.jobs, name, feed.units)[metric] for name in names]
        best.append(max(each) if metric == "utilization" else min(each))
    least = 0.01 * np.mean(best)
    for one, reference in zip(played, best, strict=True):
        own = job_metrics(one, feed.units)[metric]
        shares.append((own + least) / (reference + least))
    assert chosen.run(policy)["relative"] == pytest.approx(np.mean(shares))


def test_where_nobody_ever_waits_all_are_equal(small: Scenario) -> None:
    feed = EpisodeFeed(small)
    idle = JobTable.build(submit=1000 * np.arange(5), runtime=[5] * 5, demand=[1] * 5)
    chosen = Validation.of(small, feed.units, [Episode(idle, -1, 1.0)], "wait")
    assert chosen.run(First())["relative"] == pytest.approx(1.0)


def test_a_metric_that_is_not_measured(small: Scenario) -> None:
    feed = EpisodeFeed(small)
    with pytest.raises(BadInputError, match="'carbon_kg' is not measured; use one of wait,"):
        Validation.of(small, feed.units, [feed.evaluation(0, 0)], "carbon_kg")


def test_with_a_horizon_hoarding_is_held_against_sjf_that_starts_what_fits() -> None:
    chosen = scenario.load("deeprm")
    feed = EpisodeFeed(chosen)
    rng = np.random.default_rng(0)
    found = Validation.of(chosen, feed.units, [feed.training(rng) for _ in range(3)], "bounded_slowdown")
    sjf = found.heuristics["sjf:now"]
    assert found.score({**sjf, "relative": 1.0}) == Score(0.0, 1.0)
    pushed = {**sjf, "relative": 0.5, "wait": 2 * WAIT_LIMIT * max(sjf["wait"], 1.0)}
    assert found.score(pushed).excess > 0.9


def test_a_broken_limit_loses_against_a_kept_one() -> None:
    """By its share of the limit; of none, by its share of what the cheapest order costs."""
    limited = scenario.load("green-10", ["objective.costs={delayed_jobs: 100, energy: 0, suspension: null}"])
    heuristics = {
        name: {**HEURISTIC, "limited.delayed_jobs": 50.0, "limited.energy": energy}
        for name, energy in (("sjf:now", 40.0), ("qos:now", 80.0))
    }
    chosen = Validation(limited, [10], [], "job_value_ratio", heuristics, np.array([0.5]))

    def score(value: float, delayed: float, energy: float) -> Score:
        costs = {"limited.delayed_jobs": delayed, "limited.energy": energy}
        found = {**REFERENCE, **costs, "relative": value}
        assert chosen.paid(found) == {"delayed_jobs": delayed, "energy": energy}
        assert chosen.hoards(found) == 0
        return chosen.score(found)

    assert score(1.2, 100.0, 0.0) == Score(0.0, -1.2)
    assert score(1.2, 150.0, 0.0) == Score(0.5, -1.2)
    assert score(1.2, 0.0, 10.0) == Score(0.25, -1.2)
    assert score(1.2, 150.0, 40.0).excess == 1.0  # the worse of the two
    assert score(0.1, 100.0, 0.0) < score(1.2, 101.0, 0.0)
