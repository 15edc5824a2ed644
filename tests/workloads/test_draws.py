"""What models draw alike."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.jobs import LEAST_QOS
from rlsched.scenario import Enrichment, MaoWorkload, PoissonWorkload
from rlsched.workloads.random_arrivals import draw_qos, draw_runtimes, most_jobs

N = 60_000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "workload",
    [
        PoissonWorkload(kind="poisson", short=(1, 4), long=(10, 12), long_share=0.3),
        MaoWorkload(kind="mao", short=(1, 4), long=(10, 12), long_share=0.3),
    ],
)
def test_runtimes_are_uniform_with_both_ends(workload: PoissonWorkload | MaoWorkload) -> None:
    runtimes = draw_runtimes(rng(), workload, N)
    chances = {1: 0.175, 2: 0.175, 3: 0.175, 4: 0.175, 10: 0.1, 11: 0.1, 12: 0.1}
    assert set(runtimes.tolist()) == set(chances)
    for ticks, chance in chances.items():
        assert np.mean(runtimes == ticks) == pytest.approx(chance, abs=4 * np.sqrt(chance / N))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_short_or_all_long(share: float) -> None:
    workload = PoissonWorkload(kind="poisson", short=(2, 2), long=(7, 7), long_share=share)
    assert set(draw_runtimes(rng(), workload, 1000).tolist()) == {7 if share else 2}


@pytest.mark.parametrize("shares", [PoissonWorkload(kind="poisson"), Enrichment()])
def test_qos_is_high_in_its_share_and_uniform(shares: PoissonWorkload | Enrichment) -> None:
    qos = draw_qos(rng(), shares, N)
    assert (qos.min(), qos.max()) == (pytest.approx(0.1, abs=1e-3), pytest.approx(1, abs=1e-3))
    below = {0.2: 0.08, 0.35: 0.2, 0.6: 0.4, 0.8: 0.7, 0.9: 0.85}  # of 40 % on 0.1..0.6 and 60 % on 0.6..1
    for value, chance in below.items():
        assert np.mean(qos < value) == pytest.approx(chance, abs=4 * np.sqrt(0.25 / N))


def test_qos_is_never_0() -> None:
    nothing = PoissonWorkload(kind="poisson", low_qos=(0, 0), high_qos_share=0)
    assert set(draw_qos(rng(), nothing, 100).tolist()) == {LEAST_QOS}
    always_high = PoissonWorkload(kind="poisson", high_qos=(1, 1), high_qos_share=1)
    assert set(draw_qos(rng(), always_high, 100).tolist()) == {1.0}


def test_more_jobs_begin_with_the_same_qos() -> None:
    shares = Enrichment()
    np.testing.assert_array_equal(draw_qos(rng(), shares, 10), draw_qos(rng(), shares, 1000)[:10])


def test_bound_on_arrivals() -> None:
    assert most_jobs(100) == 100 + 80 + 16
    assert most_jobs(1) == 25
    assert most_jobs(2) == 2 + 12 + 16  # 8 sqrt(2) is 11.3
    for mean in (0.01, 1, 50):
        assert rng().poisson(mean, 100_000).max() < most_jobs(mean)
