"""What policies begin with before anything is learned: an order, and how far waiting is from it.

Weights of a job's features are those of a linear score. Waiting is told in logits for the job scorer, for a
priority function as a score; of both over the best job, but for a priority function on a horizon, where it
has a level of its own. Who knows better sets `network.prior`, `network.waiting`, `network.deferring`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rlsched.learn.sections import Network
from rlsched.scenario import Scenario

IMPATIENT = {"slowdown", "bounded_slowdown", "wait_time", "terminal_bsld"}
"""Rewards for which short jobs should not wait for long ones."""

QUEUE_PRIOR = {"requested": -1.0, "log_demand_0": -0.36, "share_0": -0.2, "wait": 0.15, "fits": 0.05}
"""Short and small jobs first, old ones before new ones."""

HISTORY_PRIOR = {
    **QUEUE_PRIOR,
    "requested*used_requests": 0.2,
    "share_0": -0.27,
    "share_0*used_requests": 0.27,
    "fits": 0.067,
    "fits*used_requests": -0.067,
}
"""The same where units are kept for the first of the jobs, and the history is seen. Whoever keeps them need
care neither for shares nor for what fits, and less for requests: long jobs would wait for ever. Where users
ask for more than they use, a search on the model finds shares and what fits useful (docs/architecture.md)."""

HORIZON_PRIOR = {"match": 1.0}
"""Jobs that fill what is free first, the strongest of the simple orders by value [Grandl 2014]."""

SLOWDOWN_PRIOR = {"duration": -1.0}
"""Where impatient rewards are planned for on a horizon: the shortest job first."""

NOW_PRIOR = {"match": 1.0, "fits": 3.0}
"""For a score on a horizon that is held against that of waiting: what does not fit now is not planned but
waits. So a search begins with the best order there is, whatever the placement: `packing` that plans earns
less."""

WAITING, NOW_WAITING = -4.0, 1.0
"""Waiting is far from the best job at first; beside `NOW_PRIOR`, ahead of what does not fit."""

RESERVING = (-1 / 3, {"used_requests": 0.3, "requested": 0.1})
"""Waiting and deferring, both times the sharpness, where units are kept for the first of the jobs and the
history is seen. Who knows how long jobs run does well to keep them: where all requests were exact so far,
waiting is ahead of all jobs but those of a few minutes. Where users ask for more than they use, what is kept
stays idle: behind where half is used."""

KEEN = 10.0
"""Stands for the sharpness in a priority function. Its decisions are the same with any; a search moves all
weights by as much, and with this one it neither turns waiting over at once nor leaves it as it is."""


class Beginning(NamedTuple):
    """The settings of the network that it is told by."""

    prior: Mapping[str, float]
    waiting: float
    deferring: Mapping[str, float] | None

    def over(self, network: Network) -> Beginning:
        """The same with what the settings of a network give of it."""
        given = {name: getattr(network, name) for name in self._fields}
        return self._replace(**{name: value for name, value in given.items() if value is not None})


def beginning(network: Network, blocks: frozenset[str], *, horizon: bool) -> Beginning:
    """Where nothing else is given.

    Args:
        network: a job scorer or a priority function.
        blocks: what is observed.
        horizon: whether jobs are planned on one.
    """
    deferring: Mapping[str, float] | None = {} if blocks & {"supply", "history"} else None
    if not horizon:
        return Beginning(QUEUE_PRIOR, WAITING, deferring)
    if network.kind == "priority":
        return Beginning(NOW_PRIOR, NOW_WAITING, deferring)
    return Beginning(HORIZON_PRIOR, WAITING, deferring)


def begun(network: Network, scenario: Scenario) -> Network:
    """The network with what is best to begin with in a scenario, where that was left out.

    Units are kept for a job only where it may be committed to: where only what fits is chosen, and the first
    requests count as exact, nothing would ever be started.
    """
    if network.kind not in ("job_scorer", "priority"):
        return network
    rewarded = {term for term, weight in scenario.objective.reward.items() if weight != 0}
    decision, blocks = scenario.decision, frozenset(scenario.observation.blocks)
    found = beginning(network, blocks, horizon=decision.horizon is not None)
    if decision.horizon is not None:
        if network.kind == "job_scorer" and rewarded & IMPATIENT:
            found = found._replace(prior=SLOWDOWN_PRIOR)
    elif decision.action_rule == "commit" and "history" in blocks:
        found = found._replace(prior=HISTORY_PRIOR)
        if (network.waiting, network.deferring) == (None, None):
            share, deferring = RESERVING
            if network.kind == "priority":  # the job scorer multiplies its weights by the sharpness itself
                deferring = {name: KEEN * weight for name, weight in deferring.items()}
            sharp = KEEN if network.kind == "priority" else network.sharpness
            found = found._replace(waiting=share * sharp, deferring=deferring)
    return network.model_copy(update=found.over(network)._asdict())
