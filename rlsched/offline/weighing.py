"""Weighted importance sampling: returns of a dataset, weighted by the likelihood ratio of a policy.

Per decision [Precup et al. 2000; Thomas 2015].
"""

from __future__ import annotations

import numpy as np

from rlsched.jobs import FloatArray, IntArray
from rlsched.offline.episodes import GROUPS, Chunk

GREATEST_LOG = 300.0
"""Largest logarithm of a weight; the square of such a weight is still finite."""

COVERED = 0.95
"""Least share of the dataset's absolute rewards, at decisions with weights above 0, for an estimate."""

LEAST_EARNED = 1e-300
"""Smallest divisor: where the dataset has no rewards, the effective number of episodes is 0."""


class Weighing:
    """Weighted importance sampling per decision, of a policy or of the behavior policies.

    An episode that has ended earns nothing more, and still counts.
    """

    def __init__(self) -> None:
        # By decision and group, sums of: weight x reward, weight, its square; |reward|, 1 (unweighted).
        self._sums = np.zeros((5, 0, GROUPS))
        self._ended = np.zeros((5, 0, GROUPS))  # from here on
        self._ratio: dict[str, float] = {}
        self._never: dict[str, float] = {}

    def add(self, chunk: Chunk, chances: FloatArray, gamma: float) -> None:
        """Add more rows, in order.

        Args:
            chunk: the rows.
            chances: (row,) probability of the recorded action under the policy.
            gamma: discount per tick.
        """
        never = chances <= 0.0
        ratios = np.log(np.where(never, 1.0, chances)) - chunk["action_logp"]
        ratio = chunk.running(ratios, self._ratio)
        impossible = chunk.running(never.astype(float), self._never)
        chunk.carry_on(ratio, self._ratio)
        chunk.carry_on(impossible, self._never)
        weight = np.where(impossible > 0, 0.0, np.exp(np.minimum(ratio, GREATEST_LOG)))
        earned = gamma**chunk.age * chunk["rewards"]
        t = chunk["t"].astype(np.int64)
        self._reserve(int(t.max()) + 2)
        columns = np.stack([weight * earned, weight, weight**2, abs(earned), np.ones(len(chunk))])
        _sum_up(self._sums, t, chunk.group, columns)
        over = chunk.over
        columns[[0, 3]] = 0.0
        _sum_up(self._ended, t[over] + 1, chunk.group[over], columns[:, over])

    def estimates(self, counts: FloatArray) -> FloatArray:
        """(resample,) returns, with each group counted as in (resample, group); NaN without an estimate.

        There is none where all weights become 0 before the dataset's episodes have earned nearly all, see
        `COVERED`.
        """
        totals = self._totals()
        earned, weight, by_dataset, episodes = (totals[k] @ counts.T for k in (0, 1, 3, 4))
        means = np.divide(earned, weight, out=np.zeros_like(earned), where=weight > 0)
        usual = np.divide(by_dataset, episodes, out=np.zeros_like(earned), where=episodes > 0)
        covered = np.where(weight > 0, usual, 0.0).sum(0) >= COVERED * usual.sum(0)
        result: FloatArray = np.where(covered, means.sum(0), np.nan)
        return result

    @property
    def effective(self) -> float:
        """Effective sample size in episodes, averaged over decisions by the dataset's absolute rewards."""
        weight, square, earned = self._totals()[1:4].sum(axis=2)
        resting = np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)
        return float((resting * earned).sum() / max(float(earned.sum()), LEAST_EARNED))

    def _totals(self) -> FloatArray:
        totals: FloatArray = self._sums + self._ended.cumsum(axis=1)
        return totals

    def _reserve(self, steps: int) -> None:
        reserved = self._sums.shape[1]
        if steps > reserved:
            more = np.zeros((5, max(steps, 2 * reserved) - reserved, GROUPS))
            self._sums, self._ended = (np.concatenate([old, more], 1) for old in (self._sums, self._ended))


def _sum_up(sums: FloatArray, t: IntArray, group: IntArray, columns: FloatArray) -> None:
    """Add columns (column, row) to sums (column, decision, group)."""
    at = t * GROUPS + group
    for total, values in zip(sums, columns, strict=True):
        total += np.bincount(at, values, minlength=total.size).reshape(total.shape)
