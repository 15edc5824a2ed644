"""From a scenario to the source of its episodes: read, check, make ready."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import (
    Cluster,
    LublinWorkload,
    MixtureWorkload,
    ModelWorkload,
    Part,
    PoissonWorkload,
    Scenario,
    SwfWorkload,
)
from rlsched.workloads import swf
from rlsched.workloads.days import DAY_S, Days, stretch_to, stretched
from rlsched.workloads.enrich import enrich
from rlsched.workloads.episodes import EpisodeJobs, Source, Supply
from rlsched.workloads.estimates import estimated
from rlsched.workloads.limits import within_limits
from rlsched.workloads.machine import at_requested, resolved, usable_units, whole_nodes
from rlsched.workloads.mao import MaoModel
from rlsched.workloads.models import EstimatedJobs, LublinJobs, MixedModels, Model, ModelSource, OwnCluster
from rlsched.workloads.poisson import PoissonModel
from rlsched.workloads.traces import TraceSource, Windows

__all__ = ["EpisodeJobs", "ModelSource", "Source", "TraceSource", "open_source"]

ESTIMATES_STREAM = 0x657374
"""Marks the random stream of what users ask for."""

TRAINING_SHARE = 0.8
"""Share of a trace, from its beginning, that training sees where the scenario does not say."""


def open_source(scenario: Scenario) -> Source:
    """Make ready what a scenario takes its episodes from.

    A trace that was read before in this process, and has not changed, is not read again.

    Raises:
        BadInputError: the trace cannot be read or is too short, the size of the machine is not known,
            or the scenario asks for what its workload or its power does not have.
    """
    if isinstance(scenario.workload, SwfWorkload):
        return _open_trace(scenario, scenario.workload)
    return _open_model(scenario, scenario.workload)


def _open_model(scenario: Scenario, workload: ModelWorkload | MixtureWorkload) -> ModelSource:
    cluster = resolved(scenario.cluster, None, f"workload: the {workload.kind} model")
    jobs, ticks = scenario.episode.jobs, scenario.episode.max_ticks
    if jobs is None and ticks is None:
        raise BadInputError(
            "episode.jobs",
            "value None: a model has no end",
            "set a number of jobs, or episode.end: max_ticks and episode.max_ticks: N",
        )
    if scenario.episode.offsets:
        raise BadInputError("episode.offsets", "are rows of a trace", "leave them out with a model")
    model: Model
    if isinstance(workload, MixtureWorkload):
        largest = max((part.units or 0) for part in workload.parts)
        if all(part.units for part in workload.parts) and largest != cluster.resources[0].units:
            raise BadInputError(
                "cluster.resources.0.units",
                f"value {cluster.resources[0].units}, and the largest of workload.parts.N.units is {largest}",
                f"set it to {largest}, or leave the units of a part out",
            )
        models = tuple(_part(scenario, part, cluster, k) for k, part in enumerate(workload.parts))
        model = MixedModels(models, tuple(part.share for part in workload.parts))
    else:
        model = _model(scenario, workload, cluster)
    return ModelSource(
        cluster=cluster,
        model=model,
        max_jobs=model.most_jobs(ticks or 1) if jobs is None else jobs,
        ticks=ticks if jobs is None else None,
        supply=_supply(scenario, cluster),
    )


def _part(scenario: Scenario, part: Part, cluster: Cluster, number: int) -> Model:
    """The model of a part, on a cluster of its own where it has one."""
    if part.units is None:
        return _model(scenario, part.workload, cluster)
    where = f"workload.parts.{number}.units"
    if len(cluster.resources) > 1:
        raise BadInputError(where, "does not go with several cluster.resources", "leave one resource")
    (resource,) = cluster.resources
    least = resource.units_per_node or 1
    if not least <= part.units <= (resource.units or 0):
        raise BadInputError(
            where,
            f"value {part.units}",
            f"use {least} to {resource.units}, which are cluster.resources.0.units",
        )
    own = cluster.model_copy(update={"resources": (resource.model_copy(update={"units": part.units}),)})
    return OwnCluster(_model(scenario, part.workload, own), part.units)


def _model(scenario: Scenario, workload: ModelWorkload, cluster: Cluster) -> Model:
    model: Model
    horizon = scenario.decision.horizon
    if isinstance(workload, LublinWorkload):
        model = _lublin(workload, cluster, horizon)
    elif isinstance(workload, PoissonWorkload):
        model = PoissonModel.of(workload, cluster)
    else:
        model = MaoModel.of(workload, cluster)
    if workload.estimates is None:
        return model
    if getattr(workload.estimates, "seed", 0):
        raise BadInputError(
            "workload.estimates.seed",
            "means nothing to a model, which draws requests with its jobs",
            "leave it out",
        )
    return EstimatedJobs(model, workload.estimates, cluster.tick_s, horizon)


def _lublin(workload: LublinWorkload, cluster: Cluster, horizon: int | None) -> LublinJobs:
    _one_resource(cluster, "leave one resource")
    jobs = LublinJobs.of(workload, usable_units(cluster.resources[0]), cluster.tick_s)
    if horizon is not None and jobs.longest > horizon:
        longest = max(model.longest_runtime_s for model in jobs.models)
        raise BadInputError(
            "workload.max_runtime_s",
            f"jobs of up to {longest} s do not fit decision.horizon {horizon} of {cluster.tick_s} s each",
            f"set at most {horizon * cluster.tick_s}, or a longer horizon or cluster.tick_s",
        )
    return jobs


def _open_trace(scenario: Scenario, workload: SwfWorkload) -> TraceSource:
    if workload.enrich is None:
        _one_resource(scenario.cluster, "leave one resource, or add workload.enrich")
    name = str(workload.file)
    trace = _read(workload.file, workload.rules, scenario.cluster.tick_s)
    cluster = resolved(scenario.cluster, trace.processors, name)
    _check_rules(scenario, workload)
    trace = replace(trace, jobs=_independent(trace.jobs)) if not scenario.linked else trace
    jobs = trace.jobs if workload.enrich is None else enrich(trace.jobs, workload.enrich, cluster)
    exact = jobs if workload.estimates is None else replace(jobs, requested=jobs.runtime)
    kept, counts = within_limits(
        whole_nodes(exact, cluster), cluster.resources[0], workload, scenario.decision.horizon, name
    )
    kept = _asked_for(kept, jobs, workload, scenario)
    stretch = 1.0
    if workload.load is not None:
        stretch = stretch_to(kept, usable_units(cluster.resources[0]), workload.load, "workload.load")
    overdue = int((kept.runtime > kept.requested).sum())
    if cluster.kill_at_requested and overdue:
        counts["ended_at_requested"] = overdue
    kept = at_requested(kept, cluster)
    jobs = kept if workload.load is None else stretched(kept, stretch)
    repairs = trace.repairs | counts
    if scenario.linked:
        named = (jobs.preceding >= 0).sum()
        unknown = {"dependencies_unknown": int(named - (jobs.predecessors() >= 0).sum())}
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
        supply=_supply(scenario, cluster),
        days=None if workload.resample == "never" else Days(kept, DAY_S // cluster.tick_s, stretch),
        resample_evaluation=workload.resample == "always",
    )
    source.check_days()
    return source


def _independent(jobs: JobTable) -> JobTable:
    """The same jobs, of which none waits for the end of another."""
    none = np.full(len(jobs), -1)
    return replace(jobs, preceding=none, think=none)


def _check_rules(scenario: Scenario, workload: SwfWorkload) -> None:
    """Settings that do not go with others.

    Raises:
        BadInputError: they are given together.
    """
    own = {
        "workload.load": workload.load is not None,
        "workload.estimates": workload.estimates is not None,
        "cluster.kill_at_requested": scenario.cluster.kill_at_requested,
        "workload.resample": workload.resample != "never",
        "workload.dependencies": scenario.linked,
    }
    for key, given in own.items():
        if given and workload.rules == "rlscheduler":
            raise BadInputError(
                key,
                "is given with workload.rules rlscheduler, whose figures are for a trace as it is",
                "leave it out, or set workload.rules: standard",
            )
    without = {
        "decision.horizon": scenario.decision.horizon is not None,
        "workload.resample": workload.resample != "never",
    }
    for key, given in without.items():
        if given and scenario.linked:
            raise BadInputError(
                "workload.dependencies",
                f"value 'follow' does not go with {key}",
                f"leave {key} out, or set workload.dependencies: ignore",
            )
    if workload.resample == "never":
        return
    if scenario.episode.jobs is None and scenario.episode.max_ticks is None:
        raise BadInputError(
            "episode.jobs",
            f"value None, the whole trace, does not go with workload.resample={workload.resample}",
            "set a number of jobs, or workload.resample=never",
        )
    if DAY_S % scenario.cluster.tick_s:
        raise BadInputError(
            "cluster.tick_s",
            f"value {scenario.cluster.tick_s}: a day is no whole number of ticks, as workload.resample needs",
            "set a part of 86400",
        )


def _asked_for(kept: JobTable, jobs: JobTable, workload: SwfWorkload, scenario: Scenario) -> JobTable:
    """Jobs of a trace with other requests: the same for a job whatever limits leave out, and within them.

    Args:
        kept: that are within the limits.
        jobs: all of the trace.
        workload: with the estimates.
        scenario: whose horizon bounds what can be asked for.
    """
    estimates = workload.estimates
    if estimates is None:
        return kept
    seed, tick_s = getattr(estimates, "seed", 0), scenario.cluster.tick_s
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(ESTIMATES_STREAM,)))
    asked = estimated(jobs, estimates, rng, tick_s, int(jobs.runtime.max()) * tick_s)
    order = np.argsort(asked.id)
    requested = asked.requested[order][np.searchsorted(asked.id, kept.id, sorter=order)]
    for most in (workload.max_job_duration, scenario.decision.horizon):
        if most is not None:
            requested = np.minimum(requested, most)
    return replace(kept, requested=requested)


def _windows(scenario: Scenario, workload: SwfWorkload, trace: swf.Trace, counts: dict[str, int]) -> Windows:
    """How episodes are cut, where the trace is long enough for that; counts are of jobs over limits."""
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
        without = "".join(f", {key} {count}" for key, count in counts.items() if key.endswith("_dropped"))
        raise BadInputError(
            name,
            f"{rows} jobs that fit the machine are less than an episode of {length}{without}",
            f"set episode.jobs to at most {rows}, or null for the whole trace",
        )
    if not starts:
        lasts = windows.length(0, rows)
        raise BadInputError(
            name,
            f"{lasts} ticks from its first to its last submit are less than an episode of {ticks}",
            f"set episode.max_ticks to at most {lasts}",
        )
    for offset in scenario.episode.offsets:
        if not 0 <= offset < starts:
            wanted = f"{length or rows} jobs" if windows.ticks is None else f"{ticks} ticks"
            raise BadInputError(
                "episode.offsets",
                f"value {offset}: no {wanted} from there on in {rows} jobs of {name}",
                f"use 0..{starts - 1}",
            )
    return windows


def _training_rows(scenario: Scenario, workload: SwfWorkload, windows: Windows) -> tuple[int, int]:
    rows = len(windows.submit)
    if workload.training_jobs is None:
        end = int(rows * TRAINING_SHARE)
        if windows.everything:
            return 0, max(1, end)
        last_start = windows.starts(rows) - 1
        if not scenario.episode.offsets and windows.end(0) <= last_start < end:
            end = last_start  # a short trace: leave evaluation one whole episode
        return 0, end
    first, last = workload.training_jobs
    end = rows if last is None else last
    if not 0 <= first < end <= rows:
        raise BadInputError(
            "workload.training_jobs",
            f"value [{first}, {last}] for {rows} jobs",
            f"use rows 0 <= from < to <= {rows}",
        )
    return first, end


def _one_resource(cluster: Cluster, remedy: str) -> None:
    if len(cluster.resources) != 1:
        raise BadInputError(
            "cluster.resources",
            f"{len(cluster.resources)} types, but this workload knows processors only",
            remedy,
        )


def _supply(scenario: Scenario, cluster: Cluster) -> Supply | None:
    """What draws the power of the scenario's episodes."""
    if scenario.power is None:
        return None
    from rlsched.power.model import open_power  # pandas: nobody without power waits for it

    return Supply(
        model=open_power(scenario.power, cluster),
        max_ticks=scenario.episode.max_ticks,
        horizon=scenario.decision.horizon or 0,
    )


def _read(path: Path, rules: swf.Rules, tick_s: int) -> swf.Trace:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return swf.read(path, rules=rules, tick_s=tick_s)  # says what is wrong with it
    return _read_once(path.resolve(), status.st_mtime_ns, status.st_size, rules, tick_s)


@lru_cache(maxsize=4)
def _read_once(path: Path, mtime_ns: int, size: int, rules: swf.Rules, tick_s: int) -> swf.Trace:
    """The trace of this very state of a file."""
    return swf.read(path, rules=rules, tick_s=tick_s)
