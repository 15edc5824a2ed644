"""The hoarding check: finds policies that lower the mean slowdown by delaying long jobs to the end.

A policy that may wait for free can reach a low mean bounded slowdown by keeping long jobs until all others
are done. On lublin_256 that gave 8.6 with a schedule of 3.2 times the arrivals.
Reasons: docs/decisions/0033-departures-from-published-rules.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan

import numpy as np

from rlsched.evaluate.references import GREEDY_SJF, GREEDY_SJF_WITH_HORIZON
from rlsched.evaluate.statistics import PolicyLabel, Table
from rlsched.jobs import FloatArray
from rlsched.scenario import ResolvedScenario

SPAN_LIMIT = 1.3
"""A result counts only up to this many times greedy sjf's mean schedule span."""

WAIT_LIMIT = 1.75
"""A result counts only up to this many times greedy sjf's mean wait."""


@dataclass(frozen=True)
class Breach:
    """Result of the check for one learned policy: means over the episodes it shares with greedy sjf.

    For a policy that was trained with several seeds, they are means over these, too. The reference is greedy
    sjf.
    """

    policy: str
    backfill: str
    episodes: int  # shared with the reference
    span: float  # mean schedule span
    reference_span: float
    span_ratio: float  # span / reference_span, at most `SPAN_LIMIT`
    wait: float  # mean, seconds
    reference_wait: float
    wait_ratio: float  # wait / reference_wait, at most `WAIT_LIMIT`
    completion: float  # mean completion ratio; jobs that never start are the extreme of hoarding
    reference_completion: float
    breached: bool | None  # None: not judged, because greedy sjf did not run the same episodes
    seeds_breached: tuple[int, ...] = ()  # seeds of several that hoard when each is judged alone


def hoarding_applies(scenario: ResolvedScenario) -> bool:
    """Whether to check for hoarding: where the clock ends episodes, jobs delayed beyond it are lost."""
    return scenario.episode.end != "max_ticks"


def hoarding(table: Table) -> list[Breach]:
    """Check every learned policy against greedy sjf on the same sequences.

    Args:
        table: episodes of all policies; those of sjf, `greedy` or with a horizon `now`, are the reference.

    Returns:
        One finding per learned policy, breached or not.
    """
    references = (GREEDY_SJF, GREEDY_SJF_WITH_HORIZON)
    known = [table.columns[name] for name in references if name in table.columns]
    reference = known[0] if known else {}
    return [
        _check(label, columns, reference, table.seeds[label])
        for label, columns in table.columns.items()
        if table.learned[label]
    ]


def _check(
    label: PolicyLabel,
    columns: Mapping[str, FloatArray],
    reference: Mapping[str, FloatArray],
    seeds: Sequence[int] = (),
) -> Breach:
    alone = {
        seed: _check(label, {name: column[k : k + 1] for name, column in columns.items()}, reference)
        for k, seed in enumerate(seeds)
    }
    span, reference_span, shared = _paired_means(columns, reference, "schedule_span")
    wait, reference_wait, _ = _paired_means(columns, reference, "wait")
    completion, reference_completion, _ = _paired_means(columns, reference, "completion_ratio")
    unfinished = completion < reference_completion  # False where it was not measured
    beyond = span > SPAN_LIMIT * reference_span or wait > WAIT_LIMIT * reference_wait
    applies = unfinished or not (isnan(span) or isnan(wait))
    return Breach(
        policy=label.policy,
        backfill=label.backfill,
        episodes=shared,
        span=span,
        reference_span=reference_span,
        span_ratio=_ratio(span, reference_span),
        wait=wait,
        reference_wait=reference_wait,
        wait_ratio=_ratio(wait, reference_wait),
        completion=completion,
        reference_completion=reference_completion,
        breached=beyond or unfinished if applies else None,
        seeds_breached=tuple(seed for seed, finding in alone.items() if finding.breached),
    )


def _paired_means(
    columns: Mapping[str, FloatArray], reference: Mapping[str, FloatArray], metric: str
) -> tuple[float, float, int]:
    """Both means over the episodes where both were measured, and how many those are."""
    if metric not in columns or metric not in reference:
        return nan, nan, 0
    measured = ~np.isnan(columns[metric]) & ~np.isnan(reference[metric])  # (seeds, episodes)
    if not measured.any():
        return nan, nan, 0
    against = np.broadcast_to(reference[metric], measured.shape)
    shared = int(measured.any(axis=0).sum())
    return float(columns[metric][measured].mean()), float(against[measured].mean()), shared


def _ratio(value: float, reference: float) -> float:
    if reference == 0:
        return 1.0 if value == 0 else inf
    return value / reference
