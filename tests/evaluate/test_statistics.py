from __future__ import annotations

import json
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.evaluate.bootstrap import RESAMPLES, Interval, bootstrap_columns
from rlsched.evaluate.hoarding import hoarding
from rlsched.evaluate.measures import HEADLINE, METRICS, measure
from rlsched.evaluate.results import Result, to_json
from rlsched.evaluate.statistics import (
    EpisodeResult,
    PolicyLabel,
    SummaryRow,
    Table,
    by_cell,
    order_by,
    summarise,
)
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.sim.metrics import Played, job_metrics

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def episodes(
    policy: str, values: list[float], metric: str = "wait", learned: bool = False, backfill: str = "greedy"
) -> list[EpisodeResult]:
    return [
        EpisodeResult(policy, backfill, k, seed=k, offset=100 * k, metrics={metric: value}, learned=learned)
        for k, value in enumerate(values)
    ]


def bootstrap(values: np.ndarray, seed: int = 0) -> Interval:
    return bootstrap_columns([values], seed)[0]


def row_of(rows: list[SummaryRow], policy: str, metric: str = "wait", backfill: str = "greedy") -> SummaryRow:
    return by_cell(rows)[PolicyLabel(policy, backfill), metric]


@given(VALUES, st.integers(0, 10))
def test_interval_holds_the_mean_and_stays_within_the_values(values: list[float], seed: int) -> None:
    mean, low, high = bootstrap(np.array(values), seed)
    slack = 1e-9 * max(1.0, np.abs(values).max())
    assert mean == pytest.approx(np.mean(values), abs=slack)
    assert min(values) - slack <= low <= mean <= high <= max(values) + slack


@given(VALUES, st.randoms(use_true_random=False))
def test_interval_does_not_depend_on_order(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert bootstrap(np.array(values)) == bootstrap(np.array(shuffled))


@given(st.floats(-1e9, 1e9), st.integers(1, 30))
def test_equal_values_have_no_width(value: float, count: int) -> None:
    assert bootstrap(np.full(count, value)) == (value, value, value)


def test_normal_sample_gives_the_textbook_interval() -> None:
    values = np.random.default_rng(3).normal(10, 2, size=200)
    mean, low, high = bootstrap(values)
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.1 * half)


def test_two_values_by_hand() -> None:
    # of two draws, each mean of (0, 0), (0, 1), (1, 1) has probability 1/4, 1/2, 1/4
    assert bootstrap(np.array([0.0, 1.0])) == (0.5, 0.0, 1.0)


def test_what_was_not_measured_is_left_out() -> None:
    assert bootstrap(np.array([2.0, nan, 2.0])) == (2.0, 2.0, 2.0)
    assert all(isnan(part) for part in bootstrap(np.array([nan])))
    assert all(isnan(part) for part in bootstrap(np.array([])))


def test_columns_give_what_each_gives_alone() -> None:
    rng = np.random.default_rng(0)
    columns = [rng.exponential(size=n) for n in (10, 3, 10, 1)]
    for together, column in zip(bootstrap_columns(columns), columns, strict=True):
        assert together == pytest.approx(bootstrap(column))


def test_many_episodes_are_resampled_in_blocks() -> None:
    values = np.random.default_rng(1).normal(size=1_500)
    assert RESAMPLES * len(values) > 10_000_000
    mean, low, high = bootstrap(values)
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(1_500), rel=0.1)
    assert low < mean < high


def test_summary_by_hand() -> None:
    rows = summarise(
        Table.of(
            episodes("fcfs", [10.0, 20.0])
            + episodes("sjf", [6.0, 10.0])
            + episodes("ppo", [4.0, 12.0], learned=True)
        )
    )
    ppo = row_of(rows, "ppo")
    assert ppo.best_heuristic == "sjf + greedy"
    assert (ppo.mean, ppo.low, ppo.high) == (8.0, 4.0, 12.0)
    assert (ppo.best_heuristic_difference, ppo.difference_low, ppo.difference_high) == (0.0, -2.0, 2.0)
    assert (ppo.wins, ppo.episodes, ppo.learned) == (0.5, 2, True)
    fcfs = row_of(rows, "fcfs")
    assert (fcfs.best_heuristic_difference, fcfs.difference_low, fcfs.difference_high) == (7.0, 4.0, 10.0)
    assert fcfs.wins == 0.0
    assert [row.policy for row in order_by(rows, "wait")] == ["sjf", "ppo", "fcfs"]


