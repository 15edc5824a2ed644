"""The source of a scenario's episodes: a trace or a model."""

from __future__ import annotations

from rlsched.scenario import Scenario, SwfWorkload
from rlsched.workloads.episodes import Source
from rlsched.workloads.model_source import ModelSource, open_model
from rlsched.workloads.trace_opening import TRAINING_SHARE, open_trace
from rlsched.workloads.traces import TraceSource

__all__ = ["TRAINING_SHARE", "ModelSource", "Source", "TraceSource", "open_source"]


def open_source(scenario: Scenario) -> Source:
    """Open the source of a scenario's episodes.

    A trace that has not changed since this process read it is not read again.

    Raises:
        BadInputError: the trace cannot be read or is too short, the size of the machine is unknown, or
            settings of the scenario do not go with its workload or its power.
    """
    if isinstance(scenario.workload, SwfWorkload):
        return open_trace(scenario, scenario.workload)
    return open_model(scenario, scenario.workload)
