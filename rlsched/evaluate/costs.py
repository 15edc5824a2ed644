"""Costs of episodes and their limits: amounts, or multiples of a heuristic's cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlsched.errors import BadInputError
from rlsched.evaluate import references
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.jobs import FloatArray, IntArray
from rlsched.scenario import RelativeLimit, Scenario
from rlsched.scenario.term_spec import TickQuantities
from rlsched.scenario.terms import TERM_SPECS
from rlsched.sim.heuristics import run_heuristic
from rlsched.sim.metrics import BOUND_S, Played
from rlsched.sim.priorities import PRIORITIES
from rlsched.sim.rates import NO_HORIZON
from rlsched.sim.replay import replay
from rlsched.sim.simulator import Playable


def play_heuristic(
    heuristic: PolicyLabel, scenario: Scenario, units: Sequence[int], episodes: Sequence[Playable]
) -> list[Played]:
    """Episodes under a heuristic, one of `references.heuristics`."""
    name, rule = heuristic
    if not scenario.decision.tick_driven:
        return [Played.of_starts(e.jobs, replay(e.jobs, units, name, rule)) for e in episodes]
    return run_heuristic(scenario, units, episodes, name, rule, range(len(episodes)))


def episode_cost(scenario: Scenario, units: Sequence[int], name: str, played: Played) -> float:
    """Undiscounted total cost of an episode, in the unit of the term.

    Without a horizon it follows from the starts; a job that has not started has waited up to the last event
    that is known. All waiting jobs count, under each `objective.scope`.

    Args:
        scenario: that was played.
        units: (resource,) units of the cluster, where the jobs do not name theirs.
        name: of the cost.
        played: how the episode went.

    Raises:
        KeyError: the cost was not counted and does not follow from the starts.
    """
    if name in played.totals:
        return -played.totals[name]
    longest = scenario.objective.starvation_s / scenario.cluster.tick_s
    last = int(max(played.jobs.submit.max(), played.end.max()))
    begin = np.where(played.started, played.start, last)
    wait = begin - played.jobs.submit
    if name == "job_starvation":
        return float(np.maximum(0.0, wait - longest).sum())
    if name == "long_waits":
        return float((wait > longest).sum())
    spec = TERM_SPECS[name]
    if spec.rate is None or spec.needs:
        raise KeyError(name)
    intervals, lengths = between_events(scenario, units, played, begin, last)
    return float(0.0 - (spec.rate(intervals) * lengths).sum())


def between_events(
    scenario: Scenario, units: Sequence[int], played: Played, begin: IntArray, last: int
) -> tuple[TickQuantities, FloatArray]:
    """Quantities (interval,) of the ticks between two events without a horizon, and (interval,) ticks.

    Args:
        scenario: that was played.
        units: (resource,) units of the cluster, where the jobs do not name theirs.
        played: how the episode went.
        begin: (jobs,) tick of the start; of jobs that have not started that of the last event.
        last: tick of the last event.
    """
    jobs = played.jobs
    end = np.where(played.started, begin + jobs.runtime, last)
    times, places = np.unique(np.concatenate([jobs.submit, begin, end]), return_inverse=True)
    submitted, started, ended = places.reshape(3, len(jobs))

    def over_time(amount: FloatArray | None, first: IntArray, until: IntArray) -> FloatArray:
        """(interval,) sum of amounts (jobs,), or their number, of jobs between two places in `times`."""
        changes = np.bincount(first, amount, len(times)) - np.bincount(until, amount, len(times))
        sums: FloatArray = changes.cumsum()[:-1].astype(np.float64)
        return sums

    num_waiting = over_time(None, submitted, started)
    bound = max(1.0, BOUND_S / scenario.cluster.tick_s)
    shares = (jobs.demand / jobs.cluster(units)).mean(axis=1)
    quantities = TickQuantities(
        num_waiting,
        over_time(1.0 / jobs.runtime, submitted, ended),
        over_time(1.0 / np.maximum(jobs.runtime, bound), submitted, started),
        num_waiting,
        over_time(None, started, ended),
        over_time(shares, started, ended),
        *NO_HORIZON,
    )
    return quantities, np.diff(times).astype(np.float64)


def limited_costs(scenario: Scenario, units: Sequence[int], name: str, runs: Sequence[Played]) -> FloatArray:
    """(episode,) costs to compare with a limit: per episode, or per submitted job (`limits_per`).

    Arguments as of `episode_cost`, but for several episodes.
    """
    limited = scenario.objective.limited
    return np.array([limited(episode_cost(scenario, units, name, run), len(run.jobs)) for run in runs])


def allowed(scenario: Scenario, units: Sequence[int], episodes: Sequence[Playable]) -> dict[str, FloatArray]:
    """Cost with a limit -> (episode,) that limit, as an amount.

    Raises:
        BadInputError: a limit is relative to a heuristic that is not known.
    """
    amounts: dict[str, FloatArray] = {}
    known: dict[str, list[Played]] = {}
    rule = references.greedy_sjf(scenario).backfill
    for name, limit in scenario.objective.limits.items():
        if not isinstance(limit, RelativeLimit):
            amounts[name] = np.full(len(episodes), float(limit))
            continue
        check_heuristic(name, limit)
        if limit.heuristic not in known:
            heuristic = PolicyLabel(limit.heuristic, rule)
            known[limit.heuristic] = play_heuristic(heuristic, scenario, units, episodes)
        amounts[name] = limit.times * limited_costs(scenario, units, name, known[limit.heuristic])
    return amounts


def limit_unit(limit: float, cheapest: Callable[[], float]) -> float:
    """Unit of an excess over a limit: the limit, or, if that is 0, the cheapest heuristic's cost, or 1.

    Args:
        limit: mean over episodes, as an amount.
        cheapest: works out the lowest mean cost of a heuristic; called where it is needed only.
    """
    return limit or cheapest() or 1.0


def cheapest_cost(scenario: Scenario, units: Sequence[int], episodes: Sequence[Playable], name: str) -> float:
    """The lowest mean cost of a heuristic on these episodes."""
    return min(
        float(limited_costs(scenario, units, name, play_heuristic(known, scenario, units, episodes)).mean())
        for known in references.heuristics(scenario)
    )


def check_heuristic(cost: str, limit: RelativeLimit) -> None:
    """Refuse a limit that is relative to an unknown heuristic.

    Raises:
        BadInputError: it is.
    """
    if limit.heuristic not in PRIORITIES:
        raise BadInputError(
            f"objective.costs.{cost}",
            f"value {str(limit)!r}: no heuristic {limit.heuristic!r}",
            f"use one of {', '.join(sorted(PRIORITIES))}",
        )
