"""The schedule of a state as rows of units: running jobs, decisions and plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from rlsched.report.packing import lowest_rows
from rlsched.serve.api.schema import Answer, ClusterState, Decision, PlannedJob, WaitingJob

MAX_JOBS = 400  # jobs that are drawn, those with most units
MAX_COMING = 100  # most jobs among them that start now or later
STAIRS = 60  # steps in which jobs that are not drawn release their units

Id = int | str


class Use(NamedTuple):
    """Units of the first resource that a job holds over some time, seconds."""

    job: Id
    units: int
    begin: int
    end: int
    look: str  # a class of the style


class UnitBar(NamedTuple):
    """A rectangle: rows [low, high) of units over some time, seconds."""

    use: Use
    low: int
    high: int


@dataclass(frozen=True)
class Schedule:
    """The drawing of a state."""

    now: int  # its time, seconds
    units: int  # rows, as many as there are units, or are held
    bars: list[UnitBar]  # jobs
    stairs: list[UnitBar]  # running jobs that are too small to be drawn one by one
    small: int  # their number
    left_out: int  # jobs to start, or to come, that are too small to be drawn
    without_room: int  # jobs to come for which too few units will be free, as far as known
    out: int  # units out of service


def last_decisions(answer: Answer) -> dict[Id, Decision]:
    """Job -> its last decision."""
    return {decision.job: decision for decision in answer.decisions}


_LOOKS = {"start": "starts", "reserve": "reserved", "plan": "planned"}


def uses(state: ClusterState, answer: Answer) -> tuple[list[Use], list[Use]]:
    """Jobs that hold units of the first resource, and jobs that will, now or later.

    A job that should have ended is expected to hold its units for another second.
    """
    now = state.now
    decided = last_decisions(answer)
    running = []
    for job in state.running:
        move = decided.get(job.id)
        look, end = ("overdue" if job.expected_end < now else "runs"), max(now + 1, job.expected_end)
        if move is not None and move.action == "suspend":
            look, end = "suspends", now
        running.append(Use(job.id, job.demand[0], min(job.start, now), end, look))
    jobs: dict[Id, WaitingJob | PlannedJob] = {job.id: job for job in (*state.waiting, *state.suspended)}
    jobs |= {job.id: job for job in state.planned}
    coming = [
        _to_come(jobs[decision.job], max(now, decision.at), _LOOKS[decision.action])
        for decision in decided.values()
        if decision.job in jobs and decision.action in _LOOKS
    ]
    coming += [_to_come(job, max(now, job.at), "planned") for job in state.planned if job.id not in decided]
    return [use for use in running if use.units > 0], [use for use in coming if use.units > 0]


def _to_come(job: WaitingJob | PlannedJob, at: int, look: str) -> Use:
    return Use(job.id, job.demand[0], at, at + max(1, job.requested - job.ran), look)


def arrange(state: ClusterState, answer: Answer, units: int | None) -> Schedule:
    """Give jobs rows: running ones from the lowest row on, the longest first, so that free rows are on top.

    The first resource has so many units in all; None: not known.
    """
    running, coming = uses(state, answer)
    chosen = _largest(coming, MAX_COMING)
    drawn = set(map(id, [*chosen, *_largest(running, MAX_JOBS - len(chosen))]))
    running.sort(key=lambda use: use.end, reverse=True)
    small = [use for use in running if id(use) not in drawn]
    stairs = _stairs(small, state.now)
    bars: list[UnitBar] = []
    row = sum(use.units for use in small)
    for use in running:
        if id(use) in drawn:
            bars.append(UnitBar(use, row, row + use.units))
            row += use.units
    out = 0
    if state.free is not None and units is not None:
        out = max(0, units - sum(job.demand[0] for job in state.running) - state.free[0])
    top = max((units or 0) - out, row)
    without_room = 0
    for use in sorted(coming, key=lambda use: use.begin):
        if id(use) not in drawn:
            continue
        drawn_then = (bar for bar in (*bars, *stairs) if bar.use.begin < use.end and use.begin < bar.use.end)
        rows = lowest_rows(use.units, ((bar.low, bar.high) for bar in drawn_then), top)
        if not rows and use.look == "starts":  # it does start, whatever the state says of units
            rows, top = [(top, top + use.units)], top + use.units
        without_room += not rows
        bars += [UnitBar(use, low, high) for low, high in rows]
    left_out = sum(id(use) not in drawn for use in coming)
    return Schedule(state.now, max(1, top + out), bars, stairs, len(small), left_out, without_room, out)


def _largest(jobs: Iterable[Use], limit: int) -> list[Use]:
    return sorted(jobs, key=lambda use: use.units, reverse=True)[:limit]


def _stairs(small: Sequence[Use], now: int) -> list[UnitBar]:
    """Jobs that are not drawn one by one, the longest lowest."""
    size = -(-len(small) // STAIRS) or 1
    groups = [small[k : k + size] for k in range(0, len(small), size)]
    tops = list(accumulate((sum(use.units for use in group) for group in groups), initial=0))
    return [
        UnitBar(Use("", high - low, now, group[0].end, "others"), low, high)
        for group, low, high in zip(groups, tops, tops[1:], strict=False)
    ]
