"""Pictures and films of episodes over time: power by source and jobs by place, under one or more policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import ceil

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image

from rlsched.envs.grid_picture import draw_indexed
from rlsched.envs.palette import PALETTE, Indexed
from rlsched.errors import BadInputError
from rlsched.evaluate.history import History, knows_ticks, record
from rlsched.evaluate.policy import Policy
from rlsched.report.panels import (
    AREAS,
    BATTERY_LEVEL,
    DONE,
    PLACES,
    POWER,
    UNITS,
    VALUE,
    WAIT_POOL,
    Grain,
    Panel,
    Series,
)
from rlsched.report.style import INK, MUTED, house_style, new_figure, right_title, shortened, time_axis
from rlsched.report.words import number
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode

WIDTH_IN, HEAD_IN, LEGEND_IN = 12.0, 0.45, 0.75
LEGEND_COLUMNS = 6


FRAMES = 200  # ticks in a film, from the first on
FRAME_MS = 120  # whole hundredths of a second


@dataclass(frozen=True, eq=False)
class Timeline:
    """Data of a picture over time."""

    title: str  # name of the episode
    histories: Sequence[History]  # of the episode, one per policy

    @property
    def powered(self) -> bool:
        """Whether the scenario has power."""
        return any(history.powered for history in self.histories)


def draw_power(timeline: Timeline) -> Figure:
    """Draw power by source over time, and the level of the battery if there is one, for each policy.

    Raises:
        ValueError: nothing to draw, or a scenario without power.
    """
    if not timeline.powered:
        raise ValueError(f"{timeline.title}: no power to draw")
    return _draw(timeline, _power_panels(timeline), _power_facts)


def draw_jobs(timeline: Timeline) -> Figure:
    """Draw jobs by place over time, units, and completed jobs, for each policy.

    Raises:
        ValueError: nothing to draw.
    """
    return _draw(timeline, [PLACES, WAIT_POOL, UNITS, DONE], _job_facts)


def draw_summary(timeline: Timeline) -> Figure:
    """Draw all panels, with a column per policy.

    Raises:
        ValueError: nothing to draw.
    """
    power = _power_panels(timeline) if timeline.powered else []
    return _draw(timeline, [*power, PLACES, WAIT_POOL, UNITS, DONE, VALUE], _job_facts, in_columns=True)


def _power_panels(timeline: Timeline) -> list[Panel]:
    return [POWER, BATTERY_LEVEL] if any(h.capacity_kwh > 0 for h in timeline.histories) else [POWER]


def _draw(
    timeline: Timeline, panels: Sequence[Panel], facts: Callable[[History], str], *, in_columns: bool = False
) -> Figure:
    """Draw the panels of all policies in columns, or below each other; equal panels share their axes."""
    histories = timeline.histories
    if not histories:
        raise ValueError(f"{timeline.title}: nothing to draw: give at least one policy")
    grain = Grain.of(histories)
    columns, groups = (len(histories), 1) if in_columns else (1, len(histories))
    heights = [panel.height for panel in panels]
    with house_style():
        height = HEAD_IN + LEGEND_IN + groups * (sum(heights) + 0.35)
        figure = new_figure(WIDTH_IN, height, timeline.title, hspace=0.03, wspace=0.04)
        grid = figure.subplots(groups * len(panels), columns, squeeze=False, height_ratios=heights * groups)
        rows = grid.T if in_columns else grid.reshape(groups, -1)  # (history, panel)
        for k, (history, row) in enumerate(zip(histories, rows, strict=True)):
            for panel, axes in zip(panels, row, strict=True):
                panel.draw(axes, history, grain)
                if k == 0 or not in_columns:
                    axes.set_ylabel(panel.label)
                _time_axis(axes, grain, named=axes in grid[-1], most=7 if in_columns else 14)
            _head(row[0], history, facts(history), below=in_columns)
        for equal in rows.T:
            top = max(axes.get_ylim()[1] for axes in equal)
            for axes in equal:
                axes.set_ylim(0, top)
        figure.align_ylabels()
        handles = [_handle(series) for panel in panels for series in panel.explained(histories)]
        columns = ceil(len(handles) / ceil(len(handles) / LEGEND_COLUMNS))
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8.5)
    return figure


def _head(axes: Axes, history: History, facts: str, *, below: bool) -> None:
    """Write the name of the policy, and its results to the right of the name or below it."""
    axes.set_title(shortened(history.name), fontsize=10.5, color=INK, pad=20.0 if below else None)
    if below:
        axes.annotate(
            facts, (0, 1), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points",
            fontsize=8.5, color=MUTED,
        )  # fmt: skip
    else:
        right_title(axes, facts)


def _time_axis(axes: Axes, grain: Grain, *, named: bool, most: int) -> None:
    axes.set_xlim(0, grain.span)
    time_axis(axes, grain.span, grain.unit, "both", most)
    axes.tick_params(labelbottom=named)
    if named:
        step = f"; means of {grain.step} ticks" if grain.step > 1 else ""
        axes.set_xlabel(f"time since the first submit ({grain.unit.name}{step})")


def _handle(series: Series) -> Artist:
    """The legend entry of an area or a line."""
    if series.kind in AREAS:
        return Patch(label=series.name, **series.look)
    return Line2D([], [], label=series.name, **series.look)


def _power_facts(history: History) -> str:
    accounts = history.played.accounts
    used = accounts["energy_kwh"]
    battery, brown = accounts["battery_kwh"], accounts["brown_kwh"]
    shares = [("renewable", used - battery - brown), ("battery", battery), ("grid", brown)]
    parts = [f"{number(100 * kwh / used if used else 0.0)} % {name}" for name, kwh in shares]
    facts = [
        f"{number(used)} kWh drawn: {', '.join(parts)}",
        f"{number(accounts['curtailed_kwh'])} kWh curtailed",
        f"{number(accounts['carbon_kg'])} kg carbon",
    ]
    return "   ·   ".join(facts)


def _job_facts(history: History) -> str:
    played = history.played
    shares = played.accounts["used_share"] / max(1, history.ticks)
    facts = [
        f"value {number(float(history.value[-1]))}",
        f"{int(played.finished.sum()):,} finished",
        f"{int(played.rejected.sum()):,} rejected",
        f"utilization {number(100 * shares)} %",
    ]
    return "   ·   ".join(facts)


def film(policy: Policy, episode: Episode, units: Sequence[int], frames: int = FRAMES) -> tuple[bytes, int]:
    """Run the first ticks of an episode with a planning horizon, `frames` at most, and draw each of them.

    Raises:
        BadInputError: a policy without a horizon, or an episode that is over at once.
    """
    if not knows_ticks(policy):
        raise BadInputError("--render", f"{policy.name} plays without a horizon", "end it in .png")
    drawn: list[Indexed] = []

    def look(sim: VectorSimulator) -> None:
        drawn.append(draw_indexed(sim, 0, episode.jobs))

    record(policy, episode, units, ticks=frames, look=look)
    if not drawn:
        problem = "the first episode was over at once: nothing to film"
        raise BadInputError("--render", problem, "end it in .png")
    return to_gif(drawn), len(drawn)


def to_gif(frames: Sequence[Indexed]) -> bytes:
    """Pictures of palette numbers as a GIF with exact colours, which repeats."""
    images = []
    for frame in frames:
        image = Image.fromarray(frame)
        image.putpalette(PALETTE.tobytes())
        images.append(image)
    buffer = BytesIO()
    images[0].save(
        buffer, "GIF", save_all=True, append_images=images[1:], duration=FRAME_MS, loop=0, optimize=False
    )
    return buffer.getvalue()
