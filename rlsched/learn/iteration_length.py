"""Length of the last iterations of a run, so that it ends near its decisions or minutes."""

from __future__ import annotations

from math import ceil

from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.engine import Engine

BEYOND_END = 0.1
"""Largest overrun of a run, as a share of its decisions or minutes."""


SLOW = 600
"""Assumed decisions per second of a first iteration, which is shortened in a run of seconds."""


def share_of_iteration(remaining: float, usual: float, end: float, *, shorten_all: bool) -> float:
    """Share of its usual length that an iteration should have.

    Args:
        remaining: decisions or seconds until the end of a run.
        usual: decisions or seconds of an iteration.
        end: decisions or seconds of the run. Iterations are shorter only if those of usual length would
            overrun it by more than a tenth.
        shorten_all: shorten all remaining iterations; else only the last one, to half of the allowed overrun.
            Then a run to a later end begins like this one.
    """
    count = ceil(remaining / usual)
    if count * usual - remaining <= BEYOND_END * end:
        return 1.0
    if shorten_all:
        return remaining / (count * usual)
    return 1.0 if count > 1 else min(1.0, (remaining + BEYOND_END / 2 * end) / usual)


def next_share(config: ResolvedConfig, standing: Standing, engine: Engine, usual_s: float | None) -> float:
    """Share of an iteration's usual decisions that the next iteration has.

    `usual_s` is the duration of an iteration of usual length, in seconds; None before the first.
    """
    steps = config.steps
    shorten_all, usual = engine.shortens_all, engine.usual_decisions
    share = share_of_iteration(steps - standing.steps, usual, steps, shorten_all=shorten_all)
    if config.minutes is None:
        return share
    end = 60 * config.minutes
    remaining = end - standing.seconds
    if usual_s is not None:
        return min(share, share_of_iteration(remaining, usual_s, end, shorten_all=shorten_all))
    if shorten_all:  # the others are fast
        share = min(share, remaining * SLOW / usual)
    return share
