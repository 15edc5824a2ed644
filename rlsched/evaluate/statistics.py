"""Paired comparison of policies over the same episodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from typing import Literal, NamedTuple

import numpy as np

from rlsched.evaluate.bootstrap import bootstrap_columns, bootstrap_iqm, interquartile_mean
from rlsched.evaluate.measures import GREEN_HEADLINE, HEADLINE, measure
from rlsched.jobs import FloatArray


@dataclass(frozen=True)
class EpisodeResult:
    """Metrics of one policy in one episode."""

    policy: str  # name of a heuristic, or folder
    backfill: str
    episode: int  # number, by which policies are paired
    seed: int  # of the episode
    offset: int | None  # trace row at which it starts; None: jobs are drawn
    metrics: Mapping[str, float]  # name (of `METRICS`, or cost.NAME) -> value; NaN: not measured
    learned: bool = False
    units: Sequence[int] | None = None  # (resource,) of the episode's cluster; None: not known
    window: int | None = None  # oldest waiting jobs that a learned policy sees; None: a heuristic sees all
    training_seed: int | None = None  # where several seeds are compared as one policy; None: one policy

    def __post_init__(self) -> None:
        for name in self.metrics:
            try:
                measure(name)
            except KeyError:
                raise ValueError(f"unknown metric {name!r}: describe it in evaluate/measures.py") from None


class PolicyLabel(NamedTuple):
    """A policy with its backfilling, the unit of a comparison."""

    policy: str
    backfill: str

    def __str__(self) -> str:
        return f"{self.policy} + {self.backfill}"


@dataclass(frozen=True)
class SummaryRow:
    """One metric of one policy over all episodes, and over all seeds of its training; NaN: not measured.

    Intervals are 95 % bootstrap intervals over seeds and episodes (`bootstrap_columns`). The difference is
    the mean of policy minus best heuristic, over the episodes that both have. It is raw: negative is good
    where `Metric.lower_is_better`.
    """

    policy: str
    backfill: str
    metric: str
    mean: float
    low: float
    high: float
    best_heuristic_difference: float
    difference_low: float
    difference_high: float
    wins: float  # share of those seeds and episodes where it is at least as good as the best heuristic
    best_heuristic: str | None  # the heuristic whose mean is best, `policy + backfill`; None without any
    episodes: int  # measured
    learned: bool
    seeds: int = 1  # number of training seeds that are compared as one policy

    @property
    def label(self) -> PolicyLabel:
        """The policy with its backfilling."""
        return PolicyLabel(self.policy, self.backfill)


@dataclass(frozen=True)
class SeedRow:
    """One metric of a policy that was trained with several seeds: how these differ.

    The 95 % bootstrap interval of the interquartile mean is NaN but for the metrics shown first.
    """

    policy: str
    backfill: str
    metric: str
    seeds: tuple[int, ...]  # of the training, in rising order
    means: tuple[float, ...]  # of each seed, over the episodes; NaN where nothing could be measured
    iqm: float  # interquartile mean over seeds and episodes
    iqm_low: float
    iqm_high: float
    best_heuristic: str | None  # as in `SummaryRow`
    best_heuristic_iqm: float  # over the episodes; NaN without any

    def ranked(self) -> list[tuple[int, float]]:
        """Seeds with their means, the best first; those that were not measured are left out."""
        sign = 1.0 if measure(self.metric).lower_is_better else -1.0
        known = [pair for pair in zip(self.seeds, self.means, strict=True) if not isnan(pair[1])]
        return sorted(known, key=lambda pair: sign * pair[1])


@dataclass(frozen=True, eq=False)
class Table:
    """Episodes as one array per label and metric: (training seeds, episodes), NaN where not measured.

    Seeds and episodes are in rising order. A heuristic, or one policy alone, has one row, and no seeds.
    """

    columns: Mapping[PolicyLabel, Mapping[str, FloatArray]]
    learned: Mapping[PolicyLabel, bool]
    metrics: tuple[str, ...]  # in the order in which they first appear
    seeds: Mapping[PolicyLabel, tuple[int, ...]]  # of the training, one per row

    @classmethod
    def of(cls, episodes: Iterable[EpisodeResult]) -> Table:
        """Arrange episodes in columns.

        Raises:
            ValueError: a policy has an episode twice, or an episode is not the same for all policies.
        """
        results = list(episodes)
        numbers = {number: k for k, number in enumerate(sorted({result.episode for result in results}))}
        seeds = _seeds(results)
        columns: dict[PolicyLabel, dict[str, FloatArray]] = {label: {} for label in seeds}
        learned: dict[PolicyLabel, bool] = {}
        origin: dict[int, tuple[int, int | None]] = {}
        known_keys: set[tuple[PolicyLabel, int | None, int]] = set()
        for result in results:
            label = PolicyLabel(result.policy, result.backfill)
            key = (label, result.training_seed, result.episode)
            if key in known_keys:
                raise ValueError(f"{label} has episode {result.episode} twice: give each policy its own name")
            known_keys.add(key)
            place = (result.seed, result.offset)
            if origin.setdefault(result.episode, place) != place:
                raise ValueError(
                    f"episode {result.episode} of {label} has seed and offset {place}, of others "
                    f"{origin[result.episode]}: a paired comparison needs the same episodes"
                )
            learned[label] = result.learned
            known = seeds[label]
            row = known.index(result.training_seed) if result.training_seed is not None else 0
            for name, value in result.metrics.items():
                if name not in columns[label]:
                    columns[label][name] = np.full((max(len(known), 1), len(numbers)), nan)
                columns[label][name][row, numbers[result.episode]] = value if isfinite(value) else nan
        metrics = tuple(dict.fromkeys(name for result in results for name in result.metrics))
        return cls(columns, learned, metrics, seeds)

    def best_heuristic(self, metric: str) -> PolicyLabel | None:
        """The heuristic with the best mean of a metric; of equals, the first by name."""
        sign = 1.0 if measure(metric).lower_is_better else -1.0
        means = [
            (sign * float(np.nanmean(column[metric])), label)
            for label, column in self.columns.items()
            if not self.learned[label] and metric in column and not np.isnan(column[metric]).all()
        ]
        return min(means)[1] if means else None


def _seeds(results: Iterable[EpisodeResult]) -> dict[PolicyLabel, tuple[int, ...]]:
    """PolicyLabel to the seeds of its training, in rising order; empty where it is one policy.

    Raises:
        ValueError: some episodes of a policy have a training seed, and others have none.
    """
    seeds_of: dict[PolicyLabel, set[int | None]] = defaultdict(set)
    for result in results:
        seeds_of[PolicyLabel(result.policy, result.backfill)].add(result.training_seed)
    for label, seeds in seeds_of.items():
        if None in seeds and len(seeds) > 1:
            raise ValueError(f"{label} has episodes with a training seed, and without")
    return {
        label: tuple(sorted(seed for seed in seeds if seed is not None)) for label, seeds in seeds_of.items()
    }


def summarise(table: Table, seed: int = 0) -> list[SummaryRow]:
    """Means, intervals and paired differences to the best heuristic, per policy and metric.

    The best heuristic is chosen for each metric, over all backfilling rules, by its mean. Rows are by policy
    in the order of their first episode, then by metric. `seed` is that of the resampling.
    """
    best = {metric: table.best_heuristic(metric) for metric in table.metrics}
    cells: list[tuple[PolicyLabel, str]] = []
    samples: list[FloatArray] = []  # value and difference of each cell, in turn
    for label, columns in table.columns.items():
        for metric in table.metrics:
            if metric in columns:
                rival = best[metric]
                against = table.columns[rival][metric] if rival else np.full_like(columns[metric], nan)
                cells.append((label, metric))
                samples += [columns[metric], columns[metric] - against]
    intervals = bootstrap_columns(samples, seed)
    return [
        SummaryRow(
            *label,
            metric,
            *intervals[2 * k],
            *intervals[2 * k + 1],
            wins=_wins(samples[2 * k + 1], metric),
            best_heuristic=str(best[metric]) if best[metric] else None,
            episodes=int(np.isfinite(samples[2 * k]).any(axis=0).sum()),
            learned=table.learned[label],
            seeds=len(samples[2 * k]),
        )
        for k, (label, metric) in enumerate(cells)
    ]


def summarise_seeds(table: Table, rows: Iterable[SummaryRow], seed: int = 0) -> list[SeedRow]:
    """Differences between the training seeds of each policy that was trained with several.

    Takes the rows of `summarise` for the same table; returns rows in their order, none where every policy
    is one.
    """
    cells = by_cell(rows)
    named = {str(label): columns for label, columns in table.columns.items()}
    first = headline(cells.values())
    seed_rows = []
    for (label, metric), row in cells.items():
        seeds = table.seeds[label]
        if not seeds:
            continue
        values = table.columns[label][metric]
        interval = bootstrap_iqm(values, seed) if metric in first else (interquartile_mean(values), nan, nan)
        rival = row.best_heuristic
        seed_rows.append(
            SeedRow(
                *label,
                metric,
                seeds,
                tuple(_mean(column) for column in values),
                *interval,
                best_heuristic=rival,
                best_heuristic_iqm=nan if rival is None else interquartile_mean(named[rival][metric]),
            )
        )
    return seed_rows


def _mean(values: FloatArray) -> float:
    """Mean of the measured values; NaN where none was measured."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else nan


