"""Times and spans as Slurm prints them; https://slurm.schedmd.com/sacct.html."""

from __future__ import annotations

import datetime

DAY_S = 86_400
HOURS = 10_000
"""Whose seconds are remembered: what is printed of a job is near what was printed of the one before."""
LENGTH = len("2025-01-31T12:00:00")
NEVER = {"", "unknown", "none", "n/a", "invalid"}
"""What stands for a time that has not come."""


class Clock:
    """Seconds since the epoch of what sacct prints.

    Args:
        zone: of times in Slurm's own form; None: they are taken as if all were of one offset. A time that is
            printed with its offset from UTC (SLURM_TIME_FORMAT=%FT%T%z) has that one.

    Attributes:
        told: a time was printed in seconds or with its offset, and so is the same in all zones.
    """

    def __init__(self, zone: datetime.tzinfo | None) -> None:
        self._zone = datetime.UTC if zone is None else zone
        self._hours: dict[tuple[str, str], int] = {}
        self.told = False

    def __call__(self, text: str) -> int | None:
        """None: the time has not come.

        Raises:
            ValueError: it is no time.
        """
        if text.isdigit():
            self.told = True
            return int(text) or None  # Slurm's 0 is never
        offset = text[LENGTH:]
        hour = self._hours.get((text[:13], offset))
        if hour is not None:
            return hour + 60 * int(text[14:16]) + int(text[17:LENGTH])
        if text.lower() in NEVER:
            return None
        time = datetime.datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=self._zone)
        else:
            self.told = True
        found = int(time.timestamp())
        if len(text) < LENGTH:  # a day, or hours and minutes
            return found
        if len(self._hours) >= HOURS:
            self._hours.clear()
        self._hours[text[:13], offset] = found - 60 * time.minute - time.second
        return found


def span_s(text: str) -> int:
    """Seconds of `[days-][hours:]minutes:seconds`, or of a number of them.

    Raises:
        ValueError: it is none.
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
