"""Charts of the ticks ahead: units on and used, and the forecast of wind and sun."""

from __future__ import annotations

from collections.abc import Sequence

from rlsched.report.words import number
from rlsched.serve.api.schema import Answer, ClusterState
from rlsched.serve.page.drawing import Frame, Line, TimeAxis, levels, step_chart
from rlsched.serve.page.schedule import uses

MOST_TICKS = 500  # ticks of a chart


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
