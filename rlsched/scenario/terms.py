"""The table of reward and cost terms: what a tick or an event of an episode is worth.

To add a term, add an entry at the end of this table and the line of compiled code that computes it. `kernels`
names the functions of `rlsched.sim` with such lines: those of `rates` add what holds for a tick, those of
`clock`, `pools` and `decide` what happens at an event. Settings, listings, metrics and documents derive from
the table. A cost that is counted without a horizon needs its sum in `rlsched.evaluate.costs`, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

Need = Literal["horizon", "power", "every_job"]


@dataclass(frozen=True)
class TermSpec:
    """One term; its value is summed, discounted, over the ticks of a transition.

    Attributes:
        name: in settings, metrics and files.
        formula: what a tick adds, or an event.
        unit: of what a tick adds.
        source: where it comes from.
        kernels: compiled functions that compute it, as module.function of `rlsched.sim`.
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
    kernels: tuple[str, ...]
    cost: bool = False
    needs: frozenset[Need] = frozenset()
    scope: bool = False
    per_job: bool = True
    short_first: bool = False


TERM_SPECS: dict[str, TermSpec] = {}
"""Name to entry, in the order of the arrays of terms."""


def _term(
    name: str,
    formula: str,
    unit: str,
    source: str,
    *kernels: str,
    needs: tuple[Need, ...] = (),
    cost: bool = False,
    scope: bool = False,
    per_job: bool = True,
    short_first: bool = False,
) -> int:
    """Add an entry; its index, which compiled code uses."""
    TERM_SPECS[name] = TermSpec(
        name, formula, unit, source, kernels, cost, frozenset(needs), scope, per_job, short_first
    )
    return len(TERM_SPECS) - 1


_G5 = "Venkataswamy 2023, 5"
_G6 = "Venkataswamy 2023, 6"
_GREEN = "docs/reference/green-rules.md, exact rules"
_INTERVAL, _TICK, _ENERGY, _LATE = (
    "rates.book_interval",
    "rates.book_tick",
    "rates.book_energy",
    "rates.book_late",
)

