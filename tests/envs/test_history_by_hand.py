"""What accounting knows of an episode so far, worked out on paper."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.sim.columns import HISTORY_FEATURES
from rlsched.sim.simulator import VectorSimulator

#          A   B   C   D   E
# submit   0   0  10  30  32
# takes    5  20   4   3   1
# asks    10  40   4   1   1
# units    2   2   1   4   1
#
# Each starts as soon as it can: A ends at 5, B at 20, C at 14, D, which should at 31, at 33; E waits for it.
JOBS = JobTable.build(
    submit=[0, 0, 10, 30, 32],
    runtime=[5, 20, 4, 3, 1],
    requested=[10, 40, 4, 1, 1],
    demand=[2, 2, 1, 4, 1],
)
UNITS = 4


def history(now: int, arrived: int, finished: int, used: float, work: int, units: int) -> list[float]:
    """The entries, by: tick, jobs, jobs, mean share, unit-ticks, units; 1023 ticks are the longest time."""
    return [
        log2(1 + arrived) / log2(1 + 1e5),
        log2(1 + finished) / log2(1 + 1e5),
        used,
        log2(1 + (now + 1) / arrived) / 10,
        log2(1 + work / units / arrived) / 10,
        work / (work + units * (now + 1)),
    ]


# Where the last job is 0, C is 10: by tick, the state at its first question.
OBSERVED = {
    0: (2, 0, 1.0, 20 + 80),
    10: (3, 1, 0.5, 104),
    30: (4, 3, (0.5 + 0.5 + 1.0) / 3, 108),
    33: (5, 4, (0.5 + 0.5 + 1.0 + 1.0) / 4, 109),  # whoever runs longer has used all that was asked for
}


@pytest.mark.parametrize("units", [UNITS, 2 * UNITS])
def test_every_entry(units: int) -> None:
    """On a cluster of that size, beside a larger one that is not there."""
    values = scenario.load(
        "lublin-256",
        [
            "observation.blocks=[queue, history]",
            "observation.time_scale_s=1023",
            "decision={action_rule: fit, skip_forced: false, window: 4}",
            f"cluster.resources.0.units={2 * UNITS}",
            "episode.jobs=5",
        ],
    )
    sim = VectorSimulator(values, [2 * UNITS], 2, len(JOBS))
    sim.load(0, replace(JOBS, units=np.array([units])))
    sim.load(1, replace(JOBS, units=np.array([UNITS])))
    histories = {}
    while not sim.terminated[0]:
        now = int(sim.state.episodes["now"][0])
        histories.setdefault(now, sim.layout.view(sim.obs, "history")[0].tolist())
        sim.step(sim.mask.argmax(axis=1))
    for now in sorted(OBSERVED)[: 4 if units == UNITS else 3]:
        expected = history(now, *OBSERVED[now], units)
        for name, value, wanted in zip(HISTORY_FEATURES.names(0), histories[now], expected, strict=True):
            assert value == pytest.approx(wanted, abs=1e-4), (now, name)


def test_jobs_that_run_in_parts_have_none() -> None:
    with pytest.raises(BadInputError, match=r"value history does not go with decision.suspend"):
        scenario.load("green-10", ["observation.blocks=[jobs, history]", "decision.suspend=true"])
