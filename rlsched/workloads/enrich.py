"""Enrichment of a trace: demands of further resources, and qos.

Source: [Venkataswamy 2023, 4.4.2].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlsched.jobs import JobTable
from rlsched.scenario import Enrichment, ResolvedCluster
from rlsched.workloads.machine import largest_demand
from rlsched.workloads.random_arrivals import draw_qos


def enrich(jobs: JobTable, enrichment: Enrichment, cluster: ResolvedCluster) -> JobTable:
    """Add demands of all resources but the first, uniform on 0..max_demand x units, and qos.

    Every column has its own random stream, row after row. So the values of a job do not depend on its
    episode, on jobs that limits drop, on jobs after it, or on further resources.

    Args:
        jobs: every row of the trace, with the demand of the first resource only.
        enrichment: the settings.
        cluster: with the units of every resource.

    Raises:
        BadInputError: max_demand is less than a unit of some resource.
    """
    columns = [jobs.demand]
    for k, resource in enumerate(cluster.resources[1:], start=1):
        largest = largest_demand(resource, enrichment.max_demand, "workload.enrich.max_demand")
        place = _stream(enrichment, k).random((len(jobs), 1))
        columns.append((place * (largest + 1)).astype(np.int32))
    qos = draw_qos(_stream(enrichment, 0), enrichment, len(jobs))
    return replace(jobs, demand=np.hstack(columns), qos=qos)


def _stream(enrichment: Enrichment, column: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(enrichment.seed, spawn_key=(column,)))
