"""Behavior policies of a dataset, and the probabilities of their actions.

A behavior policy is a priority rule, a learned policy, uniform random, or the recorded schedule of a trace,
with optional noise. It gives the probability of each action; the action is drawn from these probabilities,
and the dataset holds the probability of the drawn action.
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
from rlsched.evaluate.policy import LearnedPolicy
from rlsched.evaluate.policy_names import check_name, is_checkpoint
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.offline.recorded import RECORDED, RecordedActor
from rlsched.scenario import Scenario
from rlsched.settings import Frozen
from rlsched.sim.heuristics import SimulatorHeuristic
from rlsched.sim.priorities import PRIORITIES
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.source import TraceSource

RANDOM = "random"


class Behavior(Frozen):
    """A behavior policy and its share of the episodes."""

    policy: str = Field(
        description="a priority rule, the folder of a trained policy, `random`, or `recorded`: the "
        "schedule of the trace"
    )
    rule: Literal["now", "horizon", "none"] | None = Field(
        None,
        description="placement of a priority rule with a horizon, as in --backfill: now, horizon, none; "
        "default: decision.placement",
    )
    share: float = Field(1.0, gt=0, description="of the episodes, relative to the other shares")
    noise: float = Field(0.0, ge=0, le=1, description="probability of a uniformly random legal action")
    sample: bool = Field(False, description="sample the actions of a trained policy")
    name: str | None = Field(
        None,
        pattern=r"^[^|\s`]+$",
        description="in the dataset, one word; default: made of policy, rule and noise",
    )

    @property
    def label(self) -> str:
        """Its name in the dataset."""
        if self.name is not None:
            return self.name
        name = Path(self.policy).name if is_checkpoint(self.policy) else self.policy
        rule = f":{self.rule}" if self.rule is not None else ""
        return f"{name}{rule}{f'~{self.noise:g}' if self.noise else ''}"


class BehaviorActor(Protocol):
    """A behavior policy at work in the environments of a simulator."""

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Prepare for the episode that was loaded into an environment."""

    def probabilities(self, envs: NDArray[np.uint64]) -> FloatArray:
        """(envs, action) probability of each action at the present decision; 0 where illegal."""


Loader = Callable[[str], LearnedPolicy]
"""Loads the learned policy in a folder."""


class HeuristicActor:
    """A priority rule; its actions are deterministic."""

    def __init__(self, sim: VectorSimulator, policy: str, rule: str | None) -> None:
        self._sim = sim
        self._order = SimulatorHeuristic(sim, policy, rule or sim.scenario.decision.placement)

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Compute the priorities of the jobs."""
        self._order.begin(env, jobs, seed)

    def probabilities(self, envs: NDArray[np.uint64]) -> FloatArray:
        """See `BehaviorActor`."""
        return one_hot(self._order.act(envs)[envs], self._sim.layout.num_actions)


class RandomActor:
    """Draws a legal job uniformly at every decision, or the no-op where no job is legal.

    The priority rule `random` draws an order of the jobs once per episode, so that its decisions are not
    independent and have no probability each.
    """

    def __init__(self, sim: VectorSimulator) -> None:
        self._sim = sim

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Nothing to prepare."""

    def probabilities(self, envs: NDArray[np.uint64]) -> FloatArray:
        """See `BehaviorActor`."""
        mask, window = self._sim.mask[envs], self._sim.layout.window
        jobs = mask.copy()
        jobs[:, window:] = 0
        return uniform_over_legal(np.where(jobs.max(axis=1, keepdims=True) > 0, jobs, mask))


class LearnedActor:
    """A learned policy, greedy or sampling."""

    def __init__(self, sim: VectorSimulator, policy: LearnedPolicy, *, sample: bool) -> None:
        self._sim, self._sample = sim, sample
        self._actor = policy.actor(sim.num_envs)

    def begin(self, env: int, jobs: JobTable, seed: int) -> None:
        """Forget the last episode of the environment."""
        self._actor.begin(env)

    def probabilities(self, envs: NDArray[np.uint64]) -> FloatArray:
        """See `BehaviorActor`."""
        sim = self._sim
        rows = envs.astype(np.int64)
        return self._actor.probabilities(rows, sim.obs[envs], sim.mask[envs], sample=self._sample)


def one_hot(actions: IntArray, num_actions: int) -> FloatArray:
    """(rows, action) 1 at the action of each row."""
    probabilities = np.zeros((len(actions), num_actions))
    probabilities[np.arange(len(actions)), actions] = 1.0
    return probabilities


def uniform_over_legal(mask: NDArray[np.int8]) -> FloatArray:
    """(rows, action) equal probability for all legal actions."""
    probabilities: FloatArray = mask / mask.sum(axis=1, dtype=np.float64)[:, None]
    return probabilities


