"""The schedule of a state as rows of units: who holds which until when, what was decided and planned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from rlsched.serve.api.schema import Answer, ClusterState, Decision, PlannedJob, WaitingJob

MOST = 400
"""Jobs that are drawn, those that hold most units."""

MOST_COMING = 100
"""Of them, jobs that are to start now or later."""

STAIRS = 60
"""Steps in which the jobs that are not drawn let go of what they hold."""

Id = int | str


class Use(NamedTuple):
    """Units of the first resource that a job holds over some time, seconds."""

    job: Id
    units: int
    begin: int
    end: int
    look: str  # a class of the style


class Bar(NamedTuple):
    """A rectangle: rows [low, high) of units over some time, seconds."""

    use: Use
    low: int
    high: int


@dataclass(frozen=True)
class Schedule:
    """What is drawn of a state.

    Attributes:
        now: its time, seconds.
        units: rows, as many as there are units, or are held.
        bars: jobs.
        others: stairs of the running jobs that hold too little to be drawn.
        small: how many these are.
        left_out: jobs that are to start, or to come, and hold too little to be drawn.
        without_room: jobs to come for which too few units will be free by what is known.
        out: units that are out of service.
    """

    now: int
    units: int
    bars: list[Bar]
    others: list[Bar]
    small: int
    left_out: int
    without_room: int
    out: int


def in_force(answer: Answer) -> dict[Id, Decision]:
    """What was decided about each job: the last word where there are several."""
    return {decision.job: decision for decision in answer.decisions}


_LOOKS = {"start": "starts", "reserve": "reserved", "plan": "planned"}


def uses(state: ClusterState, answer: Answer) -> tuple[list[Use], list[Use]]:
    """Who holds units of the first resource, and who is to, from now on or later.

    A job that should have ended holds its units for another second, as far as anybody knows.
    """
    now = state.now
    decided = in_force(answer)
    running = []
    for job in state.running:
        move = decided.get(job.id)
        look, end = ("overdue" if job.expected_end < now else "runs"), max(now + 1, job.expected_end)
        if move is not None and move.action == "suspend":
            look, end = "suspends", now
        running.append(Use(job.id, job.demand[0], min(job.start, now), end, look))
    told: dict[Id, WaitingJob | PlannedJob] = {job.id: job for job in (*state.waiting, *state.suspended)}
    told |= {job.id: job for job in state.planned}
    coming = [
        _to_come(told[decision.job], max(now, decision.at), _LOOKS[decision.action])
        for decision in decided.values()
        if decision.job in told and decision.action in _LOOKS
    ]
    coming += [_to_come(job, max(now, job.at), "planned") for job in state.planned if job.id not in decided]
    return [use for use in running if use.units > 0], [use for use in coming if use.units > 0]


def _to_come(job: WaitingJob | PlannedJob, at: int, look: str) -> Use:
    return Use(job.id, job.demand[0], at, at + max(1, job.requested - job.ran), look)


def arrange(state: ClusterState, answer: Answer, units: int | None) -> Schedule:
    """Give jobs rows: those that run from the lowest on, the longest first, so that what is free lies above.

    Args:
        state: that was asked about.
        answer: to it.
        units: of the first resource; None: nobody knows.
    """
    running, coming = uses(state, answer)
    chosen = _largest(coming, MOST_COMING)
    drawn = set(map(id, [*chosen, *_largest(running, MOST - len(chosen))]))
    running.sort(key=lambda use: use.end, reverse=True)
    small = [use for use in running if id(use) not in drawn]
    others = _stairs(small, state.now)
    bars: list[Bar] = []
    row = sum(use.units for use in small)
    for use in running:
        if id(use) in drawn:
            bars.append(Bar(use, row, row + use.units))
            row += use.units
    out = 0
    if state.free is not None and units is not None:
        out = max(0, units - sum(job.demand[0] for job in state.running) - state.free[0])
    top = max((units or 0) - out, row)
    without_room = 0
    for use in sorted(coming, key=lambda use: use.begin):
        if id(use) not in drawn:
            continue
        rows = _lowest(use, [*bars, *others], top)
        if not rows and use.look == "starts":  # it does start, whatever was told of units
            rows, top = [(top, top + use.units)], top + use.units
        without_room += not rows
        bars += [Bar(use, low, high) for low, high in rows]
    left_out = sum(id(use) not in drawn for use in coming)
    return Schedule(state.now, max(1, top + out), bars, others, len(small), left_out, without_room, out)


def _largest(jobs: Iterable[Use], most: int) -> list[Use]:
    return sorted(jobs, key=lambda use: use.units, reverse=True)[:most]


def _stairs(small: Sequence[Use], now: int) -> list[Bar]:
    """Jobs that are not drawn one by one, the longest lowest."""
    size = -(-len(small) // STAIRS) or 1
    groups = [small[k : k + size] for k in range(0, len(small), size)]
    tops = list(accumulate((sum(use.units for use in group) for group in groups), initial=0))
    return [
        Bar(Use("", high - low, now, group[0].end, "others"), low, high)
        for group, low, high in zip(groups, tops, tops[1:], strict=False)
    ]


def _lowest(use: Use, taken: Iterable[Bar], units: int) -> list[tuple[int, int]]:
    """Rows free all the while: the lowest gap that holds it whole, else the lowest ones; none if too few."""
    gaps: list[tuple[int, int]] = []
    row = 0
    for low, high in sorted(
        (bar.low, bar.high) for bar in taken if bar.use.begin < use.end and use.begin < bar.use.end
    ):
        if low > row:
            gaps.append((row, low))
        row = max(row, high)
    if units > row:
        gaps.append((row, units))
    whole = next((low for low, high in gaps if high - low >= use.units), None)
    if whole is not None:
        return [(whole, whole + use.units)]
    pieces = []
    missing = use.units
    for low, high in gaps:
        pieces.append((low, min(high, low + missing)))
        missing -= pieces[-1][1] - low
        if missing == 0:
            return pieces
    return []
