"""How large rewards are: networks and limits of gradients want returns of about 1, whatever is counted.

The error of a critic whose returns are -50 drowns the policy's gradient where both are clipped together, and
the critic itself needs ages to get that far from 0: on deeprm it explained 5 % of the returns' variance.
"""

from __future__ import annotations

import numpy as np

from rlsched.envs.episodes import EpisodeFeed
from rlsched.scenario import Scenario
from rlsched.sim.simulator import VectorSimulator

EPISODES = 16
STREAM = 0x7363616C65  # of the episodes that are played for it


def reward_scale(scenario: Scenario, feed: EpisodeFeed, seed: int) -> float:
    """What rewards are to be multiplied by in training; the same for the same arguments.

    One over the root mean square of the discounted returns from all decisions of some training episodes,
    played first come, first served. 1 where the objective has a baseline, by which the environment has scaled
    rewards already, and where nothing is rewarded at all.

    Args:
        scenario: with the units of every resource known.
        feed: of training episodes.
        seed: of the training.
    """
    if scenario.objective.baseline:
        return 1.0
    rng = np.random.default_rng([seed, STREAM])
    sim = VectorSimulator(scenario, feed.units, EPISODES, feed.max_jobs)
    for env in range(EPISODES):
        episode = feed.training(rng)
        sim.load(env, episode.jobs, episode.scale, episode.power)
    window = sim.layout.window
    rewards, discounts, playing = [], [], []
    while not (over := sim.terminated | sim.truncated).all():
        first = sim.mask[:, :window].argmax(axis=1)
        waits = sim.mask[:, :window].any(axis=1)
        last = sim.layout.num_actions - 1
        sim.step(np.where(waits, first, last))
        playing.append(~over)
        rewards.append(sim.reward.copy())
        discounts.append(scenario.objective.gamma ** sim.elapsed.astype(np.float64))
    squares, count, following = 0.0, 0, np.zeros(EPISODES)
    for reward, discount, counts in zip(
        reversed(rewards), reversed(discounts), reversed(playing), strict=True
    ):
        following = np.where(counts, reward + discount * following, 0.0)
        squares += float(following @ following)
        count += int(counts.sum())
    size = (squares / max(count, 1)) ** 0.5
    return 1.0 / size if size > 0 else 1.0
