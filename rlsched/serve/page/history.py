"""What the kept states come to over time: queue, units, power, and whether policy and heuristic agree."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlsched.report.words import number
from rlsched.serve.ledger.ledger import Noted
from rlsched.serve.page.drawing import Frame, Line, TimeAxis, compact, counted, levels, step_chart

HEIGHT = 150
ROLLING = 20
"""States over which a share of agreement is taken."""


@dataclass(frozen=True)
class Point:
    """A state in figures, of the first resource.

    Attributes:
        now: its time, seconds.
        waiting: jobs, with those that wait to go on.
        used: units that jobs hold.
        free: units; None where nobody told how many there are.
        battery_kwh: level; None where it was not told.
        agrees: whether policy and heuristic did the same; None where one was not asked.
    """

    now: int
    waiting: int
    used: int
    free: int | None
    battery_kwh: float | None
    agrees: bool | None


def by_time(noted: Iterable[Noted]) -> list[Noted]:
    """States by their own time, the newest last.

    Whoever plays a trace once more sets the clock back: a state that is told takes the place of all of its
    time and later that were told before it. States of one request have no such order.

    Args:
        noted: in any order.
    """
    found: list[Noted] = []
    for one in sorted(noted, key=lambda one: (one.at, one.state.now)):
        while found and found[-1].state.now >= one.state.now:
            found.pop()
        found.append(one)
    return found


def units_now(one: Noted, usual: Sequence[int]) -> tuple[int, int | None, int | None]:
    """Units of the first resource that are used, free, and there.

    Args:
        one: the state.
        usual: (resource,) units where it does not say; empty: nobody knows.
    """
    state = one.state
    used = sum(job.demand[0] for job in state.running)
    units = (usual if state.units is None else state.units) or None
    there = None if units is None else units[0]
    if state.free is not None:
        return used, state.free[0], there
    return used, None if there is None else max(0, there - used), there


def point(one: Noted, usual: Sequence[int]) -> Point:
    """A state in figures; see `units_now`."""
    state = one.state
    used, free, _ = units_now(one, usual)
    waiting = len(state.waiting) + len(state.suspended)
    return Point(state.now, waiting, used, free, state.battery_kwh, one.answer.agrees)


def span(points: Sequence[Point], now: int) -> TimeAxis | None:
    """The time that points are of; None where that is a moment."""
    if points[0].now == points[-1].now:
        return None
    return TimeAxis(points[0].now, points[-1].now, now)


def queue_charts(points: Sequence[Point], axis: TimeAxis, resource: str) -> str:
    """Jobs that waited, and units that were used and free."""
    waiting = [(point.now, float(point.waiting)) for point in points]
    newest = points[-1]
    most = max(point.waiting for point in points)
    frame = Frame(
        "Waiting jobs over time",
        f"{newest.waiting:,} jobs wait at last, {most:,} at most, over {counted(len(points), 'state')}.",
        axis,
        levels(most, whole=True),
        HEIGHT,
        "jobs",
    )
    jobs = step_chart(frame, [Line("waiting", "first", waiting, f"{newest.waiting:,}")])
    used = Line("used", "first", [(p.now, float(p.used)) for p in points], f"{newest.used:,}")
    lines = [used]
    if any(point.free is not None for point in points):
        free = [(p.now, None if p.free is None else float(p.free)) for p in points]
        said = "" if newest.free is None else f"{newest.free:,}"
        lines.insert(0, Line("free", "second", free, said))
    top = max(max(point.used, point.free or 0) for point in points)
    frame = Frame(
        f"Units over time ({resource})",
        f"{newest.used:,} units are used at last"
        + ("." if newest.free is None else f", and {newest.free:,} are free."),
        axis,
        levels(top, whole=True),
        HEIGHT,
        "units",
    )
    return jobs + step_chart(frame, lines)


def battery_chart(points: Sequence[Point], axis: TimeAxis) -> str:
    """The level of the battery; empty where no state tells of one."""
    told = [point.battery_kwh for point in points if point.battery_kwh is not None]
    if not told:
        return ""
    frame = Frame(
        "Battery over time",
        f"The battery holds {number(told[-1])} kWh at last, {number(max(told))} kWh at most.",
        axis,
        levels(max(told)),
        HEIGHT,
        "kWh",
    )
    level = [(point.now, point.battery_kwh) for point in points]
    return step_chart(frame, [Line("battery", "third", level, f"{compact(told[-1])} kWh")])


def agreement_chart(points: Sequence[Point], axis: TimeAxis) -> str:
    """The share of states in which policy and heuristic did the same, over the `ROLLING` before each."""
    lately: deque[bool] = deque(maxlen=ROLLING)
    shares: list[tuple[float, float | None]] = []
    for point in points:
        if point.agrees is not None:
            lately.append(point.agrees)
            shares.append((point.now, 100 * sum(lately) / len(lately)))
    failed = [point.now for point in points if point.agrees is None]
    if shares:
        shares.append((points[-1].now, shares[-1][1]))
        newest = f"{number(shares[-1][1] or 0.0)} %"
        described = (
            f"They agree in {newest} of the last {counted(len(lately), 'state')} that both decided about."
        )
    else:
        newest, described = "", "There is no state that both decided about."
    described += f" The policy failed in {len(failed)} of {counted(len(points), 'state')}."
    frame = Frame("Agreement with the heuristic over time", described, axis, levels(100), HEIGHT, "%")
    note = f"Share of the last {ROLLING} states that both decided about, state by state."
    return step_chart(frame, [Line("agreement", "first", shares, newest)], failed, note)
