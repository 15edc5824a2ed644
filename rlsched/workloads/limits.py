"""Limits on the size and duration of a trace's jobs; jobs over a limit are dropped or scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import ResolvedResource, SwfWorkload
from rlsched.workloads.machine import share_of, usable_units


@dataclass(frozen=True)
class Limit:
    """A limit.

    Attributes:
        name: prefix of its keys in `swf.REPAIRS`; _dropped or _scaled follows.
        quantity: units of the first resource, requested ticks, or `length`: the longer of requested ticks and
            runtime.
        most: largest value, units or ticks.
        problem: message if no job is within the limit.
    """

    name: str
    quantity: Literal["units", "requested", "length"]
    most: int
    problem: str
    remedy: str

    def exceeded(self, jobs: JobTable) -> NDArray[np.bool_]:
        """(jobs,) whether a job is over the limit."""
        if self.quantity == "units":
            return jobs.demand[:, 0] > self.most
        length = jobs.requested if self.quantity == "requested" else np.maximum(jobs.runtime, jobs.requested)
        return length > self.most

    def scaled(self, jobs: JobTable, over: NDArray[np.bool_]) -> JobTable:
        """The jobs, with those over the limit cut to it."""
        if self.quantity == "units":
            demand = jobs.demand.copy()
            demand[over, 0] = self.most
            return replace(jobs, demand=demand)
        # The runtime is cut, too: otherwise jobs would exceed their requested times that did not before.
        return replace(
            jobs,
            runtime=np.where(over, np.minimum(jobs.runtime, self.most), jobs.runtime),
            requested=np.where(over, np.minimum(jobs.requested, self.most), jobs.requested),
        )


def within_limits(
    jobs: JobTable, resource: ResolvedResource, workload: SwfWorkload, horizon: int | None, name: str
) -> tuple[JobTable, dict[str, int]]:
    """Drop or scale jobs that are too large or too long, as the workload has it.

    Args:
        jobs: in ticks, with demands in whole nodes.
        resource: the first of the cluster, with its units.
        workload: with the limits, and whether jobs over them are dropped or scaled.
        horizon: planning horizon, ticks; None: no planning.
        name: of the trace in errors.

    Returns:
        The jobs, and key of `swf.REPAIRS` -> count. A dropped job counts for the first limit that it exceeds,
        a scaled one for every limit.

    Raises:
        BadInputError: no job is within the limits.
    """
    counts = {}
    for limit in _limits(resource, workload, horizon):
        over = limit.exceeded(jobs)
        count = int(over.sum())
        if not count:
            continue
        if workload.oversized == "scale":
            counts[f"{limit.name}_scaled"] = count
            jobs = limit.scaled(jobs, over)
        elif count == len(jobs):
            raise BadInputError(name, limit.problem, limit.remedy)
        else:
            counts[f"{limit.name}_dropped"] = count
            jobs = jobs.take(~over)
    return jobs, counts


def _limits(resource: ResolvedResource, workload: SwfWorkload, horizon: int | None) -> list[Limit]:
    """All limits that apply, in the order of their checks."""
    cut = "set workload.oversized=scale to cut jobs down to it"
    usable, node = usable_units(resource), resource.units_per_node or 1
    most = share_of(usable, workload.max_job_demand) // node * node
    if not most:
        least = "unit" if node == 1 else f"node of {node}"
        problem = f"value {workload.max_job_demand:g} is less than one {least} of {usable} {resource.name}"
        raise BadInputError("workload.max_job_demand", problem, "set a larger share or a larger cluster")
    limits = []
    if workload.oversized == "reject":
        problem = f"no job fits {resource.units} {resource.name}"
        remedy = f"set a larger cluster.resources.0.units, or {cut}"
        limits.append(Limit("oversized", "units", usable, problem, remedy))
    problem = f"no job requests at most {most} {resource.name}, the workload.max_job_demand"
    limits.append(Limit("larger_than_limit", "units", most, problem, f"set a larger one, or {cut}"))
    longer = f"set a longer one, a longer cluster.tick_s, or {cut}"
    longest = workload.max_job_duration
    if longest is not None:
        problem = f"no job runs for and requests at most {longest} ticks, the workload.max_job_duration"
        limits.append(Limit("longer_than_limit", "length", longest, problem, longer))
    if horizon is not None:
        problem = f"no job requests at most {horizon} ticks, the decision.horizon, so none could be planned"
        limits.append(Limit("beyond_horizon", "requested", horizon, problem, longer))
    return limits
