"""What users ask for: errors of the sizes that were set, popular values, and never less than may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import ExactEstimates, GaussianEstimates, TsafrirEstimates
from rlsched.workloads.estimates import HEAD, HEAD_SHARE, HOUR_S, estimated, popular_values
from tests.workloads.opening import for_ticks, opened, opened_model

LUBLIN = {"kind": "lublin"}
MACHINE = ({"units": 256},)
LONGEST_S = 18 * HOUR_S


def jobs(runtimes: Any, requested: Any = None) -> JobTable:
    count = len(runtimes)
    return JobTable.build(submit=np.arange(count), runtime=runtimes, requested=requested, demand=[1] * count)


def estimates_for(estimates: Any, table: JobTable, *, tick_s: int = 1, longest_s: int = LONGEST_S) -> Any:
    return estimated(table, estimates, np.random.default_rng(0), tick_s, longest_s).requested


def test_no_estimates_and_exact_estimates() -> None:
    table = jobs([10, 20], requested=[30, 5])
    assert estimates_for(None, table).tolist() == [30, 5]
    assert estimates_for(ExactEstimates(kind="exact"), table).tolist() == [10, 20]


@pytest.mark.parametrize("nu", [0.0, 0.1, 0.5, 2.0])
def test_gaussian_errors_have_their_deviation(nu: float) -> None:
    runtime = np.full(200_000, 10_000)
    error = {
        side: estimates_for(GaussianEstimates(kind="gaussian", nu=nu, side=side), jobs(runtime)) / 10_000 - 1
        for side in ("two", "over", "under")
    }
    # Of a half-normal distribution the mean is sqrt(2 / pi) sigma; what is below one second is one second.
    assert error["over"].min() >= 0.0
    assert error["over"].mean() == pytest.approx(nu * np.sqrt(2 / np.pi), abs=0.01 * nu + 1e-9)
    assert error["under"].max() <= 0.0
    assert error["two"].min() >= -1.0
    if nu <= 0.1:
        assert error["two"].std() == pytest.approx(nu, rel=0.02)
        assert error["under"].mean() == pytest.approx(-error["over"].mean(), abs=0.01 * nu + 1e-9)


@given(
    st.lists(st.integers(1, 200_000), min_size=1, max_size=60), st.integers(60, 100_000), st.integers(1, 600)
)
def test_popular_values_are_never_below_the_runtime(runtimes: list[int], longest: int, tick_s: int) -> None:
    ticks = -(-np.array(runtimes) // tick_s)
    requested = estimates_for(TsafrirEstimates(kind="tsafrir", longest_s=longest), jobs(ticks), tick_s=tick_s)
    assert (requested >= ticks).all()
    assert (requested <= np.maximum(ticks, -(-longest // tick_s))).all()
    values = -(-popular_values(longest)[0] // tick_s)
    assert np.isin(requested, np.concatenate([values, ticks[ticks * tick_s > longest]])).all()


def test_twenty_values_hold_nearly_all_jobs() -> None:
    values, shares = popular_values(LONGEST_S)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.min() > 0
    assert shares[:HEAD].sum() == pytest.approx(HEAD_SHARE)
    assert values[0] == LONGEST_S
    assert shares.argmax() == 0
    assert len(np.unique(values)) == len(values)
    # The paper: of jobs that are not at the limit, 5, 10 and 15 minutes, 1, 2, 3 hours are requested most.
    often = set(values[np.argsort(-shares)[:8]].tolist())
    assert {300, 600, 900, 2 * HOUR_S} <= often


def test_popular_values_are_popular_in_episodes_too() -> None:
    source = opened_model(LUBLIN | {"estimates": {"kind": "tsafrir"}}, "episode.jobs=4096", resources=MACHINE)
    table = source.evaluation(0, 0).jobs
    exact = opened_model(LUBLIN, "episode.jobs=4096", resources=MACHINE).evaluation(0, 0).jobs
    assert np.array_equal(table.runtime, exact.runtime)  # the same jobs, estimates_for for otherwise
    assert (table.requested >= table.runtime).all()
    counts = np.sort(np.unique(table.requested, return_counts=True)[1])[::-1]
    assert 0.85 <= counts[:HEAD].sum() / len(table) <= 0.95
    assert table.requested.max() == 46 * HOUR_S  # the longest job of the model takes 45.2 hours


def test_traces_keep_the_values_of_their_paper(data_dir: Any) -> None:
    trace = data_dir / "swf" / "CTC-SP2-1996-3.1-cln.swf.gz"
    source = opened({"kind": "swf", "file": str(trace)}, "episode.jobs=null", resources=({},))
    table = source.evaluation(0, 0).jobs
    real = np.unique(table.requested, return_counts=True)
    model = estimates_for(TsafrirEstimates(kind="tsafrir", longest_s=LONGEST_S), table)
    modelled = np.unique(model, return_counts=True)
    # How much of its request a job uses, in the mean: by the model as in the trace it was made from.
    used = [np.mean(table.runtime / asks) for asks in (np.maximum(table.requested, table.runtime), model)]
    assert used[1] == pytest.approx(used[0], abs=0.1)
    twenty = [np.sort(counts)[::-1][:HEAD].sum() / len(table) for _, counts in (real, modelled)]
    assert twenty[1] == pytest.approx(twenty[0], abs=0.06)


def test_a_job_has_the_same_requested_time_in_every_episode(data_dir: Any) -> None:
    trace = {"kind": "swf", "file": str(data_dir / "swf" / "lublin_256.swf.gz")}
    requested: dict[int, int] = {}
    source = opened(
        trace | {"estimates": {"kind": "gaussian", "nu": 0.5}}, "episode.jobs=500", resources=({},)
    )
    rng = np.random.default_rng(1)
    for _ in range(20):
        drawn = source.training(rng).jobs
        for number, asks in zip(drawn.id.tolist(), drawn.requested.tolist(), strict=True):
            assert requested.setdefault(number, asks) == asks
    reseeded = opened(
        trace | {"estimates": {"kind": "gaussian", "nu": 0.5, "seed": 1}}, "episode.jobs=500", resources=({},)
    )
    drawn = reseeded.training(np.random.default_rng(1)).jobs
    assert any(
        requested.get(number, asks) != asks for number, asks in zip(drawn.id, drawn.requested, strict=True)
    )


def test_requested_times_fit_the_horizon() -> None:
    poisson = {"kind": "poisson", "estimates": {"kind": "gaussian", "nu": 3.0, "side": "over"}}
    source = opened(poisson, "decision={action_rule: fit, horizon: 40}", *for_ticks(500))
    assert source.evaluation(0, 0).jobs.requested.max() == 40


def test_kill_at_requested_ends_jobs() -> None:
    under = LUBLIN | {"estimates": {"kind": "gaussian", "nu": 0.5, "side": "under"}}
    long = opened_model(under, "episode.jobs=300", resources=MACHINE).evaluation(0, 0).jobs
    assert (long.requested < long.runtime).mean() > 0.9
    killed = (
        opened_model(under, "episode.jobs=300", "cluster.kill_at_requested=true", resources=MACHINE)
        .evaluation(0, 0)
        .jobs
    )
    assert np.array_equal(killed.requested, long.requested)
    assert np.array_equal(killed.runtime, np.minimum(long.runtime, long.requested))


def test_how_many_jobs_of_a_trace_are_ended_is_counted(data_dir: Any) -> None:
    trace = {"kind": "swf", "file": str(data_dir / "swf" / "CTC-SP2-1996-3.1-cln.swf.gz")}
    source = opened(trace, "cluster.kill_at_requested=true", "episode.jobs=null", resources=({},))
    unlimited = opened(trace, "episode.jobs=null", resources=({},)).evaluation(0, 0).jobs
    overdue = int((unlimited.runtime > unlimited.requested).sum())
    assert overdue > 0
    assert source.repairs["ended_at_requested"] == overdue
    table = source.evaluation(0, 0).jobs
    assert (table.runtime <= table.requested).all()


def test_the_same_jobs_of_a_trace_under_all_estimates(data_dir: Any) -> None:
    trace = {"kind": "swf", "file": str(data_dir / "swf" / "CTC-SP2-1996-3.1-cln.swf.gz")}
    kinds: list[dict[str, Any]] = [
        {"kind": "exact"},
        {"kind": "gaussian", "nu": 2.0, "side": "over"},
        {"kind": "tsafrir"},
    ]
    ahead = ("cluster.tick_s=3600", "decision={action_rule: fit, horizon: 12}", *for_ticks(500))
    tables = [opened(trace | {"estimates": kind}, *ahead, resources=({},)).trace.jobs for kind in kinds]
    for jobs in tables[1:]:
        assert np.array_equal(jobs.id, tables[0].id)
        assert jobs.requested.max() == 12
    assert tables[0].runtime.max() == 12


@pytest.mark.parametrize(
    ("estimates", "line"),
    [
        ({"kind": "gauss"}, "'exact', 'gaussian', 'tsafrir'"),
        ({"kind": "gaussian", "nu": -1}, "greater than or equal to 0"),
        ({"kind": "tsafrir", "longest_s": 0}, "greater than or equal to 60"),
        ({"kind": "tsafrir", "seed": 1}, "workload.estimates.seed: is not supported by a model"),
    ],
)
def test_invalid_estimates_are_refused(estimates: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInputError) as caught:
        opened_model(LUBLIN | {"estimates": estimates}, resources=MACHINE)
    assert "workload" in str(caught.value)
    assert line in str(caught.value)
