"""Who chooses while a dataset is recorded, and how likely each choice was.

A behaviour is a queue order or a trained policy, with noise if wanted. Whatever it is, it says with which
chance it takes each action, one row per environment; the action is drawn from that, so that the probability
in the dataset is the one that it was drawn with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.policy_names import check_name, is_checkpoint
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.offline.recorded import RECORDED, RecordedChooser
from rlsched.scenario import Scenario
from rlsched.settings import Frozen
from rlsched.sim.orders import OrderPolicy
from rlsched.sim.priorities import PRIORITIES
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.source import TraceSource

RANDOM = "random"


class Behavior(Frozen):
    """Who decides in a share of the episodes."""

    policy: str = Field(
        description="a queue order, the folder of a trained policy, or `recorded`: who decided in the trace"
    )
    rule: Literal["now", "horizon", "none"] | None = Field(
        None,
        description="of a queue order where there is a horizon, as of --backfill: "
        "now, horizon, none; left out: decision.placement",
    )
    share: float = Field(1.0, gt=0, description="of the episodes, against the shares of the others")
    noise: float = Field(
        0.0, ge=0, le=1, description="chance that a decision is drawn from all legal actions alike instead"
    )
    sample: bool = Field(False, description="a trained policy draws from its distribution")
    name: str | None = Field(
        None,
        pattern=r"^[^|\s`]+$",
        description="in the dataset, one word; left out: that of the policy, its rule and its noise",
    )

    @property
    def label(self) -> str:
        """What it is called in the dataset."""
        if self.name is not None:
            return self.name
        name = Path(self.policy).name if is_checkpoint(self.policy) else self.policy
        rule = f":{self.rule}" if self.rule is not None else ""
        return f"{name}{rule}{f'~{self.noise:g}' if self.noise else ''}"


class Chooser(Protocol):
    """A behaviour beside a simulator."""

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Get to know the episode that was loaded into an environment."""

    def chances(self, envs: NDArray[np.uint64]) -> FloatArray:
        """(envs, action) with which chance it takes each action, now; 0 where illegal, 1 in sum."""


class Player(Protocol):
    """A trained policy with what it remembers of the episodes that it plays."""

    def begin(self, env: int) -> None:
        """Another episode begins in an environment."""

    def probabilities(
        self, envs: NDArray[np.uint64], obs: NDArray[np.float32], mask: NDArray[np.int8], *, sample: bool
    ) -> NDArray[np.float64]:
        """(batch, action) chances of some environments, each asked once at each of its decisions."""


class Teacher(Protocol):
    """A trained policy, as behaviours need it."""

    @property
    def scenario(self) -> Scenario:
        """Its decision rules and observations."""

    @property
    def num_resources(self) -> int:
        """Resource types of the cluster it was trained on."""

    @property
    def fingerprint(self) -> str:
        """Another one where it would decide otherwise."""

    @property
    def recurrent(self) -> bool:
        """Whether what it does depends on what it has seen of the episode before."""

    def probabilities(
        self, obs: NDArray[np.float32], mask: NDArray[np.int8], *, sample: bool
    ) -> NDArray[np.float64]:
        """(batch, action) with which chance it takes each action; all or nothing unless it samples.

        Of one that does not remember.
        """

    def actor(self, num_envs: int) -> Player:
        """It at play in so many environments."""


Loader = Callable[[str], Teacher]
"""Loads the trained policy in a folder."""


class OrderChooser:
    """A queue order: it is certain of what it does."""

    def __init__(self, sim: VectorSimulator, policy: str, rule: str | None) -> None:
        self._sim = sim
        self._order = OrderPolicy(sim, policy, rule or sim.scenario.decision.placement)

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Work out the keys of the jobs."""
        self._order.begin(env, jobs, seed)

    def chances(self, envs: NDArray[np.uint64]) -> FloatArray:
        """See `Chooser`."""
        return certain(self._order.act(envs)[envs], self._sim.layout.num_actions)


class RandomChooser:
    """Any legal job alike, or the no-op where there is none.

    The queue order `random` draws an order of the jobs once per episode, so that what it did tells what it
    will do and no single decision has a probability. This one draws at every decision anew.
    """

    def __init__(self, sim: VectorSimulator) -> None:
        self._sim = sim

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """It needs to know nothing."""

    def chances(self, envs: NDArray[np.uint64]) -> FloatArray:
        """See `Chooser`."""
        mask, window = self._sim.mask[envs], self._sim.layout.window
        jobs = mask.copy()
        jobs[:, window:] = 0
        return alike(np.where(jobs.max(axis=1, keepdims=True) > 0, jobs, mask))


class TrainedChooser:
    """A trained policy, greedy or drawing."""

    def __init__(self, sim: VectorSimulator, policy: Teacher, *, sample: bool) -> None:
        self._sim, self._sample = sim, sample
        self._player = policy.actor(sim.num_envs)

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Remember nothing of other episodes."""
        self._player.begin(env)

    def chances(self, envs: NDArray[np.uint64]) -> FloatArray:
        """See `Chooser`."""
        sim = self._sim
        return self._player.probabilities(envs, sim.obs[envs], sim.mask[envs], sample=self._sample)


def certain(actions: IntArray, num_actions: int) -> FloatArray:
    """(rows, action) 1 for the action of each row."""
    chances = np.zeros((len(actions), num_actions))
    chances[np.arange(len(actions)), actions] = 1.0
    return chances


