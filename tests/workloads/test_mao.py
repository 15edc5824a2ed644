"""Bernoulli arrivals of jobs with a dominant resource."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.scenario import MaoWorkload
from rlsched.workloads.random_arrivals import MaoModel
from tests.workloads.opening import cluster, for_ticks, opened_model

MAO = {"kind": "mao"}
TWICE_TWENTY = ({"units": 20}, {"name": "memory", "units": 20})


def mao(*resources: dict[str, Any], **workload: Any) -> MaoModel:
    return MaoModel.of(MaoWorkload(kind="mao", **workload), cluster(*resources))


def test_spans_by_hand() -> None:
    """Those of DeepRM: machines of twice 10 slots, of which a job may ask for up to 10."""
    assert (mao(*TWICE_TWENTY).dominant, mao(*TWICE_TWENTY).minor) == (((5, 10),) * 2, ((1, 2),) * 2)
    model = mao({"units": 100}, {"units": 2}, max_demand=0.5, dominant=(0.33, 0.8), minor=(0, 0.2))
    assert model.dominant == ((16, 40), (1, 1))  # 16.5 goes to the even neighbour
    assert model.minor == ((1, 10), (1, 1))


def test_each_resource_dominates_as_often() -> None:
    demand = mao(*TWICE_TWENTY).draw(np.random.default_rng(0), 60_000).demand
    first = demand[:, 0] >= 5
    np.testing.assert_array_equal(first, demand[:, 1] < 5)
    assert first.mean() == pytest.approx(0.5, abs=0.01)
    for dominates, column in [(first, 0), (~first, 1)]:
        values, counts = np.unique(demand[dominates, column], return_counts=True)
        assert values.tolist() == [5, 6, 7, 8, 9, 10]
        assert counts / dominates.sum() == pytest.approx(1 / 6, abs=0.01)
        values, counts = np.unique(demand[dominates, 1 - column], return_counts=True)
        assert values.tolist() == [1, 2]
        assert counts / dominates.sum() == pytest.approx(1 / 2, abs=0.015)


def test_a_single_resource_always_dominates() -> None:
    assert mao({"units": 20}).draw(np.random.default_rng(0), 2000).demand.min() == 5


def test_other_columns() -> None:
    jobs = mao(*TWICE_TWENTY).draw(np.random.default_rng(0), 20_000)
    assert set(jobs.runtime.tolist()) == {1, 2, 3, *range(10, 16)}
    assert np.mean(jobs.runtime >= 10) == pytest.approx(0.2, abs=0.012)
    np.testing.assert_array_equal(jobs.requested, jobs.runtime)
    assert set(jobs.qos.tolist()) == {1.0}


@pytest.mark.parametrize("rate", [0.1, 0.7])
def test_a_job_a_tick_at_most_with_the_same_chance(rate: float) -> None:
    source = opened_model({**MAO, "rate": rate}, *for_ticks(50), resources=TWICE_TWENTY)
    arrivals = np.zeros((1000, 50))
    for seed in range(1000):
        submit = source.training(np.random.default_rng(seed)).jobs.submit
        assert (np.diff(submit) >= 1).all()
        arrivals[seed, submit] = 1
    assert (arrivals[:, 0] == 1).all()
    assert arrivals[:, 1:].mean() == pytest.approx(rate, abs=3 * np.sqrt(rate * (1 - rate) / 49_000))
    assert arrivals[:, 1:].mean(axis=0) == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / 1000))
    assert source.max_jobs <= 50


def test_offered_load() -> None:
    """A job is 0.7 a tick x (0.8 x 2 + 0.2 x 12.5) ticks x (7.5 + 1.5) / 2 units of each resource of 20."""
    source = opened_model(MAO, *for_ticks(200), resources=TWICE_TWENTY)
    offered = []
    for seed in range(300):
        jobs = source.training(np.random.default_rng(seed)).jobs
        work = (jobs.demand * jobs.runtime[:, None])[1:].sum(axis=0)
        offered.append(work / (20 * 199))
    error = np.std(offered, axis=0) / np.sqrt(len(offered))
    assert (abs(np.mean(offered, axis=0) - 0.7 * 4.1 * 4.5 / 20) < 3 * error).all()


def test_always_a_job() -> None:
    source = opened_model({**MAO, "rate": 1}, *for_ticks(9), resources=TWICE_TWENTY)
    assert source.evaluation(0, 0).jobs.submit.tolist() == list(range(9))
    assert source.max_jobs == 9


def test_so_many_jobs_whatever_the_end() -> None:
    for end in ("{jobs: 40, end: max_ticks, max_ticks: 3}", "{jobs: 40, end: no_new_job}"):
        source = opened_model(MAO, f"episode={end}", resources=TWICE_TWENTY)
        first, again = (source.evaluation(2, seed=1).jobs for _ in range(2))
        assert len(first) == source.max_jobs == 40
        np.testing.assert_array_equal(first.demand, again.demand)
        np.testing.assert_array_equal(first.submit, again.submit)


def test_nodes_are_whole_resource_by_resource() -> None:
    resources = (TWICE_TWENTY[0], {"name": "memory", "units": 21, "units_per_node": 4})
    source = opened_model({**MAO, "max_demand": 1}, "episode.jobs=500", resources=resources)
    demand = source.training(np.random.default_rng(0)).jobs.demand
    assert set(demand[:, 1].tolist()) == {4, 12, 16, 20}
    assert demand[:, 0].max() == 20


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["workload.max_demand=0.04"],
            "workload.max_demand: value 0.04 is less than one unit of 20 processors",
        ),
        (["cluster.resources.1.units=1"], "workload.max_demand: value 0.5 is less than one unit of 1 memory"),
        (["cluster.resources.1.units=null"], "cluster.resources.1.units: value None: a workload"),
        (["episode.jobs=null"], "a model draws any number of jobs"),
    ],
)
def test_what_does_not_fit_is_refused_on_opening(overrides: list[str], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        opened_model(MAO, *overrides, resources=TWICE_TWENTY)
    assert message in str(caught.value)
