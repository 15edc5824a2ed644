"""Numbers, words and places as Slurm's versions write them.

A number may be plain, null, or {"set": true, "infinite": false, "number": 60}, a state a string or a list.
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
"""Bits of Slurm's numbers. The largest of a width stands for infinite, the next one for not set."""

ID_MOST = (1 << 32) - 3
LONGEST_MINUTES = ID_MOST
"""That a limit of Slurm may be."""

_ALL_ONES = {bits: {-1, *((1 << width) - 1 for width in WIDTHS if width >= bits)} for bits in WIDTHS}
_NOT_SET = {bits: {-2, *((1 << width) - 2 for width in WIDTHS if width >= bits)} for bits in WIDTHS}

ONE_CLUSTER = "take squeue and sinfo of one cluster, in a federation with --local"

_SHOWN = 60


class Numbered(Struct, frozen=True, gc=False):
    """A number that may be missing or infinite."""

    number: int | float = 0
    set: bool = True
    infinite: bool = False


Number = int | float | Numbered | None
Words = str | list[str] | None


@dataclass(frozen=True)
class Place:
    """A record of a file, for messages."""

    file: str
    path: str
    command: str

    def refuse(self, field: str, problem: str, remedy: str | None = None) -> NoReturn:
        """Say that a field means nothing.

        Raises:
            BadInputError: always.
        """
        told = remedy or f"give what {self.command} printed"
        raise BadInputError(f"{self.file}: {self.path}.{field}", problem, told)

    def whole(self, field: str, value: Number, most: int = MANY, bits: int = 32) -> int | None:
        """A number of things or seconds; None where it is not set, or infinite.

        Args:
            field: its name, for messages.
            value: of it.
            most: that it may be.
            bits: of the field in Slurm: a narrow one may also be told as none in those of wider ones.

        Raises:
            BadInputError: it is negative, no whole number, or more than `most`.
        """
        number = value
        if isinstance(number, Numbered):
            if not number.set or number.infinite:
                return None
            number = number.number
        if number is None or number in _ALL_ONES[bits] or number in _NOT_SET[bits]:
            return None
        if not 0 <= number <= most or number != int(number):  # which no infinity gets to
            self.refuse(field, f"value {shown(number)} is no number from 0 to {most}")
        return int(number)

    def signed(self, field: str, value: Number) -> int | None:
        """A number that may be negative.

        Raises:
            BadInputError: it is no whole number, or far from zero.
        """
        number = value.number if isinstance(value, Numbered) else value
        if isinstance(number, int | float) and -MANY <= number < 0:
            return -(self.whole(field, -number) or 0)
        return self.whole(field, value)


@dataclass
class OneCluster:
    """The cluster that records name: the same one in all that name any.

    Attributes:
        name: None: no record names one.
    """

    name: str | None = None
    _where: str = ""

    def add(self, place: Place, field: str, value: str | None) -> None:
        """Look at a record.

        Raises:
            BadInputError: it is of another cluster than records before it.
        """
        name = plain(value or "")
        if not name:
            return
        if self.name is None:
            self.name, self._where = name, place.path
        elif name.lower() != self.name.lower():
            place.refuse(field, f"value {name!r}, and that of {self._where} is {self.name!r}", ONE_CLUSTER)


def infinite(value: Number) -> bool:
    """Whether a number says that there is no limit."""
    if isinstance(value, Numbered):
        return value.infinite or (value.set and value.number in _ALL_ONES[32])
    return value is None or value in _ALL_ONES[32]


def words(value: Words) -> list[str]:
    """A string, or a list of them, as a list in capitals; v0.0.38 and states in words have several in one."""
    if value is None:
        return []
    texts = value.replace("+", ",").split(",") if isinstance(value, str) else value
    return [text.strip().upper() for text in texts if text.strip()]


def shown(value: object) -> str:
    """A value for a message, short and in one line."""
    text = json.dumps(value) if not isinstance(value, float) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def plain(text: str, most: int = 200) -> str:
    """Words of others for a terminal and a shell's comments: nothing but plain signs, and not too many."""
    return re.sub(r"[^A-Za-z0-9 _.,:;/@%+=()\[\]-]", "?", text)[:most]


def many(count: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
