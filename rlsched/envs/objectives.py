"""The registry of reward and cost terms: formula, unit and source of each. The core computes them."""

from __future__ import annotations

from dataclasses import dataclass

from rlsched.sim.metrics import COSTS


@dataclass(frozen=True)
class Note:
    """Description of a term; its value is summed, discounted, over the ticks of a transition.

    Attributes:
        formula: value of a tick, or of an event.
        unit: of one tick's contribution.
        source: paper that introduced it.
        horizon: it is only counted in scenarios with a planning horizon.
    """

    formula: str
    unit: str
    source: str
    horizon: bool = False


_G5 = "Venkataswamy 2023, 5"
_G6 = "Venkataswamy 2023, 6"
_GREEN_RULES = "docs/reference/green-rules.md, exact rules"

TERM_NOTES: dict[str, Note] = {
    "slowdown": Note(
        "-sum of 1 / runtime over waiting and running jobs (scope window: waiting ones in sight)",
        "slowdown",
        "Mao et al. 2016",
    ),
    "bounded_slowdown": Note(
        "-sum of 1 / max(runtime, 10 s) over waiting jobs", "bounded slowdown", "Feitelson 2001"
    ),
    "wait_time": Note("-waiting jobs", "job ticks", "Cunha 2022, 4.6.3"),
    "utilization": Note("mean over resources of used / units", "share x ticks", "Cunha 2022, 4.6.3"),
    "makespan": Note("-1 while a job is unfinished", "ticks", "Cunha 2022, 4.6.3"),
    "throughput": Note("+1 when a job finishes", "jobs", _GREEN_RULES),
    "terminal_bsld": Note(
        "-mean bounded slowdown of all jobs, once all have finished",
        "bounded slowdown",
        "Zhang et al. 2020",
    ),
    "finished_value": Note("+value when a job finishes", "value", _G5, True),
    "started_value": Note(
        "+value, discounted to the expected end, when a job is started or planned; less when that fails",
        "value",
        "finished_value, shaped: Ng, Harada and Russell 1999",
        True,
    ),
    "on_time_value": Note("+value when a job finishes by its qos violation time", "value", _G5, True),
    "running_value": Note("+value / runtime of every running job", "value", "dense finished_value", True),
    "qos_violation": Note("-unfinished jobs past their qos violation time", "job ticks", _G5, True),
    "ready_waiting": Note("-jobs in the ready pool", "job ticks", _G5, True),
    "wait_waiting": Note("-jobs in the wait pool", "job ticks", _G5, True),
    "long_running": Note("-running jobs", "job ticks", _G5, True),
    "suspension": Note("-1 when a job is suspended", "suspensions", _G5, True),
    "energy": Note("-energy drawn", "kWh", _GREEN_RULES, True),
    "brown_energy": Note("-energy drawn from the grid", "kWh", _GREEN_RULES, True),
    "carbon": Note("-carbon of that energy", "kg", _GREEN_RULES, True),
    "curtailment": Note("-renewable energy that nobody used", "kWh", _GREEN_RULES, True),
    "rejected": Note("-1 when a job is turned away or given up", "jobs", _GREEN_RULES, True),
    "delayed_jobs": Note("-jobs that wait: ready, wait pool, planned, suspended", "job ticks", _G6, True),
    "waiting_value": Note("-value of the jobs that wait", "value x ticks", _G6, True),
    "lost_value": Note("-value when a job is turned away or given up", "value", _GREEN_RULES, True),
    "job_starvation": Note(
        "-waiting jobs that were submitted more than objective.starvation_s ago", "job ticks", _GREEN_RULES
    ),
    "long_waits": Note("-1 when a job has waited longer than objective.starvation_s", "jobs", _GREEN_RULES),
    "unused_capacity": Note("-(1 - mean over resources of used / units)", "share x ticks", _GREEN_RULES),
}

COST_NAMES = COSTS
"""The terms that may be costs (`objective.costs`): their sign is turned, so that less is better."""
