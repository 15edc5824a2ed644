"""Whether a policy passes the gate, by hand."""

from __future__ import annotations

import json
from math import nan

import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.evaluate.gate import LEAST_EPISODES, Verdict, check_episodes, gate_json, ranked, verdicts
from rlsched.evaluate.limits import LimitCheck
from rlsched.evaluate.results import Result
from rlsched.evaluate.statistics import EpisodeResult, PolicyLabel
from rlsched.report.words import gate_line

SCENARIO = scenario.load("lublin-256")
HEURISTIC = [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]
"""Bounded slowdowns of sjf; its mean is 12.5."""

LINE = "in bounded slowdown: 10.5 against 12.5, difference −2 [−2, −2] over 6 episodes"  # noqa: RUF001


def played(
    policy: str,
    values: list[float],
    metric: str = "bounded_slowdown",
    *,
    learned: bool = False,
    rule: str = "greedy",
    **more: float,
) -> list[EpisodeResult]:
    """Episodes of a policy, alike in everything else."""
    rest = {"schedule_span": 1.0, "wait": 5.0} | more
    return [
        EpisodeResult(
            policy, "policy" if learned else rule, k, 0, 40 * k, {metric: value, **rest}, learned=learned
        )
        for k, value in enumerate(values)
    ]


def verdict_of(values: list[float], *limits: LimitCheck, **more: float) -> Verdict:
    """The verdict about a policy beside sjf and a worse heuristic."""
    episodes = played("it", values, learned=True, **more)
    episodes += played("sjf", HEURISTIC) + played("fcfs", [50.0] * len(HEURISTIC))
    (result,) = verdicts(Result.of(SCENARIO, episodes, limits=limits))
    assert (result.policy, result.backfill, result.metric) == ("it", "policy", "bounded_slowdown")
    assert (result.heuristic, result.heuristic_mean) == (PolicyLabel("sjf", "greedy"), 12.5)
    return result


@pytest.mark.parametrize(
    ("values", "against"),
    [
        ([8.0, 9.0, 10.0, 11.0, 12.0, 13.0], "better"),
        (HEURISTIC, "level"),
        ([9.0, 12.5, 11.5, 13.5, 13.5, 15.5], "level"),  # worse in four, by half as much as better in two
        ([9.0, 11.0, 12.0, 13.0, 14.0, 26.0], "level"),  # worse on average, by one episode
        ([11.0, 12.0, 13.0, 14.0, 15.0, 15.5], "worse"),
    ],
)
def test_a_policy_passes_where_it_is_not_worse_by_interval(values: list[float], against: str) -> None:
    result = verdict_of(values)
    assert result.against == against
    assert result.passes == (against != "worse")
    assert result.low <= result.difference <= result.high
    assert result.difference == pytest.approx(sum(values) / 6 - 12.5)


def test_it_is_said_in_one_line() -> None:
    better = [value - 2 for value in HEURISTIC]
    assert gate_line(verdict_of(better)) == f"passes the gate: better than sjf + greedy {LINE}"
    worse = gate_line(verdict_of([value + 2 for value in HEURISTIC]))
    assert worse.startswith(
        "fails the gate: worse than sjf + greedy in bounded slowdown: 14.5 against 12.5, "
    )


def test_a_policy_that_hoards_stands_back_however_good_it_is() -> None:
    result = verdict_of([2.0] * 6, wait=9.0)
    assert (result.against, result.hoards, result.passes) == ("better", True, False)
    assert gate_line(result) == "fails the gate: hoards: its jobs wait too long on average"


def test_a_policy_of_unknown_hoarding_stands_back() -> None:
    episodes = played("it", [2.0] * 6, learned=True) + played("fcfs", HEURISTIC)
    (result,) = verdicts(Result.of(SCENARIO, episodes))
    assert (result.against, result.hoards, result.passes) == ("better", True, False)
    assert gate_line(result).startswith("fails the gate: hoarding not judged")


