"""Charts as SVG inside a page: they stretch with it, and their words keep their size.

Places along the time axis are percentages, so that a chart is as wide as the element around it. Lines are
drawn in a picture of 1,000 steps that is stretched to it. Labels hang outside of the picture, in margins that
the style leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from rlsched.report.words import number

MINUTE, HOUR, DAY, YEAR = 60, 3_600, 86_400, 31_536_000

STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE * k for k in (1, 2, 5, 10, 15, 30)),
    *(HOUR * k for k in (1, 2, 3, 6, 12)),
    *(DAY * k for k in (1, 2, 5, 10, 20, 50, 100)),
    *(YEAR * k for k in (1, 2, 5, 10, 20, 50, 100, 200)),
    *(YEAR * k for k in (500, 1000, 2000, 5000, 10_000, 20_000)),
)
"""Between ticks of a time axis; clients have 34,000 years."""

UNITS = (("y", YEAR), ("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", 1))

TICKS = 8
"""At most, on a time axis; every other one is left out where the screen is narrow, or labels are long."""

WIDE_PX, NARROW_PX = 800, 280  # least widths of a chart, on screens and on phones (`BETWEEN`)
BETWEEN = "between"  # class of what a phone has no room for
LETTER_PX = 7.0  # about what a letter of a label takes


def inert(text: object, length: int = 40) -> str:
    """Text of a client as HTML: escaped, without characters that cannot be seen, and not too long.

    Characters that turn the direction of a text, or end a line, would let an id look like another one. Longer
    texts lose their middle.
    """
    visible = "".join(letter if letter.isprintable() else "\ufffd" for letter in str(text))
    if len(visible) > length:
        half = (length - 1) // 2
        visible = f"{visible[: length - 1 - half]}…{visible[-half:]}"
    return escape(visible)


def percent(share: float) -> str:
    """A share of the width as a percentage, as short as possible."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def compact(value: float) -> str:
    """A number of an axis, in at most six letters or so."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(value) >= factor:
            size = 1e3 if letter == "k" else factor
            return f"{value / size:,.4g} {letter}"
    return number(value)


class Tick(NamedTuple):
    """A mark on a time axis."""

    at: float  # seconds
    label: str
    spare: bool  # a phone has no room for it


@dataclass(frozen=True)
class TimeAxis:
    """Seconds from left to right."""

    begin: float  # at the left edge
    end: float  # at the right edge, later
    now: float  # what labels count from

    def share(self, time: float) -> float:
        """Share of the width, 0 to 1; times beyond the edges are at the edges."""
        return min(1.0, max(0.0, (time - self.begin) / (self.end - self.begin)))

    def ticks(self) -> list[Tick]:
        """Ticks at round distances from now, where people expect them."""
        span = self.end - self.begin
        fits = (s for s in STEPS_S if span <= s * (TICKS if s < 500 * YEAR else TICKS // 2))
        step = next(fits, STEPS_S[-1])
        unit, size = next((unit for unit in UNITS if step >= unit[1]), UNITS[-1])
        first, last = ceil((self.begin - self.now) / step), floor((self.end - self.now) / step)
        labels = {
            k: f"{'+' if k > 0 else ''}{number(k * step / size)} {unit}" for k in range(first, last + 1)
        }
        return [Tick(self.now + k * step, labels[k] if k else "now", k % 2 != 0) for k in labels]


def levels(top: float, *, whole: bool = False) -> list[float]:
    """Marks of an axis from 0 to what holds `top`: at most five, in steps of 1, 2 or 5 times a power of ten.

    For counts, which are `whole`, no step is below 1.
    """
    if top <= 0:
        return [0.0, 1.0]
    rough = top / 4
    power = 10.0 ** floor(log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, step)
    return [k * step for k in range(ceil(top / step - 1e-9) + 1)]


class Line(NamedTuple):
    """A value over time that stays as it is until the next point.

    A value of None: it is not known, and nothing is drawn until the next one.
    """

    name: str
    look: str  # a class of the style
    points: Sequence[tuple[float, float | None]]  # seconds, rising; value
    last: str = ""  # what it came to, in words


@dataclass(frozen=True)
class Frame:
    """Title, axes and size of a chart."""

    title: str
    described: str  # a sentence or two about it, for screen readers
    axis: TimeAxis
    marks: Sequence[float]  # of the other axis, from 0 up
    height: int = 150  # pixels
    unit: str = ""  # behind the highest mark

    def y(self, value: float) -> float:
        """Pixels from the upper edge."""
        return round(self.height * (1 - value / self.marks[-1]), 1)

    def around(self, drawn: str) -> str:
        """The whole picture around its content (SVG)."""
        grid = "".join(
            f'<line class="grid" x2="100%" y1="{self.y(mark)}" y2="{self.y(mark)}"/>'
            f'<text class="mark" x="-8" y="{self.y(mark) + 4:g}">{escape(compact(mark))}</text>'
            for mark in self.marks
        )
        ticks = "".join(
            f'<text class="tick{f" {BETWEEN}" if tick.spare else ""}{" now" if tick.label == "now" else ""}"'
            f' x="{percent(self.axis.share(tick.at))}" y="{self.height + 18}">{escape(tick.label)}</text>'
            for tick in self.axis.ticks()
        )
        at = percent(self.axis.share(self.axis.now))
        now_line = f'<line class="now" x1="{at}" x2="{at}" y1="-4" y2="{self.height + 4}"/>'
        now_inside = self.axis.begin <= self.axis.now < self.axis.end
        unit = f'<text class="unit" x="-44" y="-10">{escape(self.unit)}</text>' if self.unit else ""
        return (
            f'<svg class="chart" role="img" height="{self.height}">'
            f"<title>{escape(self.title)}</title><desc>{escape(self.described)}</desc>"
            f"{grid}{unit}{drawn}{now_line if now_inside else ''}{ticks}</svg>"
        )


def figure(picture: str, entries: Iterable[tuple[str, str]], note: str = "") -> str:
    """A chart with its legend above it, and a note (HTML) below.

    The legend has swatches of 26 x 12 pixels (SVG) with their names (HTML).
    """
    items = "".join(
        f'<li><svg class="swatch" width="26" height="12" aria-hidden="true">{swatch}</svg>{name}</li>'
        for swatch, name in entries
    )
    below = f"<figcaption>{note}</figcaption>" if note else ""
    return f'<figure class="drawn"><ul class="legend">{items}</ul>{picture}{below}</figure>'


def stretched(frame: Frame, paths: str) -> str:
    """Paths whose places along the time axis go from 0 to 1,000."""
    return (
        f'<svg width="100%" height="{frame.height}" viewBox="0 0 1000 {frame.height}"'
        f' preserveAspectRatio="none">{paths}</svg>'
    )


def step_chart(frame: Frame, lines: Sequence[Line], failed: Sequence[float] = (), note: str = "") -> str:
    """Values over time, later ones above, with a mark at the seconds at which the policy failed.

    A note (HTML) stands below.
    """
    paths = "".join(f'<path class="line {line.look}" d="{_path(frame, line)}"/>' for line in lines)
    marks = "".join(
        f'<line class="failed" x1="{at}" x2="{at}" y1="{frame.height - 12}" y2="{frame.height}"/>'
        for at in dict.fromkeys(percent(frame.axis.share(time)) for time in failed)
    )
    drawn = stretched(frame, paths) + marks
    entries = [
        (
            f'<path class="line {line.look}" d="M1 6H25"/>',
            escape(line.name) + (f" <b>{escape(line.last)}</b>" if line.last else ""),
        )
        for line in lines
    ]
    if failed:
        entries.append(('<line class="failed" x1="13" x2="13" y1="0" y2="12"/>', "the policy failed"))
    return figure(frame.around(drawn), entries, note)


def _path(frame: Frame, line: Line) -> str:
    """Steps through the points; levels that follow each other are drawn as one."""
    path: list[str] = []
    level: float | None = None
    reached = ""
    for time, value in line.points:
        at = f"{1000 * frame.axis.share(time):.4g}"
        y = None if value is None else frame.y(value)
        if y == level:
            reached = at
            continue
        if level is not None:
            path.append(f"H{at}")
        if y is not None:
            path.append(f"M{at} {y}" if level is None else f"V{y}")
        level, reached = y, at
    # a level with one point is a dot, by the round ends of lines
    return "".join(path) + (f"H{reached}" if level is not None else "")
