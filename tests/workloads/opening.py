"""Sources opened from a few settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlsched import scenario
from rlsched.scenario import Cluster
from rlsched.workloads.source import ModelSource, Source, open_source

TEN_AND_FOUR = ({"units": 10}, {"name": "memory", "units": 4})


def opened(workload: Mapping[str, Any], *overrides: str, resources: Sequence[Any] = TEN_AND_FOUR) -> Source:
    """The source of a scenario with this workload."""
    values = {"cluster": {"resources": list(resources)}, "workload": dict(workload)}
    return open_source(scenario.parse(values, "test", overrides))


def opened_model(
    workload: Mapping[str, Any], *overrides: str, resources: Sequence[Any] = TEN_AND_FOUR
) -> ModelSource:
    """The same where jobs are drawn."""
    source = opened(workload, *overrides, resources=resources)
    assert isinstance(source, ModelSource)
    return source


def cluster(*resources: Mapping[str, Any]) -> Cluster:
    """A cluster of these resources."""
    return Cluster.model_validate({"resources": list(resources)})


def for_ticks(ticks: int) -> list[str]:
    """Overrides for episodes of all jobs of so many ticks."""
    return [f"episode={{jobs: null, end: max_ticks, max_ticks: {ticks}}}"]
