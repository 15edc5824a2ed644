"""The registry of reward terms: formula, unit and source of each. The core computes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """One reward term; its value is summed, discounted, over the ticks of a transition.

    Attributes:
        formula: what is added at each tick, or at an event.
        unit: of one tick's contribution.
        source: where it comes from.
    """

    formula: str
    unit: str
    source: str


REWARD_TERMS: dict[str, Term] = {
    "slowdown": Term("-sum of 1 / runtime over waiting and running jobs", "slowdown", "Mao et al. 2016"),
    "bounded_slowdown": Term(
        "-sum of 1 / max(runtime, 10 s) over waiting jobs", "bounded slowdown", "Feitelson 2001"
    ),
    "wait_time": Term("-waiting jobs", "job ticks", "Cunha 2022, 4.6.3"),
    "utilization": Term("mean over resources of used / units", "share x ticks", "Cunha 2022, 4.6.3"),
    "makespan": Term("-1 while a job is unfinished", "ticks", "Cunha 2022, 4.6.3"),
    "throughput": Term("+1 when a job finishes", "jobs", "simulator.md 5"),
    "terminal_bsld": Term(
        "-mean bounded slowdown of all jobs, once all have finished",
        "bounded slowdown",
        "Zhang et al. 2020",
    ),
}
