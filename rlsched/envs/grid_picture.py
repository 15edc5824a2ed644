"""The picture of a cluster with a horizon: the grid of its plans, its power, and the jobs that wait.

Drawn as palette numbers, without any plotting library, so that frames of a film keep their exact colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from rlsched.envs.moment import Moment, battery_kwh, places, power_now
from rlsched.envs.palette import (
    BACKUP,
    DARK,
    DIM,
    DRAW,
    FORECAST,
    HUES,
    INK,
    LINE,
    MUTED,
    PALE,
    PAPER,
    SLOT,
    SOLID,
    STORED,
    SUPPLY,
    UNUSED,
    Indexed,
)
from rlsched.envs.picture_text import HEIGHT as LETTER
from rlsched.envs.picture_text import width as text_width
from rlsched.envs.picture_text import write
from rlsched.jobs import IntArray, JobTable
from rlsched.sim.rules import FINISHED_VALUE
from rlsched.sim.simulator import VectorSimulator

FREE, OFF = -1, -2
"""Cells of the grid that no job holds; the others say the row of the job."""

AN_EXAMPLE = 4  # the colour of the job in the legend

MARGIN, GAP, LINE_H = 12, 16, 20  # pixels
AXIS, GRIDS, ROWS, POWER, TANK, POOL = 30, 384, 384, 120, 44, 232  # pixels; GRIDS at most, POOL at least
NAME, NARROWEST = 42, 760  # pixels, at least
CELL = 24  # pixels at most
SMALLEST_BOX, BOX_GAP = 10, 6  # pixels


def grid_cells(moment: Moment, jobs: JobTable) -> list[IntArray]:
    """What every unit does in every row of the grid.

    A row lists the jobs that run, the last to end first, then the planned ones by their start, then free
    units, then those that are off. Which unit a job runs on means nothing; in this order, the cells of a job
    hang together as far as they can.

    Returns:
        (row, unit) for every resource: row of the job, FREE or OFF.
    """
    rows = np.arange(moment.on.shape[1])
    held = np.concatenate([moment.running, moment.planned])
    first = np.concatenate([np.zeros_like(moment.running), moment.starts])
    last = first + np.concatenate([moment.remaining, moment.requested[moment.planned]])
    there = (first[:, None] <= rows) & (rows < last[:, None])  # (job, row)
    cells = []
    for r, units in enumerate(moment.units.tolist()):
        found = np.full((len(rows), units), OFF, np.int64)
        counts = there * jobs.demand[held, r, None].astype(np.int64)
        for k in range(len(rows)):
            found[k, : moment.on[r, k]] = FREE
            line = held.repeat(counts[:, k])[:units]
            found[k, : len(line)] = line
        cells.append(found)
    return cells


@dataclass(frozen=True)
class _Frame:
    """Where things stand in the picture of a scenario; all in pixels."""

    cell_h: int  # of a row
    skip_rows: int  # rows of the grid that one row of the picture stands for
    cell_w: tuple[int, ...]  # (resource,)
    skip_units: tuple[int, ...]  # (resource,) likewise
    lefts: tuple[int, ...]  # (resource,)
    top: int
    bottom: int
    power: int  # left edge, 0: none
    tank: int  # likewise
    pool: int
    pool_w: int
    width: int
    height: int

    @classmethod
    def of(cls, sim: VectorSimulator) -> _Frame:
        rows, plant = sim.scenario.decision.horizon or 1, sim.rules.plant
        skip_rows = ceil(rows / ROWS)
        shown = ceil(rows / skip_rows)
        cell_h = min(CELL, ROWS // shown)
        most = sim.state.most.tolist()
        share = max(CELL // 2, (GRIDS + GAP) // len(most) - GAP)
        skip_units = tuple(ceil(units / share) for units in most)
        columns = [ceil(units / skip) for units, skip in zip(most, skip_units, strict=True)]
        cell_w = tuple(min(CELL, share // count) for count in columns)
        lefts, at = [], MARGIN + AXIS
        for count, wide in zip(columns, cell_w, strict=True):
            lefts.append(at)
            at += max(count * wide, NAME) + GAP
        power = tank = 0
        if plant.powered:
            power, at = at, at + POWER + GAP
        if plant.capacity_wh > 0:
            tank, at = at, at + TANK + GAP
        top = MARGIN + 2 * LINE_H + 8
        bottom = top + max(shown * cell_h, ROWS // 2)
        width = max(NARROWEST, at + POOL + MARGIN)
        return cls(
            cell_h, skip_rows, cell_w, skip_units, tuple(lefts), top, bottom, power, tank, at,
            width - MARGIN - at, width, bottom + LINE_H + MARGIN,
        )  # fmt: skip


def draw_indexed(sim: VectorSimulator, env: int, jobs: JobTable) -> Indexed:
    """The grid, the power and the pools of one environment.

    Per resource the units from left to right and the ticks of the horizon from now, at the top, downwards;
    jobs in their colours, planned ones hatched, free units light, units that are off black. Beside it the
    power, row by row, the battery, and the slots of the ready pool: requested time downwards, demand to the
    right, framed dark where the job may be chosen.

    Args:
        sim: of a scenario with a horizon.
        env: which environment.
        jobs: the jobs of its episode.

    Returns:
        (height, width) numbers in `palette.PALETTE`.
    """
    frame = _Frame.of(sim)
    image = np.full((frame.height, frame.width), PAPER, np.uint8)
    moment = Moment.of(sim, env)
    _draw_titles(image, sim, env, frame)
    for r, cells in enumerate(grid_cells(moment, jobs)):
        units = np.arange(frame.skip_units[r] // 2, cells.shape[1], frame.skip_units[r])
        dim = units >= moment.on[r, :: frame.skip_rows, None]
        shown = cells[:: frame.skip_rows, units]
        picture = _blown_up(shown, dim, moment.planned, frame.cell_h, frame.cell_w[r])
        left = frame.lefts[r]
        image[frame.top : frame.top + picture.shape[0], left : left + picture.shape[1]] = picture
    _draw_axis(image, frame, moment.on.shape[1])
    if frame.power:
        _draw_power(image, sim, env, frame, moment)
    if frame.tank:
        _draw_tank(image, sim, env, frame)
    _draw_pools(image, sim, env, frame, moment, jobs)
    _draw_legend(image, sim, frame)
    return image


def _blown_up(cells: IntArray, dim: NDArray[np.bool_], planned: IntArray, high: int, wide: int) -> Indexed:
    """Cells as a picture, each so many pixels high and wide."""
    number = (cells % HUES).astype(np.uint8)
    waits = np.isin(cells, planned)
    colour = np.where(waits, PALE, np.where(dim, DIM, SOLID)).astype(np.uint8) + number
    colour[cells == FREE] = UNUSED
    colour[cells == OFF] = DARK
    picture = colour.repeat(high, axis=0).repeat(wide, axis=1)
    if high >= 3:  # of less, stripes would be all there is
        _hatch(picture, waits.repeat(high, axis=0).repeat(wide, axis=1))
    if min(high, wide) >= 5:
        picture[high - 1 :: high] = PAPER
        picture[:, wide - 1 :: wide] = PAPER
    return picture


def _hatch(picture: Indexed, where: NDArray[np.bool_]) -> None:
    """Stripes in the solid colour on what is pale."""
    y, x = np.ogrid[: picture.shape[0], : picture.shape[1]]
    picture[where & ((x + y) % 4 == 0)] -= np.uint8(PALE - SOLID)


def _label(image: Indexed, text: str, top: int, left: int, room: int, colour: int = INK) -> None:
    """Write a text into so many pixels: large where it fits, else small, and cut where it must be."""
    scale = 2 if text_width(text, 2) <= room else 1
    write(image[:, : left + room], text, top + (2 - scale) * LETTER // 2, left, colour, scale)


def _draw_titles(image: Indexed, sim: VectorSimulator, env: int, frame: _Frame) -> None:
    e = sim.state.episodes[env]
    where = places(sim, env)
    value = float(sim.outcome.totals[env, FINISHED_VALUE])
    # Each has its own place and size, so that nothing jumps in a film.
    write(image, f"tick {int(e['now'] - e['first_submit']):,}", MARGIN, MARGIN, INK, 2)
    write(image, f"value {value:,.0f}", MARGIN, MARGIN + 160, INK, 2)
    for k, name in enumerate(("running", "planned", "finished", "rejected")):
        write(image, f"{name} {where[name]:,}", MARGIN + LETTER - 1, MARGIN + 350 + 96 * k, INK)
    tops = frame.top - LINE_H - 2
    ends = (*frame.lefts[1:], frame.power or frame.pool)
    for resource, left, end in zip(sim.scenario.cluster.resources, frame.lefts, ends, strict=True):
        _label(image, resource.name, tops, left, end - left - GAP // 2, MUTED)


def _draw_axis(image: Indexed, frame: _Frame, rows: int) -> None:
    """Ticks ahead, at the left of the grid."""
    per_row = frame.cell_h / frame.skip_rows
    step = next((s for s in (1, 2, 3, 6, 12, 24, 48, 96, 192, 480) if s * per_row >= 40), rows)
    for ahead in range(0, rows, step):
        y = frame.top + int(ahead * per_row)
        text = f"+{ahead}" if ahead else "now"
        write(image, text, y, MARGIN + AXIS - 6 - text_width(text), MUTED)


def _draw_power(image: Indexed, sim: VectorSimulator, env: int, frame: _Frame, moment: Moment) -> None:
    """Row by row, as shares of the draw of all units under load: what may be drawn, and what is."""
    plant, left = sim.rules.plant, frame.power
    _label(image, "power", frame.top - LINE_H - 2, left, POWER, MUTED)
    rows = np.arange(0, moment.on.shape[1], frame.skip_rows)
    supply, draw = power_now(sim, env, moment.on.shape[1])
    carried = (plant.unit_w @ moment.on) / plant.full_w
    known = np.zeros(moment.on.shape[1])
    known[: len(supply)] = np.minimum(1.0, supply / plant.full_w)
    x = (np.arange(POWER) + 0.5) / POWER
    strip = np.where(x < carried[rows, None], FORECAST if len(supply) < len(known) else BACKUP, DARK)
    strip = np.where(x < known[rows, None], SUPPLY, strip)
    if len(supply) < len(known):  # of this tick, all is known
        strip[0] = np.where((x >= known[0]) & (x < carried[0]), BACKUP, strip[0])
    picture = strip.astype(np.uint8).repeat(frame.cell_h, axis=0)
    at = np.minimum(POWER - 2, (draw[rows] / plant.full_w * POWER).astype(np.int64)).repeat(frame.cell_h)
    for shift in (0, 1):
        picture[np.arange(len(at)), at + shift] = DRAW
    image[frame.top : frame.top + len(picture), left : left + POWER] = picture


def _draw_tank(image: Indexed, sim: VectorSimulator, env: int, frame: _Frame) -> None:
    """The battery, filled from below."""
    level = battery_kwh(sim, env) * 1000.0 / sim.rules.plant.capacity_wh
    top, bottom, left = frame.top, frame.bottom, frame.tank
    _label(image, "battery", top - LINE_H - 2, left, TANK, MUTED)
    image[top:bottom, left : left + TANK] = LINE
    image[top + 2 : bottom - 2, left + 2 : left + TANK - 2] = PAPER
    surface = bottom - 2 - round(level * (bottom - top - 4))
    image[surface : bottom - 2, left + 2 : left + TANK - 2] = STORED
    text = f"{100 * level:.0f}%"
    write(
        image, text, max(top + 6, min(surface - 12, bottom - 14)), left + (TANK - text_width(text)) // 2, INK
    )


def _draw_pools(
    image: Indexed, sim: VectorSimulator, env: int, frame: _Frame, moment: Moment, jobs: JobTable
) -> None:
    """The slots of the ready pool, and how full the wait pool and that of suspended jobs are."""
    decision, where = sim.scenario.decision, places(sim, env)
    left, width, slots = frame.pool, frame.pool_w, decision.window
    _label(image, f"ready {where['ready']} of {slots}", frame.top - LINE_H - 2, left, width, MUTED)
    bars = [
        ("wait", where["wait"], decision.wait_pool),
        ("suspended", where["suspended"], decision.suspend_pool),
    ]
    floor = frame.bottom - len(bars) * 2 * LINE_H
    room = floor - GAP - frame.top
    rows, columns = _arranged(slots, room, width)
    high = (room - (rows - 1) * BOX_GAP) // rows
    wide = (width - (columns - 1) * BOX_GAP) // columns
    for slot in range(min(slots, rows * columns)):
        y = frame.top + slot // columns * (high + BOX_GAP)
        x = left + slot % columns * (wide + BOX_GAP)
        box = image[y : y + high, x : x + wide]
        box[:] = INK if sim.mask[env, slot] else LINE
        box[1:-1, 1:-1] = SLOT
        if slot < len(moment.ready):
            _draw_job(box[2:-2, 2:-2], int(moment.ready[slot]), moment, jobs)
    for k, (name, count, most) in enumerate(bars):
        y = floor + 2 * k * LINE_H
        _label(image, f"{name} {count}" + (f" of {most}" if most is not None else ""), y, left, width, MUTED)
        full = most or max(100, 10 ** len(str(count)))  # a pool without limits grows by powers of ten
        image[y + LINE_H - 2 : y + LINE_H + 8, left : left + width] = UNUSED
        image[y + LINE_H - 2 : y + LINE_H + 8, left : left + round(width * min(1.0, count / full))] = MUTED


def _arranged(slots: int, high: int, wide: int) -> tuple[int, int]:
    """Rows and columns of boxes for so many slots, as large as they can be; too many are not all shown."""
    best, found = 0.0, (1, 1)
    for columns in range(1, wide // (SMALLEST_BOX + BOX_GAP) + 1):
        rows = min(ceil(slots / columns), (high + BOX_GAP) // (SMALLEST_BOX + BOX_GAP))
        box = min((wide + BOX_GAP) / columns, (high + BOX_GAP) / rows) - BOX_GAP
        shown = min(slots, rows * columns)
        if shown * box > best:
            best, found = shown * box, (rows, columns)
    return found


def _draw_job(box: Indexed, row: int, moment: Moment, jobs: JobTable) -> None:
    """Requested time downwards, demand to the right, resource by resource, as shares of all there is."""
    high = max(1, round(box.shape[0] * moment.requested[row] / moment.on.shape[1]))
    edges = np.linspace(0, box.shape[1] + 2, len(moment.units) + 1).astype(np.int64)
    for r, units in enumerate(moment.units.tolist()):
        room = edges[r + 1] - edges[r] - 2
        demand = int(jobs.demand[row, r])
        wide = max(1, round(room * demand / units)) if demand else 0
        box[:, edges[r] : edges[r] + room] = UNUSED
        box[:high, edges[r] : edges[r] + wide] = SOLID + row % HUES


def _draw_legend(image: Indexed, sim: VectorSimulator, frame: _Frame) -> None:
    """What the colours mean, in one line at the bottom."""
    plant = sim.rules.plant
    items = [(SOLID + AN_EXAMPLE, "running"), (PALE + AN_EXAMPLE, "planned"), (UNUSED, "free"), (DARK, "off")]
    if plant.powered:
        items += [(SUPPLY, "supply"), (BACKUP, "battery, grid"), (DRAW, "draw")]
        if plant.forecast_error > 0:
            items.append((FORECAST, "forecast"))
    x, y = frame.lefts[0], frame.bottom + 10
    for colour, text in items:
        swatch = image[y : y + LETTER, x : x + LETTER]
        swatch[:] = colour
        if colour == PALE + AN_EXAMPLE:
            _hatch(swatch, np.ones(swatch.shape, np.bool_))
        write(image, text, y, x + LETTER + 4, MUTED)
        x += LETTER + 4 + text_width(text) + GAP
    write(image, "dark frame: may be chosen", y, max(x, frame.pool), MUTED)
