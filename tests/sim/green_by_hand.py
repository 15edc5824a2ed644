"""Small tick-driven scenarios for results worked out on paper.

Unless a case says otherwise: hourly ticks, so that watts are Wh; a unit draws 100 W idle and 200 W at work
and is worth 0.5 per tick; the agent decides at every tick.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim import noise
from rlsched.sim.compiled import kernel
from tests.twin.green import TwinGreen
from tests.twin.jobs import Job
from tests.twin.task import Task, worth

BATTERY = {"capacity_kwh": 1.0, "charge_kw": 0.3, "discharge_kw": 0.2, "efficiency": 0.5, "initial": 0.5}


@kernel
def quantile_of(seed: int, tick: int, lead: int) -> int:
    return noise.quantile_of(seed, tick, lead)


def green(
    *,
    power: dict[str, Any] | None = None,
    resources: int = 1,
    workload: dict[str, Any] | None = None,
    objective: dict[str, Any] | None = None,
    max_ticks: int | None = None,
    end: str = "all_finished",
    tick_s: int = 3600,
    **decision: Any,
) -> Scenario:
    values = {
        "cluster": {"tick_s": tick_s, "resources": [{"name": f"r{r}"} for r in range(resources)]},
        "power": None if power is None else {"kind": "series", **power},
        "workload": workload or {"kind": "lublin"},
        "decision": {
            "action_rule": "fit",
            "time_rule": "tick",
            "skip_forced": False,
            "horizon": 4,
            "window": 2,
            **decision,
        },
        "objective": objective or {"reward": {"finished_value": 1.0}},
        "episode": {
            "jobs": None,
            "end": "max_ticks" if max_ticks else end,
            "max_ticks": max_ticks,
        },
    }
    return Scenario.model_validate(values)


def series(*supply_w: float, carbon: float = 400.0, seed: int = 0) -> PowerSeries:
    return PowerSeries(np.array(supply_w, float), np.full(len(supply_w), carbon), seed)


def jobs(**columns: Any) -> JobTable:
    """All submitted at 0 unless said otherwise."""
    return JobTable.build(**{"submit": [0] * len(columns["runtime"]), **columns})


def column(grid: list[list[int]]) -> list[int]:
    """A grid of one resource."""
    return [units for (units,) in grid]


def wait(twin: TwinGreen, until: int) -> None:
    while twin.now < until:
        twin.step(twin.window + 1)


def task(demand: int = 1, requested: int = 2, qos: float = 1.0, index: int = 0, begin: int = -1) -> Task:
    job = Job(index, index, index, 0, requested, requested, (demand,), qos)
    return Task(job, worth(job, [0.5], 1.0), begin=begin)