def test_direction_decides_who_is_best_and_who_wins() -> None:
    rows = summarise(
        Table.of(
            episodes("fcfs", [0.5, 0.6], "utilization")
            + episodes("sjf", [0.7, 0.9], "utilization")
            + episodes("ppo", [0.8, 0.8], "utilization", learned=True)
        )
    )
    ppo = row_of(rows, "ppo", "utilization")
    assert ppo.best_heuristic == "sjf + greedy"
    assert ppo.wins == 0.5
    assert row_of(rows, "fcfs", "utilization").best_heuristic_difference == pytest.approx(-0.25)


def test_learned_policies_are_no_heuristics_and_backfills_compete() -> None:
    rows = summarise(
        Table.of(
            episodes("sjf", [9.0], backfill="none")
            + episodes("sjf", [5.0], backfill="easy")
            + episodes("a", [1.0], learned=True)
            + episodes("b", [2.0], learned=True)
        )
    )
    assert {row.best_heuristic for row in rows} == {"sjf + easy"}
    assert row_of(rows, "a").best_heuristic_difference == -4.0


def test_without_heuristics_there_is_no_difference() -> None:
    (row,) = summarise(Table.of(episodes("a", [1.0, 2.0], learned=True)))
    assert row.best_heuristic is None
    assert row.mean == 1.5
    assert isnan(row.best_heuristic_difference)
    assert isnan(row.wins)


def test_pairs_are_formed_where_both_were_measured() -> None:
    rows = summarise(
        Table.of(episodes("sjf", [1.0, nan, 3.0]) + episodes("a", [2.0, 5.0, float("inf")], learned=True))
    )
    ppo = row_of(rows, "a")
    assert ppo.best_heuristic_difference == 1.0
    assert (ppo.episodes, ppo.mean) == (2, 3.5)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12))
def test_equal_policies_differ_by_nothing(values: list[float]) -> None:
    ppo = row_of(summarise(Table.of(episodes("sjf", values) + episodes("a", values, learned=True))), "a")
    assert (ppo.best_heuristic_difference, ppo.difference_low, ppo.difference_high) == (0.0, 0.0, 0.0)
    assert ppo.wins == 1.0


@given(st.randoms(use_true_random=False))
def test_order_of_episodes_does_not_matter(random: object) -> None:
    results = (
        episodes("sjf", [1.0, 5.0, 2.0])
        + episodes("fcfs", [4.0, 1.0, 3.0])  # as good on average: the first by name is the best heuristic
        + episodes("a", [2.0, 2.0, 2.0], learned=True)
    )
    expected = by_cell(summarise(Table.of(results)))
    random.shuffle(results)  # type: ignore[attr-defined]
    assert by_cell(summarise(Table.of(results))) == expected


def test_unpaired_or_repeated_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="sjf \\+ greedy has episode 0 twice"):
        Table.of(episodes("sjf", [1.0]) + episodes("sjf", [2.0]))
    second = EpisodeResult("fcfs", "none", 0, seed=7, offset=0, metrics={"wait": 1.0})
    with pytest.raises(ValueError, match="a paired comparison needs the same episodes"):
        Table.of([*episodes("sjf", [1.0]), second])


def test_every_metric_of_an_episode_is_described() -> None:
    jobs = JobTable.build(submit=[0], runtime=[1], demand=[1])
    for name in job_metrics(Played.of_starts(jobs, np.array([0])), [1]):
        assert measure(name).doc
    assert set(HEADLINE) <= set(METRICS)
    assert measure("cost.delayed_jobs").lower_is_better
    with pytest.raises(ValueError, match="unknown metric 'walt'"):
        episodes("sjf", [1.0], "walt")


