"""Costs of episodes and their limits: amounts, or multiples of a heuristic's cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlsched.errors import BadInputError
from rlsched.evaluate import references
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.jobs import FloatArray
from rlsched.scenario import RelativeLimit, Scenario
from rlsched.sim.heuristics import run_heuristic
from rlsched.sim.metrics import Played
from rlsched.sim.priorities import PRIORITIES
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
    that is known.

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
    jobs = played.jobs
    last = int(max(jobs.submit.max(), played.end.max()))
    wait = np.where(played.started, played.start, last) - jobs.submit
    longest = scenario.objective.starvation_s / scenario.cluster.tick_s
    if name == "wait_time":
        return float(wait.sum())
    if name == "job_starvation":
        return float(np.maximum(0.0, wait - longest).sum())
    if name == "long_waits":
        return float((wait > longest).sum())
    span = float(last - jobs.submit.min())
    if name == "makespan":
        return span
    if name == "unused_capacity":
        used = jobs.demand[played.started] * jobs.runtime[played.started, None].astype(np.float64)
        return span - float((used.sum(axis=0) / jobs.cluster(units)).mean())
    raise KeyError(name)


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
