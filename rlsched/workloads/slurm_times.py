"""Times and spans as Slurm prints them; https://slurm.schedmd.com/sacct.html."""

from __future__ import annotations

import datetime

DAY_S = 86_400
HOURS = 10_000
"""Whose seconds are remembered: what is printed of a job is near what was printed of the one before."""
LENGTH = len("2025-01-31T12:00:00")
NEVER = {"", "unknown", "none", "n/a", "invalid"}
"""What stands for a time that has not come."""

_IN_HOUR = {f":{minute:02}:{second:02}": 60 * minute + second for minute in range(60) for second in range(60)}
"""Minutes and seconds as they are printed behind the hour -> seconds."""


class NoSuchTimeError(ValueError):
    """Clocks of the time zone were set forward over the time."""


class Clock:
    """Seconds since the epoch of what sacct prints.

    Args:
        zone: of times in Slurm's own form; None: they are taken as if all were of one offset. A time that is
            printed with its offset from UTC (SLURM_TIME_FORMAT=%FT%T%z) has that one.

    Attributes:
        told: a time was printed in seconds or with its offset, and so is the same in all zones.
        twice: set where a time occurs twice, since clocks were set back; the caller resets it.
    """

    def __init__(self, zone: datetime.tzinfo | None) -> None:
        self._zone = datetime.UTC if zone is None else zone
        self._hours: dict[tuple[str, str], int] = {}
        self.told = False
        self.twice = False

    def __call__(self, text: str) -> int | None:
        """None: the time has not come. Of a time that came twice, the first one.

        Raises:
            ValueError: it is no time, or none of the zone.
        """
        if text.isdigit():
            self.told = True
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
            self.twice = True
        return times[0]

    def times(self, text: str) -> tuple[int, ...]:
        """All that the text may mean: two where clocks were set back, the first one first.

        Raises:
            ValueError: it is no time, or none of the zone.
        """
        if text.isdigit():
            return (int(text),)
        time = datetime.datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=self._zone)
        else:
            self.told = True
        first, second = (int(time.replace(fold=fold).timestamp()) for fold in (0, 1))
        if second < first:
            raise NoSuchTimeError(text)
        if second > first:
            return first, second
        if text[13:LENGTH] in _IN_HOUR and text[11:13] == f"{time.hour:02}" and _is_even(time):
            if len(self._hours) >= HOURS:
                self._hours.clear()
            self._hours[text[:13], text[LENGTH:]] = first - 60 * time.minute - time.second
        return (first,)


def _is_even(time: datetime.datetime) -> bool:
    """Whether clocks are not changed in the hour of a time."""
    ends = (time.replace(minute=0, second=0), time.replace(minute=59, second=59))
    return len({end.replace(fold=fold).utcoffset() for end in ends for fold in (0, 1)}) == 1


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
