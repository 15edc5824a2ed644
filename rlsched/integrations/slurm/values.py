"""Field values in the JSON of Slurm's commands, and the location of a record for error messages.

A number may be plain, null, or {"set": true, "infinite": false, "number": 60}; a state is a string or a list.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from msgspec import Struct

from rlsched.errors import BadInputError
from rlsched.serve.api.schema import MANY

WIDTHS = (16, 32, 64)
"""Bits of Slurm's numbers. The largest of a width means infinite, the next one not set (NO_VAL)."""

MAX_ID = (1 << 32) - 3  # largest job id
MAX_LIMIT_MINUTES = MAX_ID  # longest time limit, minutes

_INFINITE = {bits: {-1, *((1 << width) - 1 for width in WIDTHS if width >= bits)} for bits in WIDTHS}
_NO_VAL = {bits: {-2, *((1 << width) - 2 for width in WIDTHS if width >= bits)} for bits in WIDTHS}

SAME_CLUSTER = "take squeue and sinfo of one cluster, in a federation with --local"

_MAX_SHOWN = 60


class OptionalNumber(Struct, frozen=True, gc=False):
    """A number that may be unset or infinite."""

    number: int | float = 0
    set: bool = True
    infinite: bool = False


Number = int | float | OptionalNumber | None
Words = str | list[str] | None


@dataclass(frozen=True)
class Location:
    """The location of a record, for error messages."""

    file: str
    path: str  # of the record in the file, as jobs[3]
    command: str  # the command that prints such a file

    def refuse(self, field: str, problem: str, remedy: str | None = None) -> NoReturn:
        """Refuse the value of a field.

        Raises:
            BadInputError: always.
        """
        default = f"give the output of {self.command}"
        raise BadInputError(f"{self.file}: {self.path}.{field}", problem, remedy or default)

    def integer(self, field: str, value: Number, most: int = MANY, bits: int = 32) -> int | None:
        """A count or a number of seconds; None where it is unset or infinite.

        Args:
            field: name of the field, for messages.
            value: value of the field.
            most: largest valid value.
            bits: width of the field in Slurm; wider sentinels of unset and infinite count, too.

        Raises:
            BadInputError: the value is negative, not whole, or above `most`.
        """
        number = value
        if isinstance(number, OptionalNumber):
            if not number.set or number.infinite:
                return None
            number = number.number
        if number is None or number in _INFINITE[bits] or number in _NO_VAL[bits]:
            return None
        if not 0 <= number <= most or number != int(number):  # infinities fail the first test
            self.refuse(field, f"value {short_json(number)} is not a whole number from 0 to {most}")
        return int(number)

    def minutes(self, field: str, value: Number) -> int | None:
        """A time limit in minutes, as seconds; None where it is unset, infinite or 0."""
        return 60 * (self.integer(field, value, MAX_LIMIT_MINUTES) or 0) or None

    def signed(self, field: str, value: Number) -> int | None:
        """A whole number that may be negative; None where it is unset or infinite.

        Raises:
            BadInputError: the value is not whole, or its magnitude is too large.
        """
        number = value.number if isinstance(value, OptionalNumber) else value
        if isinstance(number, int | float) and -MANY <= number < 0:
            return -(self.integer(field, -number) or 0)
        return self.integer(field, value)


@dataclass
class ClusterName:
    """The name of the cluster in all records that have one."""

    name: str | None = None
    _path: str = ""

    def add(self, location: Location, field: str, value: str | None) -> None:
        """Add the name in a record.

        Raises:
            BadInputError: the record is of another cluster than those before it.
        """
        name = printable(value or "")
        if not name:
            return
        if self.name is None:
            self.name, self._path = name, location.path
        elif name.lower() != self.name.lower():
            location.refuse(field, f"value {name!r}, but {self._path} has {self.name!r}", SAME_CLUSTER)


def is_infinite(value: Number) -> bool:
    """Whether a number means "no limit"."""
    if isinstance(value, OptionalNumber):
        return value.infinite or (value.set and value.number in _INFINITE[32])
    return value is None or value in _INFINITE[32]


def upper_words(value: Words) -> list[str]:
    """A string or list of strings as words in capitals; v0.0.38 joins several states by "+" or ","."""
    if value is None:
        return []
    texts = value.replace("+", ",").split(",") if isinstance(value, str) else value
    return [text.strip().upper() for text in texts if text.strip()]


def short_json(value: object) -> str:
    """A value as JSON of at most 60 characters, for a message."""
    text = json.dumps(value) if not isinstance(value, float) else repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def printable(text: str, most: int = 200) -> str:
    """Foreign text that is safe in a terminal and a shell comment: other characters become "?"."""
    return re.sub(r"[^A-Za-z0-9 _.,:;/@%+=()\[\]-]", "?", text)[:most]
