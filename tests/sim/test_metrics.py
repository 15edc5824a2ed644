from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.jobs import IntArray, JobTable
from rlsched.sim.metrics import JobOutcome, Played, job_metrics, rlscheduler_metrics


@pytest.fixture
def three() -> tuple[JobTable, IntArray]:
    """Four units; at tick 0 a job of 2 x 100, at 10 one of 4 x 5, at 20 one of 2 x 50."""
    jobs = JobTable.build(submit=[0, 10, 20], runtime=[100, 5, 50], requested=[100, 10, 80], demand=[2, 4, 2])
    return jobs, np.array([0, 100, 20])


def test_job_outcome_by_hand(three: tuple[JobTable, IntArray]) -> None:
    outcome = JobOutcome.of(Played.of_starts(*three))
    np.testing.assert_allclose(outcome.wait, [0, 90, 0])
    np.testing.assert_allclose(outcome.response, [100, 95, 50])
    np.testing.assert_allclose(outcome.slowdown, [1, 19, 1])
    np.testing.assert_allclose(outcome.bounded_slowdown, [1, 9.5, 1])


def test_metrics_by_hand(three: tuple[JobTable, IntArray]) -> None:
    metrics = job_metrics(Played.of_starts(*three), units=[4])
    assert metrics["wait"] == pytest.approx(30)
    assert metrics["wait_p50"] == 0
    assert metrics["wait_max"] == 90
    assert metrics["wait_p95"] == pytest.approx(81)
    assert metrics["bounded_slowdown"] == pytest.approx(11.5 / 3)
    assert metrics["slowdown"] == pytest.approx(7)
    assert metrics["makespan"] == 105
    assert metrics["utilization"] == pytest.approx((200 + 20 + 100) / (4 * 105))
    assert metrics["schedule_span"] == pytest.approx(100 / 20)
    assert metrics["throughput"] == pytest.approx(3 * 3600 / 105)
    assert metrics["completion_ratio"] == 1
    assert metrics["job_value"] == pytest.approx(0.5 * 320)
    # the second job ends 95 ticks after its submit, its user asked for 10
    assert metrics["on_time_value"] == pytest.approx(0.5 * 300)
    assert metrics["on_time_value_ratio"] == pytest.approx(300 / 320)


def test_a_tick_of_an_hour_gives_seconds(three: tuple[JobTable, IntArray]) -> None:
    jobs, start = three
    hourly = job_metrics(Played.of_starts(jobs, start), [4], tick_s=3600)
    assert hourly["wait"] == pytest.approx(30 * 3600)
    assert hourly["makespan"] == 105 * 3600
    assert hourly["throughput"] == pytest.approx(3 / 105)
    assert hourly["bounded_slowdown"] == pytest.approx(7)  # no runtime is below the threshold
    assert hourly["utilization"] == job_metrics(Played.of_starts(jobs, start), [4])["utilization"]


def test_unfinished_jobs_are_counted_and_left_out(three: tuple[JobTable, IntArray]) -> None:
    jobs, _ = three
    metrics = job_metrics(Played.of_starts(jobs, np.array([0, -1, 30])), [4])
    assert metrics["wait"] == pytest.approx(5)
    assert metrics["completion_ratio"] == pytest.approx(2 / 3)
    assert metrics["job_value_ratio"] == pytest.approx(300 / 320)
    assert metrics["makespan"] == 100
    assert metrics["schedule_span"] == pytest.approx(30 / 20)


def test_nothing_started() -> None:
    jobs = JobTable.build(submit=[5], runtime=[1], demand=[1])
    metrics = job_metrics(Played.of_starts(jobs, np.array([-1])), [4])
    assert metrics["completion_ratio"] == metrics["utilization"] == metrics["job_value"] == 0
    assert isnan(metrics["wait"])
    assert isnan(metrics["schedule_span"])


