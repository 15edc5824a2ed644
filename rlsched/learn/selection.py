"""Choice of a run's best policy: on fixed validation episodes, among those that do not hoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isnan
from typing import Any

import numpy as np

from rlsched.errors import BadInputError
from rlsched.evaluate import references
from rlsched.evaluate.bootstrap import bootstrap_columns
from rlsched.evaluate.costs import allowed, limit_unit, limited_costs, play_heuristic
from rlsched.evaluate.gate import LEAST_EPISODES
from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT, hoarding_applies
from rlsched.evaluate.measures import measure
from rlsched.evaluate.play import play
from rlsched.evaluate.policy import LearnedPolicy
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.pid import LimitCheck
from rlsched.scenario import ResolvedScenario
from rlsched.sim.metrics import Played, job_metrics
from rlsched.sim.simulator import Playable, effective_prices

MARGIN = 0.95
"""Share of the hoarding limits that validation allows, so that other episodes keep the limits, too."""

DIFFERENCE = "difference"
"""Key of the metric's difference from the best heuristic's; with `_low` and `_high`, of its interval."""

LEAST_REFERENCE = {"schedule_span": 1e-9, "wait": 1.0, "completion_ratio": 1e-9}
"""Lower bounds of the means of greedy sjf: where no job waits, a second of wait is no hoarding."""

HOARDING_METRICS = tuple(LEAST_REFERENCE)

LEAST = 0.01
"""Share of the mean reference that is added to both sides of a ratio."""


@dataclass(frozen=True, order=True)
class Score:
    """Score of a policy in validation; the smallest is the best.

    Attributes:
        excess: largest violation of a limit, as a share of the limit; 0 within all limits. Limits are those
            of hoarding (span, wait and unfinished jobs, relative to greedy sjf) and those of costs, which
            count with their margins.
        value: the metric as a share of the best heuristic's, negated where higher is better.
    """

    excess: float = inf
    value: float = inf


@dataclass(frozen=True, eq=False)
class Validation:
    """Fixed episodes on which the policies of a run are compared."""

    scenario: ResolvedScenario
    units: Sequence[int]
    episodes: Sequence[Playable]
    metric: str  # to optimise
    heuristics: Mapping[PolicyLabel, Mapping[str, float]]  # metric -> mean, on the same episodes
    best: FloatArray  # (episode,) the metric under the best of these heuristics in each episode
    rival: FloatArray  # (episode,) the metric under the heuristic with the best mean
    sjf: Mapping[str, FloatArray]  # metric -> (episode,) under greedy sjf, the reference of hoarding
    parts: IntArray  # (episode,) part of a mixture that each episode is from
    allowed: Mapping[str, FloatArray]  # cost with a limit -> (episode,) the limit, as an amount

    @classmethod
    def of(
        cls,
        scenario: ResolvedScenario,
        units: Sequence[int],
        episodes: Sequence[Playable],
        metric: str,
        parts: IntArray | None = None,
    ) -> Validation:
        """Run the heuristics that policies are compared with; without `parts` all episodes are of one.

        Raises:
            BadInputError: the metric is not measured.
        """
        scenario = scenario.public
        reached = {
            known: measured(scenario, units, play_heuristic(known, scenario, units, episodes))
            for known in references.heuristics(scenario)
        }
        heuristics = {name: _means(values) for name, values in reached.items()}
        known = next(iter(heuristics.values()))
        if metric not in known:
            raise BadInputError(
                "validation.metric", f"{metric!r} is not measured", f"use one of {', '.join(known)}"
            )
        best = np.minimum if measure(metric).lower_is_better else np.maximum
        rival = best_by_mean(heuristics, metric)
        return cls(
            scenario,
            units,
            episodes,
            metric,
            heuristics,
            best.reduce([values[metric] for values in reached.values()]),
            reached[rival][metric],
            reached[references.greedy_sjf(scenario)],
            np.zeros(len(episodes), np.int64) if parts is None else parts,
            allowed(scenario, units, episodes),
        )

    @property
    def limits(self) -> dict[str, float]:
        """Cost with a limit -> mean over the episodes of that limit, as an amount."""
        return {name: float(amounts.mean()) for name, amounts in self.allowed.items()}

    @property
    def best_heuristic(self) -> tuple[PolicyLabel, float]:
        """The heuristic with the best mean of the metric, and this mean."""
        name = best_by_mean(self.heuristics, self.metric)
        return name, self.heuristics[name][self.metric]

    def facts(self) -> dict[str, Any]:
        """Contents of validation.json: metric, numbers of episodes, heuristics' figures, limits of costs."""
        heuristics = {":".join(known): dict(values) for known, values in self.heuristics.items()}
        parts = np.bincount(self.parts).tolist()
        return {
            "metric": self.metric,
            "episodes": len(self.episodes),
            "of_parts": parts,
            "heuristics": heuristics,
            "limits": self.limits,
        }

    def run(self, policy: LearnedPolicy) -> dict[str, float]:
        """Play the greedy policy, and return its mean metrics and these figures.

        `relative`: the metric as a share of `best`. The share is taken in every episode, as rewards are
        scaled in training. Few episodes of a real trace have a hundred times the slowdown of the others, and
        would dominate a plain mean.

        `hoarding`: `hoarding_excess`, at least 0. `margin.COST`: the upper end of the 95 % interval of a
        cost, less its mean. `excess`: the largest share by which a limit, of hoarding
        or of the objective, is exceeded; negative within all of them.

        `difference`, `difference_low`, `difference_high`: the metric less that of the best heuristic, with
        the 95 % interval of its mean over episodes.
        """
        played = play(self.scenario, self.units, self.episodes, policy)
        values = measured(self.scenario, self.units, played)
        least = LEAST * max(float(self.best.mean()), 1e-9)  # a reference may be 0, as wait is on a calm day
        relative = (values[self.metric] + least) / (self.best + least)
        means = _means(values) | {"relative": float(relative.mean())}
        columns = [values[limited_name(name)] - limit for name, limit in self.allowed.items()]
        difference, *beyond_limits = bootstrap_columns([values[self.metric] - self.rival, *columns])
        means |= {DIFFERENCE: difference.mean}
        means |= {f"{DIFFERENCE}_low": difference.low, f"{DIFFERENCE}_high": difference.high}
        for name, ends in zip(self.allowed, beyond_limits, strict=True):
            means[margin_name(name)] = ends.high - ends.mean
        excess = [self._cost_excess(means)] if self.limits else [0.0]
        hoarding = 0.0
        if hoarding_applies(self.scenario):
            excess.append(hoarding_excess(values, self.sjf, self.parts))
            hoarding = max(excess[-1], 0.0)
        return means | {"hoarding": hoarding, "excess": max(excess)}

    def beats(self, metrics: Mapping[str, float]) -> bool:
        """Whether the result of `run` is within all limits and better than the best heuristic by interval.

        The interval of fewer than `LEAST_EPISODES` episodes is not reliable, so then the answer is no.
        """
        if self.score(metrics).excess > 0.0 or len(self.rival) < LEAST_EPISODES:
            return False
        if measure(self.metric).lower_is_better:
            return metrics[f"{DIFFERENCE}_high"] < 0.0
        return metrics[f"{DIFFERENCE}_low"] > 0.0

    def score(self, metrics: Mapping[str, float]) -> Score:
        """Score of a result of `run`."""
        sign = 1.0 if measure(self.metric).lower_is_better else -1.0
        excess = max(metrics["hoarding"], self._cost_excess(metrics), 0.0)
        return Score(excess, sign * metrics["relative"])

    def checks(self, metrics: Mapping[str, float]) -> dict[str, LimitCheck]:
        """Cost with a limit -> its check, from a result of `run`."""
        checks = {}
        for name, limit in self.limits.items():
            column = limited_name(name)
            unit = limit_unit(limit, partial(self._cheapest, column))
            mean = metrics[column]
            checks[name] = LimitCheck(
                limit=limit, mean=mean, highest=mean + metrics[margin_name(name)], unit=unit
            )
        return checks

    def _cheapest(self, column: str) -> float:
        return min(values[column] for values in self.heuristics.values())

    def _cost_excess(self, metrics: Mapping[str, float]) -> float:
        """Largest violation of a cost's limit, as a share of the limit; negative within all.

        The upper end of the interval of the mean is compared with the limit. Of many policies that are just
        within it on these episodes, some are beyond it on others.
        """
        return max((check.excess for check in self.checks(metrics).values()), default=-inf)


