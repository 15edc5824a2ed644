"""Write rlsched/power/generated-year.csv.gz: the power series that rlsched ships.

    python datasets/make_power_year.py [file]

Generated, no real weather and no real grid. A year of 365 days by the hour, in the columns of the
real files: WND and SUN in kW per MW of installed power, avg_CI in gCO2/kWh. It stands for a fleet of
`SITES` sites at latitude `LATITUDE` and longitude 0, so that noon is 12:00 UTC. Both skies and winds
are normal processes that forget exponentially (AR(1)), shared between sites in part, and then mapped
to the distributions below:

- sun: declination of Cooper (Solar Energy 12, 1969), no equation of time; clear-sky irradiance of
  Haurwitz (J. Meteorology 2, 1945), 1098 cos(z) exp(-0.059 / cos(z)) W/m2 at zenith z; under a
  covered share N of the sky, 1 - 0.75 N^3.4 of it [Kasten and Czeplak 1980]. Panels
  lie flat and give their rated power at 1,000 W/m2.
- wind: speeds at the hub are Weibull-distributed with shape 2 (the Rayleigh distribution of IEC
  61400-1); a turbine gives power in proportion to the cube of speed between `CUT_IN` and `RATED`,
  its rated power up to `CUT_OUT`.
- carbon intensity: fossil plants fill what sun, wind, water and nuclear power leave of a demand with
  an evening peak. Its constants, like those of season, day and memory, are chosen for a plausible
  look (capacity factors, autocorrelation and intensity like those of grids in the western US), and
  fitted to nothing.

The same text at every run on one machine; another processor's exp() may move a last digit.
"""

from __future__ import annotations

import gzip
import sys
from math import erf, erfc, exp, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlsched.files import write_whole

Array = NDArray[np.float64]

SEED = 5
YEAR = "2001"
"""A year of 365 days."""
HOURS = 8760
SITES = 8
LATITUDE = np.radians(37.0)

SKY_MEMORY_H = (18.0, 4.0)
"""Hours after which exp(-1) is left of what sites share and of what is their own."""
SKY_SHARED = 0.6
"""Share of the variance that all sites have in common."""
SKY_SPREAD = 1.6
"""Of the normal process that becomes cover: above 1, clear and overcast are the commonest skies."""
SKY_WINTER = (-0.4, 0.5)
"""Mean of that process over the year, and how much more in January than then."""

WIND_MEMORY_H = (40.0, 8.0)
WIND_SHARED = 0.55
WEIBULL_SHAPE = 2.0
WEIBULL_SCALE = 8.3
"""m/s at the hub; a mean of 7.4 m/s."""
WIND_SPRING = 0.10
"""How much faster in April than over the year, as a share."""
WIND_NIGHT = 0.10
"""How much faster at 22:00 than over the day, as a share."""
CUT_IN, RATED, CUT_OUT = 3.0, 12.0, 25.0
"""m/s."""

DEMAND_EVENING = 0.15
"""How much more at 18:00 than over the day, as a share."""
SUN_SHARE, WIND_SHARE, CLEAN_SHARE = 0.50, 0.30, 0.25
"""Installed sun and wind, and steady clean power, as shares of mean demand."""
FOSSIL_G = 480.0
"""gCO2/kWh of the fossil plants."""


def main(path: Path) -> None:
    """Draw the weather and write what it gives."""
    rng = np.random.default_rng(SEED)
    hour = np.arange(HOURS, dtype=np.float64)
    sun, wind = sun_share(rng, hour), wind_share(rng, hour)
    columns = [np.rint(1000 * wind), np.rint(1000 * sun), np.rint(carbon_intensity(hour, sun, wind))]
    times = np.datetime64(YEAR, "h") + np.arange(HOURS)
    lines = ["timestamp,WND,SUN,avg_CI"]
    for time, *values in zip(times.astype("datetime64[m]").astype(str), *columns, strict=True):
        lines.append(",".join([time.replace("T", " ") + "Z", *(f"{value:.0f}" for value in values)]))
    write_whole(path, gzip.compress(("\n".join(lines) + "\n").encode("utf-8"), mtime=0))


