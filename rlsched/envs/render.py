"""The state of a cluster as text, and as a picture drawn without a plotting library.

Clusters with a planning horizon have other pictures, see `grid_picture` and `grid_text`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlsched.envs.grid_picture import draw_indexed
from rlsched.envs.grid_text import grid_text
from rlsched.envs.palette import PALETTE
from rlsched.jobs import IntArray, JobTable
from rlsched.sim.simulator import VectorSimulator

Image = NDArray[np.uint8]

WIDTH, HEIGHT = 640, 360  # pixels
QUEUE_WIDTH = 160  # pixels at the left, for the window
PAPER, INK, LINE = (250, 250, 248), (60, 60, 66), (205, 205, 200)
COLOURS = np.array(
    [(68, 119, 170), (102, 204, 238), (34, 136, 51), (204, 187, 68), (238, 102, 119), (170, 51, 119)],
    np.uint8,
)  # Paul Tol's bright scheme, distinguishable with colour blindness
TEXT_JOBS = 8  # rows of each list in the text


@dataclass(frozen=True)
class _State:
    """The state of one environment."""

    now: int
    running: IntArray  # rows, by expected end
    expected_end: IntArray  # ticks, of the running jobs
    waiting: NDArray[np.int32]  # rows, oldest first
    free: IntArray  # (resource,)


def _state(sim: VectorSimulator, env: int, jobs: JobTable) -> _State:
    now = int(sim.now[env])
    start = sim.starts(env)
    running = np.flatnonzero((start >= 0) & (start + jobs.runtime > now))
    end = np.maximum(start[running] + jobs.requested[running], now + 1)
    order = np.argsort(end, kind="stable")
    return _State(now, running[order], end[order], sim.queue(env), sim.free[env].copy())


def to_text(sim: VectorSimulator, env: int, jobs: JobTable) -> str:
    """Describe the cluster, its running jobs and its queue, one line each."""
    if sim.scenario.decision.tick_driven:
        return grid_text(sim, env, jobs)
    state = _state(sim, env, jobs)
    submit = sim.state.jobs["submit"][env]
    tick_s = sim.scenario.cluster.tick_s
    total = int(sim.units[env, 0])
    used = total - int(state.free[0])
    bar = "#" * round(40 * used / total)
    lines = [
        f"t = {(state.now - int(jobs.submit[0])) * tick_s:>10,} s   [{bar:<40}] {used} of {total} in use",
        f"running {len(state.running)}, waiting {len(state.waiting)}",
        "  running     units   ends in",
        *(
            f"  {jobs.id[row]:>7} {jobs.demand[row, 0]:>9} {(end - state.now) * tick_s:>9,} s"
            for row, end in zip(state.running[:TEXT_JOBS], state.expected_end, strict=False)
        ),
        "  waiting     units requested      waited",
        *(
            f"  {jobs.id[row]:>7} {jobs.demand[row, 0]:>9} {jobs.requested[row] * tick_s:>7,} s "
            f"{(state.now - submit[row]) * tick_s:>9,} s"
            for row in state.waiting[:TEXT_JOBS]
        ),
    ]
    return "\n".join(lines)


def draw(sim: VectorSimulator, env: int, jobs: JobTable) -> Image:
    """Draw the window as bars at the left, and running jobs at the right.

    The height of a bar of the window is the log of the demand, its length the log of the requested time.
    Running jobs are drawn over their expected remaining time, on a log axis, by units.

    Returns:
        (HEIGHT, WIDTH, 3) uint8; with a horizon, the picture of `draw_indexed` in its own size.
    """
    if sim.scenario.decision.tick_driven:
        return PALETTE[draw_indexed(sim, env, jobs)]
    state = _state(sim, env, jobs)
    image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    image[:] = PAPER
    _draw_window(image[:, :QUEUE_WIDTH], state, jobs, sim)
    image[:, QUEUE_WIDTH : QUEUE_WIDTH + 2] = LINE
    _draw_running(image[:, QUEUE_WIDTH + 2 :], state, jobs, int(sim.units[env, 0]))
    return image


def _draw_window(panel: Image, state: _State, jobs: JobTable, sim: VectorSimulator) -> None:
    rows = state.waiting[: sim.scenario.decision.window]
    if not len(rows):
        return
    longest = np.log1p(sim.scenario.observation.time_scale_s / sim.scenario.cluster.tick_s)
    heights = 1 + np.log2(jobs.demand[rows, 0])
    edges = np.concatenate([[0.0], np.cumsum(heights)]) * min(12.0, HEIGHT / heights.sum())
    lengths = np.log1p(jobs.requested[rows]) / longest * (QUEUE_WIDTH - 8)
    for k, row in enumerate(rows):
        top, bottom = int(edges[k]), max(int(edges[k]) + 1, int(edges[k + 1]) - 1)
        panel[top:bottom, 2 : 4 + int(lengths[k])] = COLOURS[row % len(COLOURS)]


def _draw_running(panel: Image, state: _State, jobs: JobTable, units: int) -> None:
    bottom = HEIGHT
    if len(state.running):
        remaining = np.log1p(state.expected_end - state.now)
        lengths = remaining / remaining.max() * (panel.shape[1] - 4)
        tops = HEIGHT - np.cumsum(jobs.demand[state.running, 0]) / units * HEIGHT
        for k, row in enumerate(state.running):
            top = int(tops[k])
            panel[top : max(top + 1, bottom), : 2 + int(lengths[k])] = COLOURS[row % len(COLOURS)]
            panel[top, : 2 + int(lengths[k])] = INK
            bottom = top
    panel[:, :1] = INK
