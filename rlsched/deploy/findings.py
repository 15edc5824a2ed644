"""The report of a check: the kind of a file, its faults with their places, and the parts not checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from rlsched.errors import BadInputError


@dataclass
class Report:
    """The result of the check of one file.

    Attributes:
        kind: ray up, Kubernetes, Slurm, Dockerfile or compose; None: not recognised.
        summary: the content in a few words, for each document.
        problems: one for each fault.
        unchecked: parts that were not checked, with the reason.
    """

    kind: str | None = None
    summary: list[str] = field(default_factory=list)
    problems: list[BadInputError] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """A place in a file, and the report that takes its faults.

    Attributes:
        report: of the file.
        file: its name, with the name of the YAML document where it has several.
        path: keys and positions from the top.
    """

    report: Report
    file: str
    path: tuple[str, ...] = ()

    def __truediv__(self, key: object) -> Place:
        """The place of a key or position below this one."""
        return replace(self, path=(*self.path, str(key)))

    def __str__(self) -> str:
        return f"{self.file}: {'.'.join(self.path)}" if self.path else self.file

    def error(self, problem: str, remedy: str) -> None:
        """Report a fault here."""
        self.report.problems.append(BadInputError(str(self), problem, remedy))


def one_of(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: the closest known one, or some of them."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(names[:12])}"