def cycle(hour: Array, period_h: float, peak_h: float) -> Array:
    """A cosine that is 1 at its peak."""
    return np.cos(2 * np.pi * (hour - peak_h) / period_h)


def weather(rng: np.random.Generator, memory_h: tuple[float, float], shared: float) -> Array:
    """(HOURS, SITES): standard normal at each hour and site, correlated in both."""
    of_all = remembering(rng, memory_h[0], 1)
    of_each = remembering(rng, memory_h[1], SITES)
    return sqrt(shared) * of_all + sqrt(1 - shared) * of_each


def remembering(rng: np.random.Generator, memory_h: float, series: int) -> Array:
    """(HOURS, series): AR(1) processes, standard normal at each hour."""
    kept = exp(-1 / memory_h)
    values = rng.standard_normal((HOURS, series))
    values[1:] *= sqrt(1 - kept**2)
    for hour in range(1, HOURS):
        values[hour] += kept * values[hour - 1]
    return values


def sun_share(rng: np.random.Generator, hour: Array) -> Array:
    """(HOURS,) output as a share of installed power."""
    mean, winter = SKY_WINTER
    sky = mean + winter * cycle(hour, HOURS, 15 * 24)[:, None]
    sky = sky + SKY_SPREAD * weather(rng, SKY_MEMORY_H, SKY_SHARED)
    cover = 0.5 * (1 + np.vectorize(erf)(sky / sqrt(2)))
    moments = (np.arange(12) + 0.5) / 12  # hours: sunrise and sunset fall within one
    clear = np.mean([clear_sky(hour + moment) for moment in moments], axis=0) / 1000
    return np.asarray(clear * (1 - 0.75 * cover**3.4).mean(axis=1), dtype=np.float64)


def clear_sky(hour: Array) -> Array:
    """(n,) W/m2 on flat ground under a clear sky, at hours since the year began."""
    day = np.floor(hour / 24) + 1
    declination = np.radians(23.45) * np.sin(2 * np.pi * (284 + day) / 365)
    height = np.sin(LATITUDE) * np.sin(declination) + np.cos(LATITUDE) * np.cos(declination) * np.cos(
        2 * np.pi * (hour % 24 - 12) / 24
    )  # the sine of elevation, which is cos(z)
    up = np.maximum(height, 1e-3)
    return np.where(height > 0, 1098 * up * np.exp(-0.059 / up), 0.0)


def wind_share(rng: np.random.Generator, hour: Array) -> Array:
    """(HOURS,) output as a share of installed power."""
    scale = WEIBULL_SCALE * (1 + WIND_SPRING * cycle(hour, HOURS, 105 * 24))
    scale *= 1 + WIND_NIGHT * cycle(hour, 24, 22)
    above = 0.5 * np.vectorize(erfc)(weather(rng, WIND_MEMORY_H, WIND_SHARED) / sqrt(2))
    speed = scale[:, None] * (-np.log(above)) ** (1 / WEIBULL_SHAPE)
    ramp = (speed**3 - CUT_IN**3) / (RATED**3 - CUT_IN**3)
    power = np.where(speed > CUT_OUT, 0.0, np.clip(ramp, 0, 1))
    return np.asarray(power.mean(axis=1), dtype=np.float64)


def carbon_intensity(hour: Array, sun: Array, wind: Array) -> Array:
    """(HOURS,) gCO2/kWh of the grid around the sites."""
    demand = 1 + DEMAND_EVENING * cycle(hour, 24, 18)
    clean = SUN_SHARE * sun + WIND_SHARE * wind + CLEAN_SHARE
    return FOSSIL_G * np.clip(1 - clean / demand, 0.05, 1)


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else root / "rlsched" / "power" / "generated-year.csv.gz")
