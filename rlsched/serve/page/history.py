"""Charts of recent states and of the ticks ahead: queue, units, battery, forecasts, agreement."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlsched.report.words import count_of, number
from rlsched.serve.api.schema import Answer, ClusterState
from rlsched.serve.ledger.records import Record
from rlsched.serve.page.drawing import Frame, Line, TimeAxis, compact, levels, step_chart
from rlsched.serve.page.schedule import uses

MOST_TICKS = 500  # of a chart of the ticks ahead
ROLLING = 20  # states of a rolling share of agreement


@dataclass(frozen=True)
class Point:
    """A state in figures, of the first resource."""

    now: int  # its time, seconds
    waiting: int  # jobs, with the suspended ones
    used: int  # units that jobs hold
    free: int | None  # units; None: not known
    battery_kwh: float | None  # level; None: not known
    agrees: bool | None  # whether policy and heuristic agree; None: one of them did not decide


def by_time(records: Iterable[Record]) -> list[Record]:
    """Records by the time of their state, the newest last.

    A client that replays a trace sets its clock back: a record replaces earlier records of states at its time
    and later. Records of one request are sorted by the time of their state.
    """
    timeline: list[Record] = []
    for record in sorted(records, key=lambda record: (record.at, record.state.now)):
        while timeline and timeline[-1].state.now >= record.state.now:
            timeline.pop()
        timeline.append(record)
    return timeline


def units_now(record: Record, default: Sequence[int]) -> tuple[int, int | None, int | None]:
    """Units of the first resource: used, free, and in all; None: not known.

    The `default` (resource,) units count if the state gives none; it may be empty.
    """
    state = record.state
    used = sum(job.demand[0] for job in state.running)
    units = (default if state.units is None else state.units) or None
    total = None if units is None else units[0]
    if state.free is not None:
        return used, state.free[0], total
    return used, None if total is None else max(0, total - used), total


def point(record: Record, default: Sequence[int]) -> Point:
    """A state in figures; see `units_now`."""
    state = record.state
    used, free, _ = units_now(record, default)
    waiting = len(state.waiting) + len(state.suspended)
    return Point(state.now, waiting, used, free, state.battery_kwh, record.answer.agrees)


def span(points: Sequence[Point], now: int) -> TimeAxis | None:
    """The time axis of points; None: they have the same time."""
    if points[0].now == points[-1].now:
        return None
    return TimeAxis(points[0].now, points[-1].now, now)


def queue_charts(points: Sequence[Point], axis: TimeAxis, resource: str) -> str:
    """Charts of waiting jobs, and of used and free units."""
    newest, most = points[-1], max(point.waiting for point in points)
    described = (
        f"{newest.waiting:,} jobs wait at last, {most:,} at most, over {count_of(len(points), 'state')}."
    )
    frame = Frame("Waiting jobs over time", described, axis, levels(most, whole=True), unit="jobs")
    waiting = [(point.now, float(point.waiting)) for point in points]
    jobs = step_chart(frame, [Line("waiting", "first", waiting, f"{newest.waiting:,}")])
    lines = [Line("used", "first", [(p.now, float(p.used)) for p in points], f"{newest.used:,}")]
    if any(point.free is not None for point in points):
        free = [(p.now, None if p.free is None else float(p.free)) for p in points]
        lines.insert(0, Line("free", "second", free, "" if newest.free is None else f"{newest.free:,}"))
    described = f"{newest.used:,} units are used at last"
    described += "." if newest.free is None else f", and {newest.free:,} are free."
    top = max(max(point.used, point.free or 0) for point in points)
    frame = Frame(f"Units over time ({resource})", described, axis, levels(top, whole=True), unit="units")
    return jobs + step_chart(frame, lines)


def battery_chart(points: Sequence[Point], axis: TimeAxis) -> str:
    """The chart of the battery; empty if no state gives its level."""
    levels_kwh = [point.battery_kwh for point in points if point.battery_kwh is not None]
    if not levels_kwh:
        return ""
    last, most = levels_kwh[-1], max(levels_kwh)
    described = f"The battery holds {number(last)} kWh at last, {number(most)} kWh at most."
    frame = Frame("Battery over time", described, axis, levels(most), unit="kWh")
    level = [(point.now, point.battery_kwh) for point in points]
    return step_chart(frame, [Line("battery", "third", level, f"{compact(last)} kWh")])


def agreement_chart(points: Sequence[Point], axis: TimeAxis) -> str:
    """The chart of agreement of policy and heuristic, over the last `ROLLING` states."""
    window: deque[bool] = deque(maxlen=ROLLING)
    shares: list[tuple[float, float | None]] = []
    for point in points:
        if point.agrees is not None:
            window.append(point.agrees)
            shares.append((point.now, 100 * sum(window) / len(window)))
    failed = [point.now for point in points if point.agrees is None]
    newest, described = "", "There is no state that both decided about."
    if shares:
        newest = f"{number(shares[-1][1] or 0.0)} %"
        described = (
            f"They agree in {newest} of the last {count_of(len(window), 'state')} that both decided about."
        )
        shares.append((points[-1].now, shares[-1][1]))
    described += f" The policy failed in {len(failed)} of {count_of(len(points), 'state')}."
    frame = Frame("Agreement with the heuristic over time", described, axis, levels(100), unit="%")
    note = f"Share of the last {ROLLING} states that both decided about, state by state."
    return step_chart(frame, [Line("agreement", "first", shares, newest)], failed, note)


def used_ahead(state: ClusterState, answer: Answer, tick_s: int, ticks: int) -> list[int]:
    """(tick,) units of the first resource in use now and at the next ticks, under the decisions."""
    change = [0] * (ticks + 1)
    running, coming = uses(state, answer)
    for use in (*running, *(use for use in coming if use.look != "reserved")):
        begin = max(0, -((state.now - use.begin) // tick_s))
        end = max(0, -((state.now - use.end) // tick_s))
        change[min(ticks, begin)] += use.units
        change[min(ticks, end)] -= use.units
    used, level = [], 0
    for k in range(ticks):
        level += change[k]
        used.append(level)
    return used


def ahead_charts(state: ClusterState, answer: Answer, tick_s: int, horizon: int, resource: str) -> str:
    """Charts of units and supply over the ticks ahead; empty if the state gives neither.

    They show `horizon` ticks of `tick_s` seconds; 0: as many as the forecasts.
    """
    units_on = state.units_on[0] if state.units_on else None
    lengths = [len(series) for series in (units_on, state.supply_kw) if series]
    if not lengths:
        return ""
    ticks = min(MOST_TICKS, horizon or max(lengths))
    axis = TimeAxis(state.now, state.now + ticks * tick_s, state.now)

    def series(values: Sequence[float]) -> list[tuple[float, float | None]]:
        """Points of a forecast; its last value counts for all later ticks."""
        points = [(float(state.now + k * tick_s), float(value)) for k, value in enumerate(values[:ticks])]
        return [*points, (axis.end, points[-1][1])]

    charts = ""
    if units_on:
        used = used_ahead(state, answer, tick_s, ticks)
        described = (
            f"{units_on[0]:,} units are on now, at least {min(units_on[:ticks]):,} over the next {ticks:,}"
            f" ticks; {used[0]:,} are used now, with the decisions."
        )
        marks = levels(max(*units_on[:ticks], *used), whole=True)
        frame = Frame(f"Units on and used ahead ({resource})", described, axis, marks, unit="units")
        lines = [
            Line("on, as forecast", "second", series(units_on), f"{units_on[0]:,}"),
            Line("used, with the decisions", "first", series(used), f"{used[0]:,}"),
        ]
        charts += step_chart(frame, lines)
    if state.supply_kw:
        supply = state.supply_kw[:ticks]
        described = (
            f"{number(supply[0])} kW now, between {number(min(supply))} and {number(max(supply))} kW over the"
            f" next {ticks:,} ticks, as forecast."
        )
        frame = Frame("Wind and sun ahead", described, axis, levels(max(supply)), unit="kW")
        line = Line("wind and sun, as forecast", "third", series(supply), f"{number(supply[0])} kW")
        charts += step_chart(frame, [line])
    return charts
