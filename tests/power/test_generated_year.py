"""The generated year that comes with the package."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlsched.jobs import FloatArray
from rlsched.power import table
from rlsched.power.model import GENERATED_YEAR
from rlsched.power.table import PowerTable
from rlsched.scenario import PowerColumns

ROOT = Path(__file__).resolve().parents[2]
DAYS = 365


def read(path: Path = GENERATED_YEAR) -> PowerTable:
    names = PowerColumns()
    assert names.carbon is not None
    return table.read(
        path, time=names.time, columns={"wind": names.wind, "solar": names.solar, "carbon": names.carbon}
    )


@pytest.fixture(scope="module")
def year() -> PowerTable:
    return read()


@pytest.fixture(scope="module")
def solar(year: PowerTable) -> FloatArray:
    """(days, hours)."""
    return year.columns["solar"].reshape(DAYS, 24)


def correlation(values: FloatArray, lag: int) -> float:
    return float(np.corrcoef(values[lag:], values[:-lag])[0, 1])


def test_it_is_what_its_script_writes(tmp_path: Path) -> None:
    path = tmp_path / "again.csv.gz"
    subprocess.run([sys.executable, ROOT / "datasets" / "make_power_year.py", path], check=True, timeout=120)
    # exp() may differ in the last bit between processors, which can move a rounded value by one
    shipped, made = read(), read(path)
    for role, values in shipped.columns.items():
        np.testing.assert_allclose(made.columns[role], values, rtol=0, atol=1)
    first = gzip.decompress(GENERATED_YEAR.read_bytes()).splitlines()[0]
    assert gzip.decompress(path.read_bytes()).splitlines()[0] == first


def test_it_is_a_small_file_of_one_year_by_the_hour(year: PowerTable) -> None:
    assert GENERATED_YEAR.stat().st_size < 150_000
    assert (year.start, year.step_s, year.steps) == (pd.Timestamp("2001-01-01", tz="UTC"), 3600, 8760)
    assert year.repairs == {}


def test_nights_are_dark_and_noons_are_not(solar: FloatArray) -> None:
    assert not solar[:, :4].any()
    assert not solar[:, 20:].any()
    assert (solar[:, 12] > 0).all()
    assert (solar.mean(axis=0).argmax()) in (11, 12)


def test_days_are_longest_in_june(solar: FloatArray) -> None:
    hours = (solar > 0).sum(axis=1)
    june, december = hours[151:181].mean(), hours[334:].mean()
    assert june >= 14
    assert december <= 11
    assert hours[160:185].max() == hours.max()
    # brighter, too
    assert solar[151:181].mean() > 2 * solar[334:].mean()


def test_skies_differ_and_clouds_stay(solar: FloatArray) -> None:
    noon = solar[:, 12]
    summer = noon[151:243]
    assert summer.max() > 2 * summer.min()
    assert summer.max() < 1000  # kW per MW, at the latitude of the sites
    assert correlation(solar.sum(axis=1), 1) > 0.5


def test_wind_comes_and_goes_slowly(year: PowerTable) -> None:
    wind = year.columns["wind"]
    assert correlation(wind, 1) > 0.8
    assert 0.2 < correlation(wind, 24) < 0.8
    assert (wind < 100).mean() > 0.1
    assert (wind > 700).mean() > 0.05
    steps = np.abs(np.diff(wind))
    assert np.quantile(steps, 0.99) < 300  # eight sites do not start and stop together


def test_wind_blows_more_at_night_and_in_spring(year: PowerTable) -> None:
    wind = year.columns["wind"].reshape(DAYS, 24)
    assert wind[:, [20, 21, 22, 23, 0]].mean() > 1.2 * wind[:, 8:13].mean()
    assert wind[60:151].mean() > wind[182:274].mean()


def test_capacity_factors_are_those_of_real_fleets(year: PowerTable) -> None:
    """In the real files wind is at 0.26 to 0.46 of its highest value on average, sun at 0.22 to 0.30."""
    wind, solar = (year.columns[role] / year.columns[role].max() for role in ("wind", "solar"))
    assert 0.25 < wind.mean() < 0.45
    assert 0.17 < solar.mean() < 0.30


def test_the_grid_is_cleaner_when_the_sun_shines(year: PowerTable) -> None:
    carbon, solar = year.columns["carbon"], year.columns["solar"]
    assert carbon.min() > 0
    assert 150 < carbon.mean() < 400
    assert carbon.max() < 500
    by_hour = carbon.reshape(DAYS, 24).mean(axis=0)
    assert by_hour.argmin() in range(9, 14)
    assert by_hour.argmax() in range(17, 22)
    assert carbon[solar > 300].mean() < 0.7 * carbon[solar == 0].mean()
    assert np.corrcoef(carbon, solar)[0, 1] < -0.5