def test_several_resources_average_their_utilization() -> None:
    jobs = JobTable.build(submit=[0, 0], runtime=[10, 10], demand=[[2, 0], [2, 8]])
    metrics = job_metrics(Played.of_starts(jobs, np.array([0, 0])), [4, 16])
    assert metrics["utilization"] == pytest.approx((1.0 + 0.5) / 2)
    assert metrics["schedule_span"] == 1.0  # one submit time only
    assert metrics["job_value"] == pytest.approx(0.5 * 10 * (2 + 10))


def test_qos_allows_more_time() -> None:
    jobs = JobTable.build(submit=[0, 0], runtime=[9, 9], demand=[1, 1], qos=[0.9, 1.0])
    metrics = job_metrics(Played.of_starts(jobs, np.array([1, 1])), [4])  # both end at tick 10 = 9 / 0.9
    assert metrics["on_time_value"] == pytest.approx(0.5 * 9 * 0.9)
    assert metrics["job_value"] == pytest.approx(0.5 * 9 * 1.9)


def test_rlscheduler_utilization_ends_with_the_last_start(three: tuple[JobTable, IntArray]) -> None:
    metrics = rlscheduler_metrics(Played.of_starts(*three), processors=4)
    assert metrics["bounded_slowdown"] == pytest.approx(11.5 / 3)
    assert metrics["utilization"] == pytest.approx(320 / (4 * 100))


def test_rlscheduler_may_start_a_job_before_its_submit() -> None:
    jobs = JobTable.build(submit=[10, 50, 20], runtime=[20, 20, 20], demand=[2, 1, 1])
    start = np.array([10, 30, 50])
    assert rlscheduler_metrics(Played.of_starts(jobs, start), 2)["bounded_slowdown"] == pytest.approx(
        (1 + 1 + 2.5) / 3
    )
    assert job_metrics(Played.of_starts(jobs, start), [2])["wait"] == pytest.approx((0 - 20 + 30) / 3)


def test_bad_input_is_refused(three: tuple[JobTable, IntArray]) -> None:
    jobs, start = three
    with pytest.raises(ValueError, match="for 3 jobs"):
        job_metrics(Played.of_starts(jobs, start[:2]), [4])
    with pytest.raises(ValueError, match="2 units for 1 resource"):
        job_metrics(Played.of_starts(jobs, start), [4, 4])
    with pytest.raises(ValueError, match="unfinished"):
        rlscheduler_metrics(Played.of_starts(jobs, np.array([0, -1, 20])), 4)


rows = st.tuples(
    st.integers(0, 1000), st.integers(1, 500), st.integers(1, 8), st.integers(0, 800), st.booleans()
)


@given(st.lists(rows, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_metrics_do_not_depend_on_the_order_of_rows(
    given_rows: list[tuple[int, ...]], random: object
) -> None:
    shuffled = list(given_rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = (_metrics(order) for order in (given_rows, shuffled))
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value == pytest.approx(second[name], nan_ok=True), name


@given(st.lists(rows, min_size=1, max_size=30))
def test_metrics_are_in_range(given_rows: list[tuple[int, ...]]) -> None:
    metrics = _metrics(given_rows)
    for share in ("completion_ratio", "job_value_ratio", "on_time_value_ratio"):
        assert 0 <= metrics[share] <= 1
    assert metrics["on_time_value"] <= metrics["job_value"] + 1e-9
    if metrics["completion_ratio"] > 0:
        assert 1 <= metrics["bounded_slowdown"] <= metrics["slowdown"] + 1e-9
        assert metrics["wait"] <= metrics["response"] <= metrics["makespan"]
        assert metrics["wait_p50"] <= metrics["wait_p95"] <= metrics["wait_max"]


def _metrics(given_rows: list[tuple[int, ...]]) -> dict[str, float]:
    submit, runtime, demand, delay, starts = (np.array(column) for column in zip(*given_rows, strict=True))
    jobs = JobTable.build(submit=submit, runtime=runtime, demand=demand)
    return job_metrics(Played.of_starts(jobs, np.where(starts.astype(bool), submit + delay, -1)), [8])
