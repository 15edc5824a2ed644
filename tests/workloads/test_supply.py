"""Episodes come with the power that feeds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlsched import scenario
from rlsched.power import model as power_model
from rlsched.power.series import PowerSeries
from rlsched.scenario import Cluster, Power
from rlsched.workloads.episodes import Episode
from rlsched.workloads.source import Source, open_source
from tests.workloads.swf_files import job_line, trace_file

HORIZON = 12


@dataclass
class Noise:
    """Power that is nothing but random numbers."""

    repairs: dict[str, int] = field(default_factory=lambda: {"blank_rows_filled": 3})

    def draw(self, rng: np.random.Generator, ticks: int) -> PowerSeries:
        return PowerSeries(rng.random(ticks), rng.random(ticks), int(rng.integers(2**31)))


@pytest.fixture
def power_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Power, Cluster]]:
    """What power was opened with; nothing but noise comes of it."""
    calls: list[tuple[Power, Cluster]] = []

    def open_power(power: Power, cluster: Cluster) -> Noise:
        calls.append((power, cluster))
        return Noise()

    monkeypatch.setattr(power_model, "open_power", open_power)
    return calls


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """100 jobs, one submitted every 10 s."""
    return trace_file(tmp_path, "; MaxProcs: 8", *(job_line(k, 10 * k, requested=10) for k in range(100)))


def opened(workload: dict[str, Any], power: Any, episode: dict[str, Any], units: int | None = 8) -> Source:
    values = {
        "cluster": {"resources": [{"units": units}]},
        "workload": workload,
        "power": power,
        "decision": {"horizon": HORIZON, "action_rule": "fit"},
        "episode": episode,
    }
    return open_source(scenario.parse(values, "test"))


POISSON = {"kind": "poisson", "long": [5, 9]}
MAX_TICKS = {"end": "max_ticks", "max_ticks": 40}
EPISODES = [{"jobs": None, **MAX_TICKS}, {"jobs": 20, **MAX_TICKS}, {"jobs": 20}]


def power_of(episode: Episode) -> PowerSeries:
    assert episode.power is not None
    return episode.power


def same(first: PowerSeries, second: PowerSeries) -> bool:
    return first.seed == second.seed and all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("supply_w", "carbon_g_per_kwh")
    )


@pytest.mark.parametrize("episode", EPISODES)
@pytest.mark.parametrize("kind", ["poisson", "swf"])
def test_series_last_for_the_episode_and_the_horizon(
    power_calls: list[Any], trace: Path, kind: str, episode: dict[str, Any]
) -> None:
    workload = POISSON if kind == "poisson" else {"kind": "swf", "file": str(trace)}
    source = opened(workload, {}, episode)
    for drawn in (source.training(np.random.default_rng(0)), source.evaluation(0, 0)):
        span = int(drawn.jobs.submit[-1] - drawn.jobs.submit[0]) + 1
        ticks = episode.get("max_ticks", span) + HORIZON + 1
        assert len(power_of(drawn).supply_w) == len(power_of(drawn).carbon_g_per_kwh) == ticks
    assert len(power_calls) == 1
    assert power_calls[0][0] == Power()
    assert source.repairs == {"blank_rows_filled": 3}


@pytest.mark.parametrize("offsets", [[], [0, 50]])
@pytest.mark.parametrize("kind", ["poisson", "swf"])
def test_evaluation_draws_separate_series(
    power_calls: list[Any], trace: Path, kind: str, offsets: list[int]
) -> None:
    workload = POISSON if kind == "poisson" else {"kind": "swf", "file": str(trace)}
    episode = {"jobs": 20, "offsets": offsets if kind == "swf" else []}
    source, again = (opened(workload, {}, episode) for _ in range(2))
    again.training(np.random.default_rng(0))
    first = power_of(source.evaluation(1, seed=5))
    assert same(first, power_of(again.evaluation(1, seed=5)))
    for index, seed in [(0, 5), (1, 6)]:
        assert not same(first, power_of(source.evaluation(index, seed)))
    rng = np.random.default_rng(5)
    trained = [power_of(source.training(rng)) for _ in range(2)]
    assert not same(*trained)
    assert not same(first, trained[0])
    assert same(trained[0], power_of(again.training(np.random.default_rng(5))))


@pytest.mark.parametrize("episode", EPISODES)
def test_jobs_are_those_without_power_and_weather_is_that_of_other_jobs(
    power_calls: list[Any], episode: dict[str, Any]
) -> None:
    with_power = opened(POISSON, {}, episode).evaluation(2, seed=1)
    without = opened(POISSON, None, episode).evaluation(2, seed=1)
    assert without.power is None
    np.testing.assert_array_equal(with_power.jobs.submit, without.jobs.submit)
    np.testing.assert_array_equal(with_power.jobs.qos, without.jobs.qos)
    if "max_ticks" in episode:
        heavier = opened({**POISSON, "load": 2.0}, {}, episode).evaluation(2, seed=1)
        assert same(power_of(heavier), power_of(with_power))


def test_the_whole_trace_has_power_in_every_evaluation(power_calls: list[Any], trace: Path) -> None:
    source = opened({"kind": "swf", "file": str(trace)}, {}, {"jobs": None}, units=None)
    assert power_calls[0][1].resources[0].units == 8
    first, second = source.evaluation(0, 0), source.evaluation(1, 0)
    assert len(first.jobs) == len(second.jobs) == 100
    assert len(power_of(first).supply_w) == 991 + HORIZON + 1
    assert not same(power_of(first), power_of(second))


def test_the_real_thing() -> None:
    source = opened(
        POISSON, {"kind": "synthetic", "level": 0.5, "probability": 0.5}, {"jobs": None, **MAX_TICKS}
    )
    power = power_of(source.evaluation(0, 0))
    assert set(power.supply_w.tolist()) == {800.0, 1600.0}
