"""Jobs that arrive at random, some short and some long: the models of Mao and of Venkataswamy.

Estimates are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, prod, sqrt

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import LEAST_QOS, FloatArray, IntArray, JobTable
from rlsched.scenario import Enrichment, MaoWorkload, PoissonWorkload, ResolvedCluster
from rlsched.workloads.machine import largest_demand, share_of, usable_units

Span = tuple[int, int]


def draw_runtimes(rng: np.random.Generator, workload: PoissonWorkload | MaoWorkload, jobs: int) -> IntArray:
    """(jobs,) ticks: uniform whole numbers, of `long` in the share `long_share`, else of `short`."""
    long = rng.random(jobs) < workload.long_share
    low = np.where(long, workload.long[0], workload.short[0])
    high = np.where(long, workload.long[1], workload.short[1])
    return rng.integers(low, high, endpoint=True)


def draw_qos(rng: np.random.Generator, shares: PoissonWorkload | Enrichment, jobs: int) -> FloatArray:
    """(jobs,) qos: uniform, of `high_qos` in the share `high_qos_share`, else of `low_qos`; never 0.

    A longer draw from the same stream has the same first values.
    """
    kind, place = rng.random((jobs, 2)).T
    high = kind < shares.high_qos_share
    low_end = np.where(high, shares.high_qos[0], shares.low_qos[0])
    high_end = np.where(high, shares.high_qos[1], shares.low_qos[1])
    return np.clip(low_end + place * (high_end - low_end), LEAST_QOS, 1.0)


def most_jobs(mean: float) -> int:
    """Bound on a Poisson count of arrivals: 8 standard deviations above its mean, and 16 more."""
    return ceil(mean + 8 * sqrt(mean)) + 16


@dataclass(frozen=True)
class PoissonModel:
    """Jobs with qos that arrive by a Poisson process, rounded to ticks.

    Source: [Venkataswamy 2023, 4.4.1].

    Attributes:
        largest: (resource,) units; the demand of every resource is uniform on 0..largest. All demands of a
            job are drawn again until their sum is at least one unit.
        rate: expected arrivals per tick.
    """

    workload: PoissonWorkload
    largest: tuple[int, ...]
    rate: float

    @classmethod
    def of(cls, workload: PoissonWorkload, cluster: ResolvedCluster) -> PoissonModel:
        """Build the model at the rate that makes offered work = load x capacity of the most loaded resource.

        That is: load = expected units x expected runtime x rate / units. Units are requested ones, before
        they are rounded up to whole nodes, as with the Lublin model.

        Raises:
            BadInputError: max_demand is less than a unit of every resource.
        """
        units = [usable_units(resource) for resource in cluster.resources]
        largest = tuple(share_of(unit, workload.max_demand) for unit in units)
        if not any(largest):
            problem = f"value {workload.max_demand:g} is less than one unit of {max(units)}"
            raise BadInputError("workload.max_demand", problem, "set a larger share or a larger cluster")
        busiest = max(mean / unit for mean, unit in zip(mean_demand(largest), units, strict=True))
        return cls(workload, largest, workload.load / (busiest * mean_runtime(workload)))

    @property
    def longest(self) -> int:
        """Longest runtime of a job, ticks."""
        return max(self.workload.short[1], self.workload.long[1])

    def draw(self, rng: np.random.Generator, jobs: int) -> JobTable:
        """Draw jobs in the order of their arrival.

        The first arrives at tick 0: the process is conditioned on at least one arrival in that tick.

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


@dataclass(frozen=True)
class MaoModel:
    """At every tick a job arrives with a constant probability; it has one dominant resource.

    Source: [Mao et al. 2016, 4.1] and the authors' program DeepRM.

    Attributes:
        dominant: (resource,) lowest and highest demand of a job's dominant resource, units; every resource is
            dominant with the same probability.
        minor: (resource,) lowest and highest demand of its other resources, units.
    """

    workload: MaoWorkload
    dominant: tuple[Span, ...]
    minor: tuple[Span, ...]

    @classmethod
    def of(cls, workload: MaoWorkload, cluster: ResolvedCluster) -> MaoModel:
        """Build the model on a cluster; shares are rounded to whole units, at least one.

        Raises:
            BadInputError: max_demand is less than a unit of some resource.
        """
        most = workload.max_demand
        largest = [largest_demand(resource, most, "workload.max_demand") for resource in cluster.resources]

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
