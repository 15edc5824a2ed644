"""Node states of Slurm: which nodes accept jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlsched.integrations.slurm.values import Location, printable, upper_words

ACCEPTING = frozenset(("IDLE", "MIXED", "MIX", "ALLOCATED", "ALLOC", "PLANNED", "COMPLETING", "COMP"))
OUT_OF_SERVICE = frozenset(
    (
        *("DOWN", "DRAIN", "DRAINED", "DRAINING", "DRNG", "FAIL", "FAILING", "FAILG", "ERROR", "UNKNOWN"),
        *("UNK", "FUTURE", "FUTR", "DYNAMIC_FUTURE", "MAINTENANCE", "MAINT", "RESERVED", "RESV"),
        *("NOT_RESPONDING", "NO_RESPOND", "INVAL", "INVALID", "INVALID_REG", "POWERING_DOWN", "POWER_DOWN"),
        *("POWER_DRAIN", "REBOOT_ISSUED", "PERFCTRS", "BLOCKED"),
    )
)
"""A node in one of these states starts no job, though units are idle. Slurm wakes powered-down nodes up."""

BUSY = frozenset(("MIXED", "MIX", "ALLOCATED", "ALLOC", "COMPLETING", "COMP", "DRAINING", "DRNG"))

SUFFIXES = {
    **{"*": "NOT_RESPONDING", "!": "POWER_DOWN", "%": "POWERING_DOWN"},
    **{"$": "MAINTENANCE", "^": "REBOOT_ISSUED"},
}
"""Suffixes of a compact state that put a node out of service; ~, #, @ and - do not."""

_STATE = re.compile(r"([A-Z_ ]+)([~#@*!%$^-]*)")


def accepts_and_busy(location: Location, field: str, values: Iterable[str | list[str]]) -> tuple[bool, bool]:
    """Whether a node in these states accepts jobs, and whether jobs run on it.

    Raises:
        BadInputError: a state is unknown.
    """
    states: set[str] = set()
    for word in (word for value in values for word in upper_words(value)):
        match = _STATE.fullmatch(word)
        if match is None:
            location.refuse(field, f"value {printable(word)[:60]!r} is not a known state")
        states.add(match[1])
        states |= {SUFFIXES[suffix] for suffix in match[2] if suffix in SUFFIXES}
    if not states & (ACCEPTING | OUT_OF_SERVICE):
        location.refuse(field, f"value {printable(', '.join(sorted(states)))[:60]!r} is not a known state")
    return not states & OUT_OF_SERVICE, bool(states & BUSY)
