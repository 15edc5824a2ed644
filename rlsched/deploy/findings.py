"""The report of a check: the kind of a file, its faults with their places, and what other programs find."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial

from rlsched.errors import BadInputError

TIMEOUT_S = 60.0
OFFLINE = {"COMPOSE_EXPERIMENTAL_GIT_REMOTE": "false", "COMPOSE_EXPERIMENTAL_OCI_REMOTE": "false"}


@dataclass
class Report:
    """The result of the check of one file."""

    kind: str | None = None  # ray up, Kubernetes, Slurm, Dockerfile or compose; None: not recognised
    summary: list[str] = field(default_factory=list)  # the content in a few words, for each document
    problems: list[BadInputError] = field(default_factory=list)  # one for each fault
    unchecked: list[str] = field(default_factory=list)  # parts that were not checked, with the reason


@dataclass(frozen=True)
class Place:
    """A place in a file, and the report that takes its faults."""

    report: Report  # of the file
    file: str  # its name, with the name of the YAML document where it has several
    path: tuple[str, ...] = ()  # keys and positions from the top

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


def run_tool(place: Place, command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str] | None:
    """Run a program with a text as its input; None, with a line in the report: not installed, or it hangs."""
    if shutil.which(command[0]) is None:
        place.report.unchecked.append(f"{command[0]} is not installed: skipped")
        return None
    run = partial(subprocess.run, capture_output=True, encoding="utf-8", errors="replace", check=False)
    try:
        return run(command, input=text, timeout=TIMEOUT_S, env={**os.environ, **OFFLINE, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        place.report.unchecked.append(f"{command[0]} takes more than {TIMEOUT_S:.0f} s: skipped")
        return None
