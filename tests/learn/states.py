"""States that policies are tried on: met at random, and made up."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlsched.envs.episodes import EpisodeFeed
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator


def met(scenario: Scenario, *, envs: int = 8, steps: int = 40, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Vectors (state, size) and masks (state, actions) along random legal play."""
    feed, rng = EpisodeFeed(scenario), np.random.default_rng(seed)
    sim = VectorSimulator(scenario, feed.units, envs, feed.max_jobs)
    for env in range(envs):
        episode = feed.training(rng)
        sim.load(env, episode.jobs, power=episode.power)
    vectors, masks = [], []
    for _ in range(steps):
        on = ~(sim.terminated | sim.truncated)
        vectors.append(sim.obs[on].copy())
        masks.append(sim.mask[on].copy())
        sim.step((rng.random(sim.mask.shape) * sim.mask).argmax(axis=1))
    return torch.from_numpy(np.concatenate(vectors)), torch.from_numpy(np.concatenate(masks)).float()


def made_up(layout: Layout, states: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Any vectors in [0, 1], any masks with at least one legal action."""
    rng = np.random.default_rng(seed)
    vectors = rng.random((states, layout.size), np.float32)
    masks = rng.random((states, layout.num_actions)) < rng.random((states, 1))
    masks[np.arange(states), rng.integers(layout.num_actions, size=states)] = True
    return torch.from_numpy(vectors), torch.from_numpy(masks).float()
