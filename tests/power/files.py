"""Power files written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

HEADER = "timestamp,WND,SUN,avg_CI"


def time_at(step: int, step_s: int = 3600) -> str:
    """Steps after the year began, in UTC."""
    return str(np.datetime64("2022-01-01T00:00:00") + np.timedelta64(step * step_s, "s")) + "Z"


def rows_of(
    wind: Sequence[object], sun: Sequence[object], carbon: Sequence[object], *, step_s: int = 3600
) -> list[str]:
    """The lines of a file, header first."""
    values = enumerate(zip(wind, sun, carbon, strict=True))
    return [HEADER, *(",".join([time_at(k, step_s), *map(str, row)]) for k, row in values)]


def power_file(folder: Path, *lines: str, name: str = "power.csv") -> Path:
    """A file of these lines."""
    path = folder / name
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def five_hours() -> list[str]:
    """A small file in which all is well."""
    return rows_of([1, 2, 3, 4, 5], [0, 0, 10, 20, 10], [400, 300, 200, 100, 200])
