"""How large and how long the jobs of a trace may be, and what becomes of those that are more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Resource, SwfWorkload
from rlsched.workloads.machine import share_of, usable_units


@dataclass(frozen=True)
class Limit:
    """One limit.

    Attributes:
        name: what counts in `swf.REPAIRS` begin with; _dropped or _scaled follows.
        of: what must not be more: units of the first resource, requested ticks, or `length`, which is the
            longer one of requested ticks and runtime.
        most: units or ticks.
        problem: what is said where no job is within it.
        remedy: what is advised then.
    """

    name: str
    of: Literal["units", "requested", "length"]
    most: int
    problem: str
    remedy: str

    def exceeded(self, jobs: JobTable) -> NDArray[np.bool_]:
        """(jobs,) which are over it."""
        if self.of == "units":
            return jobs.demand[:, 0] > self.most
        length = jobs.requested if self.of == "requested" else np.maximum(jobs.runtime, jobs.requested)
        return length > self.most

    def scaled(self, jobs: JobTable, over: NDArray[np.bool_]) -> JobTable:
        """The jobs with those that are over it cut down to it."""
        if self.of == "units":
            demand = jobs.demand.copy()
            demand[over, 0] = self.most
            return replace(jobs, demand=demand)
        # The runtime is cut with the request: with the request alone cut, jobs would overrun that did not.
        return replace(
            jobs,
            runtime=np.where(over, np.minimum(jobs.runtime, self.most), jobs.runtime),
            requested=np.where(over, np.minimum(jobs.requested, self.most), jobs.requested),
        )


def within_limits(
    jobs: JobTable, resource: Resource, workload: SwfWorkload, horizon: int | None, name: str
) -> tuple[JobTable, dict[str, int]]:
    """Leave out jobs that are too large or too long, or cut them down, as the workload says.

    Args:
        jobs: in ticks, with demands in whole nodes.
        resource: the first of the cluster, with its units.
        workload: the limits, and what to do with jobs that are over them.
        horizon: ticks that can be planned, None where nothing is planned.
        name: what errors call the trace.

    Returns:
        The jobs, and names of `swf.REPAIRS` -> count. A job that is left out is counted for the first
        limit that it is over; one that is cut down, for every limit.

    Raises:
        BadInputError: no job is left, or no job could be.
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


def _limits(resource: Resource, workload: SwfWorkload, horizon: int | None) -> list[Limit]:
    """All that apply, in the order in which they are asked."""
    cut = "set workload.oversized=scale to cut jobs down to it"
    usable, node = usable_units(resource), resource.units_per_node or 1
    most = share_of(usable, workload.max_job_demand) // node * node
    if not most:
        least = "unit" if node == 1 else f"node of {node}"
        raise BadInputError(
            "workload.max_job_demand",
            f"value {workload.max_job_demand:g} is less than one {least} of {usable} {resource.name}",
            "set a larger share or a larger cluster",
        )
    limits = []
    if workload.oversized == "reject":
        problem = f"no job fits {resource.units} {resource.name}"
        remedy = f"set a larger cluster.resources.0.units, or {cut}"
        limits.append(Limit("oversized", "units", usable, problem, remedy))
    problem = f"no job asks for at most {most} {resource.name}, the workload.max_job_demand"
    limits.append(Limit("larger_than_limit", "units", most, problem, f"set a larger one, or {cut}"))
    longer = f"set a longer one, a longer cluster.tick_s, or {cut}"
    longest = workload.max_job_duration
    if longest is not None:
        problem = f"no job runs and asks for at most {longest} ticks, the workload.max_job_duration"
        limits.append(Limit("longer_than_limit", "length", longest, problem, longer))
    if horizon is not None:
        problem = f"no job asks for at most {horizon} ticks, the decision.horizon, so none could be planned"
        limits.append(Limit("beyond_horizon", "requested", horizon, problem, longer))
    return limits