def _wins(difference: FloatArray, metric: str) -> float:
    measured = difference[~np.isnan(difference)]
    if len(measured) == 0:
        return nan
    good = measured <= 0 if measure(metric).lower_is_better else measured >= 0
    return float(good.mean())


def verdict(row: SummaryRow) -> Literal["better", "worse", ""]:
    """Whether a policy is better or worse than the best heuristic; empty: the interval holds zero."""
    if isnan(row.best_heuristic_difference) or row.difference_low <= 0 <= row.difference_high:
        return ""
    return "better" if (row.difference_high < 0) == measure(row.metric).lower_is_better else "worse"


def by_cell(rows: Iterable[SummaryRow]) -> dict[tuple[PolicyLabel, str], SummaryRow]:
    """Summary rows by label and metric."""
    return {(row.label, row.metric): row for row in rows}


def order_by(rows: Iterable[SummaryRow], metric: str) -> list[SummaryRow]:
    """The rows of one metric, best first; rows without a mean last."""
    sign = 1.0 if measure(metric).lower_is_better else -1.0
    chosen = [row for row in rows if row.metric == metric]
    return sorted(chosen, key=lambda row: (isnan(row.mean), 0.0 if isnan(row.mean) else sign * row.mean))


def headline(rows: Iterable[SummaryRow]) -> tuple[str, ...]:
    """The metrics to show first, most important first, of those that were measured.

    Costs are counted only with a horizon; values differ only where not every policy earns all of them.
    """
    means: dict[str, list[float]] = {}
    for row in rows:
        means.setdefault(row.metric, []).append(row.mean)
    by_value = "cost.delayed_jobs" in means and min(means["job_value_ratio"]) < 1.0
    return tuple(name for name in (GREEN_HEADLINE if by_value else HEADLINE) if name in means)
