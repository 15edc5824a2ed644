"""The table of reward and cost terms: what a tick or a job of an episode is worth.

To add a term, add an entry at the end of the table. Its function is compiled into the core
(`rlsched.sim.booking`), and for costs without a horizon summed over an episode (`rlsched.evaluate.costs`).
Settings, listings, metrics and documents derive from the table, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlsched.scenario.term_spec import EVERY_JOB, HORIZON, POWER, Need, TermSpec

_G5 = "Venkataswamy 2023, 5"
_G6 = "Venkataswamy 2023, 6"
_GREEN = "docs/reference/green-rules.md, exact rules"

_TABLE = (
    TermSpec(
        "slowdown",
        "-sum of 1 / runtime over waiting and running jobs (scope window: waiting ones in sight)",
        "slowdown",
        "Mao et al. 2016",
        rate=lambda tick: -tick.slowdown_rate,
        scope=True,
        short_first=True,
    ),
    TermSpec(
        "bounded_slowdown",
        "-sum of 1 / max(runtime, 10 s) over waiting jobs",
        "bounded slowdown",
        "Feitelson 2001",
        rate=lambda tick: -tick.bounded_rate,
        scope=True,
        short_first=True,
    ),
    TermSpec(
        "wait_time",
        "-waiting jobs",
        "job ticks",
        "Cunha 2022, 4.6.3",
        rate=lambda tick: -tick.num_in_scope,
        cost=True,
        scope=True,
        short_first=True,
    ),
    TermSpec(
        "utilization",
        "mean over resources of used / units",
        "share x ticks",
        "Cunha 2022, 4.6.3",
        rate=lambda tick: tick.used_share,
        per_job=False,
    ),
    TermSpec(
        "makespan",
        "-1 while a job is unfinished",
        "ticks",
        "Cunha 2022, 4.6.3",
        rate=lambda tick: -1.0,
        cost=True,
        per_job=False,
    ),
    TermSpec(
        "throughput",
        "+1 when a job finishes",
        "jobs",
        _GREEN,
        on_finish=lambda job: 1.0,
        kernels=("decide.pass_event",),
    ),
    TermSpec(
        "terminal_bsld",
        "-mean bounded slowdown of all jobs, once all have finished",
        "bounded slowdown",
        "Zhang et al. 2020",
        kernels=("decide.pass_event", "clock.enter_tick"),
        per_job=False,
        short_first=True,
    ),
    TermSpec(
        "finished_value",
        "+value when a job finishes",
        "value",
        _G5,
        on_finish=lambda job: job.value,
        needs=HORIZON,
    ),
    TermSpec(
        "started_value",
        "+value, discounted to the expected end, when a job is started or planned; less when that fails",
        "value",
        "finished_value, shaped: Ng, Harada and Russell 1999",
        kernels=("pools.book_start", "pools.book_change"),
        needs=HORIZON,
    ),
    TermSpec(
        "on_time_value",
        "+value when a job finishes by its qos violation time",
        "value",
        _G5,
        on_finish=lambda job: job.value * (job.now <= job.due),
        needs=HORIZON,
    ),
    TermSpec(
        "running_value",
        "+value / runtime of every running job",
        "value",
        "dense finished_value",
        rate=lambda tick: tick.running_value,
        needs=HORIZON,
    ),
    TermSpec(
        "qos_violation",
        "-unfinished jobs past their qos violation time",
        "job ticks",
        _G5,
        rate=lambda tick: -tick.num_late,
        needs=HORIZON | EVERY_JOB,
        cost=True,
    ),
    TermSpec(
        "ready_waiting",
        "-jobs in the ready pool",
        "job ticks",
        _G5,
        rate=lambda tick: -tick.num_ready,
        needs=HORIZON,
    ),
    TermSpec(
        "wait_waiting",
        "-jobs in the wait pool",
        "job ticks",
        _G5,
        rate=lambda tick: -tick.num_pool,
        needs=HORIZON,
    ),
    TermSpec(
        "long_running", "-running jobs", "job ticks", _G5, rate=lambda tick: -tick.num_running, needs=HORIZON
    ),
    TermSpec(
        "suspension",
        "-1 when a job is suspended",
        "suspensions",
        _G5,
        on_suspension=lambda job: -1.0,
        needs=HORIZON,
        cost=True,
    ),
    TermSpec(
        "energy",
        "-energy drawn",
        "kWh",
        _GREEN,
        rate=lambda tick: -tick.energy_kwh,
        needs=POWER,
        cost=True,
        per_job=False,
    ),
    TermSpec(
        "brown_energy",
        "-energy drawn from the grid",
        "kWh",
        _GREEN,
        rate=lambda tick: -tick.brown_kwh,
        needs=POWER,
        cost=True,
        per_job=False,
    ),
    TermSpec(
        "carbon",
        "-carbon of that energy",
        "kg",
        _GREEN,
        rate=lambda tick: -tick.carbon_kg,
        needs=POWER,
        cost=True,
        per_job=False,
    ),
    TermSpec(
        "curtailment",
        "-renewable energy that nobody used",
        "kWh",
        _GREEN,
        rate=lambda tick: -tick.curtailed_kwh,
        needs=POWER,
        per_job=False,
    ),
    TermSpec(
        "rejected",
        "-1 when a job is turned away or given up",
        "jobs",
        _GREEN,
        on_rejection=lambda job: -1.0,
        needs=HORIZON,
        cost=True,
    ),
    TermSpec(
        "delayed_jobs",
        "-jobs that wait: ready, wait pool, planned, suspended",
        "job ticks",
        _G6,
        rate=lambda tick: -tick.num_waiting,
        needs=HORIZON,
        cost=True,
    ),
    TermSpec(
        "waiting_value",
        "-value of the jobs that wait",
        "value x ticks",
        _G6,
        rate=lambda tick: -tick.waiting_value,
        needs=HORIZON,
        cost=True,
    ),
    TermSpec(
        "lost_value",
        "-value when a job is turned away or given up",
        "value",
        _GREEN,
        on_rejection=lambda job: -job.value,
        needs=HORIZON,
        cost=True,
    ),
    TermSpec(
        "job_starvation",
        "-waiting jobs that were submitted more than objective.starvation_s ago",
        "job ticks",
        _GREEN,
        rate=lambda tick: -tick.starvation,
        kernels=("rates.book_interval_late",),
        needs=EVERY_JOB,
        cost=True,
        scope=True,
    ),
    TermSpec(
        "long_waits",
        "-1 when a job has waited longer than objective.starvation_s",
        "jobs",
        _GREEN,
        kernels=("rates.book_interval_late", "rates.count_late"),
        needs=EVERY_JOB,
        cost=True,
    ),
    TermSpec(
        "unused_capacity",
        "-(1 - mean over resources of used / units)",
        "share x ticks",
        _GREEN,
        rate=lambda tick: tick.used_share - 1.0,
        cost=True,
        per_job=False,
    ),
)

TERM_SPECS: dict[str, TermSpec] = {spec.name: spec for spec in _TABLE}
"""Name to entry, in the order of the arrays of terms."""

TERMS: tuple[str, ...] = tuple(TERM_SPECS)
"""Names of all terms, in the order of the arrays of terms."""

COSTS: tuple[str, ...] = tuple(spec.name for spec in TERM_SPECS.values() if spec.cost)
"""Names of the terms that may be costs."""

THROUGHPUT, TERMINAL_BSLD, STARTED_VALUE = map(TERMS.index, ("throughput", "terminal_bsld", "started_value"))
JOB_STARVATION, LONG_WAITS = map(TERMS.index, ("job_starvation", "long_waits"))
FINISHED_VALUE, ON_TIME_VALUE = map(TERMS.index, ("finished_value", "on_time_value"))
MAKESPAN, UTILIZATION = map(TERMS.index, ("makespan", "utilization"))

if TYPE_CHECKING:  # a type checker knows no Literal that is computed
    Term = str
    CostTerm = str
else:
    Term = Literal[TERMS]
    CostTerm = Literal[COSTS]


def terms_that_need(need: Need) -> frozenset[str]:
    """Names of the terms with this need."""
    return frozenset(name for name, spec in TERM_SPECS.items() if need in spec.needs)