def alike(mask: NDArray[np.int8]) -> FloatArray:
    """(rows, action) the same chance for all that is legal."""
    chances: FloatArray = mask / mask.sum(axis=1, dtype=np.float64)[:, None]
    return chances


def with_noise(chances: FloatArray, mask: NDArray[np.int8], noise: float) -> FloatArray:
    """The chances of who draws from all legal actions alike with a probability of `noise`."""
    return chances if noise == 0 else (1.0 - noise) * chances + noise * alike(mask)


def draw(chances: FloatArray, uniform: FloatArray) -> IntArray:
    """(rows,) an action each, drawn with these chances by a number from [0, 1) each."""
    below = chances.cumsum(axis=1)
    # The first whose sum lies above the number: its own chance is not 0.
    actions: IntArray = (below <= (uniform * below[:, -1])[:, None]).sum(axis=1)
    return actions


def check_behaviors(where: str, behaviors: Sequence[Behavior], feed: EpisodeFeed, load: Loader) -> None:
    """See whether all of them can play the episodes.

    Raises:
        BadInputError: one is unknown, named twice, or sees or does something else, or nobody recorded one.
    """
    labels = [behavior.label for behavior in behaviors]
    for behavior in behaviors:
        if labels.count(behavior.label) > 1:
            raise BadInputError(
                where, f"{behavior.label!r} is given twice", "name each once, or give them names in a recipe"
            )
        if behavior.rule is not None:
            check_rule(where, behavior, feed.scenario)
        if is_checkpoint(behavior.policy):
            check_trained(where, behavior.policy, load(behavior.policy), feed.scenario, len(feed.units))
            continue
        if behavior.policy == RECORDED:
            check_recorded(where, feed)
            continue
        check_name(where, "policy", behavior.policy, PRIORITIES, "or the folder of a trained policy")
        if behavior.sample:
            raise BadInputError(
                where, f"{behavior.policy!r} is a queue order: it has nothing to sample", "leave that out"
            )


def check_rule(where: str, behavior: Behavior, scenario: Scenario) -> None:
    """A rule is that of a queue order with a horizon, and what it does must be legal.

    Raises:
        BadInputError: it is not.
    """
    policy, rule, decision = behavior.policy, behavior.rule, scenario.decision
    if is_checkpoint(policy) or policy in (RANDOM, RECORDED):
        raise BadInputError(where, f"{policy!r} has no rule {rule!r}: it is no queue order", "leave that out")
    if decision.horizon is None:
        raise BadInputError(
            where,
            f"{policy!r} has the rule {rule!r}, but scenario {scenario.name!r} has no horizon",
            "leave it out: decision.action_rule says it",
        )
    if rule == "horizon" and decision.placement != "horizon":
        raise BadInputError(
            where,
            f"{policy!r} is to plan jobs (horizon), but decision.placement is {decision.placement!r}",
            "set decision.placement=horizon, or leave the rule out",
        )


def check_recorded(where: str, feed: EpisodeFeed) -> None:
    """Somebody must have decided.

    Raises:
        BadInputError: the jobs come from a model, or no start is known.
    """
    if not isinstance(feed.source, TraceSource):
        raise BadInputError(
            where,
            f"{RECORDED!r} decided in a trace, but scenario {feed.scenario.name!r} has a model of jobs",
            "name a trace",
        )
    if feed.source.days is not None:
        raise BadInputError(
            where,
            f"{RECORDED!r} decided about the trace as it was, not about days put together anew",
            "set workload.resample=never",
        )
    if feed.scenario.linked:
        raise BadInputError(
            where,
            f"{RECORDED!r} decided about the trace as it was, not about jobs that follow others",
            "set workload.dependencies=ignore",
        )
    first, end = feed.source.training_rows
    if not (feed.source.trace.jobs.start[first:end] >= 0).any():
        raise BadInputError(
            feed.source.name,
            "says of no job for training how long it waited (field 3): nobody knows what its scheduler did",
            "give a trace that does, or let another policy play it",
        )


def check_trained(where: str, name: str, policy: Teacher, scenario: Scenario, num_resources: int) -> None:
    """A policy means by what it sees and does what it was trained with, to the last scale of time."""
    for part in ("observation", "decision"):
        if getattr(policy.scenario, part) != getattr(scenario, part):
            raise BadInputError(
                where,
                f"{name!r} was trained with another {part} than scenario {scenario.name!r} has",
                "take its own scenario, or another policy",
            )
    if policy.num_resources != num_resources:
        raise BadInputError(
            where,
            f"{name!r} was trained on {policy.num_resources} resource types, scenario {scenario.name!r} has "
            f"{num_resources} (cluster.resources)",
            "take a cluster with as many, or another policy",
        )


def make_chooser(behavior: Behavior, sim: VectorSimulator, load: Loader) -> Chooser:
    """A behaviour beside a simulator; `check_behaviors` has seen it."""
    if is_checkpoint(behavior.policy):
        return TrainedChooser(sim, load(behavior.policy), sample=behavior.sample)
    if behavior.policy == RANDOM:
        return RandomChooser(sim)
    if behavior.policy == RECORDED:
        return RecordedChooser(sim)
    return OrderChooser(sim, behavior.policy, behavior.rule)