SLOWDOWN = _term(
    "slowdown",
    "-sum of 1 / runtime over waiting and running jobs (scope window: waiting ones in sight)",
    "slowdown",
    "Mao et al. 2016",
    _INTERVAL,
    _TICK,
    scope=True,
    short_first=True,
)
BOUNDED_SLOWDOWN = _term(
    "bounded_slowdown",
    "-sum of 1 / max(runtime, 10 s) over waiting jobs",
    "bounded slowdown",
    "Feitelson 2001",
    _INTERVAL,
    _TICK,
    scope=True,
    short_first=True,
)
WAIT_TIME = _term(
    "wait_time",
    "-waiting jobs",
    "job ticks",
    "Cunha 2022, 4.6.3",
    _INTERVAL,
    _TICK,
    cost=True,
    scope=True,
    short_first=True,
)
UTILIZATION = _term(
    "utilization",
    "mean over resources of used / units",
    "share x ticks",
    "Cunha 2022, 4.6.3",
    _INTERVAL,
    _TICK,
    per_job=False,
)
MAKESPAN = _term(
    "makespan",
    "-1 while a job is unfinished",
    "ticks",
    "Cunha 2022, 4.6.3",
    _INTERVAL,
    _TICK,
    cost=True,
    per_job=False,
)
THROUGHPUT = _term(
    "throughput", "+1 when a job finishes", "jobs", _GREEN, "decide.pass_event", "clock.complete"
)
TERMINAL_BSLD = _term(
    "terminal_bsld",
    "-mean bounded slowdown of all jobs, once all have finished",
    "bounded slowdown",
    "Zhang et al. 2020",
    "decide.pass_event",
    "clock.enter_tick",
    per_job=False,
    short_first=True,
)
FINISHED_VALUE = _term(
    "finished_value", "+value when a job finishes", "value", _G5, "clock.complete", needs=("horizon",)
)
STARTED_VALUE = _term(
    "started_value",
    "+value, discounted to the expected end, when a job is started or planned; less when that fails",
    "value",
    "finished_value, shaped: Ng, Harada and Russell 1999",
    "pools.book_start",
    "pools.book_change",
    needs=("horizon",),
)
ON_TIME_VALUE = _term(
    "on_time_value",
    "+value when a job finishes by its qos violation time",
    "value",
    _G5,
    "clock.complete",
    needs=("horizon",),
)
RUNNING_VALUE = _term(
    "running_value",
    "+value / runtime of every running job",
    "value",
    "dense finished_value",
    _TICK,
    needs=("horizon",),
)
QOS_VIOLATION = _term(
    "qos_violation",
    "-unfinished jobs past their qos violation time",
    "job ticks",
    _G5,
    _LATE,
    needs=("horizon", "every_job"),
    cost=True,
)
READY_WAITING = _term("ready_waiting", "-jobs in the ready pool", "job ticks", _G5, _TICK, needs=("horizon",))
WAIT_WAITING = _term("wait_waiting", "-jobs in the wait pool", "job ticks", _G5, _TICK, needs=("horizon",))
LONG_RUNNING = _term("long_running", "-running jobs", "job ticks", _G5, _TICK, needs=("horizon",))
SUSPENSION = _term(
    "suspension",
    "-1 when a job is suspended",
    "suspensions",
    _G5,
    "pools.suspend",
    needs=("horizon",),
    cost=True,
)
ENERGY = _term(
    "energy",
    "-energy drawn",
    "kWh",
    _GREEN,
    _ENERGY,
    needs=("horizon", "power"),
    cost=True,
    per_job=False,
)
BROWN_ENERGY = _term(
    "brown_energy",
    "-energy drawn from the grid",
    "kWh",
    _GREEN,
    _ENERGY,
    needs=("horizon", "power"),
    cost=True,
    per_job=False,
)
CARBON = _term(
    "carbon",
    "-carbon of that energy",
    "kg",
    _GREEN,
    _ENERGY,
    needs=("horizon", "power"),
    cost=True,
    per_job=False,
)
CURTAILMENT = _term(
    "curtailment",
    "-renewable energy that nobody used",
    "kWh",
    _GREEN,
    _ENERGY,
    needs=("horizon", "power"),
    per_job=False,
)
REJECTED = _term(
    "rejected",
    "-1 when a job is turned away or given up",
    "jobs",
    _GREEN,
    "clock.book_rejection",
    needs=("horizon",),
    cost=True,
)
DELAYED_JOBS = _term(
    "delayed_jobs",
    "-jobs that wait: ready, wait pool, planned, suspended",
    "job ticks",
    _G6,
    _TICK,
    needs=("horizon",),
    cost=True,
)
WAITING_VALUE = _term(
    "waiting_value",
    "-value of the jobs that wait",
    "value x ticks",
    _G6,
    _TICK,
    needs=("horizon",),
    cost=True,
)
LOST_VALUE = _term(
    "lost_value",
    "-value when a job is turned away or given up",
    "value",
    _GREEN,
    "clock.book_rejection",
    needs=("horizon",),
    cost=True,
)
JOB_STARVATION = _term(
    "job_starvation",
    "-waiting jobs that were submitted more than objective.starvation_s ago",
    "job ticks",
    _GREEN,
    "rates.book_interval_late",
    _LATE,
    needs=("every_job",),
    cost=True,
    scope=True,
)
LONG_WAITS = _term(
    "long_waits",
    "-1 when a job has waited longer than objective.starvation_s",
    "jobs",
    _GREEN,
    "rates.book_interval_late",
    _LATE,
    needs=("every_job",),
    cost=True,
)
UNUSED_CAPACITY = _term(
    "unused_capacity",
    "-(1 - mean over resources of used / units)",
    "share x ticks",
    _GREEN,
    _INTERVAL,
    _TICK,
    cost=True,
    per_job=False,
)

TERMS: tuple[str, ...] = tuple(TERM_SPECS)
"""Names of all terms, in the order of the arrays of terms."""

COSTS: tuple[str, ...] = tuple(spec.name for spec in TERM_SPECS.values() if spec.cost)
"""Names of the terms that may be costs."""

if TYPE_CHECKING:  # a type checker knows no Literal that is computed
    Term = str
    CostTerm = str
else:
    Term = Literal[TERMS]
    CostTerm = Literal[COSTS]


def terms_that_need(need: Need) -> frozenset[str]:
    """Names of the terms with this need."""
    return frozenset(name for name, spec in TERM_SPECS.items() if need in spec.needs)
