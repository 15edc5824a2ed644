"""The machine of a workload: its units, shares of them, and whole nodes."""

from __future__ import annotations

from dataclasses import replace
from math import floor

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Cluster, Resource
from rlsched.scenario.bounds import MOST_UNITS


def resolved(cluster: Cluster, known: int | None, where: str) -> Cluster:
    """Fill in the units of every resource, from the scenario or else from the workload.

    Args:
        cluster: of the scenario.
        known: units of the first resource in the workload; None: unknown.
        where: name of the workload in errors.

    Raises:
        BadInputError: units are unknown, too many, or less than a node.
    """
    resources = [
        _resolved(resource, k, known if k == 0 else None, where)
        for k, resource in enumerate(cluster.resources)
    ]
    return cluster.model_copy(update={"resources": tuple(resources)})


def _resolved(resource: Resource, k: int, known: int | None, where: str) -> Resource:
    key = f"cluster.resources.{k}"
    units = resource.units or known
    if units is None and k > 0:
        problem = f"value None: a workload does not say how much {resource.name} there is"
        raise BadInputError(f"{key}.units", problem, f"add --set {key}.units=N")
    if units is None:
        problem = f"does not say how many {resource.name} the machine has"
        raise BadInputError(where, problem, f"add --set {key}.units=N")
    if units > MOST_UNITS:
        raise BadInputError(f"{key}.units", f"value {units}", f"use at most {MOST_UNITS}")
    if (resource.units_per_node or 1) > units:
        problem = f"value {resource.units_per_node} is more than the {units} units of the machine"
        raise BadInputError(f"{key}.units_per_node", problem, "set a smaller one")
    return resource.model_copy(update={"units": units})


def usable_units(resource: Resource) -> int:
    """Units in whole nodes: a part of a node runs no job."""
    node = resource.units_per_node or 1
    return (resource.units or 0) // node * node


def share_of(units: int, share: float) -> int:
    """Whole units in a share of them; tolerates a rounding error."""
    return floor(share * units + 1e-9)


def largest_demand(resource: Resource, share: float, where: str) -> int:
    """Whole units in a share of a resource.

    Args:
        resource: with its units.
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
