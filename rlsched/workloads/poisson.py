"""Poisson arrivals of short and long jobs with qos.

Source: [Venkataswamy 2023, 4.4.1]. Estimates are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, prod

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Cluster, PoissonWorkload
from rlsched.workloads.draws import draw_qos, draw_runtimes, most_jobs
from rlsched.workloads.machine import share_of, usable_units


@dataclass(frozen=True)
class PoissonModel:
    """Jobs that arrive by a Poisson process, rounded to ticks.

    Attributes:
        workload: distributions of runtime and qos.
        largest: (resource,) units; the demand of every resource is uniform on 0..largest. All demands of a
            job are drawn again until their sum is at least one unit.
        rate: expected arrivals per tick.
    """

    workload: PoissonWorkload
    largest: tuple[int, ...]
    rate: float

    @classmethod
    def of(cls, workload: PoissonWorkload, cluster: Cluster) -> PoissonModel:
        """Build the model at the rate that makes offered work = load x capacity of the most loaded resource.

        That is: load = expected units x expected runtime x rate / units. Units are requested ones, before
        they are rounded up to whole nodes, as with the Lublin model.

        Args:
            workload: the settings.
            cluster: with the units of every resource.

        Raises:
            BadInputError: max_demand is less than a unit of every resource.
        """
        units = [usable_units(resource) for resource in cluster.resources]
        largest = tuple(share_of(unit, workload.max_demand) for unit in units)
        if not any(largest):
            raise BadInputError(
                "workload.max_demand",
                f"value {workload.max_demand:g} is less than one unit of {max(units)}",
                "set a larger share or a larger cluster",
            )
        busiest = max(mean / unit for mean, unit in zip(mean_demand(largest), units, strict=True))
        return cls(workload, largest, workload.load / (busiest * mean_runtime(workload)))

    @property
    def longest(self) -> int:
        """Longest runtime of a job, ticks."""
        return max(self.workload.short[1], self.workload.long[1])

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """Draw jobs in the order of their arrival.

        The first arrives at tick 0: the process is conditioned on at least one arrival in that tick.

        Args:
            rng: where all randomness comes from.
            jobs: number of jobs, >= 1.

        Returns:
            Times in ticks; requested is the runtime.
        """
        return JobTable.build(
            submit=self._arrivals(rng, jobs),
            runtime=draw_runtimes(rng, self.workload, jobs),
            demand=self._demands(rng, jobs),
            qos=draw_qos(rng, self.workload, jobs),
        )

    def most_jobs(self, ticks: int) -> int:
        """Bound on the jobs in `ticks` from the first arrival on; more are cut off."""
        return most_jobs(self.rate / -expm1(-self.rate) + (ticks - 1) * self.rate)

    def _arrivals(self, rng: np.random.Generator, jobs: int) -> IntArray:
        # Time of the first job in its tick, given that one arrives: a truncated exponential gap.
        first = -np.log1p(rng.random() * expm1(-self.rate)) / self.rate
        gaps = rng.standard_exponential(jobs) / self.rate
        gaps[0] = first
        submit = np.floor(np.cumsum(gaps)).astype(np.int64)
        return submit - submit[0]

    def _demands(self, rng: np.random.Generator, jobs: int) -> IntArray:
        demand = rng.integers(0, self.largest, (jobs, len(self.largest)), endpoint=True)
        while len(again := np.flatnonzero(~demand.any(axis=1))):
            demand[again] = rng.integers(0, self.largest, (len(again), len(self.largest)), endpoint=True)
        return demand


def mean_demand(largest: tuple[int, ...]) -> list[float]:
    """(resource,) expected units of a job whose demands are uniform on 0..largest and not all 0."""
    outcomes = prod(most + 1 for most in largest)
    return [most / 2 / (1 - 1 / outcomes) for most in largest]


def mean_runtime(workload: PoissonWorkload) -> float:
    """Expected runtime of a job in ticks."""
    share = workload.long_share
    return share * sum(workload.long) / 2 + (1 - share) * sum(workload.short) / 2
