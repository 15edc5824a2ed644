"""The image of the grid: one cell per tick and unit, drawn again only where something has changed.

A row shows, for every resource, its units from left to right: used (1), free (0), off (-1). Which unit a job
runs on means nothing, so the counts say it all. With `classic` [Mao et al. 2016] every slot of the ready pool
follows with a picture of its job, requested time x demand, and the wait pool as a backlog, a cell per job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import DemandArray
from rlsched.scenario import Decision
from rlsched.sim.compiled import lowest_bit, shared, step
from rlsched.sim.state import State

EMPTY, UNDRAWN = -1, -2
BYTES = 8  # of a word


class Picture(NamedTuple):
    """Images of N environments, and what they show."""

    cells: NDArray[np.int8]  # (env, row, column); no environments where no image is drawn
    used: DemandArray  # (env, resource, row) units drawn as used
    on: DemandArray  # (env, resource, row) units drawn as on
    slots: NDArray[np.int32]  # (env, slot) row of the job drawn there, EMPTY or UNDRAWN; none unless classic
    lengths: NDArray[np.int32]  # (env, slot) its ticks
    backlog: NDArray[np.int32]  # (env,) cells of the backlog that are set
    differs: NDArray[np.bool_]  # (row, made up to BYTES) scratch: whether it is drawn as it is no more
    words: NDArray[np.uint64]  # the same memory, BYTES of them at once

    @classmethod
    def room(cls, num_envs: int, units: Sequence[int], decision: Decision, *, classic: bool) -> Picture:
        """Blank images for `num_envs` environments."""
        rows, slots = decision.horizon or 0, decision.window if classic else 0
        shape = (num_envs, len(units), rows)
        differs = np.zeros(-(-rows // BYTES) * BYTES, np.bool_)
        return cls(
            cells=np.zeros((num_envs, *image_shape(units, decision, classic=classic)), np.int8),
            used=np.zeros(shape, np.int32),
            on=np.zeros(shape, np.int32),
            slots=np.full((num_envs, slots), UNDRAWN, np.int32),
            lengths=np.zeros((num_envs, slots), np.int32),
            backlog=np.zeros(num_envs, np.int32),
            differs=differs,
            words=differs.view(np.uint64),
        )


class Levels(NamedTuple):
    """Units used and units on in a row of one resource."""

    used: int
    on: int


def image_shape(units: Sequence[int], decision: Decision, *, classic: bool) -> tuple[int, int]:
    """(rows, columns) of an image.

    The columns are the units of every resource, and for a classic image as many again for every slot, and
    those of the backlog: as many cells as the wait pool has places, or one column.
    """
    rows = decision.horizon or 0
    if not classic:
        return rows, sum(units)
    backlog = -(-(decision.wait_pool or rows) // rows)
    return rows, sum(units) * (1 + decision.window) + backlog


@step
def fill(p: Picture, i: int, row: int, first: int, last: int, value: int) -> None:
    """Set the cells `first <= column < last` of a row."""
    if first < last:
        # A slice, since an index that might be negative costs a comparison per cell, and no vector code.
        cells = p.cells[i, row, first:last]
        for c in range(last - first):
            cells[c] = value


@step
def redraw(p: Picture, i: int, k: int, column: int, was: Levels, now: Levels) -> None:
    """Draw the changes in one row of one resource, whose columns begin at `column`."""
    # Used first, as a row is read; where more is held than is on, the rest is off all the same.
    held, held_before = min(now.used, now.on), min(was.used, was.on)
    if now.on < was.on:
        fill(p, i, k, column + now.on, column + was.on, -1)
    elif now.on > was.on:
        fill(p, i, k, column + max(was.on, held), column + now.on, 0)
    first, last = min(held, held_before), max(held, held_before)
    fill(p, i, k, column + first, column + min(last, now.on), 1 if held > held_before else 0)


@step
def draw_grid(s: State, p: Picture, i: int) -> None:
    """Draw what has changed in the grid: few rows, which vector code finds."""
    column = 0
    for r in range(len(s.resources)):
        used, on = s.used[i, r], s.on[i, r]
        was_used, was_on = p.used[i, r], p.on[i, r]
        for k in range(s.used.shape[2]):
            p.differs[k] = ((used[k] ^ was_used[k]) | (on[k] ^ was_on[k])) != 0
        for word in range(len(p.words)):
            flags = p.words[word]
            while flags != 0:
                k = BYTES * word + (lowest_bit(flags) >> 3)
                flags &= flags - np.uint64(1)
                redraw(p, i, k, column, Levels(was_used[k], was_on[k]), Levels(used[k], on[k]))
                was_used[k] = used[k]
                was_on[k] = on[k]
        column += s.units[i, r]


@shared
def draw_slots(s: State, p: Picture, i: int) -> None:
    """Draw the jobs of the ready pool and the backlog."""
    e = s.episodes[i]
    width = 0
    for r in range(len(s.resources)):
        width += s.units[i, r]
    rows = p.cells.shape[1]
    for k in range(p.slots.shape[1]):
        row, length = EMPTY, 0
        if k < e.num_ready:
            row = s.queue[i, e.queue_lo + k]
            length = s.jobs[i, row].requested
        if row == p.slots[i, k] and length == p.lengths[i, k]:
            continue
        p.slots[i, k] = row
        p.lengths[i, k] = length
        column = width * (1 + k)
        for tick in range(rows):
            at = column
            for r in range(len(s.resources)):
                demand = s.demand[i, row, r] if tick < length else 0
                fill(p, i, tick, at, at + demand, 1)
                fill(p, i, tick, at + demand, at + s.units[i, r], 0)
                at += s.units[i, r]
    column = width * (1 + p.slots.shape[1])
    cells = rows * (p.cells.shape[2] - column)
    waiting = min(cells, e.queue_hi - e.queue_lo - e.num_ready)
    for cell in range(min(waiting, p.backlog[i]), max(waiting, p.backlog[i])):
        p.cells[i, cell % rows, column + cell // rows] = 1 if cell < waiting else 0
    p.backlog[i] = waiting


@shared
def wipe(s: State, p: Picture, i: int) -> None:
    """Blank the image for a new episode: all units on and free."""
    p.cells[i, :, :] = 0
    p.used[i, :, :] = 0
    for r in range(len(s.resources)):
        p.on[i, r, :] = s.units[i, r]
    p.slots[i, :] = UNDRAWN
    p.lengths[i, :] = 0
    p.backlog[i] = 0


@step
def draw(s: State, p: Picture, i: int) -> None:
    """Bring the image up to date."""
    draw_grid(s, p, i)
    if p.slots.shape[1] > 0:
        draw_slots(s, p, i)
