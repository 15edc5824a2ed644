"""Poisson arrivals against exact expectations."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.scenario import PoissonWorkload
from rlsched.workloads.random_arrivals import PoissonModel, mean_demand, mean_runtime
from tests.workloads.opening import TEN_AND_FOUR, cluster, for_ticks, opened_model

POISSON = {"kind": "poisson"}


def poisson(*resources: dict[str, Any], **workload: Any) -> PoissonModel:
    return PoissonModel.of(PoissonWorkload(kind="poisson", **workload), cluster(*resources))


@pytest.mark.parametrize("largest", [(1,), (5,), (2, 1), (0, 3), (3, 0, 2)])
def test_mean_demand_is_that_of_all_outcomes_but_nothing(largest: tuple[int, ...]) -> None:
    outcomes = [demand for demand in product(*(range(most + 1) for most in largest)) if any(demand)]
    assert mean_demand(largest) == pytest.approx(np.mean(outcomes, axis=0).tolist(), rel=1e-12)


def test_rate_by_hand() -> None:
    """Demands on 0..2 and 0..1 but not both 0 are 1.2 of 4 and 0.6 of 2 units; a runtime is 2.75 ticks."""
    settings = {"short": (1, 3), "long": (4, 6), "long_share": 0.25, "load": 0.825}
    model = poisson({"units": 4}, {"units": 2}, **settings)
    assert model.largest == (2, 1)
    assert mean_runtime(model.workload) == 2.75
    assert model.rate == pytest.approx(1.0)
    # With three units instead of two the first resource is the busiest one, and the rate is the same.
    assert poisson({"units": 4}, {"units": 3}, **settings).rate == pytest.approx(1.0)


def test_all_demands_have_the_same_chance() -> None:
    demand = poisson({"units": 4}, {"units": 2}).draw(np.random.default_rng(0), 50_000).demand
    outcomes, counts = np.unique(demand, axis=0, return_counts=True)
    assert outcomes.tolist() == [[0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert counts == pytest.approx(10_000, abs=4 * 100)


def test_moments_of_the_defaults() -> None:
    jobs = poisson({"units": 10}).draw(np.random.default_rng(1), 50_000)
    assert set(jobs.demand[:, 0].tolist()) == {1, 2, 3, 4, 5}
    assert jobs.demand.mean() == pytest.approx(3, abs=4 * np.sqrt(2 / 50_000))
    assert (jobs.runtime.min(), jobs.runtime.max()) == (1, 30)
    assert jobs.runtime.mean() == pytest.approx(0.7 * 5.5 + 0.3 * 20, rel=0.02)
    np.testing.assert_array_equal(jobs.requested, jobs.runtime)
    assert jobs.qos.mean() == pytest.approx(0.6 * 0.8 + 0.4 * 0.35, rel=0.01)
    for first, second in [("runtime", "demand"), ("demand", "qos"), ("runtime", "qos")]:
        pair = [getattr(jobs, name).ravel().astype(float) for name in (first, second)]
        assert abs(np.corrcoef(*pair)[0, 1]) < 0.02


@pytest.mark.parametrize("load", [0.05, 0.9, 4.0])
def test_offered_load_of_episodes(load: float) -> None:
    """Work that comes after the first tick, in which a job comes for sure, over capacity.

    Demands on 0..5 of 10 and 0..2 of 4: both resources are as busy.
    """
    source = opened_model({**POISSON, "load": load}, *for_ticks(200))
    offered = []
    for seed in range(200):
        jobs = source.training(np.random.default_rng(seed)).jobs
        work = (jobs.demand * jobs.runtime[:, None])[jobs.submit > 0].sum(axis=0)
        offered.append(work / (np.array([10, 4]) * 199))
    mean, error = np.mean(offered, axis=0), np.std(offered, axis=0) / np.sqrt(len(offered))
    assert (abs(mean - load) < 3 * error).all()


@pytest.mark.parametrize("rate", [0.2, 3.0])
def test_arrivals_are_a_poisson_process_from_the_tick_of_the_first_job_on(rate: float) -> None:
    model = PoissonModel(PoissonWorkload(kind="poisson"), (1,), rate)
    counts = []
    for seed in range(4000):
        submit = model.draw(np.random.default_rng(seed), model.most_jobs(8)).submit
        counts.append(np.bincount(submit[submit < 8], minlength=8))
    means, errors = np.mean(counts, axis=0), np.std(counts, axis=0) / np.sqrt(len(counts))
    assert min(count[0] for count in counts) == 1
    assert means[0] == pytest.approx(rate / (1 - exp(-rate)), abs=3.5 * errors[0])
    np.testing.assert_allclose(means[1:], rate, atol=3.5 * errors[1:].max())
    later = np.array(counts)[:, 1:].ravel()
    assert later.var() == pytest.approx(rate, rel=0.05)
    assert np.mean(later == 0) == pytest.approx(exp(-rate), abs=4 * np.sqrt(0.25 / len(later)))


def test_bound_is_on_the_mean_of_an_episode() -> None:
    model = PoissonModel(PoissonWorkload(kind="poisson"), (1,), 2.0)
    mean = 2 / (1 - exp(-2)) + 49 * 2
    assert model.most_jobs(50) == np.ceil(mean + 8 * np.sqrt(mean)) + 16
    assert PoissonModel(PoissonWorkload(kind="poisson"), (1,), 1e-9).most_jobs(5) == 9 + 16 + 1


def test_an_episode_is_all_jobs_of_its_ticks_or_so_many() -> None:
    source = opened_model(POISSON, *for_ticks(30))
    for seed in range(50):
        jobs = source.training(np.random.default_rng(seed)).jobs
        assert 1 <= len(jobs) <= source.max_jobs
        assert (jobs.submit[0], jobs.id[0]) == (0, 1)
        assert jobs.submit[-1] < 30
        assert (np.diff(jobs.submit) >= 0).all()
    for end in ("{jobs: 40, end: max_ticks, max_ticks: 3}", "{jobs: 40}"):
        counted = opened_model(POISSON, f"episode={end}")
        assert counted.max_jobs == 40
        assert len(counted.training(np.random.default_rng(0)).jobs) == 40


def test_a_lone_job_and_a_quiet_cluster() -> None:
    quiet = opened_model({**POISSON, "load": 1e-9}, *for_ticks(100))
    assert len(quiet.training(np.random.default_rng(0)).jobs) == 1
    assert opened_model(POISSON, "episode.jobs=1").training(np.random.default_rng(0)).jobs.submit[0] == 0


def test_longer_episodes_than_the_bound_are_cut() -> None:
    source = opened_model({**POISSON, "load": 4}, *for_ticks(30))
    whole = source.training(np.random.default_rng(0)).jobs
    assert len(whole) > 5
    assert len(replace(source, max_jobs=5).training(np.random.default_rng(0)).jobs) == 5


def test_nodes_are_whole_resource_by_resource() -> None:
    resources = ({"units": 11, "units_per_node": 4}, {"name": "memory", "units": 4})
    source = opened_model({**POISSON, "max_demand": 1}, "episode.jobs=2000", resources=resources)
    demand = source.training(np.random.default_rng(0)).jobs.demand
    assert set(demand[:, 0].tolist()) == {0, 4, 8}
    assert set(demand[:, 1].tolist()) == {0, 1, 2, 3, 4}


def test_the_share_of_units_may_lie_a_rounding_error_below() -> None:
    assert poisson({"units": 100}, max_demand=0.29).largest == (29,)  # 0.29 * 100 is 28.999999999999996


def test_evaluation_is_the_same_at_every_call() -> None:
    source, again = (opened_model(POISSON, *for_ticks(50)) for _ in range(2))
    again.training(np.random.default_rng(1))
    for name in ("submit", "runtime", "demand", "qos"):
        drawn = [getattr(s.evaluation(3, seed=1).jobs, name) for s in (source, again)]
        np.testing.assert_array_equal(*drawn)
    assert (source.evaluation(4, seed=1).jobs.qos[0]) != source.evaluation(3, seed=1).jobs.qos[0]
    assert (source.evaluation(3, seed=2).jobs.qos[0]) != source.evaluation(3, seed=1).jobs.qos[0]


def test_one_resource_that_nobody_can_ask_for_is_allowed_but_not_all() -> None:
    demand = opened_model({**POISSON, "max_demand": 0.2}).training(np.random.default_rng(0)).jobs.demand
    assert (demand.min(axis=0).tolist(), demand.max(axis=0).tolist()) == ([1, 0], [2, 0])
    message = r"workload.max_demand: value 0.01 is less than one unit of 10; set a larger share"
    with pytest.raises(BadInputError, match=message):
        opened_model({**POISSON, "max_demand": 0.01})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["episode.jobs=null"],
            "episode.jobs: value None: a model draws any number of jobs; set",
        ),
        (["episode.offsets=[1]"], "episode.offsets: are rows of a trace"),
        (
            ["cluster.resources.1.units=null"],
            "cluster.resources.1.units: value None: a workload does not say how much memory there is; "
            "add --set cluster.resources.1.units=N",
        ),
        (
            ["cluster.resources.0.units=null"],
            "workload: the poisson model: does not say how many processors the machine has; "
            "add --set cluster.resources.0.units=N",
        ),
        (["cluster.resources.1.units_per_node=5"], "resources.1.units_per_node: value 5 is more than the 4"),
        (["cluster.resources.1.units=2000000000"], "resources.1.units: value 2000000000; use at most"),
    ],
)
def test_what_does_not_fit_is_refused_on_opening(overrides: list[str], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        opened_model(POISSON, *overrides, resources=TEN_AND_FOUR)
    assert message in str(caught.value)
