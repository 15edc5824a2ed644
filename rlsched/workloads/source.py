"""From a scenario to the source of its episodes: read, check, make ready."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Cluster, LublinWorkload, Scenario, SwfWorkload
from rlsched.workloads import swf
from rlsched.workloads.episodes import EpisodeJobs, ModelSource, Source, TraceSource, whole_nodes
from rlsched.workloads.lublin import LublinModel

__all__ = ["EpisodeJobs", "ModelSource", "Source", "TraceSource", "fit_to", "open_source"]

TRAINING_SHARE = 0.8
"""Share of a trace, from its beginning, that training sees where the scenario does not say."""


def open_source(scenario: Scenario) -> Source:
    """Make ready what a scenario takes its episodes from.

    A trace that was read before in this process, and has not changed, is not read again.

    Raises:
        BadInputError: the trace cannot be read or is too short, the size of the machine is not known,
            or the scenario asks for what its workload does not have.
    """
    if len(scenario.cluster.resources) != 1:
        raise BadInputError(
            "cluster.resources",
            f"{len(scenario.cluster.resources)} types, but these workloads know processors only",
            "leave one resource",
        )
    if isinstance(scenario.workload, LublinWorkload):
        return _open_model(scenario, scenario.workload)
    return _open_trace(scenario, scenario.workload)


def fit_to(jobs: JobTable, units: int, units_per_node: int = 1) -> tuple[JobTable, int]:
    """Round demands up to whole nodes and leave out jobs that are too large for the machine.

    Args:
        jobs: of one resource type.
        units: units of the machine.
        units_per_node: units of a node.

    Returns:
        The jobs that fit, and how many were left out.
    """
    jobs = whole_nodes(jobs, units_per_node)
    fits = jobs.demand[:, 0] <= units
    left_out = int(len(jobs) - fits.sum())
    return (jobs.take(fits) if left_out else jobs), left_out


def _resolved(cluster: Cluster, known: int | None, where: str) -> Cluster:
    """The cluster with its units, from the scenario or else from what is known of the workload."""
    resource = cluster.resources[0]
    units = resource.units or known
    if units is None:
        raise BadInputError(
            where, "does not say how many processors the machine has", "add --set cluster.resources.0.units=N"
        )
    if (resource.units_per_node or 1) > units:
        raise BadInputError(
            "cluster.resources.0.units_per_node",
            f"value {resource.units_per_node} is more than the {units} units of the machine",
            "set a smaller one",
        )
    return cluster.model_copy(update={"resources": (resource.model_copy(update={"units": units}),)})


def _open_model(scenario: Scenario, workload: LublinWorkload) -> ModelSource:
    cluster = _resolved(scenario.cluster, None, "workload: the Lublin model")
    if scenario.episode.jobs is None:
        raise BadInputError("episode.jobs", "value None: a model has no end", "set a number of jobs")
    if scenario.episode.offsets:
        raise BadInputError("episode.offsets", "are rows of a trace", "leave them out with a model")
    model = LublinModel(load=workload.load, max_runtime_s=workload.max_runtime_s)
    model.natural_load(cluster.resources[0].units or 1)  # refuses impossible limits now, not at a reset
    return ModelSource(cluster, model, scenario.episode.jobs)


def _open_trace(scenario: Scenario, workload: SwfWorkload) -> TraceSource:
    name = str(workload.file)
    trace = _read(workload.file, workload.rules, scenario.cluster.tick_s)
    cluster = _resolved(scenario.cluster, trace.processors, name)
    resource = cluster.resources[0]
    jobs, oversized = fit_to(trace.jobs, resource.units or 0, resource.units_per_node or 1)
    repairs = trace.repairs | ({"oversized_dropped": oversized} if oversized else {})
    trace = replace(trace, jobs=jobs, repairs=repairs)
    length = scenario.episode.jobs
    if not len(jobs):
        raise BadInputError(
            name, f"no job fits {resource.units} processors", "set a larger cluster.resources.0.units"
        )
    if length is not None and len(jobs) < length:
        raise BadInputError(
            name,
            f"{len(jobs)} jobs that fit the machine are less than an episode of {length}",
            f"set episode.jobs to at most {len(jobs)}, or null for the whole trace",
        )
    for offset in scenario.episode.offsets:
        if not 0 <= offset <= len(jobs) - (length or len(jobs)):
            raise BadInputError(
                "episode.offsets",
                f"value {offset}: no {length or len(jobs)} jobs from there on in {len(jobs)} jobs of {name}",
                f"use 0..{len(jobs) - (length or len(jobs))}",
            )
    return TraceSource(
        cluster=cluster,
        trace=trace,
        name=name,
        episode_jobs=length,
        training_rows=_training_rows(scenario, workload, len(jobs)),
        offsets=scenario.episode.offsets,
    )


def _training_rows(scenario: Scenario, workload: SwfWorkload, jobs: int) -> tuple[int, int]:
    if workload.training_jobs is None:
        end = int(jobs * TRAINING_SHARE)
        length = scenario.episode.jobs or 0
        if not scenario.episode.offsets and length <= jobs - length < end:
            end = jobs - length  # a short trace: leave evaluation one whole episode
        return 0, end
    first, last = workload.training_jobs
    end = jobs if last is None else last
    if not 0 <= first < end <= jobs:
        raise BadInputError(
            "workload.training_jobs",
            f"value [{first}, {last}] for {jobs} jobs",
            f"use rows 0 <= from < to <= {jobs}",
        )
    return first, end


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
