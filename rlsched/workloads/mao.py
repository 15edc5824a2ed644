"""Bernoulli arrivals of short and long jobs, each with one dominant resource.

Source: [Mao et al. 2016, 4.1] and the authors' program DeepRM. Estimates are exact and qos is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Cluster, MaoWorkload
from rlsched.workloads.draws import draw_runtimes, most_jobs
from rlsched.workloads.machine import share_of, usable_units

Span = tuple[int, int]


@dataclass(frozen=True)
class MaoModel:
    """At every tick a job arrives with a constant probability.

    Attributes:
        workload: probability of an arrival and distribution of runtimes.
        dominant: (resource,) lowest and highest demand of a job's dominant resource, units; every resource is
            dominant with the same probability.
        minor: (resource,) lowest and highest demand of its other resources, units.
    """

    workload: MaoWorkload
    dominant: tuple[Span, ...]
    minor: tuple[Span, ...]

    @classmethod
    def of(cls, workload: MaoWorkload, cluster: Cluster) -> MaoModel:
        """Build the model on a cluster; shares are rounded to whole units, at least one.

        Args:
            workload: the settings.
            cluster: with the units of every resource.

        Raises:
            BadInputError: max_demand is less than a unit of some resource.
        """
        largest = []
        for resource in cluster.resources:
            units = usable_units(resource)
            largest.append(share_of(units, workload.max_demand))
            if not largest[-1]:
                raise BadInputError(
                    "workload.max_demand",
                    f"value {workload.max_demand:g} is less than one unit of {units} {resource.name}",
                    "set a larger share or a larger cluster",
                )

        def span(shares: tuple[float, float], most: int) -> Span:
            return max(1, round(shares[0] * most)), max(1, round(shares[1] * most))

        return cls(
            workload,
            tuple(span(workload.dominant, most) for most in largest),
            tuple(span(workload.minor, most) for most in largest),
        )

    @property
    def longest(self) -> int:
        """Longest runtime of a job, ticks."""
        return max(self.workload.short[1], self.workload.long[1])

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """Draw jobs in the order of their arrival, the first at tick 0.

        Args:
            rng: where all randomness comes from.
            jobs: number of jobs, >= 1.

        Returns:
            Times in ticks; requested is the runtime, qos 1.
        """
        gaps = rng.geometric(self.workload.rate, jobs)
        gaps[0] = 0
        return JobTable.build(
            submit=np.cumsum(gaps),
            runtime=draw_runtimes(rng, self.workload, jobs),
            demand=self._demands(rng, jobs),
        )

    def most_jobs(self, ticks: int) -> int:
        """Bound on the jobs in `ticks` from the first arrival on; more are cut off."""
        return min(ticks, most_jobs(1 + (ticks - 1) * self.workload.rate))

    def _demands(self, rng: np.random.Generator, jobs: int) -> IntArray:
        resources = np.arange(len(self.dominant))
        dominates = rng.integers(len(resources), size=(jobs, 1)) == resources
        spans = np.where(dominates[:, :, None], np.array(self.dominant), np.array(self.minor))
        return rng.integers(spans[:, :, 0], spans[:, :, 1], endpoint=True)