def hoarding_excess(
    policy: Mapping[str, FloatArray], sjf: Mapping[str, FloatArray], parts: IntArray
) -> float:
    """Largest violation of a limit of hoarding, as a share of the limit; negative within all.

    It is the largest over all episodes together and over each part of a mixture: a policy can hoard on some
    parts, and keep the limits on the whole. Of many parts with few episodes each some may be beyond a limit
    by chance, so a part counts with the lower end of its interval.

    Args:
        policy: metric -> (episode,).
        sjf: metric -> (episode,) of greedy sjf.
        parts: (episode,) part of a mixture.
    """
    worst = _largest_share(_means(policy), _means(sjf))
    part_ids = np.unique(parts)
    for part in part_ids if len(part_ids) > 1 else ():
        policy_in_part, reference = (
            {name: metrics[name][parts == part] for name in HOARDING_METRICS} for metrics in (policy, sjf)
        )
        worst = max(worst, _largest_share(_least_hoarding(policy_in_part, reference), _means(reference)))
    return worst - 1.0


def _largest_share(policy: Mapping[str, float], sjf: Mapping[str, float]) -> float:
    """Largest of `limit_shares`, without unfinished jobs that are within their limit.

    Where all jobs are finished, that share says nothing. An episode in which no job starts has no wait and no
    span, so that their means are NaN; then unfinished jobs count.
    """
    shares = limit_shares(policy, sjf)
    if shares["unfinished"] <= 1.0:
        del shares["unfinished"]
    return max((share for share in shares.values() if not isnan(share)), default=0.0)


