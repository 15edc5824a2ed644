"""What traces lack: demands of further resource types, and qos.

Source: [Venkataswamy 2023, 4.4.2].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Cluster, Enrichment
from rlsched.workloads.draws import draw_qos
from rlsched.workloads.machine import share_of, usable_units


def enrich(jobs: JobTable, enrichment: Enrichment, cluster: Cluster) -> JobTable:
    """Add demands of all resources but the first, uniform on 0..max_demand x units, and qos.

    Every column is drawn from a stream of its own, row after row. So a job gets the same in whatever
    episode it is shown, whatever limits leave out other jobs, and also when the trace grows at its end or
    the cluster by another resource.

    Args:
        jobs: every row of the trace, with the demand of the first resource only.
        enrichment: the settings.
        cluster: with the units of every resource known.

    Raises:
        BadInputError: no job may ask for a whole unit of some resource.
    """
    columns = [jobs.demand]
    for k, resource in enumerate(cluster.resources[1:], start=1):
        units = usable_units(resource)
        largest = share_of(units, enrichment.max_demand)
        if not largest:
            raise BadInputError(
                "workload.enrich.max_demand",
                f"value {enrichment.max_demand:g} is less than one unit of {units} {resource.name}",
                "set a larger share or a larger cluster",
            )
        place = _stream(enrichment, k).random((len(jobs), 1))
        columns.append((place * (largest + 1)).astype(np.int32))
    qos = draw_qos(_stream(enrichment, 0), enrichment, len(jobs))
    return replace(jobs, demand=np.hstack(columns), qos=qos)


def _stream(enrichment: Enrichment, column: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(enrichment.seed, spawn_key=(column,)))
