"""Heuristics that choose action by action, as agents do: at every decision the best legal job in sight.

In tick-driven scenarios a placement says what happens to a job that does not fit now: under `now` others
may start before it, under `horizon` it is planned, under `none` all wait for the best job. Where the scenario
lets an agent suspend, a heuristic suspends the running job of the least value per unit-tick for a better one.

Without one the scenario's action rule says it: under `fit` others start before it, which is greedy
backfilling; under `commit` and `hold` it gets a reservation that they must not delay. `replay` runs these
faster to the end; here they choose actions, to record them or to teach them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Scenario
from rlsched.sim.backfill import CONSERVATIVE, GREEDY, NONE, QueueHeuristic, key_of
from rlsched.sim.compiled import by_mode, direct, kernel, step
from rlsched.sim.kernel_arguments import KernelArguments, unpack
from rlsched.sim.metrics import Played
from rlsched.sim.outcome import Outcome
from rlsched.sim.play import play_all
from rlsched.sim.pools import weakest
from rlsched.sim.priorities import priority, static_keys
from rlsched.sim.rules import NO_LIMIT, Rules
from rlsched.sim.simulator import Playable, VectorSimulator
from rlsched.sim.state import JOB_MASK, State, keys_for

START_NOW, PLAN_AHEAD, BEST_ONLY = "now", "horizon", "none"
"""Placements of heuristics, as they are written in settings and on the command line."""

PLACEMENTS = {
    START_NOW: "the best job that fits now starts",
    PLAN_AHEAD: "the best job is planned at the first tick from which it fits",
    BEST_ONLY: "the best job starts if it fits now, or nobody",
}
"""Placement rules of heuristics in tick-driven scenarios, with a description of each."""

BACKFILL = {START_NOW: GREEDY, PLAN_AHEAD: CONSERVATIVE, BEST_ONLY: NONE}
"""The backfilling that is closest to each: a job that is planned has a reservation."""

BATCH = 64
"""Episodes that are played side by side."""


def placed_by(scenario: Scenario, rule: str) -> Scenario:
    """The scenario with the placement of a heuristic.

    Raises:
        BadInputError: there is no such rule.
    """
    if rule not in PLACEMENTS:
        raise BadInputError(
            "--backfill", f"unknown rule {rule!r} with a horizon", f"use one of {', '.join(PLACEMENTS)}"
        )
    placement = PLAN_AHEAD if rule == PLAN_AHEAD else START_NOW
    decision = scenario.decision.model_copy(update={"placement": placement, "skip_forced": True})
    return scenario.model_copy(update={"decision": decision})


def run_heuristic(
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[Playable],
    policy: str,
    rule: str,
    seeds: Sequence[int],
    progress: Callable[[int], None] = lambda _: None,
) -> list[Played]:
    """Play episodes to their end under a heuristic.

    Args:
        scenario: a tick-driven one; its placement gives way to the rule.
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
    heuristic = SimulatorHeuristic(sim, policy, rule)

    def begin(env: int, number: int) -> None:
        heuristic.begin(env, episodes[number].jobs, seeds[number])

    return play_all(sim, episodes, heuristic.act, begin=begin, progress=progress)


