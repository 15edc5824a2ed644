"""Queue orders asked action by action, as agents are: at every decision the best legal job that is seen.

With a horizon, a rule says what happens to a job that does not fit now: under `now` others may start before
it, under `horizon` it is planned, under `none` everybody waits for the best job. Where the scenario lets an
agent suspend, an order suspends the running job of the least value per unit-tick for a better one.

Without one the scenario's action rule says it: under `fit` others start before it, which is greedy
backfilling; under `commit` and `hold` it gets a reservation that they must not delay. `replay` is the quick
way to run these to the end; here they are asked, to record or to teach what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.sim.backfill import CONSERVATIVE, GREEDY, NONE, Order, key_of
from rlsched.sim.compiled import by_horizon, direct, kernel, step
from rlsched.sim.kept import Kept, taken
from rlsched.sim.metrics import Played
from rlsched.sim.outcome import Outcome
from rlsched.sim.playing import play_all
from rlsched.sim.pools import weakest
from rlsched.sim.priorities import priority, static_keys
from rlsched.sim.rules import NO_LIMIT, Rules
from rlsched.sim.simulator import Playable, VectorSimulator
from rlsched.sim.state import JOB_MASK, State, keys_for

PLACEMENTS = {
    "now": "the best job that fits now starts",
    "horizon": "the best job is planned at the first tick from which it fits",
    "none": "the best job starts if it fits now, or nobody",
}
"""Rules of orders with a horizon, and what they mean."""

BACKFILL = {"now": GREEDY, "horizon": CONSERVATIVE, "none": NONE}
"""What they are without one: a job that is planned has a reservation."""

BATCH = 64
"""Episodes that are played side by side."""


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
    size = min(BATCH, len(episodes))
    sim = VectorSimulator(placed_by(scenario, rule), units, size, longest, every_term=True)
    order = OrderPolicy(sim, policy, rule)

    def begin(env: int, number: int) -> None:
        order.begin(env, episodes[number].jobs, seeds[number])

    return play_all(sim, episodes, order.act, begin=begin, progress=progress)


class OrderPolicy:
    """A queue order beside a simulator, asked action by action.

    Args:
        sim: under a scenario as `placed_by` makes it for the same rule, or without a horizon, or one where
            jobs can be planned, for an order that may do so or not.
        policy: a name in `PRIORITIES`.
        rule: a name in `PLACEMENTS`; `now` without a horizon.

    Raises:
        BadInputError: an unknown order.
    """

    def __init__(self, sim: VectorSimulator, policy: str, rule: str) -> None:
        self._sim = sim
        self._priority = priority(policy)
        keys = np.zeros((sim.num_envs, sim.state.queue.shape[1]))
        self._order = Order(
            keys, self._priority.moving, self._priority.by_submit, False, BACKFILL[rule], NO_LIMIT
        )
        self._envs = np.arange(sim.num_envs, dtype=np.uint64)
        self._actions = np.zeros(sim.num_envs, np.int64)

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Get to know the jobs of the episode that was loaded into an environment.

        Args:
            env: which environment.
            jobs: the same as were loaded.
            seed: of the random order.
        """
        sim = self._sim
        keys = static_keys(self._priority, jobs, sim.units[env], seed, sim.prices)
        keys_for(sim.state, env, self._order.keys, keys)

    def act(self, envs: NDArray[np.uint64] | None = None) -> IntArray:
        """(env,) the action of every environment, now; the no-op where an episode is over.

        Args:
            envs: only these are asked, in any order; what the others did before stays where it is.
        """
        sim = self._sim
        self._choose_all(sim.kept, self._order, self._envs if envs is None else envs, self._actions)
        return self._actions

    @cached_property
    def _choose_all(self) -> Callable[[Kept, Order, NDArray[np.uint64], IntArray], None]:
        return direct(_choose_all, self._sim.kept, self._order, self._envs, self._actions)


@step
def choose_queue(s: State, o: Outcome, rules: Rules, order: Order, i: int) -> int:
    """The action of a queue order without a horizon: the best legal job of the window, or to wait."""
    e = s.episodes[i]
    found, found_key = rules.num_actions - 1, np.inf
    for k in range(min(e.queue_hi - e.queue_lo, rules.window)):
        if o.mask[i, k] == 1:
            row = s.queue[i, e.queue_lo + k]
            key = key_of(s, i, order, row)
            if key < found_key or found == rules.num_actions - 1:
                found, found_key = k, key
    return found


@step
def choose_grid(s: State, o: Outcome, rules: Rules, order: Order, i: int) -> int:
    """The action of a queue order with a horizon, now."""
    e = s.episodes[i]
    found, found_key = -1, np.inf
    legal, legal_key = -1, np.inf  # whether the order's rule has it or not
    top, top_key = -1, np.inf  # whether it is legal or not
    for k in range(e.num_ready):
        row = s.queue[i, e.queue_lo + k]
        key = key_of(s, i, order, row)
        if key < top_key or top < 0:
            top, top_key = k, key
        if o.mask[i, k] == 0:
            continue
        if key < legal_key or legal < 0:
            legal, legal_key = k, key
        if (o.fits[i, k] == 1 or order.backfill == CONSERVATIVE) and (key < found_key or found < 0):
            found, found_key = k, key
    if found >= 0 and (order.backfill != NONE or found == top):
        return found
    if top >= 0 and o.mask[i, rules.window] == 1 and worth_suspending(s, i, s.queue[i, e.queue_lo + top]):
        return rules.window
    idle = rules.num_actions - 1
    return idle if o.mask[i, idle] == 1 else legal


@step
def worth_suspending(s: State, i: int, row: int) -> bool:
    """Whether suspending the weakest running job lets this one start, which is worth more per unit-tick."""
    least = s.started[i, s.ends[i, weakest(s, i, False)] & JOB_MASK]
    if s.lots[i, least].density >= s.lots[i, row].density:
        return False
    for r in range(len(s.resources)):
        if s.demand[i, row, r] > s.free[i, r] + s.demand[i, least, r]:
            return False
    return True


choose = by_horizon(choose_grid, choose_queue)


@kernel
def _choose_all(kept: Kept, order: Order, envs: NDArray[np.uint64], actions: IntArray) -> None:
    s, o, rules, _ = taken(kept)
    for i in envs:
        actions[i] = choose(s, o, rules, order, i) if s.episodes[i].over == 0 else rules.num_actions - 1
