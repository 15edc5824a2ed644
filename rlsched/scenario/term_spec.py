"""The entry of a reward or cost term, and the quantities that its functions read.

The core fills the quantities (`rlsched.sim.rates`) and so does `rlsched.evaluate.costs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Amount = float | NDArray[np.float64]

Need = Literal["horizon", "power", "every_job"]
NO_NEED: frozenset[Need] = frozenset()
HORIZON: frozenset[Need] = frozenset({"horizon"})
POWER: frozenset[Need] = HORIZON | {"power"}
EVERY_JOB: frozenset[Need] = frozenset({"every_job"})


class TickQuantities(NamedTuple):
    """Quantities of one tick, or arrays of several ticks. A quantity is 0 where a scenario lacks its need."""

    num_in_scope: Amount  # waiting jobs that count under `objective.scope`
    slowdown_rate: Amount  # sum of 1 / runtime over those and, under scope all, running jobs; per tick
    bounded_rate: Amount  # sum of 1 / max(runtime, 10 s) over the waiting jobs in scope; per tick
    num_waiting: Amount  # all waiting jobs: ready, wait pool, planned, suspended
    num_running: Amount  # jobs
    used_share: Amount  # mean over resources of used / units
    # Need a horizon.
    num_ready: Amount  # jobs in the ready pool
    num_pool: Amount  # jobs in the wait pool
    num_planned: Amount  # jobs with a planned start
    num_suspended: Amount  # jobs
    running_value: Amount  # sum of value / runtime over running jobs; value per tick
    waiting_value: Amount  # sum of values of all waiting jobs
    # Need a horizon and every_job.
    num_late: Amount  # unfinished jobs past their qos violation time
    starvation: Amount  # job ticks of waits beyond `objective.starvation_s`
    # Need a horizon and power.
    energy_kwh: Amount  # drawn
    brown_kwh: Amount  # drawn from the grid
    curtailed_kwh: Amount  # renewable and not used
    carbon_kg: Amount  # of the energy from the grid


class JobQuantities(NamedTuple):
    """Quantities of a job at an event of its life, in scenarios with a horizon."""

    now: float  # tick of the event
    submit: float  # tick
    due: float  # qos violation tick
    value: float


Rate = Callable[[TickQuantities], "Amount"]
JobAmount = Callable[[JobQuantities], float]


@dataclass(frozen=True)
class TermSpec:
    """One term; its value is summed, discounted, over the ticks of a transition.

    Its functions are compiled, and `rate` also gets arrays: use arithmetic and comparisons only.

    Attributes:
        name: in settings, metrics and files.
        formula: what a tick adds, or an event.
        unit: of what a tick adds.
        source: where it comes from.
        rate: amount per tick.
        on_finish: amount when a job finishes; needs a horizon.
        on_rejection: amount when a job is turned away or given up; needs a horizon.
        on_suspension: amount when a job is suspended; needs a horizon.
        kernels: functions with a special case of the term, as module.function of `rlsched.sim`.
        cost: whether it may be a cost (`objective.costs`), too; its sign is turned, so that less is better.
        needs: horizon: counted only with `decision.horizon`; power: only with `power`; every_job: a look at
            every job, so that it is counted only where a reward, a cost or a report needs it.
        scope: whether `objective.scope` says which jobs count.
        per_job: whether it is a sum over jobs.
        short_first: whether it is highest where short jobs go first.
    """

    name: str
    formula: str
    unit: str
    source: str
    rate: Rate | None = None
    on_finish: JobAmount | None = None
    on_rejection: JobAmount | None = None
    on_suspension: JobAmount | None = None
    kernels: tuple[str, ...] = ()
    cost: bool = False
    needs: frozenset[Need] = NO_NEED
    scope: bool = False
    per_job: bool = True
    short_first: bool = False
