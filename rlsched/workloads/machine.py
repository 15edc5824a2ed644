"""The machine of a workload: its units, shares of them, and whole nodes."""

from __future__ import annotations

from dataclasses import replace
from math import floor

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Cluster, ResolvedResource


def usable_units(resource: ResolvedResource) -> int:
    """Units in whole nodes: a part of a node runs no job."""
    node = resource.units_per_node or 1
    return resource.units // node * node


def share_of(units: int, share: float) -> int:
    """Whole units in a share of them; tolerates a rounding error."""
    return floor(share * units + 1e-9)


def largest_demand(resource: ResolvedResource, share: float, where: str) -> int:
    """Whole units in a share of a resource.

    Args:
        resource: of the cluster.
        share: of them.
        where: the setting with the share.

    Raises:
        BadInputError: the share is less than a unit.
    """
    units = usable_units(resource)
    largest = share_of(units, share)
    if not largest:
        problem = f"value {share:g} is less than one unit of {units} {resource.name}"
        raise BadInputError(where, problem, "set a larger share or a larger cluster")
    return largest


def whole_nodes(jobs: JobTable, cluster: Cluster) -> JobTable:
    """Jobs with demands rounded up to whole nodes, resource by resource."""
    nodes = np.array([resource.units_per_node or 1 for resource in cluster.resources], dtype=np.int32)
    if (nodes == 1).all():
        return jobs
    return replace(jobs, demand=-(-jobs.demand // nodes) * nodes)


def at_requested(jobs: JobTable, cluster: Cluster) -> JobTable:
    """Jobs with runtimes cut to requested times, if the cluster ends jobs then."""
    if not cluster.kill_at_requested:
        return jobs
    return replace(jobs, runtime=np.minimum(jobs.runtime, jobs.requested))


def check_one_resource(cluster: Cluster, remedy: str) -> None:
    """Refuse several resources.

    Raises:
        BadInputError: the cluster has more than one resource.
    """
    if len(cluster.resources) != 1:
        problem = f"{len(cluster.resources)} types, but this workload has processors only"
        raise BadInputError("cluster.resources", problem, remedy)
