"""What a finished episode was worth: metrics of its jobs, from their start ticks alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray, JobTable

BOUND_S = 10.0
"""Shorter runtimes count as this long in bounded slowdown (simulator.md section 6, rule 4)."""

PRICE = 0.5
"""Value of one unit for one tick, the same for all resource types ([G] eq. 3.2, its default)."""

PER_JOB = ("wait", "response", "slowdown", "bounded_slowdown")
"""Metrics that every job has; a run reports their mean, median, 95th percentile and maximum."""


@dataclass(frozen=True, eq=False)
class JobOutcome:
    """What became of each job; row k is row k of the job table.

    The rlscheduler protocol admits jobs by row, so on a trace out of submit order a job may start before its
    submit; its wait is then negative and its slowdown below 1, as recorded.

    Attributes:
        started: (jobs,) False where the job never started; the other columns are NaN there.
        wait: (jobs,) seconds from submit to start.
        response: (jobs,) seconds from submit to end.
        slowdown: (jobs,) response / runtime.
        bounded_slowdown: (jobs,) max(1, response / max(runtime, 10 s)).
    """

    started: NDArray[np.bool_]
    wait: FloatArray
    response: FloatArray
    slowdown: FloatArray
    bounded_slowdown: FloatArray

    @classmethod
    def of(cls, jobs: JobTable, start: IntArray, tick_s: int = 1) -> JobOutcome:
        """The outcome of jobs that started at these ticks.

        Args:
            jobs: the jobs of the episode.
            start: (jobs,) ticks, -1 where a job never started.
            tick_s: seconds per tick.

        Raises:
            ValueError: a wrong number of start ticks.
        """
        started = _started(jobs, start)
        wait = np.where(started, (start - jobs.submit) * float(tick_s), nan)
        runtime = jobs.runtime * float(tick_s)
        response = wait + runtime
        return cls(
            started=started,
            wait=wait,
            response=response,
            slowdown=response / runtime,
            bounded_slowdown=np.maximum(1.0, response / np.maximum(runtime, BOUND_S)),
        )


def job_metrics(
    jobs: JobTable, start: IntArray, units: Sequence[int], tick_s: int = 1, rejected: int = 0
) -> dict[str, float]:
    """Every metric of one episode that was run to its end.

    A job that never started is unfinished: it is left out of the means, and `completion_ratio` tells. What
    cannot be said because no job finished is NaN.

    Args:
        jobs: the jobs of the episode.
        start: (jobs,) ticks, -1 where a job never started.
        units: (resource,) units of the cluster.
        tick_s: seconds per tick.
        rejected: jobs that were turned away before they got into the table.

    Returns:
        Metric name to value; times in seconds, throughput in jobs per hour, values in price x unit x ticks.

    Raises:
        ValueError: lengths that do not match.
    """
    if len(units) != jobs.num_resources:
        raise ValueError(f"{len(units)} units for {jobs.num_resources} resource types: give one per type")
    outcome = JobOutcome.of(jobs, start, tick_s)
    metrics: dict[str, float] = {}
    for name in PER_JOB:
        column: FloatArray = getattr(outcome, name)
        metrics |= _distribution(name, column[outcome.started])
    metrics |= _cluster(jobs, start, outcome.started, np.asarray(units, dtype=np.float64), tick_s)
    metrics |= _value(jobs, start, outcome.started)
    offered = len(jobs) + rejected
    metrics["completion_ratio"] = float(outcome.started.sum()) / offered if offered else nan
    metrics["rejected"] = float(rejected)
    return metrics


def rlscheduler_metrics(rows: JobTable, start: IntArray, processors: int) -> dict[str, float]:
    """Bounded slowdown and utilization as RLScheduler's code defines them (simulator.md section 6, rule 4).

    Its utilization ends with the last start, not with the last end, so it can exceed 1.

    Args:
        rows: the jobs of a sequence; a tick is a second, the first resource is processors.
        start: (jobs,) ticks; under that protocol every job starts.
        processors: MaxProcs of the trace.

    Raises:
        ValueError: no jobs, or a job that never started.
    """
    if len(rows) == 0 or not _started(rows, start).all():
        raise ValueError("the rlscheduler protocol knows no unfinished jobs: give a start tick for each")
    span = float(start.max() - rows.submit.min())
    return {
        "bounded_slowdown": float(JobOutcome.of(rows, start).bounded_slowdown.mean()),
        "utilization": float(rows.area.sum()) / (span * processors) if span else nan,
    }


def _started(jobs: JobTable, start: IntArray) -> NDArray[np.bool_]:
    if start.shape != (len(jobs),):
        raise ValueError(f"start ticks of shape {start.shape} for {len(jobs)} jobs: give one per job")
    return start >= 0


def _distribution(name: str, values: FloatArray) -> dict[str, float]:
    """Mean under the plain name, and its `_p50`, `_p95` and `_max`."""
    if len(values) == 0:
        return {name + suffix: nan for suffix in ("", "_p50", "_p95", "_max")}
    median, high = np.percentile(values, (50, 95))
    return {
        name: float(values.mean()),
        f"{name}_p50": float(median),
        f"{name}_p95": float(high),
        f"{name}_max": float(values.max()),
    }


def _cluster(
    jobs: JobTable, start: IntArray, started: NDArray[np.bool_], units: FloatArray, tick_s: int
) -> dict[str, float]:
    """How the cluster was used: from the first submit to the last end, and how far beyond the arrivals.

    `schedule_span` is (last start - first submit) / (last submit - first submit), 1 where all jobs came at
    once. It tells a policy that pushes long jobs past the end of the sequence (results.md, hoarding).
    """
    if not started.any():
        return {"utilization": 0.0, "makespan": nan, "schedule_span": nan, "throughput": 0.0}
    first = int(jobs.submit.min())
    arrivals = int(jobs.submit.max()) - first
    last_start = int(start[started].max())
    ticks = int((start + jobs.runtime)[started].max()) - first
    used = (jobs.demand[started] * jobs.runtime[started, None].astype(np.float64)).sum(axis=0)  # (resource,)
    return {
        "utilization": float((used / (units * ticks)).mean()),
        "makespan": float(ticks * tick_s),
        "schedule_span": (last_start - first) / arrivals if arrivals else 1.0,
        "throughput": float(started.sum()) * 3600.0 / (ticks * tick_s),
    }


def _value(jobs: JobTable, start: IntArray, started: NDArray[np.bool_]) -> dict[str, float]:
    """What finished jobs were worth ([G] eq. 3.2), and what those did that kept their qos ([G] eq. 3.1)."""
    value = PRICE * jobs.demand.sum(axis=1) * jobs.runtime * jobs.qos
    # 9 / 0.9 must be 10 ticks, not the 9.99... that floats may give
    allowed = np.floor(jobs.requested / jobs.qos + 1e-9)
    on_time = started & (start + jobs.runtime - jobs.submit <= allowed)
    submitted = float(value.sum())
    finished, kept = float(value[started].sum()), float(value[on_time].sum())
    return {
        "job_value": finished,
        "job_value_ratio": finished / submitted if submitted else nan,
        "on_time_value": kept,
        "on_time_value_ratio": kept / submitted if submitted else nan,
    }
