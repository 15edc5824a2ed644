"""Features of a decision, for estimators that are linear in them.

They are the state around the jobs, the mean and the extremes of the waiting jobs, and the chosen job or other
action, each normalised. Random functions of all of these together [Rahimi and Recht 2007] let the value of an
action depend on the state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.layout import Layout

Observed = NDArray[np.float32]
LEAST_SPREAD = 1e-6
FARTHEST = 10.0
"""Standard deviations that a feature may be off its mean; a policy may choose what the dataset lacks."""

PARTS = np.array(
    [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12]
)
"""Ages at which the next part of an episode begins, in discount time constants: -1 / ln(gamma) ticks."""

LONGEST = 1e15
"""Ticks; where nothing is discounted, an episode has one part."""

LEAST_WEIGHT = 0.05
"""Least weight of a row: late decisions still inform the fit, though their discounted rewards are near 0."""

WIDTH = 512
"""Features of a decision in all: `PLAIN_WIDTH`, and the part of the episode that it is in."""

PLAIN_WIDTH = WIDTH - len(PARTS)
"""Features of the observation and the action."""

MIXED = 5
"""Features that each random function combines."""

LEAST_RANDOM = 128
"""Random functions at least; where plain features leave less room, all are random functions of them."""


class Features:
    """Features of decisions, normalised by a sample.

    Args:
        layout: of the observations.
        obs: (row, size) the sample.
        actions: (row,) actions recorded there.
        seed: of the random functions.
    """

    def __init__(self, layout: Layout, obs: Observed, actions: IntArray, seed: int) -> None:
        self._jobs = layout.block("jobs")
        self._window = layout.window
        self._context = np.ones(layout.size, dtype=bool)
        if self._jobs is not None:
            self._context[self._jobs.offset : self._jobs.offset + self._jobs.size] = False
        self._num_other_actions = layout.num_actions - (layout.window if self._jobs is not None else 0)
        plain = self._plain(obs, actions)
        self._mean = plain.mean(axis=0)
        self._spread = np.maximum(plain.std(axis=0), LEAST_SPREAD)
        known = plain.shape[1]
        self._direct = known if known <= PLAIN_WIDTH - LEAST_RANDOM else 0
        random = PLAIN_WIDTH - self._direct
        rng = np.random.default_rng([seed, known])
        # Each combines a few features: nearly all functions of all of them would be almost linear.
        looks = rng.random((known, random)).argsort(axis=0) < MIXED
        self._weights = (rng.normal(size=(known, random)) * looks / MIXED**0.5).astype(np.float32)
        self._bias = rng.uniform(-1, 1, size=random).astype(np.float32)

    def __call__(self, obs: Observed, actions: IntArray) -> NDArray[np.float32]:
        """(row, seen) of decisions (row, size), (row,)."""
        plain = (self._plain(obs, actions) - self._mean) / self._spread
        plain = np.clip(plain, -FARTHEST, FARTHEST)
        random = np.maximum(plain @ self._weights + self._bias, 0.0)
        return np.concatenate([plain[:, : self._direct], random], axis=1)

    def _plain(self, obs: Observed, actions: IntArray) -> NDArray[np.float32]:
        """Without the random functions, not normalised."""
        rows = np.arange(len(obs))
        if self._jobs is None:
            return np.concatenate([obs[:, self._context], self._one_hot(actions)], axis=1)
        at = self._jobs.offset
        jobs = obs[:, at : at + self._jobs.size].reshape(len(obs), *self._jobs.shape)
        present = jobs[..., :1] > 0.5
        mean = jobs.sum(axis=1) / np.maximum(present.sum(axis=1), 1)
        least, most = (
            np.where(present.any(axis=1), extreme(np.where(present, jobs, limit), axis=1), 0.0)
            for extreme, limit in ((np.min, np.inf), (np.max, -np.inf))
        )
        is_job = actions < self._window
        chosen = jobs[rows, np.where(is_job, actions, 0)] * is_job[:, None]
        other_actions = self._one_hot(actions - self._window)
        context = obs[:, self._context]
        return np.concatenate([context, mean, least, most, chosen, other_actions], axis=1, dtype=np.float32)

    def _one_hot(self, actions: IntArray) -> NDArray[np.float32]:
        """(row, others) 1 for the action that is no job."""
        chosen: NDArray[np.bool_] = actions[:, None] == np.arange(self._num_other_actions)
        return chosen.astype(np.float32)


class Parts:
    """Parts of an episode, each with an intercept of its own in the fit.

    An episode begins with an empty cluster, and no later state is like that. A function fitted to the later
    states would be off just there, where it is evaluated.

    Args:
        gamma: discount per tick.
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.edges = PARTS * (-1.0 / np.log(gamma) if gamma < 1 else LONGEST)

    def __call__(self, features: NDArray[np.float32], ages: IntArray) -> NDArray[np.float32]:
        """(row, width) features of decisions (row, seen), with their part by their age (row,) in ticks."""
        parts = (self._of(ages)[:, None] == np.arange(len(PARTS))).astype(np.float32)
        return np.concatenate([features, parts], axis=1)

    def weights(self, ages: IntArray) -> NDArray[np.float32]:
        """(row,) that rows count by: as what they earn does, inside of each part.

        Then what a policy that was recorded is expected to earn is what it did earn.
        """
        discount = self.gamma ** (ages - self.edges[self._of(ages)])
        return np.maximum(discount, LEAST_WEIGHT).astype(np.float32)

    def _of(self, ages: IntArray) -> IntArray:
        return np.searchsorted(self.edges, ages, side="right") - 1
