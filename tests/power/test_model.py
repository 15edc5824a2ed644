"""From power settings to the supply of an episode: levels, blocks, scaling, and what is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rlsched.errors import BadInputError
from rlsched.power import table
from rlsched.power.model import PowerModel, full_draw_w, open_power
from rlsched.power.series import PowerSeries
from rlsched.power.table import PowerTable
from rlsched.scenario import Power, PowerColumns, ResolvedCluster, ResolvedResource
from tests.power.files import five_hours, power_file, rows_of

CLUSTER = ResolvedCluster(tick_s=3600, resources=(ResolvedResource(units=10, idle_w=100, full_w=200),))
FULL_W = 2000.0


def opened(cluster: ResolvedCluster = CLUSTER, **power: Any) -> PowerModel:
    return open_power(Power(**power), cluster)


def drawn(model: PowerModel, ticks: int, seed: int = 0) -> PowerSeries:
    return model.draw(np.random.default_rng(seed), ticks)


def starting_at(model: PowerModel, supply: float, ticks: int) -> PowerSeries:
    """The first of many draws that begins with this supply."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        if (series := model.draw(rng, ticks)).supply_w[0] == supply:
            return series
    raise AssertionError(f"none of 200 draws begins with {supply} W")


def test_full_draw_adds_up_resources_at_their_load() -> None:
    two = ResolvedCluster(
        resources=(
            ResolvedResource(units=10, idle_w=100, full_w=200),
            ResolvedResource(name="gpus", units=3, idle_w=40, full_w=300),
        )
    )
    assert full_draw_w(two, 1.0) == 10 * 200 + 3 * 300
    assert full_draw_w(two, 0.0) == 10 * 100 + 3 * 40
    assert full_draw_w(two, 0.25) == 10 * 125 + 3 * 105
    assert opened(two, utilization=0.25).full_w == 10 * 125 + 3 * 105


def test_constant() -> None:
    series = drawn(opened(level=0.75, carbon_g_per_kwh=123), 4)  # repeats
    assert series.supply_w.tolist() == [0.75 * FULL_W]
    assert series.carbon_g_per_kwh.tolist() == [123]
    assert drawn(opened(utilization=0.5), 1).supply_w.tolist() == [1500]


def test_synthetic_blocks() -> None:
    series = drawn(opened(kind="synthetic", level=0.5, probability=0.5, block=3, carbon_g_per_kwh=9), 301)
    blocks = series.supply_w[:300].reshape(100, 3)
    assert (blocks == blocks[:, :1]).all()
    assert set(blocks[:, 0]) == {0.5 * FULL_W, FULL_W}
    assert series.supply_w.shape == series.carbon_g_per_kwh.shape == (301,)
    assert set(series.carbon_g_per_kwh) == {9}


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_share_of_blocks_at_level(probability: float) -> None:
    blocks = 20_000
    series = drawn(opened(kind="synthetic", level=0.8, probability=probability, block=2), 2 * blocks)
    low = series.supply_w[::2] == 0.8 * FULL_W
    error = np.sqrt(probability * (1 - probability) / blocks)
    assert abs(low.mean() - probability) <= 4 * error
    # and blocks are independent
    low_pairs = (low[1:] & low[:-1]).mean()
    assert abs(low_pairs - probability**2) <= 8 * error


def test_columns_are_scaled_to_their_peaks_and_added(tmp_path: Path) -> None:
    path = power_file(tmp_path, *five_hours())
    model = opened(kind="series", file=path, wind_kw=1, solar_kw=4)
    wind = [200, 400, 600, 800, 1000]  # 1..5, highest 5 -> 1 kW
    solar = [0, 0, 2000, 4000, 2000]  # highest 20 -> 4 kW
    series = starting_at(model, 200, 12)
    year = [w + s for w, s in zip(wind, solar, strict=True)]
    assert series.supply_w.tolist() == pytest.approx([*year, *year, *year[:2]])
    assert series.carbon_g_per_kwh.tolist() == [400, 300, 200, 100, 200] * 2 + [400, 300]


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        ({}, [400 + 0, 800 + 0, 1200 + 1000, 1600 + 2000, 2000 + 1000]),
        ({"wind_kw": 0}, [0, 0, 1000, 2000, 1000]),
        ({"solar_kw": 0}, [400, 800, 1200, 1600, 2000]),
        ({"wind_kw": 0, "solar_kw": 0}, [0, 0, 0, 0, 0]),
        ({"solar_kw": 0.02, "wind_kw": 0}, [0, 0, 10, 20, 10]),
    ],
)
def test_peaks_left_out_are_the_full_draw_and_may_be_0(
    tmp_path: Path, peaks: dict[str, Any], expected: list[float]
) -> None:
    series = drawn(opened(kind="series", file=power_file(tmp_path, *five_hours()), **peaks), 5)
    turned = [np.roll(expected, -k) for k in range(5)]
    assert any(np.allclose(series.supply_w, values, rtol=1e-14) for values in turned)


def test_ticks_of_another_length_get_weighted_means(tmp_path: Path) -> None:
    path = power_file(tmp_path, *rows_of([4, 2, 1], [0, 0, 1], [300, 200, 100]))
    power = {"kind": "series", "file": path, "wind_kw": 4, "solar_kw": 0}
    half = starting_at(opened(CLUSTER.model_copy(update={"tick_s": 1800}), **power), 4000, 7)
    assert half.supply_w.tolist() == [4000, 4000, 2000, 2000, 1000, 1000, 4000]
    assert half.carbon_g_per_kwh.tolist() == [300, 300, 200, 200, 100, 100, 300]
    longer = starting_at(opened(CLUSTER.model_copy(update={"tick_s": 5400}), **power), 5000 / 1.5, 2)
    assert longer.supply_w.tolist() == pytest.approx([5000 / 1.5, 2000 / 1.5])
    assert longer.carbon_g_per_kwh.tolist() == pytest.approx([400 / 1.5, 200 / 1.5])