def _least_hoarding(policy: Mapping[str, FloatArray], sjf: Mapping[str, FloatArray]) -> dict[str, float]:
    """Favourable ends of waits, spans and completion, by the interval of their share of sjf's.

    They are the lower ends of waits and spans, and the upper end of completion.
    """
    names, means = list(policy), _means(policy)
    shares = {name: means[name] / max(float(sjf[name].mean()), LEAST_REFERENCE[name]) for name in names}
    residuals = [policy[name] - shares[name] * sjf[name] for name in names]
    return {
        name: means[name] + (ends.high if name == "completion_ratio" else ends.low) - ends.mean
        for name, ends in zip(names, bootstrap_columns(residuals), strict=True)
    }


def limit_shares(policy: Mapping[str, float], sjf: Mapping[str, float]) -> dict[str, float]:
    """Waits, spans and unfinished jobs, as shares of the limits in validation; arguments: metric -> mean."""
    return {
        "schedule_span": policy["schedule_span"] / (sjf["schedule_span"] * SPAN_LIMIT * MARGIN),
        "wait": policy["wait"] / (max(sjf["wait"], LEAST_REFERENCE["wait"]) * WAIT_LIMIT * MARGIN),
        "unfinished": sjf["completion_ratio"] / max(policy["completion_ratio"], LEAST),
    }


def limited_name(cost: str) -> str:
    """Key of the amount that is compared with the limit of a cost."""
    return f"limited.{cost}"


def margin_name(cost: str) -> str:
    """Key of a cost's margin: the upper end of the interval of its mean, less the mean."""
    return f"margin.{cost}"


def by_sjf(
    scenario: ResolvedScenario, units: Sequence[int], episodes: Sequence[Playable]
) -> dict[str, FloatArray]:
    """Metric -> (episode,) under greedy sjf, the reference of hoarding; on a horizon with placement `now`."""
    return measured(
        scenario, units, play_heuristic(references.greedy_sjf(scenario), scenario, units, episodes)
    )


def measured(
    scenario: ResolvedScenario, units: Sequence[int], played: Sequence[Played]
) -> dict[str, FloatArray]:
    """Metric -> (episode,) values."""
    tick_s, prices = scenario.cluster.tick_s, effective_prices(scenario)
    results = [job_metrics(run, units, tick_s, prices) for run in played]
    metrics = {name: np.array([result[name] for result in results]) for name in results[0]}
    limits = scenario.objective.limits
    return metrics | {limited_name(name): limited_costs(scenario, units, name, played) for name in limits}


def best_by_mean(heuristics: Mapping[PolicyLabel, Mapping[str, float]], metric: str) -> PolicyLabel:
    """The heuristic with the best mean of a metric."""
    sign = 1.0 if measure(metric).lower_is_better else -1.0
    return min(heuristics, key=lambda name: sign * heuristics[name][metric])


def _means(values: Mapping[str, FloatArray]) -> dict[str, float]:
    return {name: float(array.mean()) for name, array in values.items()}