def with_noise(probabilities: FloatArray, mask: NDArray[np.int8], noise: float) -> FloatArray:
    """Mix probabilities with the uniform distribution over legal actions, which has the weight `noise`."""
    return probabilities if noise == 0 else (1.0 - noise) * probabilities + noise * uniform_over_legal(mask)


def sample_actions(probabilities: FloatArray, uniform: FloatArray) -> IntArray:
    """(rows,) actions drawn with these probabilities, by one uniform number from [0, 1) per row."""
    below = probabilities.cumsum(axis=1)
    # The first action whose cumulative probability exceeds the number: its own probability is not 0.
    actions: IntArray = (below <= (uniform * below[:, -1])[:, None]).sum(axis=1)
    return actions


def check_behaviors(where: str, behaviors: Sequence[Behavior], feed: EpisodeFeed, load: Loader) -> None:
    """Refuse behavior policies that cannot run the episodes.

    Raises:
        BadInputError: one is unknown, listed twice, or has other observations or actions.
    """
    labels = [behavior.label for behavior in behaviors]
    for behavior in behaviors:
        if labels.count(behavior.label) > 1:
            problem = f"{behavior.label!r} is given twice"
            raise BadInputError(where, problem, "name each once, or give them names in a recipe")
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
            problem = f"{behavior.policy!r} is a priority rule: there is nothing to sample"
            raise BadInputError(where, problem, "leave that out")


def check_rule(where: str, behavior: Behavior, scenario: Scenario) -> None:
    """Refuse a placement rule without a priority rule or a horizon, or one that the scenario forbids.

    Raises:
        BadInputError: it is not.
    """
    policy, rule, decision = behavior.policy, behavior.rule, scenario.decision
    if is_checkpoint(policy) or policy in (RANDOM, RECORDED):
        problem = f"{policy!r} has no rule {rule!r}: it is not a priority rule"
        raise BadInputError(where, problem, "leave that out")
    if not decision.tick_driven:
        problem = f"{policy!r} has the rule {rule!r}, but scenario {scenario.name!r} has no horizon"
        raise BadInputError(where, problem, "remove it: decision.action_rule decides")
    if rule == "horizon" and decision.placement != "horizon":
        problem = f"{policy!r} is to plan jobs (horizon), but decision.placement is {decision.placement!r}"
        raise BadInputError(where, problem, "set decision.placement=horizon, or leave the rule out")


def check_recorded(where: str, feed: EpisodeFeed) -> None:
    """Refuse `recorded` where the trace has no starts of its jobs.

    Raises:
        BadInputError: the jobs come from a model, or no start is known.
    """
    if not isinstance(feed.source, TraceSource):
        problem = f"{RECORDED!r} decided in a trace, but scenario {feed.scenario.name!r} has a model of jobs"
        raise BadInputError(where, problem, "name a trace")
    for changed, jobs, remedy in (
        (feed.source.days is not None, "days put together anew", "set workload.resample=never"),
        (feed.scenario.linked, "jobs that follow others", "set workload.dependencies=ignore"),
    ):
        if changed:
            problem = f"{RECORDED!r} decided about the trace as it was, not about {jobs}"
            raise BadInputError(where, problem, remedy)
    first, end = feed.source.training_rows
    if not (feed.source.trace.jobs.start[first:end] >= 0).any():
        raise BadInputError(
            feed.source.name,
            "says of no job for training how long it waited (field 3): nobody knows what its scheduler did",
            "give a trace that does, or let another policy play it",
        )


def check_trained(
    where: str, name: str, policy: LearnedPolicy, scenario: Scenario, num_resources: int
) -> None:
    """Refuse a learned policy that was trained with other observations, decision rules or resources."""
    for part in ("observation", "decision"):
        if getattr(policy.scenario, part) != getattr(scenario, part):
            problem = f"{name!r} was trained with another {part} than scenario {scenario.name!r} has"
            raise BadInputError(where, problem, "take its own scenario, or another policy")
    if policy.num_resources != num_resources:
        problem = (
            f"{name!r} was trained on {policy.num_resources} resource types, scenario {scenario.name!r} has "
            f"{num_resources} (cluster.resources)"
        )
        raise BadInputError(where, problem, "take a cluster with as many, or another policy")


def make_actor(behavior: Behavior, sim: VectorSimulator, load: Loader) -> BehaviorActor:
    """The actor of a behavior policy that passed `check_behaviors`."""
    if is_checkpoint(behavior.policy):
        return LearnedActor(sim, load(behavior.policy), sample=behavior.sample)
    if behavior.policy == RANDOM:
        return RandomActor(sim)
    if behavior.policy == RECORDED:
        return RecordedActor(sim)
    return HeuristicActor(sim, behavior.policy, behavior.rule)
