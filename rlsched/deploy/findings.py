"""What a file is found to be, and the lines that a wrong one is refused with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any

from rlsched.errors import BadInputError

Problems = Iterator[BadInputError]
"""What is wrong with a file, a line each."""

Served = Callable[[Mapping[str, Any], str], None]
"""Refuses arguments of the decision service, by a BadInputError; also told where they stand."""

Refusal = Callable[[Sequence[str]], str | None]
"""Why `rlsched` would refuse its arguments; None: it would not."""

RAY = version("ray")
"""The Ray that is installed, which a cluster's must be: versions do not talk to each other."""

PYTHON = "3.11"
"""The Python that everything was tested with; Ray wants the same on all nodes."""


@dataclass(frozen=True)
class Found:
    """What a file is.

    Args:
        kind: of file, in words.
        holds: what is in it, in a few words.
        unchecked: what nobody looked at, and why.
    """

    kind: str
    holds: str
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where in a file something stands.

    Args:
        file: its name.
        path: of keys and positions from its top.
        within: the part of the file, where it has several.
    """

    file: str
    path: tuple[str, ...] = ()
    within: str = ""

    def __truediv__(self, key: object) -> Place:
        """Deeper, by a key or position."""
        return Place(self.file, (*self.path, str(key)), self.within)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.within, ".".join(self.path)) if part)

    def wrong(self, problem: str, remedy: str) -> BadInputError:
        """The line that says what is wrong here."""
        return BadInputError(str(self), problem, remedy)

    def unknown(self, what: str, name: str, known: Iterable[str]) -> BadInputError:
        """The line for a name that nobody knows here."""
        return self.wrong(f"unknown {what} {name!r}" if what != "key" else "unknown key", one_of(name, known))


FEW = 12
"""Names that a line may list beside the one that was meant."""


def one_of(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that is none."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    listed = f"use one of {', '.join(names)}"
    if close and len(names) > FEW:
        return f"did you mean {close[0]!r}?"
    return f"did you mean {close[0]!r}? {listed}" if close else listed


def missing(required: Iterable[str], given: Iterable[str], known: Iterable[str]) -> list[str]:
    """What is not given, but for names that are only misspelt, of which a line tells already."""
    there, names = list(given), set(known)
    misspelt = [name for name in there if name not in names]
    return [name for name in required if name not in there and not get_close_matches(name, misspelt, n=1)]


def count(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number} {what}" + ("" if number == 1 else "s")
