"""The gate: lets a learned policy act, or puts the best heuristic of a comparison in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Literal

from rlsched.errors import BadInputError
from rlsched.evaluate.hoarding import Breach, hoarding_applies
from rlsched.evaluate.limits import LimitCheck
from rlsched.evaluate.results import Result, finite
from rlsched.evaluate.statistics import PolicyLabel, by_cell, headline, order_by, verdict

LEAST_EPISODES = 5
"""Different episodes that a gate wants: of fewer, a bootstrap interval says next to nothing."""


@dataclass(frozen=True)
class Verdict:
    """Result of the gate for one learned policy.

    The difference is the mean of policy minus heuristic, paired by episode, with its 95 % interval. The
    policy is `better` or `worse` where the interval lies wholly on one side of zero, `level` where it holds
    zero, and `unknown` where fewer than `LEAST_EPISODES` were measured.
    """

    policy: str
    backfill: str
    metric: str  # shown first by the comparison
    episodes: int  # in which the policy was measured
    mean: float
    heuristic: PolicyLabel  # the best by its mean; it acts where the policy does not pass
    heuristic_mean: float
    difference: float
    low: float
    high: float
    against: Literal["better", "level", "worse", "unknown"]
    hoarding: Breach | None  # finding of the hoarding check, where hoarding is looked for
    broken: tuple[LimitCheck, ...]  # limits that the policy was trained within and exceeds, by interval

    @property
    def hoards(self) -> bool:
        """Whether the policy hoards, or may hoard because the check could not judge it."""
        return self.hoarding is not None and self.hoarding.breached is not False

    @property
    def passes(self) -> bool:
        """Whether the policy may act."""
        return self.against in {"better", "level"} and not self.hoards and not self.broken


def check_episodes(offsets: Sequence[int | None], remedy: str) -> None:
    """Refuse a gate with too few episodes for the interval of a difference.

    Args:
        offsets: trace row at which each episode starts, None where its jobs are drawn. Episodes that start at
            the same row are one.
        remedy: how to have more of them.

    Raises:
        BadInputError: there are fewer than `LEAST_EPISODES`.
    """
    rows = [offset for offset in offsets if offset is not None]
    different = len(offsets) - len(rows) + len(set(rows))
    if different < LEAST_EPISODES:
        raise BadInputError(
            "--gate",
            f"{different} different episode{'' if different == 1 else 's'}: too few for an interval",
            f"play at least {LEAST_EPISODES}: {remedy}",
        )


def verdicts(result: Result) -> list[Verdict]:
    """Judge every learned policy of a comparison by the metric that it shows first.

    A policy passes where it is not worse than the best heuristic by interval, does not hoard, and exceeds no
    limit of costs that it was trained within, by interval: training brings policies just to their limits.

    Args:
        result: of a comparison with at least one heuristic.

    Raises:
        ValueError: there is no heuristic in it.
    """
    metric = headline(result.summary)[0]
    cells = by_cell(result.summary)
    heuristics = {str(label): (label, mean) for label, mean in ranked(result, metric)}
    hoarding = {PolicyLabel(finding.policy, finding.backfill): finding for finding in result.hoarding}
    judgements = []
    for (label, name), row in cells.items():
        if name != metric or not row.learned:
            continue
        if row.best_heuristic is None:
            raise ValueError("a gate needs a heuristic that can act in the place of a policy")
        unknown = row.episodes < LEAST_EPISODES or isnan(row.best_heuristic_difference)
        judgements.append(
            Verdict(
                *label,
                metric,
                row.episodes,
                row.mean,
                *heuristics[row.best_heuristic],
                row.best_heuristic_difference,
                row.difference_low,
                row.difference_high,
                "unknown" if unknown else verdict(row) or "level",
                hoarding.get(label) if hoarding_applies(result.scenario) else None,
                tuple(
                    limit
                    for limit in result.limits
                    if limit.policy == label.policy and limit.low > limit.limit
                ),
            )
        )
    return judgements


def ranked(result: Result, metric: str) -> list[tuple[PolicyLabel, float]]:
    """Heuristics of a comparison with their means of a metric, best first, without those not measured."""
    named = sorted(result.summary, key=lambda row: (row.policy, row.backfill))  # of equals, the first by name
    return [
        (row.label, row.mean) for row in order_by(named, metric) if not row.learned and not isnan(row.mean)
    ]


def gate_json(judgements: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Verdicts as plain values; what was not measured is null."""
    plain: list[dict[str, Any]] = finite(
        [
            {
                "policy": judgement.policy,
                "backfill": judgement.backfill,
                "passes": judgement.passes,
                "metric": judgement.metric,
                "episodes": judgement.episodes,
                "mean": judgement.mean,
                "heuristic": str(judgement.heuristic),
                "heuristic_mean": judgement.heuristic_mean,
                "difference": judgement.difference,
                "difference_low": judgement.low,
                "difference_high": judgement.high,
                "against": judgement.against,
                "hoards": None if judgement.hoarding is None else judgement.hoards,
                "limits_broken": [limit.cost for limit in judgement.broken],
            }
            for judgement in judgements
        ]
    )
    return plain
