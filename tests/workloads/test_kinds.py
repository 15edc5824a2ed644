"""Lublin's model with all of its settings, and mixtures of models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.workloads.days import DAY_S
from rlsched.workloads.lublin import LublinModel
from rlsched.workloads.models import KINDS, LublinJobs
from rlsched.workloads.statistics import Sample, statistics
from tests.workloads.opening import for_ticks, opened_model

MACHINE = ({"units": 128},)
JOBS = 20_000


def drawn(count: int = JOBS, **workload: Any) -> JobTable:
    source = opened_model({"kind": "lublin", **workload}, f"episode.jobs={count}", resources=MACHINE)
    return source.evaluation(0, 0).jobs


# By the constants of the authors' program: shares of sizes, and means of ln(runtime), a b of gammas.
@pytest.mark.parametrize(
    ("kind", "serial", "power", "short", "long", "widest"),
    [
        ("all", 0.244, 0.576, 4.2 * 0.94, 312 * 0.03, 128),
        ("batch", 0.2927, 0.6686, 6.57 * 0.823, 639.1 * 0.0156, 128),
        ("interactive", 0.1541, 0.625, 3.8351 * 0.6605, 7.073 * 0.6856, 45),
    ],
)
def test_published_statistics(
    kind: str, serial: float, power: float, short: float, long: float, widest: int
) -> None:
    jobs = drawn(40_000, jobs=kind)
    figures = statistics(Sample(kind, [jobs], 128, 1))
    assert figures.serial == pytest.approx(serial, abs=0.01)
    # Some of the other parallel jobs come to a power of two by chance.
    assert power - 0.01 <= figures.power_of_two <= power + 0.25 * (1 - serial - power) + 0.05
    assert jobs.demand.max() == widest
    # Serial jobs are short with probability pa + pb.
    alone = np.log(jobs.runtime[jobs.demand[:, 0] == 1] + 0.5)
    slope, constant = KINDS[kind][0]().runtime_mix
    expected = (slope + constant) * short + (1 - slope - constant) * long
    assert alone.mean() == pytest.approx(expected, abs=0.12)


def test_the_daily_cycle_may_be_left_out() -> None:
    hours = {}
    for cycle in (True, False):
        jobs = drawn(daily_cycle=cycle)
        hours[cycle] = Sample("", [jobs], 128, 1).hourly
    assert hours[True].max() > 8 * hours[True].min()
    assert hours[False].max() < 1.6 * hours[False].min()


def test_every_parameter_is_heard_of() -> None:
    plain = drawn()
    parameters = {
        "serial": 0.1,
        "power_of_two": 0.7,
        "size_low": 2.0,
        "size_middle": 1.0,
        "size_high": 5.0,
        "size_first": 0.5,
        "runtime_first": [3.0, 0.9],
        "runtime_second": [200.0, 0.03],
        "runtime_mix": [-0.001, 0.5],
        "arrival": [9.0, 0.5],
        "arrival_all_day": 1.1,
        "cycle": [5.0, 4.0],
    }
    for name, value in parameters.items():
        jobs = drawn(parameters={name: value})
        changed = [
            not np.array_equal(getattr(jobs, column), getattr(plain, column))
            for column in ("submit", "runtime", "demand")
        ]
        assert any(changed), name
        # Sizes and runtimes are drawn first: what arrivals are like does not change them.
        assert any(changed[1:]) == (name not in {"arrival", "arrival_all_day", "cycle"}), name
    jobs = drawn(parameters=parameters)
    assert jobs.demand.max() == 32
    assert (jobs.demand == 1).mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("load", [None, 0.6])
def test_interactive_and_batch_jobs_come_side_by_side(load: float | None) -> None:
    source = opened_model(
        {"kind": "lublin", "jobs": "apart", "load": load}, f"episode.jobs={JOBS}", resources=MACHINE
    )
    jobs = source.evaluation(3, 0).jobs
    assert (np.diff(jobs.submit) >= 0).all()
    assert jobs.id.tolist() == list(range(1, JOBS + 1))
    interactive = jobs.queue == 0
    assert set(jobs.queue.tolist()) == {0, 1}
    assert jobs.demand[interactive].max() <= 45
    assert np.median(jobs.runtime[interactive]) < np.median(jobs.runtime[~interactive]) / 2
    assert isinstance(source.model, LublinJobs)
    natural = [model.natural_load(128) for model in (LublinModel.interactive(), LublinModel.batch())]
    if load is not None:  # the kinds keep their shares of it
        loads = [model.load for model in source.model.models]
        assert loads == pytest.approx([load * share / sum(natural) for share in natural])


def test_the_first_jobs_are_of_all_kinds() -> None:
    source = opened_model(
        {"kind": "lublin", "jobs": "apart", "daily_cycle": False}, "episode.jobs=64", resources=MACHINE
    )
    episodes = [source.evaluation(k, 0).jobs.queue for k in range(600)]
    long = opened_model(
        {"kind": "lublin", "jobs": "apart", "daily_cycle": False}, "episode.jobs=100000", resources=MACHINE
    )
    share = (long.evaluation(0, 0).jobs.queue == 0).mean()
    for part in (slice(1), slice(1, 10), slice(64)):
        short_share = np.mean([(queue[part] == 0).mean() for queue in episodes])
        assert short_share == pytest.approx(share, abs=0.06), part


def test_a_gap_that_goes_on_is_a_long_one() -> None:
    model, rng = replace(LublinModel.batch(), cycle=None), np.random.default_rng(0)
    begin = 5 * DAY_S + 40_000
    first = [int(model.draw(rng, 1, 128, begin).submit[0]) - begin for _ in range(2000)]
    gaps = np.diff(model.draw(np.random.default_rng(1), 200_000, 128).submit).astype(float)
    # What is left is half of a gap drawn by its length: E[g^2] / (2 E[g]), far more than half a mean gap.
    assert min(first) >= -1
    assert np.median(first) > 2 * gaps.mean()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"runtime_second": [500, 0.03]}, "runtime_second"),
        ({"runtime_first": [60, 0.94]}, "runtime_first"),
        ({"arrival": [60, 0.4871]}, "arrival"),
        ({"cycle": [1000, 10]}, "cycle"),
    ],
)
def test_what_could_hardly_be_drawn_is_refused(parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(BadInputError, match=rf"^workload\.parameters\.{name}: value \["):
        opened_model({"kind": "lublin", "parameters": parameters}, resources=MACHINE)


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"jobs": "apart", "parameters": {"serial": 0.1}}, "workload.parameters.serial: has no effect with"),
        (
            {"parameters": {"serial": 0.9, "power_of_two": 0.2}},
            "workload.parameters.serial: and power_of_two are 1.1",
        ),
        ({"parameters": {"serial": 0.9}}, "workload.parameters.serial: value 0.9 and power_of_two 0.576"),
        ({"parameters": {"arrival": [1.0, -1.0]}}, "workload.parameters.arrival"),
        ({"jobs": "some"}, "workload.jobs"),
    ],
)
def test_invalid_settings(workload: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        opened_model({"kind": "lublin", **workload}, resources=MACHINE)
    assert message in str(caught.value)


PARTS: dict[str, Any] = {
    "kind": "mixture",
    "parts": [
        {"share": 3, "workload": {"kind": "lublin", "load": 0.5}},
        {"workload": {"kind": "lublin", "load": 1.5, "estimates": {"kind": "gaussian", "side": "over"}}},
    ],
}


def test_episodes_of_a_mixture_are_of_one_part_each() -> None:
    source = opened_model(PARTS, "episode.jobs=20", resources=MACHINE)
    exact = [
        np.array_equal(jobs.requested, jobs.runtime)
        for jobs in (source.evaluation(k, 0).jobs for k in range(400))
    ]
    assert np.mean(exact) == pytest.approx(0.75, abs=0.07)
    again = source.evaluation(7, 0).jobs
    assert np.array_equal(again.submit, source.evaluation(7, 0).jobs.submit)


def test_mixtures_with_a_horizon() -> None:
    short = {"kind": "poisson", "long": [10, 20]}
    long = {"kind": "poisson", "long": [30, 60], "load": 0.3}
    parts = {"kind": "mixture", "parts": [{"workload": short}, {"workload": long}]}
    with pytest.raises(BadInputError, match=r"value 48 .* 60 ticks \(workload\.parts\.1\.workload\.long\)"):
        opened_model(parts, "decision={action_rule: fit, horizon: 48}", *for_ticks(100))
    source = opened_model(parts, "decision={action_rule: fit, horizon: 60}", *for_ticks(100))
    longest = [source.evaluation(k, 0).jobs.runtime.max() for k in range(40)]
    assert min(longest) <= 20 < max(longest)
    assert all(len(source.evaluation(k, 0).jobs) <= source.max_jobs for k in range(40))


def test_a_mixture_of_nothing_is_refused() -> None:
    with pytest.raises(BadInputError, match="parts"):
        opened_model({"kind": "mixture", "parts": []}, resources=MACHINE)
