"""Jobs drawn from the workload model of Lublin and Feitelson.

Source: [Lublin and Feitelson 2003], with the constants of the authors' program m_lublin99.c. It draws a whole
episode at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, floor, lgamma, log, log2

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable

SLOTS = 48
"""Slots of a day in which the arrival rate is constant."""
SLOT_S = 1800
"""Seconds of a slot."""
DAY_S = SLOTS * SLOT_S
"""Seconds of a day."""
FIRST_SLOT = 11
"""The day of the gamma distribution of arrivals runs from this slot to the same slot a day later.

The paper means the hour 11; the program uses the number as a half-hour slot, and every trace drawn
from it, so it is kept.
"""
GAPS = 4096
"""Gaps among which one that goes on is chosen."""
RAREST_ACCEPTED = 1e-3
"""Runtime limits that accept fewer draws than this are refused: drawing again would not end."""


@dataclass(frozen=True)
class LublinModel:
    """Parameters of the model; the defaults are those for all jobs, interactive and batch together.

    Attributes:
        serial: share of jobs on one processor.
        power_of_two: share of jobs whose size is rounded to a power of two.
        size_low: log2 of processors, lower end of the first uniform distribution of sizes.
        size_middle: log2 of processors below the whole machine, where the second one takes over.
        size_high: log2 of processors, the largest size; None, or where that is more: the whole machine.
        size_first: probability of the first uniform distribution of sizes.
        runtime_first: (shape, scale) of the gamma distribution of ln(runtime in s) of short jobs.
        runtime_second: (shape, scale) of the one of long jobs.
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

        Left to itself, the first job comes at a random moment of the first day, as often at each as jobs
        do: like the first job of a window cut anywhere from a long trace.

        Args:
            rng: where all randomness comes from.
            jobs: number of jobs, >= 1.
            processors: size of the machine and of the widest job, >= 1.
            begin: seconds from the first midnight, at which some gap between two jobs goes on already.

        Returns:
            Times in seconds; submit counts from the first midnight; requested is the runtime.

        Raises:
            BadInputError: max_runtime_s leaves too few jobs to draw from.
        """
        stretch = _gap_factor(self, processors)
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
        """Seconds that no job exceeds."""
        longest = int(exp(self.longest_log_runtime))
        return longest if self.max_runtime_s is None else min(longest, self.max_runtime_s)

    def natural_load(self, processors: int) -> float:
        """Expected offered work / capacity with gaps as they come, whatever `load` asks for."""
        work, gap = _means(self, processors)
        return work / (processors * gap)

    def _size_range(self, processors: int) -> tuple[float, float, float]:
        """Low, middle and high end of log2(size); small machines squeeze them, serial ones to 0."""
        high = log2(processors)
        high = high if self.size_high is None else min(high, self.size_high)
        low = min(self.size_low, high)
        return low, max(low, high - self.size_middle), high

    def _sizes(self, rng: np.random.Generator, jobs: int, processors: int) -> IntArray:
        low, middle, high = self._size_range(processors)
        kind, stage, place = rng.random((3, jobs))
        first = stage <= self.size_first
        exponent = np.where(first, low + place * (middle - low), middle + place * (high - middle))
        rounded = np.minimum(np.floor(exponent + 0.5), floor(high))
        exponent = np.where(kind <= self.serial + self.power_of_two, rounded, exponent)
        sizes = np.minimum(np.floor(np.exp2(exponent) + 0.5), processors)
        return np.where(kind <= self.serial, 1, sizes).astype(np.int64)

    def _short_share(self, sizes: IntArray) -> FloatArray:
        slope, constant = self.runtime_mix
        return np.clip(slope * sizes + constant, 0.0, 1.0)

    def _runtimes(self, rng: np.random.Generator, sizes: IntArray) -> IntArray:
        """Runtimes in seconds, >= 1: a hyper-gamma distribution of their logarithm."""
        logs = np.full(len(sizes), np.inf)
        while len(again := np.flatnonzero(logs > self.longest_log_runtime)):
            short = rng.random(len(again)) <= self._short_share(sizes[again])
            shape = np.where(short, self.runtime_first[0], self.runtime_second[0])
            scale = np.where(short, self.runtime_first[1], self.runtime_second[1])
            logs[again] = rng.standard_gamma(shape) * scale
        return np.exp(logs).astype(np.int64)

    def _arrivals(self, rng: np.random.Generator, jobs: int, stretch: float, begin: int | None) -> IntArray:
        """Submit times in seconds, ascending.

        Gaps are drawn in rush-hour time, of which a slot holds as much as its share of a day's jobs;
        the way back to clock time is one interpolation.
        """
        shape, scale = self.arrival
        logs = np.full(jobs, np.inf)
        while len(again := np.flatnonzero(logs > self.longest_log_gap)):
            logs[again] = rng.standard_gamma(shape * self.arrival_all_day, len(again)) * scale
        gaps = np.exp(logs) * stretch
        rush, slots = _rush_seconds(self.cycle), np.arange(SLOTS + 1) * float(SLOT_S)
        if begin is None:
            gaps[0] = rng.random() * DAY_S
        else:
            # A gap that goes on at some moment is one of the long ones more often: by its length.
            logs = rng.standard_gamma(shape * self.arrival_all_day, GAPS) * scale
            among = np.exp(logs[logs <= self.longest_log_gap]) * stretch
            gaps[0] = rng.random() * rng.choice(among, p=among / among.sum())
            midnight = begin // DAY_S * DAY_S
            gaps[0] += midnight + np.interp(begin - midnight, slots, rush)
        day, within = np.divmod(np.cumsum(gaps), DAY_S)
        return (day * DAY_S + np.interp(within, rush, slots)).astype(np.int64)


def draw_apart(
    models: tuple[LublinModel, ...], rng: np.random.Generator, jobs: int, processors: int
) -> JobTable:
    """Draw jobs of several kinds that come side by side, each in a queue of its own: 0, 1, ...

    Args:
        models: one of each kind.
        rng: where all randomness comes from.
        jobs: of all kinds together, >= 1.
        processors: as for `LublinModel.draw`.
    """
    rates = np.array(
        [1.0 / (_gap_factor(model, processors) * _means(model, processors)[1]) for model in models]
    )
    leading = int(rng.choice(len(models), p=rates / rates.sum()))  # any job begins with the same chance
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


@lru_cache(maxsize=64)
def _rush_seconds(cycle: tuple[float, float] | None) -> FloatArray:
    """(slots + 1,) seconds of rush-hour time gone by at the start of each slot; DAY_S at the end.

    Nan where no slot has a job.
    """
    if cycle is None:
        return np.linspace(0.0, DAY_S, SLOTS + 1)
    edges = np.arange(FIRST_SLOT, FIRST_SLOT + SLOTS + 1) - 0.5
    share = np.diff([_gamma_integral(*cycle, edge, 0.0) for edge in edges])
    if not share.sum() > 0.0:
        return np.full(SLOTS + 1, np.nan)
    share = np.roll(share, FIRST_SLOT - 1)  # the k-th slot of the distribution is clock slot k - 1
    return np.concatenate([[0.0], np.cumsum(share)]) * (DAY_S / share.sum())


@lru_cache(maxsize=64)
def _gap_factor(model: LublinModel, processors: int) -> float:
    """What gaps are multiplied by: one constant for all episodes, so that they keep their variance."""
    if model.load is None:
        _means(model, processors)  # refuses impossible limits
        return 1.0
    return model.natural_load(processors) / model.load


@lru_cache(maxsize=64)
def _means(model: LublinModel, processors: int) -> tuple[float, float]:
    """Expected processors x seconds of a job, and seconds between two jobs, by integration.

    Whole seconds are not accounted for: runtimes come out up to half a second too long.

    Raises:
        BadInputError: the runtime limit accepts next to no job.
    """
    sizes = np.arange(1, processors + 1)
    share = _size_shares(model, processors)
    short = model._short_share(sizes)

    def hyper_gamma(limit: float, power: float) -> FloatArray:
        """(processors,) the integral of `_gamma_integral` for the runtimes of each size."""
        first, second = (
            _gamma_integral(*g, limit, power) for g in (model.runtime_first, model.runtime_second)
        )
        return short * first + (1.0 - short) * second

    _check_tails(model, short)
    longest = model.longest_log_runtime
    limit = longest if model.max_runtime_s is None else min(longest, log(model.max_runtime_s + 1))
    share = share / hyper_gamma(longest, 0.0)  # a runtime beyond the model's limit is drawn again ...
    accepted = float(np.sum(share * hyper_gamma(limit, 0.0)))  # ... and beyond the user's, the whole job
    if accepted < RAREST_ACCEPTED:
        raise BadInputError(
            "workload.max_runtime_s",
            f"value {model.max_runtime_s}: hardly any job of the Lublin model is so short",
            "set a longer one",
        )
    work = float(np.sum(share * sizes * hyper_gamma(limit, 1.0))) / accepted
    shape, scale = model.arrival
    gap = (shape * model.arrival_all_day, scale, model.longest_log_gap)
    return work, _gamma_integral(*gap, 1.0) / _gamma_integral(*gap, 0.0)


def _check_tails(model: LublinModel, short: FloatArray) -> None:
    """What is too long is drawn again: hardly anything may be.

    Raises:
        BadInputError: drawing would not end, or no slot of the day has a job.
    """
    shape, scale = model.arrival
    drawn = {
        "runtime_first": (model.runtime_first, model.longest_log_runtime, bool((short > 0).any())),
        "runtime_second": (model.runtime_second, model.longest_log_runtime, bool((short < 1).any())),
        "arrival": ((shape * model.arrival_all_day, scale), model.longest_log_gap, True),
    }
    for name, ((shape, scale), limit, used) in drawn.items():
        if used and not _gamma_integral(shape, scale, limit, 0.0) >= RAREST_ACCEPTED:
            raise BadInputError(
                f"workload.parameters.{name}",
                f"value [{shape:g}, {scale:g}]: hardly ever below ln(seconds) {limit:g}, the model's limit",
                "set a smaller shape or scale",
            )
    if not np.isfinite(_rush_seconds(model.cycle)).all():
        raise BadInputError(
            "workload.parameters.cycle",
            f"value {list(model.cycle or ())}: no job comes at any time of the day",
            "set a smaller shape or scale",
        )


def _size_shares(model: LublinModel, processors: int) -> FloatArray:
    """(processors,) probability of each size 1, 2, ..."""
    low, middle, high = model._size_range(processors)
    sizes = np.arange(1, processors + 1)

    def below(exponent: FloatArray) -> FloatArray:
        """Share of log2(size) drawn below this; the two uniform distributions, one after the other."""
        first = np.clip((exponent - low) / max(middle - low, 1e-12), 0.0, 1.0)
        second = np.clip((exponent - middle) / max(high - middle, 1e-12), 0.0, 1.0)
        return model.size_first * first + (1.0 - model.size_first) * second

    edges = np.concatenate([[0.5], sizes + 0.5])
    cumulative = below(np.log2(edges))
    cumulative[0], cumulative[-1] = 0.0, 1.0
    shares = np.diff(cumulative) * (1.0 - model.serial - model.power_of_two)
    powers = np.arange(floor(high) + 1)
    cumulative = below(np.concatenate([[-1.0], powers + 0.5]))
    cumulative[0], cumulative[-1] = 0.0, 1.0
    shares[2**powers - 1] += np.diff(cumulative) * model.power_of_two
    shares[0] += model.serial
    return shares


def _gamma_integral(shape: float, scale: float, limit: float, power: float) -> float:
    """Integral of exp(power x) over the gamma density from 0 to the limit (Simpson's rule).

    With power 0 that is the distribution function, with power 1 the mean of the log-gamma variable cut
    off there, times what was not cut off.
    """
    if limit <= 0:
        return 0.0
    x = np.linspace(0.0, limit, 4001)[1:]
    density = np.exp((shape - 1) * np.log(x) - x / scale - lgamma(shape) - shape * log(scale) + power * x)
    density = np.concatenate([[0.0], density])
    weights = np.ones(len(density))
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return float(np.sum(weights * density) * limit / (3 * (len(density) - 1)))
