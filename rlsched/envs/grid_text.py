"""The state of a cluster with a planning horizon, as text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rlsched.envs.cluster_view import ClusterView, battery_kwh, places, power_now
from rlsched.jobs import IntArray, JobTable
from rlsched.sim.grid import NOWHERE
from rlsched.sim.simulator import VectorSimulator

NAME, BAR = 11, 40  # characters
TEXT_JOBS = 8  # rows of each list in the text


def grid_text(sim: VectorSimulator, env: int, jobs: JobTable) -> str:
    """Units, power, plans and pools of one environment."""
    view = ClusterView.of(sim, env)
    counts = places(sim, env)
    lines = [
        f"tick {view.now - int(jobs.submit[0]):,}   "
        + ", ".join(f"{name} {count:,}" for name, count in counts.items()),
        *_bars(sim, view),
        *_power(sim, env),
        *_list("running", jobs, view.running, view, (f"{ticks:>5} left" for ticks in view.remaining)),
        *_list("planned", jobs, view.planned, view, (f"in {ticks:>6}" for ticks in view.starts)),
        *_list("ready", jobs, view.ready, view, _fits(sim, env)),
    ]
    return "\n".join(lines)


def _bars(sim: VectorSimulator, view: ClusterView) -> Iterable[str]:
    """Two lines per resource: its units now, and the load of the next ticks, one character each.

    Load in tenths of the units that are on; `.`: none, `#`: all of them, `x`: no unit is on.
    """
    for r, resource in enumerate(sim.scenario.cluster.resources):
        units, used, on = (int(value[r]) for value in (view.units, view.used[:, 0], view.on[:, 0]))
        full, lit = round(BAR * used / units), round(BAR * on / units)
        bar = "#" * full + "." * (lit - full)
        yield f"  {resource.name[:NAME]:<{NAME}} [{bar:<{BAR}}] {used} of {on} in use, {units - on} off"
        shares = view.used[r] / np.maximum(1, view.on[r])
        digits = (
            "x" if not on else "." if not share else str(int(10 * share)) if share < 1 else "#"
            for share, on in zip(shares.tolist(), view.on[r].tolist(), strict=True)
        )
        yield f"  {'':<{NAME}}  {''.join(digits)}"


def _power(sim: VectorSimulator, env: int) -> Iterable[str]:
    plant = sim.rules.plant
    if plant.powered:
        supply, draw = power_now(sim, env, 1)
        text = f"  {'power':<{NAME}} supply {supply[0] / 1000:.2f} kW, draw {draw[0] / 1000:.2f} kW"
        if plant.capacity_wh > 0:
            text += f", battery {battery_kwh(sim, env):.1f} of {plant.capacity_wh / 1000:.1f} kWh"
        yield text


def _fits(sim: VectorSimulator, env: int) -> Iterable[str]:
    for first in sim.outcome.first[env].tolist():
        yield "fits never" if first == NOWHERE else "fits now" if first == 0 else f"fits in {first}"


def _list(
    title: str, jobs: JobTable, rows: IntArray, view: ClusterView, notes: Iterable[str]
) -> Iterable[str]:
    """A heading, and a line for each of the first jobs; times in ticks."""
    yield f"  {title:<{NAME}} {'units':>12} requested    age"
    for row, note in zip(rows[:TEXT_JOBS].tolist(), notes, strict=False):
        units = " + ".join(map(str, jobs.demand[row].tolist()))
        since = view.now - int(jobs.submit[row])
        yield f"  {jobs.id[row]:>{NAME}} {units:>12} {view.requested[row]:>9} {since:>6}  {note}"
