"""The Lublin-Feitelson model against its own expectations and against a trace of the original program."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, JobTable
from rlsched.workloads import lublin_moments, swf
from rlsched.workloads.days import DAY_S
from rlsched.workloads.lublin import LublinModel

MODEL = LublinModel()


def draw(model: LublinModel, jobs: int = 20_000, processors: int = 256, seed: int = 0) -> JobTable:
    return model.draw(np.random.default_rng(seed), jobs, processors)


def quantiles(values: np.ndarray) -> FloatArray:
    return np.quantile(values, [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])


@pytest.fixture(scope="module")
def original(data_dir: Path) -> JobTable:
    """10,000 jobs that the authors' program drew for 256 processors."""
    return swf.read(data_dir / "swf" / "lublin_256.swf.gz").jobs


def test_sizes_and_runtimes_are_those_of_the_original_program(original: JobTable) -> None:
    ours, sizes = draw(MODEL, 100_000), original.demand[:, 0]
    shares = lublin_moments._size_shares(MODEL, 256)
    for size in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        sigma = np.sqrt(shares[size - 1] / len(original))
        assert np.mean(sizes == size) == pytest.approx(shares[size - 1], abs=4 * sigma)
    assert sizes.mean() == pytest.approx(ours.demand.mean(), rel=0.08)
    assert original.runtime.mean() == pytest.approx(ours.runtime.mean(), rel=0.08)
    assert quantiles(np.log(original.runtime)) == pytest.approx(quantiles(np.log(ours.runtime)), abs=0.25)
    wide = [table.runtime[table.demand[:, 0] >= 64].mean() for table in (original, ours)]
    assert wide[0] == pytest.approx(wide[1], rel=0.15)


def test_arrivals_are_those_of_the_original_program(original: JobTable) -> None:
    ours = draw(MODEL, 100_000)
    gaps = [np.log(np.diff(table.submit) + 1) for table in (original, ours)]
    assert quantiles(gaps[0]) == pytest.approx(quantiles(gaps[1]), abs=0.12)
    # The mean gap is made by few very long ones: over 10,000 jobs its standard deviation is 67 s (7 %).
    assert np.diff(original.submit).mean() == pytest.approx(np.diff(ours.submit).mean(), rel=0.21)
    # The program cuts every arrival to whole seconds and adds to what is left: half a second lost per job.
    clock = [original.submit + 0.5 * np.arange(len(original)), ours.submit]
    hours = [np.exp(2j * np.pi * (submit % DAY_S) / DAY_S).mean() for submit in clock]
    assert abs(hours[0]) == pytest.approx(abs(hours[1]), abs=0.06)
    assert np.angle(hours[0] / hours[1]) * 24 / (2 * np.pi) == pytest.approx(0, abs=0.8)  # hours


def test_the_batch_model_is_not_that_of_the_trace(original: JobTable) -> None:
    batch = draw(LublinModel.batch())
    assert batch.runtime.mean() > 1.5 * original.runtime.mean()


@pytest.mark.parametrize("processors", [1, 2, 3, 64, 240, 256])
@pytest.mark.parametrize("model", [MODEL, LublinModel.batch()])
def test_sizes_follow_their_shares(model: LublinModel, processors: int) -> None:
    shares = lublin_moments._size_shares(model, processors)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    sizes = draw(model, 40_000, processors).demand[:, 0]
    drawn = np.bincount(sizes, minlength=processors + 1)[1:] / len(sizes)
    np.testing.assert_allclose(drawn, shares, atol=0.012)


@pytest.mark.parametrize("model", [MODEL, LublinModel.batch(), LublinModel(max_runtime_s=600)])
def test_expected_work_and_gap_are_those_of_draws(model: LublinModel) -> None:
    work, gap = lublin_moments.expected_work_and_gap(model, 256)
    jobs = draw(model, 200_000)
    assert jobs.area.mean() == pytest.approx(work, rel=0.02)
    spread = np.diff(jobs.submit).std() / np.sqrt(len(jobs))
    assert np.diff(jobs.submit).mean() == pytest.approx(gap, abs=4 * spread)


@pytest.mark.parametrize(("load", "processors"), [(0.5, 256), (1.06, 256), (0.95, 64)])
def test_load_is_reached_in_expectation_and_episodes_vary(load: float, processors: int) -> None:
    model = LublinModel(load=load)
    episodes = [draw(model, 1024, processors, seed) for seed in range(200)]
    spans = np.array([float(jobs.submit[-1] - jobs.submit[0]) for jobs in episodes])
    work = np.array([jobs.area.sum() for jobs in episodes])
    assert work.sum() / spans.sum() / processors == pytest.approx(load, rel=0.05)
    assert np.std(work / spans) / np.mean(work / spans) > 0.15


def test_load_only_stretches_gaps() -> None:
    slow, fast = draw(replace(MODEL, load=0.5)), draw(replace(MODEL, load=1.0))
    np.testing.assert_array_equal(slow.runtime, fast.runtime)
    np.testing.assert_array_equal(slow.demand, fast.demand)
    assert slow.submit[-1] == pytest.approx(2 * fast.submit[-1], rel=0.02)
    # the cycle stays a day: the quietest hour is before dawn in both
    by_hour = [np.bincount(jobs.submit % DAY_S // 3600, minlength=24) for jobs in (slow, fast)]
    assert all(2 <= np.argmin(hours) < 8 for hours in by_hour)


def test_runtime_limit() -> None:
    jobs = draw(LublinModel(max_runtime_s=600), 5000)
    assert jobs.runtime.max() <= 600
    assert jobs.runtime.max() > 500
    with pytest.raises(BadInputError, match="max_runtime_s"):
        draw(LublinModel(max_runtime_s=1, runtime_first=(600.0, 0.02)), 10)


def test_jobs_are_plain() -> None:
    jobs = draw(MODEL, 500)
    assert (np.diff(jobs.submit) >= 0).all()
    np.testing.assert_array_equal(jobs.requested, jobs.runtime)
    assert jobs.id.tolist() == list(range(1, 501))
    again = draw(MODEL, 500)
    np.testing.assert_array_equal(jobs.submit, again.submit)
    assert (draw(MODEL, 500, seed=1).submit != jobs.submit).any()
    assert len(draw(MODEL, 1)) == 1


def test_an_episode_is_drawn_in_the_time_of_a_few_random_numbers_a_job() -> None:
    model, rng = LublinModel(load=1.06), np.random.default_rng(0)
    model.draw(rng, 1024, 256)

    def timed(draw: Callable[[], object]) -> float:
        begin = time.perf_counter()
        draw()
        return time.perf_counter() - begin

    ours = min(timed(lambda: model.draw(rng, 1024, 256)) for _ in range(30))
    plain = min(timed(lambda: rng.standard_gamma(4.2, 1024)) for _ in range(30))
    assert ours < 60 * plain  # about 10 times
