"""What a decision is like, in numbers that a linear function can be fitted to.

The state around the jobs, the mean and the extremes of the jobs that wait, the job that was chosen and which
other action was, each normalised; and random functions of all of these together [Rahimi and Recht 2007], so
that what an action is worth may depend on the state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.layout import Layout

Observed = NDArray[np.float32]
LEAST_SPREAD = 1e-6
FARTHEST = 10.0
"""Standard deviations that a number may be off what is usual; a policy may do what nobody recorded."""

PARTS = np.array(
    [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12]
)
"""Ages at which the next part of an episode begins, in times after which 1 / e is left of what is earned."""

LONGEST = 1e15
"""Ticks; where nothing is discounted, an episode has one part."""

LEAST_WEIGHT = 0.05
"""Of decisions so late that nothing is left of what they earn; what they teach is true all the same."""

WIDTH = 512
"""Numbers of a decision, in all: `SEEN`, and which part of the episode it is in."""

PLAIN_WIDTH = WIDTH - len(PARTS)
"""Of what is seen and done."""

MIXED = 5
"""Numbers that a random function is of."""

LEAST_RANDOM = 128
"""Of them; where what is observed leaves less room, all are random functions of it."""


class Features:
    """Numbers of decisions.

    Args:
        layout: of the observations.
        obs: (row, size) some, to normalise by.
        actions: (row,) what was done.
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
        # Each of some numbers: of all at once, hardly any would be more than nearly linear.
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
    """The parts of an episode, that a fit has a level of its own for.

    Episodes begin where nothing else is like it: with an empty cluster. A function fitted to all that comes
    later would be off just there, where it is asked.

    Args:
        gamma: discount per tick.
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.edges = PARTS * (-1.0 / np.log(gamma) if gamma < 1 else LONGEST)

    def __call__(self, features: NDArray[np.float32], ages: IntArray) -> NDArray[np.float32]:
        """(row, width) of decisions (row, seen), so many ticks (row,) after the beginning."""
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
