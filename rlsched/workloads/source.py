"""From a scenario to the source of its episodes: read, check, make ready."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import exp
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.scenario import Cluster, LublinWorkload, MaoWorkload, PoissonWorkload, Scenario, SwfWorkload
from rlsched.workloads import swf
from rlsched.workloads.enrich import enrich
from rlsched.workloads.episodes import EpisodeJobs, Source, Supply
from rlsched.workloads.limits import within_limits
from rlsched.workloads.lublin import LublinModel
from rlsched.workloads.machine import resolved, usable_units, whole_nodes
from rlsched.workloads.mao import MaoModel
from rlsched.workloads.models import LublinJobs, Model, ModelSource
from rlsched.workloads.poisson import PoissonModel
from rlsched.workloads.traces import TraceSource, Windows

__all__ = ["EpisodeJobs", "ModelSource", "Source", "TraceSource", "open_source"]

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


def _open_model(scenario: Scenario, workload: LublinWorkload | PoissonWorkload | MaoWorkload) -> ModelSource:
    if isinstance(workload, LublinWorkload):
        _one_resource(scenario.cluster, "leave one resource")
    name = "Lublin" if isinstance(workload, LublinWorkload) else workload.kind
    cluster = resolved(scenario.cluster, None, f"workload: the {name} model")
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
    if isinstance(workload, LublinWorkload):
        model = _lublin(workload, cluster, scenario.decision.horizon)
    elif isinstance(workload, PoissonWorkload):
        model = PoissonModel.of(workload, cluster)
    else:
        model = MaoModel.of(workload, cluster)
    return ModelSource(
        cluster=cluster,
        model=model,
        max_jobs=model.most_jobs(ticks or 1) if jobs is None else jobs,
        ticks=ticks if jobs is None else None,
        supply=_supply(scenario, cluster),
    )


def _lublin(workload: LublinWorkload, cluster: Cluster, horizon: int | None) -> LublinJobs:
    processors = usable_units(cluster.resources[0])
    model = LublinModel(load=workload.load, max_runtime_s=workload.max_runtime_s)
    model.natural_load(processors)  # refuses impossible limits now, not at a reset
    longest = int(exp(model.longest_log_runtime))
    if workload.max_runtime_s is not None:
        longest = min(longest, workload.max_runtime_s)
    if horizon is not None and longest > horizon * cluster.tick_s:
        raise BadInputError(
            "workload.max_runtime_s",
            f"jobs of up to {longest} s do not fit decision.horizon {horizon} of {cluster.tick_s} s each",
            f"set at most {horizon * cluster.tick_s}, or a longer horizon or cluster.tick_s",
        )
    return LublinJobs(model, processors, cluster.tick_s)


def _open_trace(scenario: Scenario, workload: SwfWorkload) -> TraceSource:
    if workload.enrich is None:
        _one_resource(scenario.cluster, "leave one resource, or add workload.enrich")
    name = str(workload.file)
    trace = _read(workload.file, workload.rules, scenario.cluster.tick_s)
    cluster = resolved(scenario.cluster, trace.processors, name)
    jobs = trace.jobs if workload.enrich is None else enrich(trace.jobs, workload.enrich, cluster)
    jobs, counts = within_limits(
        whole_nodes(jobs, cluster), cluster.resources[0], workload, scenario.decision.horizon, name
    )
    trace = replace(trace, jobs=jobs, repairs=trace.repairs | counts)
    windows = _windows(scenario, workload, trace, counts)
    return TraceSource(
        cluster=cluster,
        trace=trace,
        name=name,
        windows=windows,
        training_rows=_training_rows(scenario, workload, windows),
        offsets=scenario.episode.offsets,
        supply=_supply(scenario, cluster),
    )


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
