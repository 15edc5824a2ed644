"""Warm start: behavioural cloning of a teacher before reinforcement learning.

The teacher is a priority rule or a trained policy. It plays training episodes, and the network is fitted to
its choices by cross-entropy over the legal actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.learn.config.sections import WarmStart
from rlsched.learn.policy import load_policy
from rlsched.scenario import Scenario
from rlsched.sim.heuristics import SimulatorHeuristic
from rlsched.sim.priorities import PRIORITIES
from rlsched.sim.simulator import VectorSimulator

ENVS = 64
MINIBATCH = 512

ActionFunction = Callable[[VectorSimulator, IntArray], IntArray]
"""(simulator, indices of environments) -> their actions."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """Recorded decisions of a teacher."""

    obs: NDArray[np.float32]  # (decision, size) public observation vectors
    mask: NDArray[np.int8]  # (decision, action) 1 where legal
    action: IntArray  # (decision,)


def demonstrate(feed: EpisodeFeed, warm: WarmStart, rng: np.random.Generator) -> Demonstration:
    """Let the teacher play training episodes, and record every decision with more than one legal action.

    Raises:
        BadInputError: the teacher is unknown, or cannot play this scenario.
    """
    sim = VectorSimulator(feed.scenario.public, feed.units, ENVS, feed.max_jobs)
    choose, begin = _teacher(sim.scenario, warm, sim)
    for env in range(ENVS):
        _load(sim, feed, rng, env, begin)
    obs, mask, actions = [], [], []
    count = 0
    everyone = np.arange(ENVS)
    while count < warm.decisions:
        chosen = choose(sim, everyone)
        free = sim.mask.sum(axis=1) > 1
        obs.append(sim.obs[free].copy())
        mask.append(sim.mask[free].copy())
        actions.append(chosen[free].copy())
        count += int(free.sum())
        sim.step(chosen)
        for env in np.flatnonzero(sim.terminated | sim.truncated).tolist():
            _load(sim, feed, rng, env, begin)
    return Demonstration(np.concatenate(obs), np.concatenate(mask), np.concatenate(actions))


def check_teacher(feed: EpisodeFeed, warm: WarmStart) -> None:
    """Check that the teacher can play.

    Raises:
        BadInputError: it is unknown, or cannot play this scenario.
    """
    sim = VectorSimulator(feed.scenario.public, feed.units, 1, feed.max_jobs)
    _teacher(sim.scenario, warm, sim)


def _load(
    sim: VectorSimulator,
    feed: EpisodeFeed,
    rng: np.random.Generator,
    env: int,
    begin: Callable[[int, JobTable, int], None],
) -> None:
    episode = feed.training(rng)
    sim.load(env, episode.jobs, episode.scale, episode.power)
    begin(env, episode.jobs, int(rng.integers(2**31)))


def _teacher(
    scenario: Scenario, warm: WarmStart, sim: VectorSimulator
) -> tuple[ActionFunction, Callable[[int, JobTable, int], None]]:
    """Functions that choose the teacher's actions, and that begin a new episode for it."""
    name = warm.teacher
    assert name is not None
    if name in PRIORITIES:
        heuristic = SimulatorHeuristic(sim, name, scenario.decision.placement)
        return (lambda sim, envs: heuristic.act()), heuristic.begin
    policy = load_policy(Path(name))
    if policy.layout != sim.layout:
        raise BadInputError(
            "warm_start.teacher", f"{name} sees or does something else", "train it on the same scenario"
        )
    actor = policy.actor(sim.num_envs)
    return (
        lambda sim, envs: actor.act(envs, sim.obs[envs], sim.mask[envs]),
        lambda env, jobs, seed: actor.begin(env),
    )


def imitate(net: nn.Module, demonstration: Demonstration, warm: WarmStart, seed: int) -> float:
    """Fit a policy network, (vector, mask) -> masked logits, to a demonstration.

    Returns:
        Share of the last epoch's decisions in which the network chose the teacher's action.
    """
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(net.parameters(), warm.learning_rate)
    obs, mask = torch.from_numpy(demonstration.obs), torch.from_numpy(demonstration.mask)
    action = torch.from_numpy(demonstration.action)
    agreed = 0
    for _ in range(warm.epochs):
        agreed = 0
        for rows in torch.split(torch.randperm(len(action), generator=generator), MINIBATCH):
            logits = net(obs[rows], mask[rows].float())
            loss = nn.functional.cross_entropy(logits, action[rows])
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            agreed += int((logits.argmax(dim=1) == action[rows]).sum())
    return agreed / len(action)