def test_half_hourly_files_keep_their_step(tmp_path: Path) -> None:
    lines = rows_of([0, 2, 4, 6], [1] * 4, [10, 20, 30, 50], step_s=1800)
    model = opened(kind="series", file=power_file(tmp_path, *lines), wind_kw=6, solar_kw=0)
    series = starting_at(model, 1000, 2)
    assert series.supply_w.tolist() == [1000, 5000]
    assert series.carbon_g_per_kwh.tolist() == [15, 40]


def test_other_columns_and_no_carbon(tmp_path: Path) -> None:
    path = power_file(tmp_path, "t,pv", "2022-01-01 00:00,1", "2022-01-01 01:00,1")
    columns = PowerColumns(time="t", solar="pv", carbon=None)
    series = drawn(opened(kind="series", file=path, columns=columns, wind_kw=0, carbon_g_per_kwh=7), 3)
    assert series.supply_w.tolist() == [FULL_W] * 3
    assert series.carbon_g_per_kwh.tolist() == [7, 7, 7]


def test_repairs_are_handed_on(tmp_path: Path) -> None:
    lines = rows_of([1, "", 3], [1, "", 1], [9, "", 9])
    model = opened(kind="series", file=power_file(tmp_path, *lines))
    assert model.repairs == {table.BLANK_ROWS_FILLED: 1}
    assert opened().repairs == {}


@pytest.mark.parametrize(
    ("kind", "more"),
    [("constant", {"level": 0.5}), ("synthetic", {"level": 0.5, "probability": 0.5}), ("series", {})],
)
def test_the_same_seed_gives_the_same_series(kind: str, more: dict[str, float]) -> None:
    model = opened(kind=kind, **more)
    first, again, different = (drawn(model, 100, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.supply_w, again.supply_w)
    np.testing.assert_array_equal(first.carbon_g_per_kwh, again.carbon_g_per_kwh)
    assert first.seed == again.seed != different.seed
    assert 0 <= first.seed < 2**62
    assert kind == "constant" or (first.supply_w != different.supply_w).any()
    # a longer episode begins like a shorter one
    np.testing.assert_array_equal(drawn(model, 300, 3).supply_w[:100], first.supply_w)


def test_every_step_may_be_the_first(tmp_path: Path) -> None:
    model = opened(kind="series", file=power_file(tmp_path, *five_hours()), solar_kw=0, wind_kw=5)
    rng = np.random.default_rng(0)
    begins = [model.draw(rng, 1).supply_w[0] for _ in range(5000)]
    values, counts = np.unique(begins, return_counts=True)
    assert values.tolist() == pytest.approx([1000, 2000, 3000, 4000, 5000])
    assert abs(counts - 1000).max() < 150  # five standard deviations


def test_drawing_is_cheap() -> None:
    rng = np.random.default_rng(0)
    for tick_s in (60, 3600, 86_400):
        model = opened(CLUSTER.model_copy(update={"tick_s": tick_s}), kind="series")
        draws: tuple[Callable[[], object], ...] = (partial(rng.random, 2000), partial(model.draw, rng, 2000))
        seconds: list[list[float]] = [[], []]
        for _ in range(20):
            for draw, elapsed in zip(draws, seconds, strict=True):
                begin = time.perf_counter()
                draw()
                elapsed.append(time.perf_counter() - begin)
        assert min(seconds[1]) < 100 * min(seconds[0])  # about 10 times


def test_a_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = table.read

    def counted(*args: Any, **kwargs: Any) -> PowerTable:
        reads.append(args)
        return read(*args, **kwargs)

    monkeypatch.setattr(table, "read", counted)
    path = power_file(tmp_path, *five_hours())
    opened(kind="series", file=path)
    opened(kind="series", file=path, wind_kw=7)
    assert len(reads) == 1
    power_file(tmp_path, *five_hours()[:4])
    os.utime(path, ns=(1, 1))
    opened(kind="series", file=path)
    opened(kind="series", file=path, wind_kw=0)  # other columns
    assert len(reads) == 3


@pytest.mark.parametrize(
    ("role", "lines"),
    [("wind", rows_of([0] * 3, [1] * 3, [1] * 3)), ("solar", rows_of([1] * 3, [0] * 3, [1] * 3))],
)
def test_a_column_of_zeros_has_no_peak(tmp_path: Path, role: str, lines: list[str]) -> None:
    path = power_file(tmp_path, *lines)
    peak: dict[str, Any] = {f"{role}_kw": 5}
    with pytest.raises(BadInputError) as caught:
        opened(kind="series", file=path, **peak)
    name = {"wind": "WND", "solar": "SUN"}[role]
    assert caught.value.where == str(path)
    assert caught.value.problem == f"column {name!r} is zero throughout and cannot be scaled to 5 kW"
    assert caught.value.remedy == f"set power.{role}_kw=0, or power.columns.{role} to another column"
    peak = {f"{role}_kw": 0}
    assert opened(kind="series", file=path, **peak).full_w == FULL_W


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"none.csv: no such file; give a CSV"):
        opened(kind="series", file=tmp_path / "none.csv")


def test_clusters_without_draw_are_refused() -> None:
    idle = ResolvedCluster(resources=(ResolvedResource(units=4, idle_w=0, full_w=100),))
    with pytest.raises(BadInputError, match=r"power.utilization: value 0: .* draws 0 W"):
        opened(idle, utilization=0)
    with pytest.raises(ValidationError):
        Power(utilization=1.5)
