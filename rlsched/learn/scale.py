"""How large rewards are: networks and limits of gradients want returns of about 1, whatever is counted.

The error of a critic whose returns are -50 drowns the policy's gradient where both are clipped together, and
the critic itself needs ages to get that far from 0: on deeprm it explained 5 % of the returns' variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlsched.envs.episodes import EpisodeFeed
from rlsched.sim.simulator import VectorSimulator

EPISODES = 16
LEAST_SPREAD = 1e-4  # of what is coming
STREAM = 0x7363616C65  # of the episodes that are played for it


@dataclass(frozen=True)
class Returns:
    """What returns are like before anything is learned.

    Attributes:
        scale: that rewards are to be multiplied by in training.
        mean: return of a decision, so scaled; what a critic had better expect at first.
        coming: mean and spread of each entry of the `coming` block; empty where it is not observed.
    """

    scale: float = 1.0
    mean: float = 0.0
    coming: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())


UNKNOWN = Returns()


def expected_returns(feed: EpisodeFeed, seed: int) -> Returns:
    """Look at the discounted returns of some training episodes, played first come, first served.

    The scale is one over their root mean square. Nothing is known where nothing is rewarded, and where the
    objective has a baseline: the environment has scaled rewards by that already, and first come, first served
    may be many times worse than what is learned.

    Args:
        feed: of training episodes, and what is simulated.
        seed: of the training; the same arguments give the same result.
    """
    objective = feed.scenario.objective
    if objective.baseline:
        return UNKNOWN
    rng = np.random.default_rng([seed, STREAM])
    sim = VectorSimulator(feed.scenario, feed.units, EPISODES, feed.max_jobs)
    for env in range(EPISODES):
        episode = feed.training(rng)
        sim.load(env, episode.jobs, episode.scale, episode.power)
    window = sim.layout.window
    rewards, discounts, playing, coming = [], [], [], []
    seen = sim.layout.block("coming") is not None
    while not (over := sim.terminated | sim.truncated).all():
        first = sim.mask[:, :window].argmax(axis=1)
        waits = sim.mask[:, :window].any(axis=1)
        last = sim.layout.num_actions - 1
        if seen:
            coming.append(sim.layout.view(sim.obs, "coming")[~over])
        sim.step(np.where(waits, first, last))
        playing.append(~over)
        rewards.append(sim.reward.copy())
        discounts.append(objective.gamma ** sim.elapsed.astype(np.float64))
    total, squares, count, following = 0.0, 0.0, 0, np.zeros(EPISODES)
    for reward, discount, counts in zip(
        reversed(rewards), reversed(discounts), reversed(playing), strict=True
    ):
        following = np.where(counts, reward + discount * following, 0.0)
        total += float(following.sum())
        squares += float(following @ following)
        count += int(counts.sum())
    size = (squares / max(count, 1)) ** 0.5
    if not size > 0:
        return UNKNOWN
    if not seen:
        return Returns(1.0 / size, total / count / size)
    shown = np.concatenate(coming)
    mean, spread = shown.mean(0), shown.std(0) + LEAST_SPREAD
    return Returns(1.0 / size, total / count / size, (tuple(mean.tolist()), tuple(spread.tolist())))
