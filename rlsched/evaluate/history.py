"""One episode of one policy, tick by tick: where the jobs were, what was on, where the power came from.

The episode is played as `play` and `run_heuristic` play it, but every tick is shown: the clock moves by
single ticks, and where one action is legal it is taken, so the policy acts in the same states as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rlsched.envs.cluster_view import PLACES, battery_kwh, places, units_now
from rlsched.evaluate.policies import HeuristicPolicy, LearnedPolicies
from rlsched.evaluate.policy import Policy
from rlsched.jobs import FloatArray, IntArray
from rlsched.scenario import Scenario
from rlsched.scenario.terms import FINISHED_VALUE
from rlsched.sim.energy import ACCOUNTS
from rlsched.sim.heuristics import SimulatorHeuristic, placed_by
from rlsched.sim.metrics import Played
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode

Look = Callable[[VectorSimulator], None]
"""Is shown the simulator, in its first environment the episode, when the decisions of a tick are made."""


@dataclass(frozen=True, eq=False)
class History:
    """Record of an episode, tick by tick.

    Moments are the ticks, once their decisions are made, and the end of the last tick.
    """

    name: str  # of the policy, as it is shown
    tick_s: int  # seconds per tick
    units: IntArray  # (resource,)
    resources: tuple[str, ...]  # (resource,) names
    capacity_kwh: float  # of the battery, 0 without one
    full_kw: float  # draw of the cluster under load, 0 where the scenario has no power
    places: IntArray  # (moment, place) jobs, in the order of `PLACES`
    used: IntArray  # (moment, resource) units that run jobs
    on: IntArray  # (moment, resource) units on
    accounts: FloatArray  # (moment, account) energies so far, in the order of `energy.ACCOUNTS`
    battery_kwh: FloatArray  # (moment,) level
    value: FloatArray  # (moment,) of the jobs finished so far
    played: Played  # as far as the episode was played

    @property
    def ticks(self) -> int:
        """Length, in ticks."""
        return len(self.value) - 1

    @property
    def powered(self) -> bool:
        """Whether the scenario has power."""
        return self.full_kw > 0

    def place(self, name: str) -> IntArray:
        """(moment,) jobs at a place."""
        return self.places[:, PLACES.index(name)]

    def power_kw(self, name: str) -> FloatArray:
        """(tick,) mean power of an account of energy, such as `brown_kwh`."""
        return np.diff(self.accounts[:, ACCOUNTS.index(name)]) * (3600.0 / self.tick_s)

    @property
    def direct_kw(self) -> FloatArray:
        """(tick,) renewable power that was drawn at once: what neither battery nor grid gave."""
        direct = self.power_kw("energy_kwh") - self.power_kw("battery_kwh") - self.power_kw("brown_kwh")
        return np.maximum(0.0, direct)  # differences of sums leave rounding


def record(
    policy: Policy,
    episode: Episode,
    units: Sequence[int],
    *,
    ticks: int | None = None,
    look: Look | None = None,
) -> History:
    """Play an episode and write down every tick.

    A policy that draws its actions draws them anew here, so its episode is another sample.

    Args:
        policy: a heuristic in a scenario with a horizon, or a policy that was trained in one.
        episode: to play.
        units: (resource,) units of the cluster.
        ticks: most ticks to play; None: to the end.
        look: called at every tick, after its decisions.

    Raises:
        BadInputError: jobs that the cluster cannot run.
        ValueError: a policy without a horizon; it knows no ticks.
    """
    scenario = _rules_of(policy)
    if scenario is None:
        raise ValueError(f"{policy.name} plays without a horizon: there are no ticks to write down")
    sim = VectorSimulator(_every_tick(scenario), units, 1, len(episode.jobs), every_term=True)
    decision = scenario.decision
    sim.load(0, episode.jobs, power=episode.power)
    choose = _chooser(policy, episode, sim)
    log = _Log(sim)
    idle = sim.layout.num_actions - 1
    while not (sim.terminated[0] or sim.truncated[0] or len(log.value) == ticks):
        legal = np.flatnonzero(sim.mask[0])
        # Asked at the same decisions as elsewhere: a recurrent policy would decide otherwise.
        passed = decision.skip_forced or (decision.time_rule != "tick" and legal[0] == idle)
        action = int(legal[0]) if len(legal) == 1 and passed else choose()
        if action == idle:
            log.add()
            if look is not None:
                look(sim)
        sim.step(np.array([action]))
    log.add()
    return log.history(f"{policy.name} + {policy.backfill}", sim.played(0, episode.jobs))


def knows_ticks(policy: Policy) -> bool:
    """Whether a policy plays with a horizon, so that there are ticks to write down."""
    return _rules_of(policy) is not None


def _rules_of(policy: Policy) -> Scenario | None:
    """The scenario under which a policy plays, where that has a horizon."""
    if isinstance(policy, LearnedPolicies) and policy.scenario.decision.tick_driven:
        return policy.scenario
    if isinstance(policy, HeuristicPolicy) and policy.planned is not None:
        return placed_by(policy.planned, policy.backfill)
    return None


def _every_tick(scenario: Scenario) -> Scenario:
    """The scenario with a decision at every tick. Jobs run as before: the caller takes forced actions."""
    decision = scenario.decision.model_copy(update={"time_rule": "tick", "skip_forced": False})
    return scenario.model_copy(update={"decision": decision})


def _chooser(policy: Policy, episode: Episode, sim: VectorSimulator) -> Callable[[], int]:
    """Return the function that chooses actions in the only environment of a simulator."""
    if isinstance(policy, LearnedPolicies):
        actor, only = policy.first.actor(1), np.zeros(1, np.int64)
        return lambda: int(actor.act(only, sim.obs.copy(), sim.mask.copy())[0])
    heuristic = SimulatorHeuristic(sim, policy.name, policy.backfill)
    heuristic.begin(0, episode.jobs, episode.seed)
    return lambda: int(heuristic.act()[0])


class _Log:
    """Takes down moments of the first environment of a simulator."""

    def __init__(self, sim: VectorSimulator) -> None:
        self.sim = sim
        self.places: list[list[int]] = []
        self.used: list[IntArray] = []
        self.on: list[IntArray] = []
        self.accounts: list[FloatArray] = []
        self.battery_kwh: list[float] = []
        self.value: list[float] = []

    def add(self) -> None:
        """Take down the present moment."""
        sim = self.sim
        used, on = units_now(sim, 0)
        self.places.append(list(places(sim, 0).values()))
        self.used.append(used)
        self.on.append(on)
        self.accounts.append(sim.outcome.accounts[0].copy())
        self.battery_kwh.append(battery_kwh(sim, 0))
        self.value.append(float(sim.outcome.totals[0, FINISHED_VALUE]))

    def history(self, name: str, played: Played) -> History:
        """All moments that were taken down."""
        sim = self.sim
        plant, cluster = sim.rules.plant, sim.scenario.cluster
        return History(
            name=name,
            tick_s=cluster.tick_s,
            units=sim.units[0].copy(),
            resources=tuple(resource.name for resource in cluster.resources),
            capacity_kwh=plant.capacity_wh / 1000.0,
            full_kw=plant.full_w / 1000.0 if plant.powered else 0.0,
            places=np.array(self.places),
            used=np.array(self.used),
            on=np.array(self.on),
            accounts=np.array(self.accounts),
            battery_kwh=np.array(self.battery_kwh),
            value=np.array(self.value),
            played=played,
        )
