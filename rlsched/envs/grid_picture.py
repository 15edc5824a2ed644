"""The picture of a cluster with a planning horizon: its grid, its power and its waiting jobs.

Drawn as palette numbers, without a plotting library, so that frames of a film keep their exact colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from rlsched.envs.cluster_view import ClusterView, battery_kwh, places, power_now
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
from rlsched.scenario.terms import FINISHED_VALUE
from rlsched.sim.simulator import VectorSimulator

FREE, OFF = -1, -2
"""Cells of the grid that no job holds; other cells contain the row of a job."""

LEGEND_HUE = 4  # of the job in the legend

MARGIN, GAP, LINE_H = 12, 16, 20  # pixels
AXIS, GRIDS, ROWS, POWER, TANK, POOL = 30, 384, 384, 120, 44, 232  # pixels; GRIDS at most, POOL at least
NAME, NARROWEST = 42, 760  # pixels, at least
CELL = 24  # pixels at most
SMALLEST_BOX, BOX_GAP = 10, 6  # pixels


def grid_cells(view: ClusterView, jobs: JobTable) -> list[IntArray]:
    """The job in every cell of the grid.

    A row lists running jobs, the last to end first, then planned jobs by their start, then free units, then
    units that are off. The units of a job are not tracked by the simulator; this order keeps the cells of a
    job together.

    Returns:
        (row, unit) for every resource: row of the job, FREE or OFF.
    """
    rows = np.arange(view.on.shape[1])
    held = np.concatenate([view.running, view.planned])
    first = np.concatenate([np.zeros_like(view.running), view.starts])
    last = first + np.concatenate([view.remaining, view.requested[view.planned]])
    active = (first[:, None] <= rows) & (rows < last[:, None])  # (job, row)
    cells = []
    for r, units in enumerate(view.units.tolist()):
        grid = np.full((len(rows), units), OFF, np.int64)
        counts = active * jobs.demand[held, r, None].astype(np.int64)
        for k in range(len(rows)):
            grid[k, : view.on[r, k]] = FREE
            line = held.repeat(counts[:, k])[:units]
            grid[k, : len(line)] = line
        cells.append(grid)
    return cells


@dataclass(frozen=True)
class _Frame:
    """Layout of the picture of a scenario, in pixels."""

    cell_h: int  # of a row
    skip_rows: int  # rows of the grid per row of the picture
    cell_w: tuple[int, ...]  # (resource,)
    skip_units: tuple[int, ...]  # (resource,) units per column of the picture
    lefts: tuple[int, ...]  # (resource,)
    top: int
    bottom: int
    power: int  # left edge; 0: not drawn
    tank: int  # left edge of the battery; 0: not drawn
    pool: int  # left edge
    pool_w: int
    width: int
    height: int

    @classmethod
    def of(cls, sim: VectorSimulator) -> _Frame:
        rows, plant = sim.scenario.decision.horizon or 1, sim.rules.plant
        skip_rows = ceil(rows / ROWS)
        num_rows = ceil(rows / skip_rows)
        cell_h = min(CELL, ROWS // num_rows)
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
        bottom = top + max(num_rows * cell_h, ROWS // 2)
        width = max(NARROWEST, at + POOL + MARGIN)
        return cls(
            cell_h, skip_rows, cell_w, skip_units, tuple(lefts), top, bottom, power, tank, at,
            width - MARGIN - at, width, bottom + LINE_H + MARGIN,
        )  # fmt: skip


def draw_indexed(sim: VectorSimulator, env: int, jobs: JobTable) -> Indexed:
    """Draw the grid, the power and the pools of one environment.

    The grid of a resource has its units from left to right, and ticks downwards from now. Jobs have colours;
    planned jobs are hatched, free units light, units that are off black. To the right follow the power of
    each row, the battery, and the slots of the ready pool. A slot shows requested time downwards and demand
    to the right; its frame is dark where the job may be chosen.

    Args:
        sim: simulator of a scenario with a horizon.
        env: index of the environment.
        jobs: the jobs of its episode.

    Returns:
        (height, width) numbers in `palette.PALETTE`.
    """
    frame = _Frame.of(sim)
    image = np.full((frame.height, frame.width), PAPER, np.uint8)
    view = ClusterView.of(sim, env)
    _draw_titles(image, sim, env, frame)
    for r, cells in enumerate(grid_cells(view, jobs)):
        units = np.arange(frame.skip_units[r] // 2, cells.shape[1], frame.skip_units[r])
        dim = units >= view.on[r, :: frame.skip_rows, None]
        visible = cells[:: frame.skip_rows, units]
        picture = _blown_up(visible, dim, view.planned, frame.cell_h, frame.cell_w[r])
        x0 = frame.lefts[r]
        image[frame.top : frame.top + picture.shape[0], x0 : x0 + picture.shape[1]] = picture
    _draw_axis(image, frame, view.on.shape[1])
    if frame.power:
        _draw_power(image, sim, env, frame, view)
    if frame.tank:
        _draw_tank(image, sim, env, frame)
    _draw_pools(image, sim, env, frame, view, jobs)
    _draw_legend(image, sim, frame)
    return image


def _blown_up(cells: IntArray, dim: NDArray[np.bool_], planned: IntArray, high: int, wide: int) -> Indexed:
    """Draw cells, each `high` pixels high and `wide` pixels wide."""
    number = (cells % HUES).astype(np.uint8)
    is_planned = np.isin(cells, planned)
    colour = np.where(is_planned, PALE, np.where(dim, DIM, SOLID)).astype(np.uint8) + number
    colour[cells == FREE] = UNUSED
    colour[cells == OFF] = DARK
    picture = colour.repeat(high, axis=0).repeat(wide, axis=1)
    if high >= 3:  # in lower cells, only stripes would be visible
        _hatch(picture, is_planned.repeat(high, axis=0).repeat(wide, axis=1))
    if min(high, wide) >= 5:
        picture[high - 1 :: high] = PAPER
        picture[:, wide - 1 :: wide] = PAPER
    return picture


def _hatch(picture: Indexed, mask: NDArray[np.bool_]) -> None:
    """Draw stripes in the solid colour on pale pixels, where the mask is true."""
    y, x = np.ogrid[: picture.shape[0], : picture.shape[1]]
    picture[mask & ((x + y) % 4 == 0)] -= np.uint8(PALE - SOLID)


def _label(image: Indexed, text: str, top: int, x0: int, room: int, colour: int = INK) -> None:
    """Write a text into `room` pixels: large if it fits, else small and cut off if needed."""
    scale = 2 if text_width(text, 2) <= room else 1
    write(image[:, : x0 + room], text, top + (2 - scale) * LETTER // 2, x0, colour, scale)


def _draw_titles(image: Indexed, sim: VectorSimulator, env: int, frame: _Frame) -> None:
    e = sim.state.episodes[env]
    counts = places(sim, env)
    value = float(sim.outcome.totals[env, FINISHED_VALUE])
    # Fixed places, so that nothing jumps in a film.
    write(image, f"tick {int(e['now'] - e['first_submit']):,}", MARGIN, MARGIN, INK, 2)
    write(image, f"value {value:,.0f}", MARGIN, MARGIN + 160, INK, 2)
    for k, name in enumerate(("running", "planned", "finished", "rejected")):
        write(image, f"{name} {counts[name]:,}", MARGIN + LETTER - 1, MARGIN + 350 + 96 * k, INK)
    tops = frame.top - LINE_H - 2
    ends = (*frame.lefts[1:], frame.power or frame.pool)
    for resource, x0, end in zip(sim.scenario.cluster.resources, frame.lefts, ends, strict=True):
        _label(image, resource.name, tops, x0, end - x0 - GAP // 2, MUTED)


def _draw_axis(image: Indexed, frame: _Frame, rows: int) -> None:
    """Label ticks at the left of the grid."""
    per_row = frame.cell_h / frame.skip_rows
    step = next((s for s in (1, 2, 3, 6, 12, 24, 48, 96, 192, 480) if s * per_row >= 40), rows)
    for ahead in range(0, rows, step):
        y = frame.top + int(ahead * per_row)
        text = f"+{ahead}" if ahead else "now"
        write(image, text, y, MARGIN + AXIS - 6 - text_width(text), MUTED)


def _draw_power(image: Indexed, sim: VectorSimulator, env: int, frame: _Frame, view: ClusterView) -> None:
    """Draw supply and consumption of each row, as shares of the consumption of all units under load."""
    plant, x0 = sim.rules.plant, frame.power
    _label(image, "power", frame.top - LINE_H - 2, x0, POWER, MUTED)
    rows = np.arange(0, view.on.shape[1], frame.skip_rows)
    supply, draw = power_now(sim, env, view.on.shape[1])
    carried = (plant.unit_w @ view.on) / plant.full_w
    known = np.zeros(view.on.shape[1])
    known[: len(supply)] = np.minimum(1.0, supply / plant.full_w)
    x = (np.arange(POWER) + 0.5) / POWER
    strip = np.where(x < carried[rows, None], FORECAST if len(supply) < len(known) else BACKUP, DARK)
    strip = np.where(x < known[rows, None], SUPPLY, strip)
    if len(supply) < len(known):  # the supply of this tick is known
        strip[0] = np.where((x >= known[0]) & (x < carried[0]), BACKUP, strip[0])
    picture = strip.astype(np.uint8).repeat(frame.cell_h, axis=0)
    at = np.minimum(POWER - 2, (draw[rows] / plant.full_w * POWER).astype(np.int64)).repeat(frame.cell_h)
    for shift in (0, 1):
        picture[np.arange(len(at)), at + shift] = DRAW
    image[frame.top : frame.top + len(picture), x0 : x0 + POWER] = picture


def _draw_tank(image: Indexed, sim: VectorSimulator, env: int, frame: _Frame) -> None:
    """Draw the battery, filled from below."""
    level = battery_kwh(sim, env) * 1000.0 / sim.rules.plant.capacity_wh
    top, bottom, x0 = frame.top, frame.bottom, frame.tank
    _label(image, "battery", top - LINE_H - 2, x0, TANK, MUTED)
    image[top:bottom, x0 : x0 + TANK] = LINE
    image[top + 2 : bottom - 2, x0 + 2 : x0 + TANK - 2] = PAPER
    surface = bottom - 2 - round(level * (bottom - top - 4))
    image[surface : bottom - 2, x0 + 2 : x0 + TANK - 2] = STORED
    text = f"{100 * level:.0f}%"
    write(
        image,
        text,
        max(top + 6, min(surface - 12, bottom - 14)),
        x0 + (TANK - text_width(text)) // 2,
        INK,
    )


def _draw_pools(
    image: Indexed, sim: VectorSimulator, env: int, frame: _Frame, view: ClusterView, jobs: JobTable
) -> None:
    """Draw the slots of the ready pool, and how full the pools of waiting and suspended jobs are."""
    decision, counts = sim.scenario.decision, places(sim, env)
    x0, width, slots = frame.pool, frame.pool_w, decision.window
    _label(image, f"ready {counts['ready']} of {slots}", frame.top - LINE_H - 2, x0, width, MUTED)
    bars = [
        ("wait", counts["wait"], decision.wait_pool),
        ("suspended", counts["suspended"], decision.suspend_pool),
    ]
    floor = frame.bottom - len(bars) * 2 * LINE_H
    room = floor - GAP - frame.top
    rows, columns = _arranged(slots, room, width)
    high = (room - (rows - 1) * BOX_GAP) // rows
    wide = (width - (columns - 1) * BOX_GAP) // columns
    for slot in range(min(slots, rows * columns)):
        y = frame.top + slot // columns * (high + BOX_GAP)
        x = x0 + slot % columns * (wide + BOX_GAP)
        box = image[y : y + high, x : x + wide]
        box[:] = INK if sim.mask[env, slot] else LINE
        box[1:-1, 1:-1] = SLOT
        if slot < len(view.ready):
            _draw_job(box[2:-2, 2:-2], int(view.ready[slot]), view, jobs)
    for k, (name, count, most) in enumerate(bars):
        y = floor + 2 * k * LINE_H
        _label(image, f"{name} {count}" + (f" of {most}" if most is not None else ""), y, x0, width, MUTED)
        full = most or max(100, 10 ** len(str(count)))  # a pool without limits grows by powers of ten
        image[y + LINE_H - 2 : y + LINE_H + 8, x0 : x0 + width] = UNUSED
        image[y + LINE_H - 2 : y + LINE_H + 8, x0 : x0 + round(width * min(1.0, count / full))] = MUTED


def _arranged(slots: int, high: int, wide: int) -> tuple[int, int]:
    """Rows and columns of the largest boxes for `slots` slots; some slots may not fit."""
    best, shape = 0.0, (1, 1)
    for columns in range(1, wide // (SMALLEST_BOX + BOX_GAP) + 1):
        rows = min(ceil(slots / columns), (high + BOX_GAP) // (SMALLEST_BOX + BOX_GAP))
        box = min((wide + BOX_GAP) / columns, (high + BOX_GAP) / rows) - BOX_GAP
        boxes = min(slots, rows * columns)
        if boxes * box > best:
            best, shape = boxes * box, (rows, columns)
    return shape


def _draw_job(box: Indexed, row: int, view: ClusterView, jobs: JobTable) -> None:
    """Draw requested time downwards and demand to the right, by resource, as shares of horizon and units."""
    high = max(1, round(box.shape[0] * view.requested[row] / view.on.shape[1]))
    edges = np.linspace(0, box.shape[1] + 2, len(view.units) + 1).astype(np.int64)
    for r, units in enumerate(view.units.tolist()):
        room = edges[r + 1] - edges[r] - 2
        demand = int(jobs.demand[row, r])
        wide = max(1, round(room * demand / units)) if demand else 0
        box[:, edges[r] : edges[r] + room] = UNUSED
        box[:high, edges[r] : edges[r] + wide] = SOLID + row % HUES


def _draw_legend(image: Indexed, sim: VectorSimulator, frame: _Frame) -> None:
    """Explain the colours in a line at the bottom."""
    plant = sim.rules.plant
    items = [(SOLID + LEGEND_HUE, "running"), (PALE + LEGEND_HUE, "planned"), (UNUSED, "free"), (DARK, "off")]
    if plant.powered:
        items += [(SUPPLY, "supply"), (BACKUP, "battery, grid"), (DRAW, "draw")]
        if plant.forecast_error > 0:
            items.append((FORECAST, "forecast"))
    x, y = frame.lefts[0], frame.bottom + 10
    for colour, text in items:
        swatch = image[y : y + LETTER, x : x + LETTER]
        swatch[:] = colour
        if colour == PALE + LEGEND_HUE:
            _hatch(swatch, np.ones(swatch.shape, np.bool_))
        write(image, text, y, x + LETTER + 4, MUTED)
        x += LETTER + 4 + text_width(text) + GAP
    write(image, "dark frame: may be chosen", y, max(x, frame.pool), MUTED)
