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

HOLDING_PRIOR = {**HISTORY_PRIOR, "share_0*used_requests": 0.13}
"""The same where units are kept for no job in particular: large jobs are to start, too."""

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


class Keeping(NamedTuple):
    """How far ahead waiting is, by what is seen, in scores of the order.

    Attributes:
        waiting: constant.
        deferring: feature -> weight.
        keen: stands for the sharpness in a priority function. Its decisions are the same with any; but a
            search moves all weights by as much, and is to turn waiting over neither at once nor never.
    """

    waiting: float
    deferring: Mapping[str, float]
    keen: float


RESERVING = Keeping(-1 / 3, {"used_requests": 0.3, "requested": 0.1}, keen=10.0)
"""Where units are kept for the first of the jobs and the history is seen. Who knows how long jobs run does
well to keep them: where all requests were exact so far, waiting is ahead of all jobs but those of a few
minutes. Where users ask for more than they use, what is kept stays idle: behind where half is used."""

SPARING = Keeping(
    -0.65,
    {"requested": 1.0, "share_0": 5.11, "free_0": -5.62, "used_requests": 0.2, "load": 0.2},
    keen=1.0,
)
"""Where waiting is always legal: units are kept free for short jobs to come. A job of a few minutes may take
all that is free; the longer it is the more must be left, 8 % by the longest. On many units that is cheap, and
slowdown is mostly that of short jobs. Less is kept where users ask for more than they use, since short jobs
cannot be told from others, and where little is submitted. A share weighs less than what is free, so that a
job of a day that asks for the whole machine starts when that is empty, however much is submitted; a longer
one where less is, or when nothing else is to come. That is for times on the usual scale, with all units in
service."""


class Beginning(NamedTuple):
    """The settings of the network that it is told by."""

    prior: Mapping[str, float]
    waiting: float | None
    deferring: Mapping[str, float] | None

    def over(self, network: Network) -> Beginning:
        """The same with what the settings of a network give of it.

        A job scorer without a prior begins with random weights, and its no-op with a level of its own.
        """
        if network.kind == "job_scorer" and network.prior == {}:
            return Beginning({}, network.waiting, network.deferring)
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


def begun(network: Network, scenario: Scenario, *, random_weights: bool = False) -> Network:
    """The network with what is best to begin with in a scenario, where that was left out.

    Units are kept for a certain job only where it may be committed to: where only what fits is chosen, and
    the first requests count as exact, nothing would ever be started. Where waiting is always legal a few are
    kept for no one yet.

    Args:
        network: with what was given.
        scenario: that is simulated.
        random_weights: start a job scorer from random weights where there is no horizon.
    """
    if network.kind not in ("job_scorer", "priority"):
        return network
    if random_weights and network.kind == "job_scorer" and scenario.decision.horizon is None:
        given = (network.prior, network.waiting, network.deferring)
        if given == (None, None, None):
            return network.model_copy(update={"prior": {}})
    rewarded = {term for term, weight in scenario.objective.reward.items() if weight != 0}
    decision, blocks = scenario.decision, frozenset(scenario.observation.blocks)
    found = beginning(network, blocks, horizon=decision.horizon is not None)
    if decision.horizon is not None:
        if network.kind == "job_scorer" and rewarded & IMPATIENT:
            found = found._replace(prior=SLOWDOWN_PRIOR)
    elif "history" in blocks:
        keeping = None
        if decision.action_rule == "commit":
            found, keeping = found._replace(prior=HISTORY_PRIOR), RESERVING
        elif "queue" in blocks and rewarded & IMPATIENT:
            keeping = SPARING
            if decision.action_rule == "hold":
                found = found._replace(prior=HOLDING_PRIOR)
        if keeping is not None and (network.waiting, network.deferring) == (None, None):
            # A job scorer multiplies these weights by its sharpness itself.
            keen, sharp = (keeping.keen, 1.0) if network.kind == "priority" else (1.0, network.sharpness)
            deferring = {name: keen * weight for name, weight in keeping.deferring.items()}
            found = found._replace(waiting=keeping.waiting * keen * sharp, deferring=deferring)
    return network.model_copy(update=found.over(network)._asdict())
