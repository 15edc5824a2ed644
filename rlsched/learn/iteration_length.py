"""How long the last iterations of a run are, so that it ends near its decisions or minutes."""

from __future__ import annotations

from math import ceil

from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.engine import Engine

BEYOND_END = 0.1
"""Share of its decisions or minutes by which a run may go beyond them."""


SLOW = 600
"""Decisions per second that a first iteration is taken to make; in a run of seconds it is shorter."""


def share_of_iteration(remaining: float, usual: float, end: float, *, shorten_all: bool) -> float:
    """Share of its usual length that an iteration should have.

    Args:
        remaining: decisions or seconds until the end of a run.
        usual: those of an iteration.
        end: those of the run; only if iterations of usual length went further beyond that than a tenth of it,
            they are shorter.
        shorten_all: all remaining iterations are shorter; else the last one is, and aims at half of the
            overrun that is allowed. Then a run to a later end begins like this one.
    """
    count = ceil(remaining / usual)
    if count * usual - remaining <= BEYOND_END * end:
        return 1.0
    if shorten_all:
        return remaining / (count * usual)
    return 1.0 if count > 1 else min(1.0, (remaining + BEYOND_END / 2 * end) / usual)


def next_share(config: ResolvedConfig, standing: Standing, engine: Engine, usual_s: float | None) -> float:
    """Share of an iteration's usual decisions that the next iteration has.

    Args:
        config: how to train.
        standing: how far the run is.
        engine: that iterates.
        usual_s: seconds of an iteration of usual length; None before the first.
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
