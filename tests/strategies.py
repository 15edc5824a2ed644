"""Small, nasty instances: ties on purpose, estimates that are too short, exact and too long.

For hypothesis (`instances`, `scenarios`) and, where thousands are wanted, from a seed (`random_instance`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st

from rlsched.jobs import JobTable
from rlsched.scenario import Scenario, Term
from rlsched.scenario.terms import terms_that_need

ACTION_RULES = ("commit", "fit", "hold")
TIME_RULES = ("smdp", "sparse", "tick")
SCOPES = ("all", "window")
GAMMAS = (1.0, 0.99)
WEIGHTS = {
    term: weight
    for term, weight in zip(get_args(Term), count(1), strict=False)
    if term not in terms_that_need("horizon")
}
QOS = (1.0, 0.75, 0.5, 0.25)  # binary fractions: no rounding may decide between equal keys

Pick = Callable[[int, int], int]  # a whole number between two bounds, both included


@dataclass(frozen=True)
class Instance:
    """Jobs in the order of their arrival, and the cluster they all fit on."""

    units: tuple[int, ...]
    table: JobTable

    def __repr__(self) -> str:
        columns = ("id", "submit", "runtime", "requested", "demand", "qos", "preceding", "think")
        listed = ", ".join(f"{name}={getattr(self.table, name).tolist()}" for name in columns)
        return f"Instance(units={self.units}, {listed})"


def build_jobs(
    pick: Pick,
    ids: Callable[[int], list[int]],
    units: tuple[int, ...],
    num_jobs: int,
    span: int,
    longest: int,
) -> JobTable:
    """Jobs by a way to pick numbers.

    Args:
        pick: draws a whole number between two bounds.
        ids: draws a permutation of 1, 2, ... of that length.
        units: of the cluster, per resource.
        num_jobs: jobs.
        span: last possible submit time; half of the jobs share five of them.
        longest: requested time at most; half of the jobs ask for 1, 2 or 3.
    """
    submit, runtime, requested, demand, qos = [], [], [], [], []
    for _ in range(num_jobs):
        submit.append(span // 4 * pick(0, 4) if pick(0, 1) else pick(0, span))
        requested.append(pick(1, 3) if pick(0, 1) else pick(1, longest))
        runtime.append((requested[-1], pick(1, requested[-1]), requested[-1] + pick(1, longest))[pick(0, 2)])
        small = pick(0, 1)  # half of the jobs, so that many run at a time
        need = [pick(0, 1 + (total - 1) // 5 if small else total) for total in units]
        demand.append(need if any(need) else [1, *need[1:]])
        qos.append(QOS[pick(0, len(QOS) - 1)])
    table = JobTable.build(
        id=ids(num_jobs), submit=submit, runtime=runtime, requested=requested, demand=demand, qos=qos
    )
    return table.in_submit_order()


def linked(pick: Pick, table: JobTable) -> JobTable:
    """The same jobs, of which about half wait for the end of an earlier one, or of none that there is."""
    n = len(table)
    preceding = [table.id[pick(0, row)] if pick(0, 1) else -1 for row in range(n)]
    think = [pick(-1, 4) for _ in range(n)]
    return replace(table, preceding=np.array(preceding, np.int64), think=np.array(think, np.int64))


@st.composite
def linked_instances(draw: st.DrawFn) -> Instance:
    """The same with jobs that follow others."""
    instance = draw(instances())
    return Instance(instance.units, linked(lambda low, high: draw(st.integers(low, high)), instance.table))


@st.composite
def instances(draw: st.DrawFn, max_jobs: int = 12) -> Instance:
    """1-12 jobs on 1-3 resources of 1-6 units."""

    def pick(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    def ids(n: int) -> list[int]:
        return draw(st.permutations(range(1, n + 1)))

    units = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    span = draw(st.sampled_from([0, 4, 20]))
    return Instance(units, build_jobs(pick, ids, units, draw(st.integers(1, max_jobs)), span, longest=9))


def random_jobs(
    rng: random.Random, units: tuple[int, ...], num_jobs: int, span: int = 30, longest: int = 9
) -> JobTable:
    """The same from a seed, for a given cluster."""
    return build_jobs(rng.randint, lambda n: rng.sample(range(1, n + 1), n), units, num_jobs, span, longest)


def random_instance(rng: random.Random, num_jobs: int, most: int = 6) -> Instance:
    """Jobs and a cluster of 1-3 resources from a seed."""
    units = tuple(rng.randint(1, most) for _ in range(rng.randint(1, 3)))
    return Instance(units, random_jobs(rng, units, num_jobs))


def scenario(
    *,
    action_rule: str = "commit",
    time_rule: str = "smdp",
    skip_forced: bool = True,
    window: int = 4,
    scope: str = "all",
    gamma: float = 1.0,
    max_ticks: int | None = None,
    no_new_job: bool = False,
    tick_s: int = 1,
    starvation_s: int = 86_400,
    num_resources: int = 1,
    follow: bool = False,
    blocks: tuple[str, ...] = ("jobs", "event_horizon", "queue", "outlook"),
) -> Scenario:
    """A scenario whose reward has every term, each with its own weight."""
    end = "max_ticks" if max_ticks is not None else "no_new_job" if no_new_job else "all_finished"
    values: dict[str, Any] = {
        "cluster": {"tick_s": tick_s, "resources": [{"name": f"r{r}"} for r in range(num_resources)]},
        "workload": {"kind": "swf", "file": "t.swf", "dependencies": "follow"}
        if follow
        else {"kind": "lublin"},
        "decision": {
            "action_rule": action_rule,
            "time_rule": time_rule,
            "window": window,
            "skip_forced": skip_forced,
        },
        "observation": {"blocks": blocks, "event_horizon": 5},
        "objective": {"reward": WEIGHTS, "scope": scope, "gamma": gamma, "starvation_s": starvation_s},
        "episode": {"jobs": None, "end": end, "max_ticks": max_ticks},
    }
    return Scenario.model_validate(values)


@st.composite
def scenarios(draw: st.DrawFn, num_resources: int, **fixed: Any) -> Scenario:
    """Any decision process; what is given by name is not drawn."""
    end = draw(st.sampled_from(["all_finished", "no_new_job", "max_ticks"]))
    drawn = {
        "action_rule": draw(st.sampled_from(ACTION_RULES)),
        "time_rule": draw(st.sampled_from(TIME_RULES)),
        "skip_forced": draw(st.booleans()),
        "window": draw(st.integers(1, 5)),
        "scope": draw(st.sampled_from(SCOPES)),
        "gamma": draw(st.sampled_from(GAMMAS)),
        "max_ticks": draw(st.integers(1, 40)) if end == "max_ticks" else None,
        "no_new_job": end == "no_new_job",
        "tick_s": draw(st.sampled_from([1, 4, 60])),
        "starvation_s": draw(st.sampled_from([1, 5, 18, 250])),
    }
    return scenario(**{**drawn, "num_resources": num_resources, **fixed})