class SimulatorHeuristic:
    """A heuristic that acts in the environments of a simulator.

    Args:
        sim: of a scenario as `placed_by` makes it for the same rule, of an event-driven one, or of one where
            jobs can be planned, for a heuristic that may do so or not.
        policy: a name in `PRIORITIES`.
        rule: a name in `PLACEMENTS`; `now` in event-driven scenarios.

    Raises:
        BadInputError: an unknown heuristic.
    """

    def __init__(self, sim: VectorSimulator, policy: str, rule: str) -> None:
        self._sim = sim
        self._priority = priority(policy)
        keys = np.zeros((sim.num_envs, sim.state.queue.shape[1]))
        self._heuristic = QueueHeuristic(
            keys, self._priority.moving, self._priority.by_submit, False, BACKFILL[rule], NO_LIMIT
        )
        self._envs = np.arange(sim.num_envs, dtype=np.uint64)
        self._actions = np.zeros(sim.num_envs, np.int64)

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Compute the priorities of the jobs of the episode that was loaded into an environment.

        Args:
            env: which environment.
            jobs: the same as were loaded.
            seed: of the random order.
        """
        sim = self._sim
        keys = static_keys(self._priority, jobs, sim.units[env], seed, sim.prices)
        keys_for(sim.state, env, self._heuristic.keys, keys)

    def act(self, envs: NDArray[np.uint64] | None = None) -> IntArray:
        """(env,) the action of every environment, now; the no-op where an episode is over.

        Args:
            envs: only of these, in any order; the earlier actions of the others stay where they are.
        """
        sim = self._sim
        self._choose_all(sim.arguments, self._heuristic, self._envs if envs is None else envs, self._actions)
        return self._actions

    @cached_property
    def _choose_all(self) -> Callable[[KernelArguments, QueueHeuristic, NDArray[np.uint64], IntArray], None]:
        return direct(_choose_all, self._sim.arguments, self._heuristic, self._envs, self._actions)


@step
def choose_queue(s: State, o: Outcome, rules: Rules, heuristic: QueueHeuristic, i: int) -> int:
    """The action of a heuristic in event-driven scenarios: the best legal job of the window, or the no-op."""
    e = s.episodes[i]
    noop = rules.num_actions - 1
    best, best_key = noop, np.inf
    for k in range(min(e.queue_hi - e.queue_lo, rules.window)):
        if o.mask[i, k] == 1:
            row = s.queue[i, e.queue_lo + k]
            key = key_of(s, i, heuristic, row)
            if key < best_key or best == noop:
                best, best_key = k, key
    return best


@step
def choose_grid(s: State, o: Outcome, rules: Rules, heuristic: QueueHeuristic, i: int) -> int:
    """The action of a heuristic in tick-driven scenarios: a job, the suspension, or the no-op."""
    e = s.episodes[i]
    best, best_key = -1, np.inf  # legal, and started or planned by the placement
    legal, legal_key = -1, np.inf  # whether the placement allows it or not
    top, top_key = -1, np.inf  # whether it is legal or not
    for k in range(e.num_ready):
        row = s.queue[i, e.queue_lo + k]
        key = key_of(s, i, heuristic, row)
        if key < top_key or top < 0:
            top, top_key = k, key
        if o.mask[i, k] == 0:
            continue
        if key < legal_key or legal < 0:
            legal, legal_key = k, key
        if (o.fits[i, k] == 1 or heuristic.backfill == CONSERVATIVE) and (key < best_key or best < 0):
            best, best_key = k, key
    if best >= 0 and (heuristic.backfill != NONE or best == top):
        return best
    if top >= 0 and o.mask[i, rules.window] == 1 and worth_suspending(s, i, s.queue[i, e.queue_lo + top]):
        return rules.window
    noop = rules.num_actions - 1
    return noop if o.mask[i, noop] == 1 else legal


@step
def worth_suspending(s: State, i: int, row: int) -> bool:
    """Whether suspending the weakest running job lets this one start, which is worth more per unit-tick."""
    least = s.started[i, s.ends[i, weakest(s, i, False)] & JOB_MASK]
    if s.job_values[i, least].density >= s.job_values[i, row].density:
        return False
    for r in range(len(s.resources)):
        if s.demand[i, row, r] > s.free[i, r] + s.demand[i, least, r]:
            return False
    return True


choose = by_mode(choose_grid, choose_queue)


@kernel
def _choose_all(
    arguments: KernelArguments, heuristic: QueueHeuristic, envs: NDArray[np.uint64], actions: IntArray
) -> None:
    s, o, rules, _ = unpack(arguments)
    for i in envs:
        actions[i] = choose(s, o, rules, heuristic, i) if s.episodes[i].over == 0 else rules.num_actions - 1
