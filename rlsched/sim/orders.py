"""Queue orders where there is a horizon: at every decision the best legal job of the ready pool.

A rule says what happens to a job that does not fit now: under `now` others may start before it, under
`horizon` it is planned, under `none` everybody waits for the best job. Where the scenario lets an agent
suspend, an order suspends the running job of the least value per unit-tick for a better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.sim.backfill import GREEDY, NONE, Order
from rlsched.sim.compiled import kernel, step
from rlsched.sim.decide import advance
from rlsched.sim.metrics import Played
from rlsched.sim.outcome import Outcome
from rlsched.sim.pools import weakest
from rlsched.sim.priorities import STATIC, moving_key, priority, static_keys
from rlsched.sim.rules import NO_LIMIT, Rules
from rlsched.sim.simulator import Playable, VectorSimulator
from rlsched.sim.state import JOB_MASK, State, keys_for

PLACEMENTS = {
    "now": "the best job that fits now starts",
    "horizon": "the best job is planned at the first tick from which it fits",
    "none": "the best job starts if it fits now, or nobody",
}
"""Rules of orders with a horizon, and what they mean."""


def placed_by(scenario: Scenario, rule: str) -> Scenario:
    """The scenario with the placement that a rule asks for.

    Raises:
        BadInputError: there is no such rule.
    """
    if rule not in PLACEMENTS:
        raise BadInputError(
            "--backfill", f"unknown rule {rule!r} with a horizon", f"use one of {', '.join(PLACEMENTS)}"
        )
    placement = "horizon" if rule == "horizon" else "now"
    decision = scenario.decision.model_copy(update={"placement": placement, "skip_forced": True})
    return scenario.model_copy(update={"decision": decision})


def play_order(
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[Playable],
    policy: str,
    rule: str,
    seeds: Sequence[int],
    progress: Callable[[int], None] = lambda _: None,
) -> list[Played]:
    """Play episodes to their end under a queue order.

    Args:
        scenario: with a horizon; its placement gives way to the rule.
        units: (resource,) units of the cluster.
        episodes: jobs and power of each.
        policy: a name in `PRIORITIES`.
        rule: a name in `PLACEMENTS`.
        seeds: (episode,) of the random order.
        progress: called with 1 whenever an episode has ended.

    Raises:
        BadInputError: an unknown name, or jobs that the cluster cannot run.
    """
    longest = max(len(episode.jobs) for episode in episodes)
    sim = VectorSimulator(placed_by(scenario, rule), units, 1, longest, every_term=True)
    order = OrderPolicy(sim, policy, rule)
    results = []
    for episode, seed in zip(episodes, seeds, strict=True):
        sim.load(0, episode.jobs, power=episode.power)
        order.begin(episode.jobs, seed)
        order.play()
        results.append(sim.played(0, episode.jobs))
        progress(1)
    return results


class OrderPolicy:
    """A queue order beside a simulator, in its first environment: asked action by action, or left to play.

    Args:
        sim: under a scenario as `placed_by` makes it for the same rule.
        policy: a name in `PRIORITIES`.
        rule: a name in `PLACEMENTS`.

    Raises:
        BadInputError: an unknown order.
    """

    def __init__(self, sim: VectorSimulator, policy: str, rule: str) -> None:
        self._sim = sim
        self._priority = priority(policy)
        keys = np.zeros((1, sim.state.queue.shape[1]))
        backfill = NONE if rule == "none" else GREEDY
        self._order = Order(keys, self._priority.moving, False, backfill, NO_LIMIT)

    def begin(self, jobs: JobTable, seed: int) -> None:
        """Get to know the jobs of the episode that was loaded.

        Args:
            jobs: the same as were loaded.
            seed: of the random order.
        """
        sim = self._sim
        keys = static_keys(self._priority, jobs, sim.units, seed, sim.prices)
        keys_for(sim.state, 0, self._order.keys, keys)

    def act(self) -> int:
        """The action, now, where more than one is legal; a forced one is the caller's to take."""
        sim = self._sim
        return _choose(sim.state, sim.outcome, sim.rules, self._order, 0)

    def play(self, times: int = -1) -> None:
        """Act so many times, or to the end of the episode; observations are not brought up to date.

        Under `none` an order also waits where an agent must not: nobody starts before the best job.
        """
        sim = self._sim
        _play(sim.state, sim.outcome, sim.rules, self._order, 0, times)


@kernel
def _choose(s: State, o: Outcome, rules: Rules, order: Order, i: int) -> int:
    return choose(s, o, rules, order, i)


@kernel
def _play(s: State, o: Outcome, rules: Rules, order: Order, i: int, times: int) -> None:
    while s.episodes[i].over == 0 and times != 0:
        advance(s, o, rules, i, choose(s, o, rules, order, i))
        times -= 1


@step
def choose(s: State, o: Outcome, rules: Rules, order: Order, i: int) -> int:
    """The action of a queue order, now."""
    e = s.episodes[i]
    found, found_key = -1, np.inf
    top, top_key = -1, np.inf  # whether it is legal or not
    for k in range(e.num_ready):
        row = s.queue[i, e.queue_lo + k]
        key = order.keys[i, row] if order.moving == STATIC else moving_key(s, i, row, order.moving)
        if key < top_key or top < 0:
            top, top_key = k, key
        if o.mask[i, k] == 1 and (key < found_key or found < 0):
            found, found_key = k, key
    if found >= 0 and (order.backfill != NONE or found == top):
        return found
    if top >= 0 and o.mask[i, rules.window] == 1:
        row = s.queue[i, e.queue_lo + top]
        least = s.started[i, s.ends[i, weakest(s, i, False)] & JOB_MASK]
        if s.lots[i, least].density < s.lots[i, row].density:
            return rules.window
    return rules.num_actions - 1
