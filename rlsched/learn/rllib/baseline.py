"""Replicas baseline: the advantages of other replicas on the same jobs at the same simulated time.

Most of the noise in a return comes from the jobs that arrive, not from what the policy does. Replicas play
the same episode side by side from the same state, so they share that noise, and subtracting their mean
advantage at a simulated time removes it. The mean is over the other replicas only. It does not depend on the
replica's own action, so the gradient stays unbiased [Mao et al. 2019, input-dependent baselines].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.compiled import allocating

FloatArray = NDArray[np.float32]

OUTLIER = 4.0
"""Standard deviations at which advantages are clipped for the estimate of their correlation."""

FARTHEST = 5.0
"""Standard deviations at which advantages are clipped for the update."""

LEAST_SPREAD = 1e-3
"""Share of the batch's standard deviation that is added to that of an episode."""


def without_shared_noise(
    advantages: FloatArray, shared: IntArray | None, clock: FloatArray, ends: IntArray
) -> tuple[FloatArray, float]:
    """Standardise advantages; with replicas, subtract the replicas baseline.

    Advantages are standardised by episode before the baseline, too: an outlier of one replica would otherwise
    be the baseline of the others. The arguments are those of `replica_baseline`; without replicas `shared` is
    None.

    Returns:
        Advantages (row,), and the share of their variance that the baseline leaves.
    """
    if shared is None:
        return standardised(advantages), 1.0
    scaled = standardised_by_episode(advantages, shared)
    residual = scaled - replica_baseline(scaled, shared, clock, ends)
    variance = float(residual.var() / (scaled.var() + 1e-12))
    return standardised_by_episode(residual, shared), variance


def replica_baseline(
    advantages: FloatArray, shared: IntArray, clock: FloatArray, ends: IntArray
) -> FloatArray:
    """Baseline of each advantage: its best linear prediction from other replicas of the episode.

    The mean of n others is shrunk by n r / (1 + (n - 1) r), where r is the correlation between replicas in
    the batch. Without correlation it is 0.

    Args:
        advantages: (row,) one piece of an episode after the other, by time within each.
        shared: (row,) the same number where replicas play the same episode.
        clock: (row,) simulated time of the decision, in ticks.
        ends: (piece,) last row of each.

    Returns:
        (row,) baselines; 0 where no other replica plays.
    """
    starts = np.concatenate([[0], ends + 1])
    order = np.argsort(shared[ends], kind="stable")
    total, count = _of_others(advantages, shared, clock, starts, order)
    paired = count > 0
    if not paired.any():
        return np.zeros_like(advantages)
    mean = total / np.maximum(count, 1)
    limit = OUTLIER * float(advantages.std())
    clipped, clipped_means = (np.clip(values[paired], -limit, limit) for values in (advantages, mean))
    correlation = float(
        np.clip((clipped * clipped_means).mean() / ((clipped * clipped).mean() + 1e-12), 0.0, 0.99)
    )
    shrunk = count * correlation / (1.0 + np.maximum(count - 1, 0) * correlation) * mean
    return np.asarray(shrunk, np.float32)


def standardised_by_episode(advantages: FloatArray, shared: IntArray) -> FloatArray:
    """Advantages with a spread of 1 in every episode and, on the whole, a mean of 0 and a spread of 1.

    A few episodes have a hundred times the slowdown of others, and would dominate the update. So would a few
    decisions, which are clipped (`FARTHEST`).

    Args:
        advantages: (row,)
        shared: (row,) the same number in all replicas of an episode.
    """
    _, episode = np.unique(shared, return_inverse=True)
    rows = np.bincount(episode)
    means = np.bincount(episode, advantages) / rows
    spread = np.sqrt(np.bincount(episode, (advantages - means[episode]) ** 2) / rows)
    least = LEAST_SPREAD * float(advantages.std()) + 1e-8
    even = standardised((advantages / (spread + least)[episode]).astype(np.float32))
    return np.clip(even, -FARTHEST, FARTHEST)


def standardised(values: FloatArray) -> FloatArray:
    """Scale values to a mean of 0 and a standard deviation of 1."""
    scaled: FloatArray = (values - values.mean()) / (values.std() + 1e-8)
    return scaled


@allocating
def _of_others(
    advantages: FloatArray, shared: IntArray, clock: FloatArray, starts: IntArray, order: IntArray
) -> tuple[NDArray[np.float64], IntArray]:
    """Sums and counts (row,) over other replicas of the advantage at their last decision by that time."""
    total, count = np.zeros(len(advantages)), np.zeros(len(advantages), np.int64)
    for a in range(len(order)):
        first, end = starts[order[a]], starts[order[a] + 1]
        for step in (-1, 1):
            b = a + step
            while 0 <= b < len(order) and shared[starts[order[b]]] == shared[first]:
                row, last = starts[order[b]], starts[order[b] + 1]
                if clock[row] <= clock[end - 1]:
                    for k in range(first, end):
                        while row + 1 < last and clock[row + 1] <= clock[k]:
                            row += 1
                        if clock[row] <= clock[k]:
                            total[k] += advantages[row]
                            count[k] += 1
                b += step
    return total, count
