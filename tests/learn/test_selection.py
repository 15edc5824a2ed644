"""Which policy is kept: within the hoarding limits first, then by the metric."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.bootstrap import bootstrap_columns
from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT
from rlsched.evaluate.play import play
from rlsched.evaluate.references import HEURISTICS, HEURISTICS_WITH_HORIZON
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.learn.config.training import make_config
from rlsched.learn.pid import LimitCheck
from rlsched.learn.plan import resolve_run, validation_of
from rlsched.learn.selection import MARGIN, Score, Validation, hoarding_excess
from rlsched.scenario import RelativeLimit, Scenario
from rlsched.sim.columns import JOB_FEATURES
from rlsched.sim.layout import Layout
from rlsched.sim.metrics import Played, job_metrics
from rlsched.sim.replay import replay
from rlsched.workloads.episodes import Episode
from tests.policies import Forgetful

GREEDY_SJF = PolicyLabel("sjf", "greedy")
HEURISTIC = {
    "bounded_slowdown": 10.0,
    "schedule_span": 2.0,
    "wait": 1000.0,
    "utilization": 0.5,
    "completion_ratio": 0.9,
}
REFERENCE = {"relative": 1.0, "hoarding": 0.0, **HEURISTIC}


def violation(policy: Mapping[str, FloatArray], sjf: Mapping[str, FloatArray], parts: IntArray) -> float:
    """Excess over the limits of hoarding, 0 within them."""
    return max(hoarding_excess(policy, sjf, parts), 0.0)


def validation(scenario: Scenario, metric: str = "bounded_slowdown") -> Validation:
    area = {**HEURISTIC, "bounded_slowdown": 9.0, "utilization": 0.4}
    heuristics = {GREEDY_SJF: HEURISTIC, PolicyLabel("area", "easy"): area}
    return Validation(
        scenario, [256], [], metric, heuristics, np.array([9.0]), np.full(5, 9.0), {}, np.array([0]), {}
    )


def test_scores_are_ordered_by_excess_then_value() -> None:
    ordered = [Score(0, -3), Score(0, 5), Score(0, 6), Score(0.1, 1), Score(2, 0), Score()]
    assert sorted(ordered[::-1]) == ordered
    assert not Score(0, 5) < Score(0, 5)  # as good is not better: the older one stays


def test_within_the_limits_the_metric_decides(small: Scenario) -> None:
    chosen = validation(small)
    assert chosen.score(REFERENCE) == Score(0.0, 1.0)
    assert chosen.score({**REFERENCE, "relative": 0.8}) < chosen.score(REFERENCE)


def test_a_hoarder_loses_against_anybody_who_does_not(small: Scenario) -> None:
    chosen = validation(small)
    honest = chosen.score({**REFERENCE, "relative": 50.0})
    hoarder = chosen.score({**REFERENCE, "relative": 0.1, "hoarding": 0.1})
    assert honest < hoarder
    assert hoarder < chosen.score({**REFERENCE, "relative": 0.05, "hoarding": 0.2})  # less is better


def test_where_the_clock_ends_episodes_nobody_hoards() -> None:
    chosen = scenario.load("green-10", ["episode.max_ticks=120"])
    feed = EpisodeFeed(chosen)
    actual = Validation.of(chosen, feed.units, [feed.training(np.random.default_rng(0))], "job_value_ratio")
    assert actual.run(First())["hoarding"] == 0


def test_more_is_better_where_it_is(small: Scenario) -> None:
    chosen = validation(small, "utilization")
    assert chosen.score({**REFERENCE, "relative": 1.2}) < chosen.score({**REFERENCE, "relative": 1.1})
    assert chosen.best_heuristic == (GREEDY_SJF, 0.5)
    assert validation(small).best_heuristic == (("area", "easy"), 9.0)


def replayed(jobs: JobTable, heuristic: PolicyLabel, units: list[int]) -> dict[str, float]:
    return job_metrics(Played.of_starts(jobs, replay(jobs, units, *heuristic)), units)


class First(Forgetful):
    """Takes the first legal action."""

    def decide(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return mask.argmax(axis=1)


def test_heuristics_and_policies_play_the_same_episodes(small: Scenario) -> None:
    small = small.model_copy(update={"objective": small.objective.model_copy(update={"costs": {}})})
    feed, rng = EpisodeFeed(small), np.random.default_rng(0)
    episodes = [feed.training(rng) for _ in range(3)]
    chosen = Validation.of(small, feed.units, episodes, "bounded_slowdown")
    assert tuple(chosen.heuristics) == HEURISTICS
    assert {rule for _, rule in HEURISTICS} == {"greedy", "easy", "conservative"}
    for heuristic, means in chosen.heuristics.items():
        value = [replayed(episode.jobs, heuristic, feed.units) for episode in episodes]
        for metric in HEURISTIC:
            assert means[metric] == pytest.approx(np.mean([episode[metric] for episode in value]))
    first = chosen.run(First())
    assert first == chosen.run(First())
    assert first["completion_ratio"] == 1.0
    assert chosen.score({**first, "hoarding": 0.0}) == Score(0.0, first["relative"])
    sjf = chosen.heuristics[GREEDY_SJF]
    wait = max(first["wait"] / sjf["wait"] / (WAIT_LIMIT * MARGIN) - 1, 0.0)
    span = first["schedule_span"] / sjf["schedule_span"] / (SPAN_LIMIT * MARGIN) - 1
    assert first["hoarding"] == pytest.approx(max(wait, span, 0.0))


def test_a_limit_may_be_a_multiple_of_what_a_heuristic_costs_there(small: Scenario) -> None:
    costs = {
        "objective": small.objective.model_copy(update={"costs": {"wait_time": RelativeLimit(1.0, "sjf")}})
    }
    feed, rng = EpisodeFeed(small.model_copy(update=costs)), np.random.default_rng(0)
    episodes = [feed.training(rng) for _ in range(3)]
    chosen = Validation.of(feed.scenario, feed.units, episodes, "bounded_slowdown")
    limit = chosen.limits["wait_time"]
    waits = [
        replayed(episode.jobs, GREEDY_SJF, feed.units)["wait"] * len(episode.jobs) for episode in episodes
    ]
    assert limit == pytest.approx(np.mean(waits))
    first = chosen.run(First())
    played = play(small, feed.units, episodes, First())
    amounts = [float((episode.start - episode.jobs.submit).sum()) for episode in played]
    assert first["limited.wait_time"] == pytest.approx(np.mean(amounts))
    over = bootstrap_columns([np.array(amounts) - waits])[0]
    assert 0 < over.mean < over.high
    assert first["margin.wait_time"] == pytest.approx(over.high - over.mean)
    assert chosen.score({**first, "hoarding": 0.0}) == Score(
        pytest.approx(over.high / limit), first["relative"]
    )
    (check,) = chosen.checks(first).values()
    assert check.margin == pytest.approx((over.high - over.mean) / np.mean(amounts))
    assert check.excess == pytest.approx(over.high / limit)


@pytest.mark.parametrize(
    ("metric", "low", "high", "excess", "better"),
    [
        ("bounded_slowdown", -3.0, -0.1, -0.2, True),
        ("bounded_slowdown", -3.0, 0.1, -0.2, False),
        ("bounded_slowdown", -3.0, -0.1, 0.2, False),  # hoards
        ("utilization", 0.01, 0.1, -0.2, True),
        ("utilization", -0.3, -0.1, -0.2, False),
    ],
)
def test_better_by_interval_within_all_limits(
    small: Scenario, metric: str, low: float, high: float, excess: float, better: bool
) -> None:
    limited = small.model_copy(update={"objective": small.objective.model_copy(update={"costs": {}})})
    figures = {"difference_low": low, "difference_high": high, "hoarding": max(excess, 0.0)}
    assert validation(limited, metric).beats(REFERENCE | figures) is better


def test_few_episodes_tell_of_no_interval(small: Scenario) -> None:
    unlimited = small.model_copy(update={"objective": small.objective.model_copy(update={"costs": {}})})
    feed, rng = EpisodeFeed(unlimited), np.random.default_rng(0)
    episodes = [feed.training(rng) for _ in range(5)]
    alone = Validation.of(unlimited, feed.units, episodes[:4], "wait")
    reported = {**alone.run(First()), "hoarding": 0.0, "difference_low": -2.0, "difference_high": -1.0}
    assert not alone.beats(reported)
    assert Validation.of(unlimited, feed.units, episodes, "wait").beats(reported)


def test_differences_are_paired_with_the_heuristic_whose_mean_is_best(small: Scenario) -> None:
    feed, rng = EpisodeFeed(small), np.random.default_rng(0)
    episodes = [feed.training(rng) for _ in range(5)]
    chosen = Validation.of(small, feed.units, episodes, "wait")
    policy_values = [
        job_metrics(item, feed.units)["wait"] for item in play(small, feed.units, episodes, First())
    ]
    best = [replayed(item.jobs, chosen.best_heuristic[0], feed.units)["wait"] for item in episodes]
    value = np.array(policy_values) - best
    reported = chosen.run(First())
    assert reported["difference"] == pytest.approx(value.mean())
    assert (
        value.min()
        < reported["difference_low"]
        < reported["difference"]
        < reported["difference_high"]
        < value.max()
    )


class Always(Forgetful):
    """Plays a queue order: at every decision the job it would start first."""

    def __init__(self, layout: Layout, feature: str) -> None:
        self.layout, self.column = layout, JOB_FEATURES.names(1).index(feature)

    def decide(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        keys = self.layout.view(obs, "jobs")[..., self.column]
        return np.where(mask[:, :-1] == 1, keys, np.inf).argmin(axis=1)


@pytest.mark.parametrize("metric", ["bounded_slowdown", "utilization", "wait"])
def test_the_share_is_taken_in_every_episode(small: Scenario, metric: str) -> None:
    """Of the heuristic that is best there, whatever is best on the whole."""
    feed, rng = EpisodeFeed(small), np.random.default_rng(1)
    episodes = [feed.training(rng) for _ in range(4)]
    chosen = Validation.of(small, feed.units, episodes, metric)
    policy = Always(Layout.of(small.observation, small.decision, 1), "requested")
    played = play(small, feed.units, episodes, policy)
    shares = []
    best = []
    for episode in episodes:
        value = [replayed(episode.jobs, known, feed.units)[metric] for known in HEURISTICS]
        best.append(max(value) if metric == "utilization" else min(value))
    least = 0.01 * np.mean(best)
    for item, reference in zip(played, best, strict=True):
        policy_values = job_metrics(item, feed.units)[metric]
        shares.append((policy_values + least) / (reference + least))
    assert chosen.run(policy)["relative"] == pytest.approx(np.mean(shares))


def test_where_nobody_ever_waits_all_are_equal(small: Scenario) -> None:
    feed = EpisodeFeed(small)
    idle = JobTable.build(submit=1000 * np.arange(5), runtime=[5] * 5, demand=[1] * 5)
    chosen = Validation.of(small, feed.units, [Episode(idle)], "wait")
    assert chosen.run(First())["relative"] == pytest.approx(1.0)


def test_a_metric_that_is_not_measured(small: Scenario) -> None:
    feed = EpisodeFeed(small)
    with pytest.raises(BadInputError, match="'carbon_kg' is not measured; use one of wait,"):
        Validation.of(small, feed.units, [feed.evaluation(0, 0)], "carbon_kg")


def test_with_a_horizon_hoarding_is_held_against_sjf_that_starts_what_fits() -> None:
    chosen = scenario.load("deeprm")
    feed = EpisodeFeed(chosen)
    rng = np.random.default_rng(0)
    actual = Validation.of(chosen, feed.units, [feed.training(rng) for _ in range(3)], "bounded_slowdown")
    means = {name: value.mean() for name, value in actual.sjf.items()}
    assert tuple(actual.heuristics) == HEURISTICS_WITH_HORIZON
    assert means == pytest.approx(actual.heuristics[PolicyLabel("sjf", "now")])
    assert violation(actual.sjf, actual.sjf, actual.parts) == 0
    pushed = {**actual.sjf, "wait": 2 * WAIT_LIMIT * np.maximum(actual.sjf["wait"], 1.0)}
    assert violation(pushed, actual.sjf, actual.parts) > 0.9


def test_a_broken_limit_loses_against_a_respected_one() -> None:
    """By its share of the limit; of none, by its share of what the cheapest order costs."""
    limited = scenario.load("green-10", ["objective.costs={delayed_jobs: 100, energy: 0, suspension: null}"])
    heuristics = {
        name: {**HEURISTIC, "limited.delayed_jobs": 50.0, "limited.energy": energy}
        for name, energy in ((PolicyLabel("sjf", "now"), 40.0), (PolicyLabel("qos", "now"), 80.0))
    }
    allowed = {"delayed_jobs": np.array([100.0]), "energy": np.array([0.0])}
    chosen = Validation(
        limited,
        [10],
        [],
        "job_value_ratio",
        heuristics,
        np.array([0.5]),
        np.array([0.5]),
        {},
        np.array([0]),
        allowed,
    )

    def score(value: float, delayed: float, energy: float, margin: float = 0.0) -> Score:
        costs = {"limited.delayed_jobs": delayed, "limited.energy": energy}
        margins = {"margin.delayed_jobs": margin, "margin.energy": 0.0}
        actual = {**REFERENCE, **costs, **margins, "relative": value}
        assert chosen.checks(actual) == {
            "delayed_jobs": LimitCheck(limit=100.0, mean=delayed, highest=delayed + margin, unit=100.0),
            "energy": LimitCheck(limit=0.0, mean=energy, highest=energy, unit=40.0),
        }
        return chosen.score(actual)

    assert score(1.2, 100.0, 0.0) == Score(0.0, -1.2)
    assert score(1.2, 150.0, 0.0) == Score(0.5, -1.2)
    assert score(1.2, 0.0, 10.0) == Score(0.25, -1.2)
    assert score(1.2, 150.0, 40.0).excess == 1.0  # the worse of the two
    assert score(0.1, 100.0, 0.0) < score(1.2, 101.0, 0.0)
    assert score(1.2, 95.0, 0.0, margin=5.0) == Score(0.0, -1.2)
    assert score(1.2, 95.0, 0.0, margin=10.0) == Score(0.05, -1.2)  # within on average alone


def test_a_run_on_a_mixture_is_validated_part_by_part() -> None:
    """The hoarding of a policy is that of its worst part, or of the whole where that is more."""
    parts = "[{workload: {kind: lublin, load: 0.6}}, {workload: {kind: lublin, load: 1.3}, share: 2}]"
    words = ["episode.jobs=128", "decision.action_rule=hold", f"workload={{kind: mixture, parts: {parts}}}"]
    chosen = scenario.load("lublin-256", words)
    feed, config = resolve_run(chosen, make_config({}, "test", ["validation.episodes=15"]))
    actual = validation_of(feed.scenario, config, feed)
    assert actual.facts()["of_parts"] == [5, 10]
    played = [
        job_metrics(item, actual.units)
        for item in play(actual.scenario, actual.units, actual.episodes, First())
    ]
    policy_values = {name: np.array([item[name] for item in played]) for name in played[0]}
    reported = actual.run(First())["hoarding"]
    assert reported == pytest.approx(violation(policy_values, actual.sjf, actual.parts))
    pushed = actual.sjf | {"wait": actual.sjf["wait"] * np.where(actual.parts == 0, 3.0, 1.0)}
    assert violation(pushed, actual.sjf, actual.parts) == pytest.approx(3.0 / (WAIT_LIMIT * MARGIN) - 1)
    assert violation(pushed, actual.sjf, np.zeros(15, np.int64)) == 0


def test_parts_with_few_episodes_are_validated_together() -> None:
    parts = "[{workload: {kind: lublin, load: 0.6}}, {workload: {kind: lublin, load: 1.3}, share: 2}]"
    words = ["episode.jobs=128", f"workload={{kind: mixture, parts: {parts}}}"]
    feed, config = resolve_run(
        scenario.load("lublin-256", words), make_config({}, "test", ["validation.episodes=12"])
    )
    assert validation_of(feed.scenario, config, feed).facts()["of_parts"] == [12]
