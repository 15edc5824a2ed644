"""States of nodes: which of them start jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlsched.integrations.slurm.values import Place, plain, words

STARTING = frozenset(("IDLE", "MIXED", "MIX", "ALLOCATED", "ALLOC", "PLANNED", "COMPLETING", "COMP"))
OUT = frozenset(
    (
        *(
            "DOWN",
            "DRAIN",
            "DRAINED",
            "DRAINING",
            "DRNG",
            "FAIL",
            "FAILING",
            "FAILG",
            "ERROR",
            "UNKNOWN",
            "UNK",
        ),
        *("FUTURE", "FUTR", "DYNAMIC_FUTURE", "MAINTENANCE", "MAINT", "RESERVED", "RESV", "NOT_RESPONDING"),
        *("NO_RESPOND", "INVAL", "INVALID", "INVALID_REG", "POWERING_DOWN", "POWER_DOWN", "POWER_DRAIN"),
        *("REBOOT_ISSUED", "PERFCTRS", "BLOCKED"),
    )
)
"""Nodes of such a state start no job, whatever is idle on them. Powered down ones do: Slurm wakes them up."""

SIGNS = {
    **{"*": "NOT_RESPONDING", "!": "POWER_DOWN", "%": "POWERING_DOWN"},
    **{"$": "MAINTENANCE", "^": "REBOOT_ISSUED"},
}
"""That follow a state in words, and put a node out of service; ~, #, @ and - do not."""

_STATE = re.compile(r"([A-Z_ ]+)([~#@*!%$^-]*)")


def usable_and_busy(place: Place, name: str, told: Iterable[str | list[str]]) -> tuple[bool, bool]:
    """Whether jobs may start on a node of these states, and whether some run there."""
    states: set[str] = set()
    for word in (word for part in told for word in words(part)):
        match = _STATE.fullmatch(word)
        if match is None:
            place.refuse(name, f"value {plain(word)[:60]!r} is no state that is known here")
        states.add(match[1])
        states |= {SIGNS[sign] for sign in match[2] if sign in SIGNS}
    if not states & (STARTING | OUT):
        place.refuse(name, f"value {plain(', '.join(sorted(states)))[:60]!r} is no state that is known here")
    busy = bool(states & {"MIXED", "MIX", "ALLOCATED", "ALLOC", "COMPLETING", "COMP", "DRAINING", "DRNG"})
    return not states & OUT, busy
