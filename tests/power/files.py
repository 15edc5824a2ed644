"""Power files written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.power import table
from rlsched.power.table import PowerTable

HEADER = "timestamp,WND,SUN,avg_CI"
COLUMNS = {"wind": "WND", "solar": "SUN", "carbon": "avg_CI"}


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


def read(path: Path, time: str = "timestamp", **columns: str) -> PowerTable:
    return table.read(path, time=time, columns=columns or COLUMNS)


def refused(path: Path, time: str = "timestamp", **columns: str) -> BadInputError:
    """The refusal, which is one line and names the file and what to do."""
    with pytest.raises(BadInputError) as caught:
        read(path, time, **columns)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return caught.value
