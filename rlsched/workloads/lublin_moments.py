"""Expected values of the Lublin-Feitelson model, by integration: gaps, work, and the daily cycle."""

from __future__ import annotations

from functools import lru_cache
from math import floor, lgamma, log
from typing import TYPE_CHECKING

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray

if TYPE_CHECKING:
    from rlsched.workloads.lublin import LublinModel

SLOTS = 48
"""Slots of a day in which the arrival rate is constant."""
SLOT_S = 1800
"""Seconds of a slot."""
DAY_S = SLOTS * SLOT_S
"""Seconds of a day."""
FIRST_SLOT = 11
"""The day of the gamma distribution of arrivals runs from this slot to the same slot a day later.

The paper means hour 11; the program, and every trace from it, uses the number as a half-hour slot. So does
this model.
"""
RAREST_ACCEPTED = 1e-3
"""Limits that accept a smaller share of draws are refused: rejection sampling would not end."""


@lru_cache(maxsize=64)
def rush_seconds(cycle: tuple[float, float] | None) -> FloatArray:
    """(slots + 1,) seconds of rush-hour time before the start of each slot; DAY_S at the end.

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
def gap_factor(model: LublinModel, processors: int) -> float:
    """Factor on gaps: one constant for all episodes, so that episodes keep their variance."""
    if model.load is None:
        expected_work_and_gap(model, processors)  # refuses impossible limits
        return 1.0
    return model.natural_load(processors) / model.load


@lru_cache(maxsize=64)
def expected_work_and_gap(model: LublinModel, processors: int) -> tuple[float, float]:
    """Expected processors x seconds of a job, and seconds between two jobs, by integration.

    Rounding to whole seconds is neglected: runtimes come out up to half a second too long.

    Raises:
        BadInputError: the runtime limit accepts next to no job.
    """
    sizes = np.arange(1, processors + 1)
    share = _size_shares(model, processors)
    short = model.short_share(sizes)

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
        problem = f"value {model.max_runtime_s}: hardly any job of the Lublin model is so short"
        raise BadInputError("workload.max_runtime_s", problem, "set a longer one")
    work = float(np.sum(share * sizes * hyper_gamma(limit, 1.0))) / accepted
    shape, scale = model.arrival
    gap = (shape * model.arrival_all_day, scale, model.longest_log_gap)
    return work, _gamma_integral(*gap, 1.0) / _gamma_integral(*gap, 0.0)


def _check_tails(model: LublinModel, short: FloatArray) -> None:
    """Check that nearly all draws are within the limits, since longer ones are drawn again."""
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
    if not np.isfinite(rush_seconds(model.cycle)).all():
        problem = f"value {list(model.cycle or ())}: no job comes at any time of the day"
        raise BadInputError("workload.parameters.cycle", problem, "set a smaller shape or scale")


def _size_shares(model: LublinModel, processors: int) -> FloatArray:
    """(processors,) probability of each size 1, 2, ..."""
    low, middle, high = model.size_range(processors)
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

    Power 0 gives the distribution function. Power 1 gives the mean of the log-gamma variable below the limit,
    times the probability of being below it.
    """
    if limit <= 0:
        return 0.0
    x = np.linspace(0.0, limit, 4001)[1:]
    density = np.exp((shape - 1) * np.log(x) - x / scale - lgamma(shape) - shape * log(scale) + power * x)
    density = np.concatenate([[0.0], density])
    weights = np.ones(len(density))
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return float(np.sum(weights * density) * limit / (3 * (len(density) - 1)))