def with_metrics(policy: str, learned: bool, **metrics: float) -> EpisodeResult:
    return EpisodeResult(policy, "greedy", 0, seed=0, offset=None, metrics=metrics, learned=learned)


@pytest.mark.parametrize(
    ("span", "wait", "breached"),
    [(1.69, 174.0, False), (1.71, 100.0, True), (1.3, 176.0, True), (1.0, 50.0, False)],
)
def test_hoarding_thresholds(span: float, wait: float, breached: bool) -> None:
    reference = with_metrics("sjf", False, schedule_span=1.3, wait=100.0)
    (finding,) = hoarding(Table.of([reference, with_metrics("a", True, schedule_span=span, wait=wait)]))
    assert finding.breached is breached
    assert finding.span_ratio == pytest.approx(span / 1.3)
    assert finding.wait_ratio == pytest.approx(wait / 100)


def test_jobs_that_never_start_are_hoarded() -> None:
    reference = with_metrics("sjf", False, schedule_span=1.3, wait=100.0, completion_ratio=1.0)
    lazy = with_metrics("a", True, schedule_span=1.0, wait=1.0, completion_ratio=0.99)
    idle = with_metrics("b", True, schedule_span=nan, wait=nan, completion_ratio=0.0)
    assert [finding.breached for finding in hoarding(Table.of([reference, lazy, idle]))] == [True, True]


def test_without_greedy_sjf_hoarding_is_unknown() -> None:
    (finding,) = hoarding(Table.of([with_metrics("a", True, schedule_span=1.0, wait=5.0)]))
    assert finding.breached is None
    assert finding.episodes == 0


def test_no_wait_against_no_wait_is_no_breach() -> None:
    reference = with_metrics("sjf", False, schedule_span=1.0, wait=0.0)
    (finding,) = hoarding(Table.of([reference, with_metrics("a", True, schedule_span=1.0, wait=0.0)]))
    assert (finding.breached, finding.wait_ratio) == (False, 1.0)
    (finding,) = hoarding(Table.of([reference, with_metrics("a", True, schedule_span=1.0, wait=1.0)]))
    assert finding.breached is True


def test_json_has_the_shape_of_the_contract() -> None:
    scenario = Scenario.model_validate({"workload": {"kind": "lublin"}})
    results = episodes("fcfs", [1.0, nan]) + episodes("a", [2.0, float("inf")], learned=True)
    result = Result.of(scenario, results, protocol="rlscheduler", repairs={"zero_runtime_dropped": 3})
    values = json.loads(json.dumps(to_json(result), allow_nan=False))
    assert list(values)[:6] == ["schema", "scenario", "protocol", "episodes", "summary", "repairs"]
    assert values["schema"] == 1
    assert values["protocol"] == "rlscheduler"
    assert Scenario.model_validate(values["scenario"]) == scenario
    assert values["repairs"] == {"zero_runtime_dropped": 3}
    first = values["episodes"][0]
    assert {key: first[key] for key in ("policy", "backfill", "episode", "seed", "offset", "metrics")} == {
        "policy": "fcfs",
        "backfill": "greedy",
        "episode": 0,
        "seed": 0,
        "offset": 0,
        "metrics": {"wait": 1.0},
    }
    assert values["episodes"][1]["metrics"] == {"wait": None}
    assert {"mean", "low", "high", "best_heuristic_difference", "difference_low", "difference_high"} <= set(
        values["summary"][0]
    )
    assert values["hoarding"][0]["breached"] is None


def test_json_takes_numpy_numbers() -> None:
    scenario = Scenario.model_validate({"workload": {"kind": "lublin"}})
    result = Result.of(scenario, episodes("fcfs", [np.float64(1.5), np.float32(2.0)]))  # type: ignore[list-item]
    assert json.dumps(to_json(result), allow_nan=False)
