"""Jobs drawn from the workload model of Lublin and Feitelson.

Source: [Lublin and Feitelson 2003], with the constants of the authors' program m_lublin99.c. It draws a whole
episode at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, floor, log2

import numpy as np

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.workloads.lublin_moments import (
    DAY_S,
    SLOT_S,
    SLOTS,
    expected_work_and_gap,
    gap_factor,
    rush_seconds,
)

GAPS = 4096
"""Gaps to choose from for the one in progress at the start."""


@dataclass(frozen=True)
class LublinModel:
    """Parameters of the model; the defaults are those for all jobs, interactive and batch together.

    Attributes:
        serial: share of jobs on one processor.
        power_of_two: share of jobs whose size is rounded to a power of two.
        size_low: log2 of processors, lower end of the first uniform distribution of sizes.
        size_middle: log2 of processors below the whole machine, where the second uniform distribution begins.
        size_high: log2 of processors, the largest size; None, or where that is more: the whole machine.
        size_first: probability of the first uniform distribution of sizes.
        runtime_first: (shape, scale) of the gamma distribution of ln(runtime in s) of short jobs.
        runtime_second: (shape, scale) of that distribution for long jobs.
        runtime_mix: (per processor, constant) of the probability of being short, cut to [0, 1]: wide
            jobs are longer.
        arrival: (shape, scale) of the gamma distribution of ln(gap between rush-hour arrivals in s).
        arrival_all_day: factor from the shape of rush hours to that of the whole day.
        cycle: (shape, scale) of the gamma distribution of jobs over a day's slots; None: all slots alike.
        longest_log_runtime: ln(s); longer runtimes are drawn again.
        longest_log_gap: ln(s); longer gaps are drawn again.
        load: offered work / capacity, as the expected processors x runtime of a job over the machine
            times the expected gap; gaps are multiplied by one constant to reach it, so single episodes
            vary around it as they do in the model. None takes gaps as they come.
        max_runtime_s: seconds; longer jobs are drawn again, size and all (a wide job is hardly ever short);
            None for no limit beyond the model's own.
    """

    serial: float = 0.244
    power_of_two: float = 0.576
    size_low: float = 0.8
    size_middle: float = 2.5
    size_high: float | None = None
    size_first: float = 0.86
    runtime_first: tuple[float, float] = (4.2, 0.94)
    runtime_second: tuple[float, float] = (312.0, 0.03)
    runtime_mix: tuple[float, float] = (-0.0054, 0.78)
    arrival: tuple[float, float] = (10.2303, 0.4871)
    arrival_all_day: float = 1.0225
    cycle: tuple[float, float] | None = (8.1737, 3.9631)
    longest_log_runtime: float = 12.0
    longest_log_gap: float = 13.0
    load: float | None = None
    max_runtime_s: int | None = None

    @classmethod
    def batch(cls) -> LublinModel:
        """The parameters for batch jobs only: the model with the interactive jobs left out."""
        return cls(
            serial=0.2927,
            power_of_two=0.6686,
            size_low=1.2,
            size_middle=2.0,
            size_first=0.875,
            runtime_first=(6.57, 0.823),
            runtime_second=(639.1, 0.0156),
            runtime_mix=(-0.003, 0.6986),
            arrival=(6.0415, 0.8531),
            arrival_all_day=1.0519,
            cycle=(6.1271, 5.2740),
        )

    @classmethod
    def interactive(cls) -> LublinModel:
        """The parameters for interactive jobs only, which are short and never wider than 45 processors."""
        return cls(
            serial=0.1541,
            power_of_two=0.625,
            size_low=1.0,
            size_middle=2.5,
            size_high=5.5,
            size_first=0.705,
            runtime_first=(3.8351, 0.6605),
            runtime_second=(7.073, 0.6856),
            runtime_mix=(-0.0118, 0.9156),
            arrival=(6.5510, 0.6621),
            arrival_all_day=0.9797,
            cycle=(8.9186, 3.6680),
        )

    def draw(
        self, rng: np.random.Generator, jobs: int, processors: int, begin: int | None = None
    ) -> JobTable:
        """Draw jobs in the order of their arrival, with exact estimates.

        Without `begin` the first job arrives at a random time of the first day, distributed as arrivals are,
        like the first job of a random window of a long trace.

        Args:
            rng: where all randomness comes from.
            jobs: number of jobs, >= 1.
            processors: size of the machine and of the widest job, >= 1.
            begin: seconds from the first midnight to a time between two arrivals; None: see above.

        Returns:
            Times in seconds; submit counts from the first midnight; requested is the runtime.

        Raises:
            BadInputError: max_runtime_s leaves too few jobs to draw from.
        """
        stretch = gap_factor(self, processors)
        sizes = self._sizes(rng, jobs, processors)
        runtimes = self._runtimes(rng, sizes)
        if self.max_runtime_s is not None:
            while len(again := np.flatnonzero(runtimes > self.max_runtime_s)):
                sizes[again] = self._sizes(rng, len(again), processors)
                runtimes[again] = self._runtimes(rng, sizes[again])
        submit = self._arrivals(rng, jobs, stretch, begin)
        return JobTable.build(submit=submit, runtime=runtimes, demand=sizes)

    @property
    def longest_runtime_s(self) -> int:
        """Longest runtime of a job, seconds."""
        longest = int(exp(self.longest_log_runtime))
        return longest if self.max_runtime_s is None else min(longest, self.max_runtime_s)

    def natural_load(self, processors: int) -> float:
        """Expected offered work / capacity with gaps as they come, whatever `load` asks for."""
        work, gap = expected_work_and_gap(self, processors)
        return work / (processors * gap)

    def size_range(self, processors: int) -> tuple[float, float, float]:
        """Low, middle and high end of log2(size); small machines have a smaller range, serial ones 0."""
        high = log2(processors)
        high = high if self.size_high is None else min(high, self.size_high)
        low = min(self.size_low, high)
        return low, max(low, high - self.size_middle), high

    def _sizes(self, rng: np.random.Generator, jobs: int, processors: int) -> IntArray:
        low, middle, high = self.size_range(processors)
        kind, stage, place = rng.random((3, jobs))
        first = stage <= self.size_first
        exponent = np.where(first, low + place * (middle - low), middle + place * (high - middle))
        rounded = np.minimum(np.floor(exponent + 0.5), floor(high))
        exponent = np.where(kind <= self.serial + self.power_of_two, rounded, exponent)
        sizes = np.minimum(np.floor(np.exp2(exponent) + 0.5), processors)
        return np.where(kind <= self.serial, 1, sizes).astype(np.int64)

    def short_share(self, sizes: IntArray) -> FloatArray:
        """(jobs,) probability of being short, by size."""
        slope, constant = self.runtime_mix
        return np.clip(slope * sizes + constant, 0.0, 1.0)

    def _runtimes(self, rng: np.random.Generator, sizes: IntArray) -> IntArray:
        """Runtimes in seconds, >= 1: a hyper-gamma distribution of their logarithm."""
        logs = np.full(len(sizes), np.inf)
        while len(again := np.flatnonzero(logs > self.longest_log_runtime)):
            short = rng.random(len(again)) <= self.short_share(sizes[again])
            shape = np.where(short, self.runtime_first[0], self.runtime_second[0])
            scale = np.where(short, self.runtime_first[1], self.runtime_second[1])
            logs[again] = rng.standard_gamma(shape) * scale
        return np.exp(logs).astype(np.int64)

    def _arrivals(self, rng: np.random.Generator, jobs: int, stretch: float, begin: int | None) -> IntArray:
        """Submit times in seconds, ascending.

        Gaps are drawn in rush-hour time: a slot has as much of it as its share of a day's jobs. Interpolation
        converts it to clock time.
        """
        shape, scale = self.arrival
        logs = np.full(jobs, np.inf)
        while len(again := np.flatnonzero(logs > self.longest_log_gap)):
            logs[again] = rng.standard_gamma(shape * self.arrival_all_day, len(again)) * scale
        gaps = np.exp(logs) * stretch
        rush, slots = rush_seconds(self.cycle), np.arange(SLOTS + 1) * float(SLOT_S)
        if begin is None:
            gaps[0] = rng.random() * DAY_S
        else:
            # The gap in progress at a given time is drawn with a probability proportional to its length.
            logs = rng.standard_gamma(shape * self.arrival_all_day, GAPS) * scale
            among = np.exp(logs[logs <= self.longest_log_gap]) * stretch
            gaps[0] = rng.random() * rng.choice(among, p=among / among.sum())
            midnight = begin // DAY_S * DAY_S
            gaps[0] += midnight + np.interp(begin - midnight, slots, rush)
        day, time_of_day = np.divmod(np.cumsum(gaps), DAY_S)
        return (day * DAY_S + np.interp(time_of_day, rush, slots)).astype(np.int64)


def draw_apart(
    models: tuple[LublinModel, ...], rng: np.random.Generator, jobs: int, processors: int
) -> JobTable:
    """Draw jobs of several kinds that arrive concurrently, with one queue per kind: 0, 1, ...

    Args:
        models: one per kind.
        rng: where all randomness comes from.
        jobs: of all kinds together, >= 1.
        processors: size of the machine, see `LublinModel.draw`.
    """
    rates = np.array(
        [
            1.0 / (gap_factor(model, processors) * expected_work_and_gap(model, processors)[1])
            for model in models
        ]
    )
    leading = int(rng.choice(len(models), p=rates / rates.sum()))  # all jobs are equally likely
    first = models[leading].draw(rng, jobs, processors)
    begin = int(first.submit[0])
    tables = [
        first if k == leading else model.draw(rng, jobs, processors, begin) for k, model in enumerate(models)
    ]

    def column(name: str) -> IntArray:
        return np.concatenate([getattr(table, name) for table in tables])

    table = JobTable.build(
        submit=column("submit"),
        runtime=column("runtime"),
        demand=column("demand"),
        queue=np.repeat(np.arange(len(tables)), jobs),
    )
    table = table.take(np.argsort(table.submit, kind="stable")[:jobs])
    return replace(table, id=np.arange(1, jobs + 1))
