"""Metrics of an episode: those of its jobs and those of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.scenario.terms import COSTS

BOUND_S = 10.0
"""Shorter runtimes count as this long in bounded slowdown."""

PRICE = 0.5
"""Value of one unit for one tick, where a resource does not say [Venkataswamy 2023, eq. 3.2]."""

PER_JOB = ("wait", "response", "slowdown", "bounded_slowdown")
"""Metrics that every job has; a run reports their mean, median, 95th percentile and maximum."""


@dataclass(frozen=True, eq=False)
class Played:
    """Outcome of an episode; row k of every column is row k of the job table.

    Attributes:
        jobs: of the episode.
        start: (jobs,) tick of the first start, -1 never started.
        end: (jobs,) tick at which the job was done, -1 not finished.
        suspensions: (jobs,) how often it was suspended.
        rejected: (jobs,) whether it was turned away or given up.
        ticks: length of the episode where the clock may end it; None: all jobs were run to their end.
        totals: term -> its sum over the episode, not discounted; empty where they were not counted.
        accounts: energies and shares over the episode, see `energy.ACCOUNTS`; likewise.
    """

    jobs: JobTable
    start: IntArray
    end: IntArray
    suspensions: IntArray
    rejected: NDArray[np.bool_]
    ticks: int | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    accounts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_starts(cls, jobs: JobTable, start: IntArray) -> Played:
        """Jobs that ran from these ticks (-1: never) to their end without a break.

        A job that waits for a preceding one has the submit time that this schedule gave it.

        Raises:
            ValueError: a wrong number of start ticks.
        """
        if start.shape != (len(jobs),):
            raise ValueError(f"start ticks of shape {start.shape} for {len(jobs)} jobs: give one per job")
        none = np.zeros(len(jobs), np.int64)
        jobs = jobs.released(start)
        return cls(jobs, start, np.where(start >= 0, start + jobs.runtime, -1), none, none > 0)

    @property
    def started(self) -> NDArray[np.bool_]:
        """(jobs,) whether it ever ran."""
        return self.start >= 0

    @property
    def finished(self) -> NDArray[np.bool_]:
        """(jobs,) whether it was done."""
        return self.end >= 0


@dataclass(frozen=True, eq=False)
class JobOutcome:
    """Waits and slowdowns of jobs; row k is row k of the job table.

    The rlscheduler protocol admits jobs by row, so on a trace out of submit order a job may start before its
    submit; its wait is then negative and its slowdown below 1, as recorded.

    Attributes:
        wait: (jobs,) seconds from submit to start; NaN where the job never started.
        response: (jobs,) seconds from submit to end; NaN where it never ended, as in what follows.
        slowdown: (jobs,) response / runtime.
        bounded_slowdown: (jobs,) max(1, response / max(runtime, 10 s)).
    """

    wait: FloatArray
    response: FloatArray
    slowdown: FloatArray
    bounded_slowdown: FloatArray

    @classmethod
    def of(cls, played: Played, tick_s: int = 1) -> JobOutcome:
        """The outcome of the jobs of an episode, with `tick_s` seconds per tick."""
        jobs = played.jobs
        wait = np.where(played.started, (played.start - jobs.submit) * float(tick_s), nan)
        response = np.where(played.finished, (played.end - jobs.submit) * float(tick_s), nan)
        runtime = jobs.runtime * float(tick_s)
        return cls(
            wait=wait,
            response=response,
            slowdown=response / runtime,
            bounded_slowdown=np.maximum(1.0, response / np.maximum(runtime, BOUND_S)),
        )


def job_metrics(
    played: Played, units: Sequence[int], tick_s: int = 1, prices: Sequence[float] | FloatArray = (PRICE,)
) -> dict[str, float]:
    """Every metric of one episode.

    Jobs that never started are left out of the mean wait, those that never ended out of the other means, and
    `completion_ratio` tells. What cannot be said because no job finished is NaN.

    Args:
        played: how the episode went.
        units: (resource,) units of the cluster, where the jobs do not name theirs.
        tick_s: seconds per tick.
        prices: (resource,) value of a unit for a tick; one number for all of them.

    Returns:
        Metric name to value; times in seconds, throughput in jobs per hour, values in price x unit x ticks.

    Raises:
        ValueError: lengths that do not match.
    """
    jobs = played.jobs
    if len(units) != jobs.num_resources:
        raise ValueError(f"{len(units)} units for {jobs.num_resources} resource types: give one per type")
    outcome = JobOutcome.of(played, tick_s)
    metrics: dict[str, float] = {}
    for name in PER_JOB:
        column: FloatArray = getattr(outcome, name)
        metrics |= _distribution(name, column[~np.isnan(column)])
    metrics |= _cluster(played, jobs.cluster(units).astype(np.float64), tick_s)
    metrics |= _value(played, np.broadcast_to(np.asarray(prices, dtype=np.float64), (len(units),)))
    metrics["completion_ratio"] = float(played.finished.sum()) / len(jobs) if len(jobs) else nan
    metrics["rejected"] = float(played.rejected.sum())
    metrics["suspensions"] = float(played.suspensions.sum())
    metrics |= {f"cost.{name}": -played.totals[name] for name in COSTS if name in played.totals}
    metrics |= {name: value for name, value in played.accounts.items() if not name.endswith("_share")}
    return metrics


def rlscheduler_metrics(played: Played, processors: int) -> dict[str, float]:
    """Bounded slowdown and utilization as RLScheduler's code defines them.

    Its utilization ends with the last start, not with the last end, so it can exceed 1.

    Args:
        played: a sequence; a tick is a second, the first resource is processors.
        processors: MaxProcs of the trace.

    Raises:
        ValueError: no jobs, or a job that never started.
    """
    rows = played.jobs
    if len(rows) == 0 or not played.started.all():
        raise ValueError("the rlscheduler protocol knows no unfinished jobs: give a start tick for each")
    span = float(played.start.max() - rows.submit.min())
    return {
        "bounded_slowdown": float(JobOutcome.of(played).bounded_slowdown.mean()),
        "utilization": float(rows.area.sum()) / (span * processors) if span else nan,
    }


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


def _cluster(played: Played, units: FloatArray, tick_s: int) -> dict[str, float]:
    """Metrics of the cluster: its use from the first submit to the last end, and the length of the schedule.

    `schedule_span` is (last start - first submit) / (last submit - first submit), 1 where all jobs came at
    once. It reveals a policy that pushes long jobs past the end of the sequence.
    """
    jobs, start, finished = played.jobs, played.start, played.finished
    if not played.started.any():
        return {
            "utilization": 0.0,
            "utilization_of_on": 0.0,
            "makespan": nan,
            "schedule_span": nan,
            "throughput": 0.0,
        }
    first = int(jobs.submit.min())
    arrivals = int(jobs.submit.max()) - first
    last_start = int(start.max())
    ticks = max(1, int(played.end.max()) - first if played.ticks is None else played.ticks)
    shares = played.accounts
    if shares:
        utilization = shares["used_share"] / ticks
        of_on = shares["used_share"] / shares["on_share"] if shares["on_share"] else nan
    else:
        used = (jobs.demand[finished] * jobs.runtime[finished, None].astype(np.float64)).sum(axis=0)
        utilization = of_on = float((used / (units * ticks)).mean())
    return {
        "utilization": utilization,
        "utilization_of_on": of_on,
        "makespan": float(ticks * tick_s),
        "schedule_span": (last_start - first) / arrivals if arrivals else 1.0,
        "throughput": float(finished.sum()) * 3600.0 / (ticks * tick_s),
    }


def _value(played: Played, prices: FloatArray) -> dict[str, float]:
    """Value of finished jobs, and of those that finished in time [Venkataswamy 2023, eq. 3.1 and 3.2]."""
    jobs, finished = played.jobs, played.finished
    value = (jobs.demand * prices).sum(axis=1) * jobs.runtime * jobs.qos
    # 9 / 0.9 must be 10 ticks, not the 9.99... that floats may give
    allowed = np.floor(jobs.requested / jobs.qos + 1e-9)
    on_time = finished & (played.end - jobs.submit <= allowed)
    submitted = float(value.sum())
    earned, earned_on_time = float(value[finished].sum()), float(value[on_time].sum())
    rejected = float(value[played.rejected].sum())
    return {
        "job_value": earned,
        "job_value_ratio": earned / submitted if submitted else nan,
        "on_time_value": earned_on_time,
        "on_time_value_ratio": earned_on_time / submitted if submitted else nan,
        "rejected_value": rejected,
        "unfinished_value": submitted - earned - rejected,
        "qos_violations": float((finished & ~on_time).sum()),
    }