def test_a_policy_beyond_its_limit_stands_back() -> None:
    retained = LimitCheck("it", "wait_time", "job", 10.0, 9.0, 8.0, 11.0)
    second = LimitCheck("another", "wait_time", "job", 10.0, 20.0, 19.0, 21.0)
    assert verdict_of([2.0] * 6, retained, second).passes
    touched = LimitCheck("it", "makespan", "episode", 10.0, 12.0, 9.0, 13.0)  # its interval holds the limit
    assert verdict_of([2.0] * 6, retained, touched).passes
    broken = LimitCheck("it", "makespan", "episode", 10.0, 12.0, 11.0, 13.0)
    result = verdict_of([2.0] * 6, retained, broken)
    assert (result.broken, result.passes) == ((broken,), False)
    assert gate_line(result) == "fails the gate: makespan of an episode broken by 20.0 %"


@pytest.mark.parametrize(("values", "passes"), [([0.7] * 6, True), ([0.5] * 6, True), ([0.4] * 6, False)])
def test_more_may_be_better(values: list[float], passes: bool) -> None:
    """Where the clock ends episodes, value is shown first, and hoarding is not looked for."""
    green = scenario.load("green-10")
    costs = {"cost.delayed_jobs": 1.0}
    episodes = played("it", values, "job_value_ratio", learned=True, **costs)
    for name, value in (("sjf", 0.5), ("hvf", 0.3)):
        episodes += played(name, [value] * 6, "job_value_ratio", rule="now", **costs)
    (result,) = verdicts(Result.of(green, episodes))
    assert (result.metric, result.heuristic) == ("job_value_ratio", PolicyLabel("sjf", "now"))
    assert (result.passes, result.hoarding) == (passes, None)


def test_what_was_hardly_measured_does_not_pass() -> None:
    for values, count in (([nan] * 6, 0), ([2.0, 2.0, 2.0, 2.0, nan, nan], 4)):
        result = verdict_of(values)
        assert (result.against, result.passes, result.episodes) == ("unknown", False, count)
        assert (
            gate_line(result)
            == f"fails the gate: bounded slowdown could be measured in {count} episodes only"
        )
    (reported,) = gate_json([verdict_of([nan] * 6)])
    assert json.loads(json.dumps(reported, allow_nan=False)) == reported
    assert (reported["mean"], reported["difference"], reported["passes"]) == (None, None, False)


def test_figures_are_plain() -> None:
    (reported,) = gate_json([verdict_of([value + 2 for value in HEURISTIC])])
    assert reported == {
        "policy": "it",
        "backfill": "policy",
        "passes": False,
        "metric": "bounded_slowdown",
        "episodes": 6,
        "mean": 14.5,
        "heuristic": "sjf + greedy",
        "heuristic_mean": 12.5,
        "difference": 2.0,
        "difference_low": 2.0,
        "difference_high": 2.0,
        "against": "worse",
        "hoards": False,
        "limits_broken": [],
    }


def test_heuristics_are_ranked_and_a_gate_wants_one() -> None:
    episodes = played("it", HEURISTIC, learned=True) + played("sjf", HEURISTIC, rule="easy")
    episodes += played("sjf", HEURISTIC) + played("area", HEURISTIC) + played("fcfs", [9.0] * 6)
    result = [str(name) for name, _ in ranked(Result.of(SCENARIO, episodes), "bounded_slowdown")]
    assert result == ["fcfs + greedy", "area + greedy", "sjf + easy", "sjf + greedy"]
    with pytest.raises(ValueError, match="needs a heuristic"):
        verdicts(Result.of(SCENARIO, played("it", HEURISTIC, learned=True)))


def test_few_episodes_are_no_gate() -> None:
    check_episodes([None] * LEAST_EPISODES, "play more")
    check_episodes([0, 1, 2, 3, 4], "play more")
    for offsets, count in (([None], "1 different episode:"), ([0, 1, 2, 3, 3, 3], "4 different episodes:")):
        with pytest.raises(BadInputError, match=f"--gate: {count} .* play at least 5: play more"):
            check_episodes(offsets, "play more")
