"""The schedule of a state as a chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from statistics import median_low

from rlsched.report.words import count_of, written
from rlsched.serve.page.drawing import (
    BETWEEN,
    LETTER_PX,
    NARROW_PX,
    WIDE_PX,
    Frame,
    TimeAxis,
    figure,
    inert,
    levels,
    percent,
    stretched,
)
from rlsched.serve.page.schedule import Schedule, UnitBar, Use

HEIGHT = 320

LEAST_PX = 14.0  # height of a bar with a label
THIN_PX = 4.0  # height below which a bar has no outline, which would hide it

LOOKS = {
    "runs": "runs",
    "overdue": "should have ended",
    "suspends": "is suspended now",
    "starts": "starts now",
    "reserved": "units reserved for it",
    "planned": "planned",
    "others": "smaller jobs",
    "out": "out of service",
}
"""Class of a bar in the style -> its name."""

ENDED = ("overdue", "suspends")  # looks of bars whose end is not known


def time_axis(schedule: Schedule) -> TimeAxis:
    """As long as most jobs are; a few much longer ones reach beyond the edges."""
    now = schedule.now
    known = [bar.use for bar in (*schedule.bars, *schedule.stairs)]
    before = _reach([now - use.begin for use in known])
    after = _reach([use.end - now for use in known])
    after = max(after, before // 4, 60)
    return TimeAxis(now - max(before, after // 10), now + after, now)


def _reach(lengths: Iterable[int]) -> int:
    """The longest, or eight times the median where that is shorter."""
    known = [length for length in lengths if length > 0]
    return min(max(known), 8 * median_low(known)) if known else 0


def draw_schedule(schedule: Schedule, resource: str) -> str:
    """The schedule as a figure, with the units of this resource."""
    axis = time_axis(schedule)
    marks = [mark for mark in levels(schedule.units, whole=True) if mark < 0.93 * schedule.units]
    counts = {look: len({bar.use.job for bar in schedule.bars if bar.use.look == look}) for look in LOOKS}
    present = {look: count for look, count in counts.items() if count}
    names = ", ".join(f"{count:,} {LOOKS[look]}" for look, count in present.items()) or "none"
    described = f"Jobs by the {resource} units they hold, over time: {names}."
    marks = [*marks, float(schedule.units)]
    frame = Frame("Schedule of the newest state", described, axis, marks, HEIGHT, resource)
    drawn = [_draw_stairs(frame, schedule.stairs)] if schedule.stairs else []
    if schedule.out:
        use = Use("", schedule.out, schedule.now, int(axis.end) + 1, "out")
        drawn.append(_rectangle(frame, UnitBar(use, schedule.units - schedule.out, schedule.units), ""))
    drawn += [_rectangle(frame, bar, _bar_text(bar.use, schedule.now)) for bar in schedule.bars]
    drawn += [_label(frame, bar) for bar in schedule.bars]
    if schedule.stairs:
        present["others"] = schedule.small
    if schedule.out:
        present["out"] = schedule.out
    entries = [
        (
            f'<rect class="bar {look}" x="1" y="1" width="24" height="10"/>',
            f"{escape(LOOKS[look])} <b>{present[look]:,}</b>",
        )
        for look in LOOKS
        if look in present
    ]
    return figure(frame.around(_STRIPES + "".join(drawn)), entries, " ".join(_notes(schedule, axis)))


_STRIPES = (
    '<defs><pattern id="stripes" width="7" height="7" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><path class="stripe" d="M0 0V7"/></pattern></defs>'
)


def _notes(schedule: Schedule, axis: TimeAxis) -> list[str]:
    """Notes about jobs that the chart does not show."""
    notes = []
    if not schedule.bars:
        notes.append("No job runs, and none is to start.")
    if schedule.small:
        notes.append(f"Drawn together, from now on: the units of {count_of(schedule.small, 'smaller job')}.")
    if schedule.left_out:
        notes.append(f"Not drawn: {count_of(schedule.left_out, 'smaller job')} to start now or later.")
    uses = [bar.use for bar in schedule.bars]
    beyond = len({use.job for use in uses if use.begin < axis.begin or use.end > axis.end})
    if beyond:
        notes.append(f"Beyond the edges of the picture: parts of {count_of(beyond, 'job')}.")
    if schedule.without_room:
        notes.append(
            f"Not drawn: {count_of(schedule.without_room, 'job')} to come for which too few units will be"
            " free, by what is expected."
        )
    return notes


def _bar_text(use: Use, now: int) -> str:
    """A bar in words, as text."""
    words = [count_of(use.units, "unit"), LOOKS[use.look]]
    if use.begin < now:
        words.append(f"began {written(now - use.begin, 's')} ago")
    elif use.begin > now:
        words.append(f"in {written(use.begin - now, 's')}")
    if use.look not in ENDED:
        rest = written(use.end - max(now, use.begin), "s")
        words.append(f"for another {rest}" if use.begin < now else f"for {rest}")
    return ", ".join(words)


def _rectangle(frame: Frame, bar: UnitBar, words: str) -> str:
    x0, x1 = frame.axis.share(bar.use.begin), frame.axis.share(bar.use.end)
    top, bottom = frame.y(bar.high), frame.y(bar.low)
    title = f"<title>{inert(bar.use.job, 16)}: {escape(words)}</title>" if words else ""
    thin = " thin" if bottom - top < THIN_PX else ""
    return (
        f'<rect class="bar {bar.use.look}{thin}" x="{percent(x0)}" y="{top:g}"'
        f' width="{percent(max(0.0015, x1 - x0))}" height="{max(0.5, bottom - top):g}">{title}</rect>'
    )


def _label(frame: Frame, bar: UnitBar) -> str:
    """The job's id, if it fits on one side of the line at now."""
    begin, now, end = map(frame.axis.share, (bar.use.begin, frame.axis.now, bar.use.end))
    sides = ((begin, min(now, end)), (max(begin, now), end))
    x0, x1 = max(sides, key=lambda side: side[1] - side[0])
    name = str(bar.use.job)
    needed = LETTER_PX * len(name) + 8
    height = frame.y(bar.low) - frame.y(bar.high)
    if height < LEAST_PX or needed > (x1 - x0) * WIDE_PX:
        return ""
    spare = f" {BETWEEN}" if needed > (x1 - x0) * NARROW_PX else ""
    y = frame.y((bar.low + bar.high) / 2) + 4
    return f'<text class="job{spare}" x="{percent((x0 + x1) / 2)}" y="{y:g}">{inert(name)}</text>'


def _draw_stairs(frame: Frame, stairs: Sequence[UnitBar]) -> str:
    """Jobs that are not drawn one by one."""
    begin = 1000 * frame.axis.share(frame.axis.now)
    path = f"M{begin:.4g} {frame.y(0)}"
    for stair in stairs:
        path += f"H{1000 * frame.axis.share(stair.use.end):.4g}V{frame.y(stair.high)}"
    return stretched(frame, f'<path class="bar others" d="{path}H{begin:.4g}Z"/>')
