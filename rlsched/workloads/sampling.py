"""A sample of a scenario's jobs: all of its trace, or many that its models draw."""

from __future__ import annotations

import re

from rlsched.scenario import EpisodeSettings, MixtureWorkload, Scenario, SwfWorkload
from rlsched.workloads.days import DAY_S
from rlsched.workloads.source import TraceSource, open_source
from rlsched.workloads.statistics import Sample

PARTS = 64
"""Episodes of a mixture; the jobs of an episode are of one part."""


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
        units=int(source.cluster.resources[0].units or 0),
        tick_s=scenario.cluster.tick_s,
        clock_s=clock_s % DAY_S,
    )


def _clock_s(header: dict[str, str]) -> int:
    """Start of a trace's clock, seconds since local midnight; 0 where its header lacks it."""
    start, zone = (re.match(r"-?\d+", header.get(key, "")) for key in ("UnixStartTime", "TimeZone"))
    return (int(start[0]) if start else 0) + (int(zone[0]) if zone else 0)
