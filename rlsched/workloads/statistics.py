"""Samples of jobs, and their statistics: sizes, runtimes, arrivals and requested times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.scenario import EpisodeSettings, MixtureWorkload, Scenario, SwfWorkload
from rlsched.workloads.days import DAY_S, natural_load
from rlsched.workloads.source import TraceSource, open_source

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
HOURS = 24
PARTS = 64
"""Episodes of a mixture; the jobs of an episode are of one part."""
POPULAR = 20
"""Number of values that count as popular."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of jobs.

    Attributes:
        tables: jobs in submit order; each table has its own clock.
        clock_s: seconds since midnight at tick 0.
    """

    name: str
    tables: Sequence[JobTable]
    units: int
    tick_s: int
    clock_s: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    @property
    def sizes(self) -> IntArray:
        """(jobs,) units of the first resource."""
        return np.concatenate([table.demand[:, 0] for table in self.tables]).astype(np.int64)

    @property
    def runtimes_s(self) -> IntArray:
        """(jobs,) seconds."""
        return np.concatenate([table.runtime for table in self.tables]) * self.tick_s

    @property
    def requested_s(self) -> IntArray:
        """(jobs,) seconds."""
        return np.concatenate([table.requested for table in self.tables]) * self.tick_s

    @property
    def gaps_s(self) -> IntArray:
        """(jobs - tables,) seconds between neighbouring submits."""
        return np.concatenate([np.diff(table.submit) for table in self.tables]) * self.tick_s

    @property
    def hourly(self) -> FloatArray:
        """(hour,) share of jobs submitted in each hour of the day."""
        submit = np.concatenate([table.submit for table in self.tables]) * self.tick_s + self.clock_s
        return np.bincount(submit % DAY_S // (DAY_S // HOURS), minlength=HOURS) / len(submit)


@dataclass(frozen=True)
class Statistics:
    """Statistics of a sample; quantiles are those of `QUANTILES`.

    Attributes:
        units: of the first resource; each size of cluster once.
        load: offered work / capacity, from the first submit to the last; the mean over tables.
        serial: share of jobs on one unit.
        power_of_two: share of jobs on 2, 4, 8, ... units.
        sizes: quantiles, units.
        runtimes_s: quantiles.
        gap_s: mean seconds between arrivals.
        gap_variation: their standard deviation over their mean.
        hourly: (24,) share of jobs in each hour of the day.
        accuracy: quantiles of runtime / requested.
        overdue: share of jobs that run longer than their requested time.
        popular: share of jobs that request one of the twenty most requested values.
        users: number of different ones; 0: unknown.
    """

    name: str
    jobs: int
    units: tuple[int, ...]
    load: float | None
    serial: float
    power_of_two: float
    sizes: list[float]
    runtimes_s: list[float]
    gap_s: float | None
    gap_variation: float | None
    hourly: list[float]
    accuracy: list[float]
    overdue: float
    popular: float
    users: int
    queues: int


def statistics(sample: Sample) -> Statistics:
    """Compute the statistics of a sample."""
    sizes, runtimes, requested, gaps = sample.sizes, sample.runtimes_s, sample.requested_s, sample.gaps_s
    loads = [natural_load(table, int(table.cluster([sample.units])[0])) for table in sample.tables]
    load, mean = float(np.mean(loads)), float(gaps.mean()) if len(gaps) else 0.0
    counts = np.sort(np.unique(requested, return_counts=True)[1])[::-1]

    def different(name: str) -> int:
        known = np.concatenate([getattr(table, name) for table in sample.tables])
        return len(np.unique(known[known >= 0]))

    return Statistics(
        name=sample.name,
        jobs=len(sizes),
        units=tuple(sorted({int(table.cluster([sample.units])[0]) for table in sample.tables})),
        load=load if np.isfinite(load) else None,
        serial=float((sizes == 1).mean()),
        power_of_two=float(((sizes > 1) & (sizes & (sizes - 1) == 0)).mean()),
        sizes=np.quantile(sizes, QUANTILES).tolist(),
        runtimes_s=np.quantile(runtimes, QUANTILES).tolist(),
        gap_s=mean if len(gaps) else None,
        gap_variation=float(gaps.std() / mean) if mean else None,
        hourly=sample.hourly.tolist(),
        accuracy=np.quantile(runtimes / requested, QUANTILES).tolist(),
        overdue=float((runtimes > requested).mean()),
        popular=float(counts[:POPULAR].sum() / len(requested)),
        users=different("user"),
        queues=different("queue"),
    )


def sample(name: str, scenario: Scenario, jobs: int, seed: int) -> Sample:
    """Sample the jobs of a scenario.

    Args:
        name: of the sample.
        scenario: only its workload and cluster matter.
        jobs: number of jobs to draw from a model.
        seed: random seed of the draw.

    Raises:
        BadInputError: the workload cannot be opened.
    """
    workload = scenario.workload
    mixed, drawn = isinstance(workload, MixtureWorkload), True
    if isinstance(workload, SwfWorkload):
        drawn = workload.resample == "always"
        if not drawn:  # training resamples days of the same jobs
            workload = workload.model_copy(update={"resample": "never"})
    episode = EpisodeSettings(jobs=max(1, jobs // PARTS if mixed else jobs) if drawn else None)
    source = open_source(
        scenario.model_copy(update={"workload": workload, "episode": episode, "power": None})
    )
    clock_s = 0
    if isinstance(source, TraceSource):
        clock_s = _clock_s(source.trace.header)
        if drawn:  # resampled days count from the first submit of the trace
            clock_s += int(source.trace.jobs.submit[0]) * scenario.cluster.tick_s
    return Sample(
        name=name,
        tables=[source.evaluation(k, seed).jobs for k in range(PARTS if mixed else 1)],
        units=source.cluster.units[0],
        tick_s=scenario.cluster.tick_s,
        clock_s=clock_s % DAY_S,
    )


def _clock_s(header: dict[str, str]) -> int:
    """Start of a trace's clock, seconds since local midnight; 0 where its header lacks it."""
    start, zone = (re.match(r"-?\d+", header.get(key, "")) for key in ("UnixStartTime", "TimeZone"))
    return (int(start[0]) if start else 0) + (int(zone[0]) if zone else 0)
