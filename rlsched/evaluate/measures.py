"""The table of metrics: unit, direction and meaning of every name that an evaluation may report."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Metric:
    """Unit, direction and description of a metric."""

    unit: str  # s, ratio, share, jobs, 1/h, kWh, kg or value
    lower_is_better: bool
    doc: str


_JOB_METRICS = {
    "bounded_slowdown": Metric("ratio", True, "max(1, response / max(runtime, 10 s))"),
    "wait": Metric("s", True, "time from submit to start"),
    "response": Metric("s", True, "time from submit to end"),
    "slowdown": Metric("ratio", True, "response / runtime"),
}

_STATISTICS = {"": "mean over jobs", "_p50": "median", "_p95": "95th percentile", "_max": "worst job"}

METRICS: dict[str, Metric] = {
    **{
        name + end: replace(metric, doc=f"{metric.doc}; {text}")
        for name, metric in _JOB_METRICS.items()
        for end, text in _STATISTICS.items()
    },
    "utilization": Metric("share", False, "unit-time used, first submit to last end, mean over resources"),
    "utilization_of_on": Metric("share", False, "unit-time used of what was switched on"),
    "makespan": Metric("s", True, "first submit to last end"),
    "schedule_span": Metric("ratio", True, "first submit to last start, over the span of arrivals"),
    "throughput": Metric("1/h", False, "finished jobs per hour of makespan"),
    "completion_ratio": Metric("share", False, "finished jobs of all that were submitted"),
    "rejected": Metric("jobs", True, "jobs turned away"),
    "job_value": Metric("value", False, "value of finished jobs"),
    "job_value_ratio": Metric("share", False, "value of finished jobs, of all that was submitted"),
    "on_time_value": Metric("value", False, "value of jobs finished by submit + requested / qos"),
    "on_time_value_ratio": Metric("share", False, "on-time value, of all that was submitted"),
    "qos_violations": Metric("jobs", True, "jobs finished after submit + requested / qos"),
    "suspensions": Metric("jobs", True, "times a running job was suspended"),
    "rejected_value": Metric("value", True, "value of jobs turned away or given up"),
    "unfinished_value": Metric("value", True, "value of jobs not finished at the end"),
    "energy_kwh": Metric("kWh", True, "energy drawn"),
    "renewable_kwh": Metric("kWh", False, "renewable energy supplied"),
    "battery_kwh": Metric("kWh", False, "energy drawn from the battery"),
    "brown_kwh": Metric("kWh", True, "energy drawn from the grid"),
    "charged_kwh": Metric("kWh", False, "energy put into the battery"),
    "curtailed_kwh": Metric("kWh", True, "renewable energy that nobody used"),
    "carbon_kg": Metric("kg", True, "carbon of the energy drawn"),
}
"""Metric name to meaning; `cost.NAME` is known besides, see `measure`."""

HEADLINE = ("bounded_slowdown", "wait", "utilization", "schedule_span")
"""Metrics that a report shows first."""

GREEN_HEADLINE = (
    "job_value_ratio",
    "completion_ratio",
    "utilization",
    "cost.delayed_jobs",
    "energy_kwh",
    "carbon_kg",
)
"""Metrics that a report shows first for scenarios with a horizon, whose episodes end by the clock."""


def measure(name: str) -> Metric:
    """Look up a metric by name; every `cost.NAME` is a cost, so lower is better.

    Raises:
        KeyError: no such metric.
    """
    if name.startswith("cost.") and len(name) > len("cost."):
        return Metric("cost", True, f"cost term {name[5:]}, summed over the episode")
    return METRICS[name]
