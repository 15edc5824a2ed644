"""The column of times of a power file: start and length of its steps, over changes of the clock."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pandas as pd

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray
from rlsched.power.csv_columns import MAX_ROWS, Rows

SHORTEST_STEP_S = 60
LONGEST_STEP_S = 86_400

_UNITS_S = (("h", 3600), ("min", 60), ("s", 1))


def time_steps(
    rows: Rows, column: str, cells: list[str], zone: str | None
) -> tuple[pd.Timestamp, int, IntArray]:
    """Find the constant step of a column of times.

    The step is constant in time, or by the clock of the zone. In the latter case a clock change makes rows
    longer or shorter, and rows are divided into equal steps.

    Args:
        rows: of the file, for messages.
        column: name of the column.
        cells: of the column.
        zone: of times without one; None: UTC.

    Returns:
        Start in UTC, seconds of a step, and (rows,) number of steps in each row.

    Raises:
        BadInputError: a cell is not a time, or there is no constant step.
    """
    times, clock = _times(cells, zone)
    _check_times(rows, column, cells, zone, times)
    lengths = _gaps(times.dt.tz_localize(None))
    by_clock = _gaps(clock)
    # The more regular of the two is meant, also where a row is missing.
    odd_by_clock = int((by_clock != by_clock[0]).sum())
    gaps = by_clock if odd_by_clock < (lengths != lengths[0]).sum() and (lengths >= 0).all() else lengths
    _check_gaps(rows, column, cells, zone, gaps)
    first = int(gaps[0])
    lengths = np.append(lengths, first)
    step = int(np.gcd.reduce(lengths))
    if step < SHORTEST_STEP_S * 1_000_000 or lengths.sum() // step > MAX_ROWS:
        problem = f"has rows of {_span(first)} by the clock of {zone}, with more than {MAX_ROWS:,} steps"
        raise BadInputError(rows.file, f"{problem} of {_span(step)}", "give fewer rows, or times in UTC")
    return times.iloc[0], step // 1_000_000, lengths // step


def _check_times(
    rows: Rows, column: str, cells: list[str], zone: str | None, times: pd.Series[pd.Timestamp]
) -> None:
    unknown = times.isna().to_numpy()
    if not unknown.any():
        return
    k = int(unknown.argmax())
    problem = f"{cells[k]!r} is not an ISO 8601 time" if cells[k] else "is blank"
    if cells[k] and zone is not None and not _times(cells[k : k + 1], None)[0].isna().any():
        problem = f"{cells[k]!r} is skipped or repeated by a clock change in {zone}"
    raise rows.cell_error(k, column, problem, "write times like 2022-01-31 23:00:00+00:00")


def _check_gaps(rows: Rows, column: str, cells: list[str], zone: str | None, gaps: IntArray) -> None:
    """Refuse rows out of order, and (rows - 1,) gaps in microseconds that differ from the first."""
    first = int(gaps[0])
    # Order before step: rows out of order also make other gaps wrong.
    odd = gaps <= 0 if (gaps <= 0).any() else gaps != first
    k = int(odd.argmax()) + 1 if odd.any() else 1  # the first step is checked by itself
    gap, above = int(gaps[k - 1]), rows.label(k - 1)
    if gap == 0:
        remedy = "keep one row"
        if zone is None:
            remedy += "; where clocks change, write times with their zone, or set power.time_zone"
        raise rows.cell_error(k, column, f"{cells[k]!r} is the time of {above} again", remedy)
    if gap < 0:
        raise rows.cell_error(k, column, f"{cells[k]!r} is before {above}", "put the rows in order of time")
    if gap != first:
        problem = f"{cells[k]!r} comes {_span(gap)} after {above}, where the first step is {_span(first)}"
        remedy = "add the missing rows" if gap > first else "keep to one step"
        if zone is None:
            remedy += "; where clocks change, set power.time_zone"
        raise rows.cell_error(k, column, problem, remedy)
    if not SHORTEST_STEP_S <= first / 1e6 <= LONGEST_STEP_S or first % 1_000_000:
        problem = f"{cells[k]!r} comes {_span(first)} after {above}"
        raise rows.cell_error(k, column, problem, "give whole seconds, from 1 min to 1 day")


def _gaps(times: pd.Series[pd.Timestamp]) -> IntArray:
    """(rows - 1,) microseconds from one time to the next."""
    micros: IntArray = times.to_numpy("datetime64[us]").astype(np.int64)
    return np.diff(micros)


def _times(cells: list[str], zone: str | None) -> tuple[pd.Series[pd.Timestamp], pd.Series[pd.Timestamp]]:
    """Times in UTC, and by the clock of the zone; NaT where a cell is not a time."""
    if all(map(_COMPACT.fullmatch, cells)):
        cells = [f"{cell[:8]}T{cell[8:]}" for cell in cells]
    epoch = _epoch_unit(cells)
    # pandas also accepts words like now
    texts = pd.Series([cell if cell[:1].isdecimal() else "" for cell in cells], dtype=object)
    if epoch is not None:
        times = pd.to_datetime(
            pd.Series([int(cell) for cell in cells]), unit=epoch, utc=True, errors="coerce"
        )
    elif zone is None or any(map(_has_zone, cells)):
        times = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    else:
        clock = pd.to_datetime(texts, format="ISO8601", errors="coerce")
        return _localized(clock, zone).dt.tz_convert("UTC"), clock
    return times, times.dt.tz_convert(zone or "UTC").dt.tz_localize(None)


def _localized(clock: pd.Series[pd.Timestamp], zone: str) -> pd.Series[pd.Timestamp]:
    """Times by a clock, with their zone; NaT where a clock change skips or ambiguously repeats them."""
    if (clock.diff().iloc[1:] == pd.Timedelta(days=1)).all():
        # A day starts with its first second, also where the clock changes at midnight.
        return clock.dt.tz_localize(zone, ambiguous=np.ones(len(clock), bool), nonexistent="shift_forward")
    try:
        return clock.dt.tz_localize(zone, ambiguous="infer", nonexistent="NaT")
    except ValueError:  # the repeated hour occurs once in the file, or is not a whole hour
        return clock.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")


_COMPACT = re.compile(
    r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])([01][0-9]|2[0-4])([0-5][0-9]){,2}"
)
"""Year to hour, minute or second, without marks. Seconds since 1970 have 10 digits, too, but most are no such
date."""

_EPOCHS: dict[int, Literal["s", "ms"]] = {10: "s", 13: "ms"}
"""Digits of times since 1970 -> their unit, from 2001 on."""


def _epoch_unit(cells: list[str]) -> Literal["s", "ms"] | None:
    """The unit of times since 1970; None: the cells are not such numbers."""
    lengths = {len(cell) if cell.isdecimal() else 0 for cell in cells}
    return _EPOCHS.get(lengths.pop()) if len(lengths) == 1 else None


def _has_zone(cell: str) -> bool:
    time = cell[10:]
    return time.endswith("Z") or "+" in time or "-" in time


def _span(micros: int) -> str:
    """A duration in its largest whole unit."""
    for unit, seconds in _UNITS_S:
        if micros % (seconds * 1_000_000) == 0:
            return f"{micros // (seconds * 1_000_000)} {unit}"
    return f"{micros / 1e6:g} s"
