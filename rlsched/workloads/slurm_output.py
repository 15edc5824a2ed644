"""Times, durations and errors as Slurm prints them; https://slurm.schedmd.com/sacct.html."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from rlsched.errors import BadInputError

DAY_S = 86_400
_MAX_CHARACTERS = 200
HOURS = 10_000
"""Hours in the cache: the times of a job are near those of the job before."""
LENGTH = len("2025-01-31T12:00:00")
NEVER = {"", "unknown", "none", "n/a", "invalid"}
"""Texts of a time that has not come."""

_IN_HOUR = {f":{minute:02}:{second:02}": 60 * minute + second for minute in range(60) for second in range(60)}
"""Text after the hour -> seconds since the hour."""


class NoSuchTimeError(ValueError):
    """A clock change of the time zone skips the time."""


class Clock:
    """Converts times of sacct to Unix seconds.

    Args:
        zone: of times without an offset; None: UTC. A time with its offset from UTC
            (SLURM_TIME_FORMAT=%FT%T%z) needs none.

    Attributes:
        absolute: some time was in seconds or had its offset, and so is the same in all zones.
        ambiguous: set where a clock change repeats a time; the caller resets it.
    """

    def __init__(self, zone: datetime.tzinfo | None) -> None:
        self._zone = datetime.UTC if zone is None else zone
        self._hours: dict[tuple[str, str], int] = {}
        self.absolute = False
        self.ambiguous = False

    def __call__(self, text: str) -> int | None:
        """Unix seconds; the first of two where a clock change repeats the time; None: it has not come.

        Raises:
            ValueError: it is not a time, or the zone skips it.
        """
        if text.isdigit():
            self.absolute = True
            return int(text) or None  # Slurm's 0 is never
        hour = self._hours.get((text[:13], text[LENGTH:]))
        if hour is not None:
            seconds = _IN_HOUR.get(text[13:LENGTH])
            if seconds is not None:
                return hour + seconds
        if text.lower() in NEVER:
            return None
        times = self.times(text)
        if len(times) > 1:
            self.ambiguous = True
        return times[0]

    def times(self, text: str) -> tuple[int, ...]:
        """Unix seconds; two values, earlier first, where a clock change repeats the time.

        Raises:
            ValueError: it is not a time, or the zone skips it.
        """
        if text.isdigit():
            return (int(text),)
        time = datetime.datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=self._zone)
        else:
            self.absolute = True
        first, second = (int(time.replace(fold=fold).timestamp()) for fold in (0, 1))
        if second < first:
            raise NoSuchTimeError(text)
        if second > first:
            return first, second
        if text[13:LENGTH] in _IN_HOUR and text[11:13] == f"{time.hour:02}" and _has_no_change(time):
            if len(self._hours) >= HOURS:
                self._hours.clear()
            self._hours[text[:13], text[LENGTH:]] = first - 60 * time.minute - time.second
        return (first,)


def _has_no_change(time: datetime.datetime) -> bool:
    """Whether the hour of a time has no clock change."""
    ends = (time.replace(minute=0, second=0), time.replace(minute=59, second=59))
    return len({end.replace(fold=fold).utcoffset() for end in ends for fold in (0, 1)}) == 1


def span_s(text: str) -> int:
    """Seconds of `[days-][hours:]minutes:seconds`, or of a number of them.

    Raises:
        ValueError: it is neither.
    """
    if text.isdigit():
        return int(text)
    days, mark, clock = text.rpartition("-")
    parts = [int(part) for part in clock.partition(".")[0].split(":")]
    if len(parts) > 3 or any(part < 0 for part in parts):
        raise ValueError(text)
    if mark:  # 1-02 is a day and two hours
        parts += [0] * (3 - len(parts))
    seconds = 0
    for part in parts:
        seconds = 60 * seconds + part
    return seconds + (DAY_S * int(days) if mark else 0)


def check_errors(where: str, errors: object, command: str) -> None:
    """Refuse an output with errors: its lists are incomplete.

    Args:
        where: name of the output in messages.
        errors: field of the output; None: it has none.
        command: that printed it.

    Raises:
        BadInputError: there are errors.
    """
    if not errors:
        return
    listed: list[Any] = errors if isinstance(errors, list) else [errors]
    first = listed[0] if isinstance(listed[0], Mapping) else {"error": listed[0]}
    texts = [str(first[name]) for name in ("description", "error", "error_number") if first.get(name)]
    reason = re.sub(r"[^ -~]", "?", ": ".join(texts[:2]) or "no reason given")[:_MAX_CHARACTERS]
    problem = f"Slurm answered with {len(listed)} errors, first: {reason}"
    raise BadInputError(f"{where}: errors[0]", problem, f"run again: {command}")
