"""Opens the trace of a scenario: reads it, applies limits, estimates and load, and cuts episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.reading import read_once
from rlsched.scenario import Scenario, SwfWorkload
from rlsched.workloads import swf
from rlsched.workloads.days import DAY_S, Days, stretch_to, stretched
from rlsched.workloads.enrich import enrich
from rlsched.workloads.episodes import open_supply
from rlsched.workloads.estimates import estimated
from rlsched.workloads.limits import within_limits
from rlsched.workloads.machine import (
    at_requested,
    check_one_resource,
    usable_units,
    whole_nodes,
)
from rlsched.workloads.traces import TraceSource, Windows

ESTIMATES_STREAM = 0x657374
"""Key of the random stream of requested times."""

TRAINING_SHARE = 0.8
"""Default share of a trace, from its start, that training uses."""


def open_trace(scenario: Scenario, workload: SwfWorkload) -> TraceSource:
    """Open the source of a scenario whose workload is a trace.

    Raises:
        BadInputError: the trace cannot be read or is too short, the size of the machine is unknown, or
            settings of the scenario do not go with the trace.
    """
    if workload.enrich is None:
        check_one_resource(scenario.cluster, "keep one resource, or add workload.enrich")
    name = str(workload.file)
    trace = read_once(swf.read, workload.file, rules=workload.rules, tick_s=scenario.cluster.tick_s)
    cluster = scenario.cluster.resolve(trace.processors, name)
    _check_rules(scenario, workload)
    if not scenario.linked:
        none = np.full(len(trace.jobs), -1)
        trace = replace(trace, jobs=replace(trace.jobs, preceding=none, think=none))
    jobs = trace.jobs if workload.enrich is None else enrich(trace.jobs, workload.enrich, cluster)
    exact = jobs if workload.estimates is None else replace(jobs, requested=jobs.runtime)
    limited, counts = within_limits(
        whole_nodes(exact, cluster), cluster.resources[0], workload, scenario.decision.horizon, name
    )
    limited = _with_estimates(limited, jobs, workload, scenario)
    stretch = 1.0
    if workload.load is not None:
        stretch = stretch_to(limited, usable_units(cluster.resources[0]), workload.load, "workload.load")
    overdue = int((limited.runtime > limited.requested).sum())
    if cluster.kill_at_requested and overdue:
        counts["ended_at_requested"] = overdue
    limited = at_requested(limited, cluster)
    jobs = limited if workload.load is None else stretched(limited, stretch)
    repairs = trace.repairs | counts
    if scenario.linked:
        dependent = (jobs.preceding >= 0).sum()
        unknown = {"dependencies_unknown": int(dependent - (jobs.predecessors() >= 0).sum())}
        repairs = {name: count for name, count in (repairs | unknown).items() if count}
        repairs.pop("dependencies_ignored", None)
    trace = replace(trace, jobs=jobs, repairs=repairs)
    windows = _windows(scenario, workload, trace, counts)
    training_rows = _training_rows(scenario, workload, windows)
    source = TraceSource(
        cluster=cluster,
        trace=trace,
        name=name,
        windows=windows,
        training_rows=training_rows,
        offsets=scenario.episode.offsets,
        supply=open_supply(scenario, cluster),
        days=None if workload.resample == "never" else Days(limited, DAY_S // cluster.tick_s, stretch),
        resample_evaluation=workload.resample == "always",
    )
    source.check_days()
    return source


def _check_rules(scenario: Scenario, workload: SwfWorkload) -> None:
    """Check settings against each other."""
    needs_standard_rules = {
        "workload.load": workload.load is not None,
        "workload.estimates": workload.estimates is not None,
        "cluster.kill_at_requested": scenario.cluster.kill_at_requested,
        "workload.resample": workload.resample != "never",
        "workload.dependencies": scenario.linked,
    }
    for key, is_set in needs_standard_rules.items():
        if is_set and workload.rules == "rlscheduler":
            problem = "does not go with workload.rules rlscheduler, whose figures are for the unchanged trace"
            raise BadInputError(key, problem, "remove it, or set workload.rules: standard")
    needs_independent_jobs = {
        "decision.horizon": scenario.decision.tick_driven,
        "workload.resample": workload.resample != "never",
    }
    for key, is_set in needs_independent_jobs.items():
        if is_set and scenario.linked:
            problem = f"value 'follow' does not go with {key}"
            remedy = f"remove {key}, or set workload.dependencies: ignore"
            raise BadInputError("workload.dependencies", problem, remedy)
    if workload.resample == "never":
        return
    if scenario.episode.jobs is None and scenario.episode.max_ticks is None:
        problem = f"value None, the whole trace, does not go with workload.resample={workload.resample}"
        raise BadInputError("episode.jobs", problem, "set a number of jobs, or workload.resample=never")
    if DAY_S % scenario.cluster.tick_s:
        problem = f"value {scenario.cluster.tick_s}: workload.resample needs a day of whole ticks"
        raise BadInputError("cluster.tick_s", problem, "set a divisor of 86400")


def _with_estimates(limited: JobTable, jobs: JobTable, workload: SwfWorkload, scenario: Scenario) -> JobTable:
    """Replace requested times by estimates; those of a job do not depend on the jobs that limits drop.

    Args:
        limited: jobs within the limits.
        jobs: all jobs of the trace.
        workload: with the estimates.
        scenario: its planning horizon bounds requested times.
    """
    estimates = workload.estimates
    if estimates is None:
        return limited
    seed, tick_s = getattr(estimates, "seed", 0), scenario.cluster.tick_s
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(ESTIMATES_STREAM,)))
    estimates_of_all = estimated(jobs, estimates, rng, tick_s, int(jobs.runtime.max()) * tick_s)
    order = np.argsort(estimates_of_all.id)
    requested = estimates_of_all.requested[order][
        np.searchsorted(estimates_of_all.id, limited.id, sorter=order)
    ]
    for most in (workload.max_job_duration, scenario.decision.horizon):
        if most is not None:
            requested = np.minimum(requested, most)
    return replace(limited, requested=requested)


def _windows(scenario: Scenario, workload: SwfWorkload, trace: swf.Trace, counts: dict[str, int]) -> Windows:
    """Windows of episodes in a trace; counts are of jobs over limits."""
    name = str(workload.file)
    rows, length, ticks = len(trace.jobs), scenario.episode.jobs, scenario.episode.max_ticks
    windows = Windows(trace.jobs.submit, length, ticks if length is None else None)
    if windows.ticks is not None and workload.rules == "rlscheduler":
        raise BadInputError(
            "episode.jobs",
            "value None means max_ticks, but under workload.rules rlscheduler jobs are in order of number",
            "set a number of jobs, or workload.rules: standard",
        )
    starts = windows.starts(rows)
    if workload.resample != "never" and not scenario.episode.offsets:
        return windows
    if not starts and windows.ticks is None:
        dropped = "".join(f", {key} {count}" for key, count in counts.items() if key.endswith("_dropped"))
        problem = f"{rows} jobs that fit the machine are less than an episode of {length}{dropped}"
        raise BadInputError(name, problem, f"set episode.jobs to at most {rows}, or null for the whole trace")
    if not starts:
        lasts = windows.length(0, rows)
        problem = f"{lasts} ticks from its first to its last submit are less than an episode of {ticks}"
        raise BadInputError(name, problem, f"set episode.max_ticks to at most {lasts}")
    for offset in scenario.episode.offsets:
        if not 0 <= offset < starts:
            span = f"{length or rows} jobs" if windows.ticks is None else f"{ticks} ticks"
            problem = f"value {offset}: no {span} from there on in {rows} jobs of {name}"
            raise BadInputError("episode.offsets", problem, f"use 0..{starts - 1}")
    return windows


def _training_rows(scenario: Scenario, workload: SwfWorkload, windows: Windows) -> tuple[int, int]:
    rows = len(windows.submit)
    if workload.training_jobs is None:
        end = int(rows * TRAINING_SHARE)
        if windows.everything:
            return 0, max(1, end)
        last_start = windows.starts(rows) - 1
        if not scenario.episode.offsets and windows.end(0) <= last_start < end:
            end = last_start  # a short trace: keep one whole episode for evaluation
        return 0, end
    first, last = workload.training_jobs
    end = rows if last is None else last
    if not 0 <= first < end <= rows:
        problem = f"value [{first}, {last}] for {rows} jobs"
        raise BadInputError("workload.training_jobs", problem, f"use rows 0 <= from < to <= {rows}")
    return first, end
