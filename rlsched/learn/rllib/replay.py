"""Replay buffer of flat arrays, in which the newest transitions overwrite the oldest.

RLlib's buffer copies an episode with each new fragment of it, and lists all of its transitions anew when the
oldest leave. It also returns an episode object for each sampled transition. DQN spent most of its time there,
and its memory grew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rlsched.learn.rllib.memory import Memory

REPLAY_STREAM = 0x7265706C  # of the transitions that are drawn


class ReplayBuffer:
    """Replay buffer of transitions of single decisions, sampled uniformly.

    An observation is stored once, in the row before its next observation. The last observation of a piece of
    an episode has none after it, and is stored again as the first of the next piece. So a transition takes a
    row, and a piece one more. Rows that were not written yet take addresses, but no memory.

    Args:
        rows: capacity, in observations.
        rng: of the samples.

    Attributes:
        count: observations ever written; the k-th is in row k modulo `rows`.
        again: (rows,) row in which the last observation of a piece is stored again; -1 where it is not.
        open: unfinished episode -> number of the observation that its last piece ended with, as in `count`.
    """

    def __init__(self, rows: int, rng: np.random.Generator) -> None:
        self.rows, self.rng = rows, rng
        self.obs = np.empty((0, 0), np.float32)
        self.actions = np.empty(rows, np.int64)
        self.rewards = np.empty(rows, np.float32)
        self.terminated = np.zeros(rows, np.bool_)
        self.followed = np.zeros(rows, np.bool_)
        self.again = np.full(rows, -1, np.int64)
        self.open: dict[str, int] = {}
        self.count = 0
        self.memory = Memory()

    def __len__(self) -> int:
        """Number of stored transitions."""
        return int(np.count_nonzero(self.followed))

    def add(self, episodes: Iterable[SingleAgentEpisode]) -> None:
        """Store pieces of episodes.

        Raises:
            ValueError: a piece is longer than the buffer.
        """
        for episode in episodes:
            observed = np.asarray(episode.get_observations())
            if len(observed) > self.rows:
                raise ValueError(f"{len(observed)} observations do not fit into {self.rows} rows")
            if not self.count:
                self.obs = np.empty((self.rows, *observed.shape[1:]), np.float32)
            index = (self.count + np.arange(len(observed))) % self.rows
            self.count += len(observed)
            before = self.open.pop(episode.id_, -1)
            held = before >= max(0, self.count - self.rows)
            self.obs[index] = observed
            self.again[index] = -1
            # They differ where a piece between them was lost, with the runner that played it.
            if held and (self.obs[before % self.rows] == observed[0]).all():
                self.again[before % self.rows] = index[0]
            if not episode.is_done:
                self.open[episode.id_] = self.count - 1
            rows, last = index[:-1], index[-1]
            self.actions[rows] = episode.get_actions()
            self.rewards[rows] = episode.get_rewards()
            self.terminated[rows] = False
            self.terminated[rows[-1:]] = episode.is_terminated
            self.followed[rows], self.followed[last] = True, False
        oldest = self.count - self.rows
        self.open = {name: number for name, number in self.open.items() if number >= oldest}

    def sample(self, number: int, n_step: int = 1, gamma: float = 1.0) -> dict[str, NDArray[Any]]:
        """Sample transitions uniformly, with replacement.

        Args:
            number: of transitions.
            n_step: decisions that each spans; fewer where no more of its episode is stored.
            gamma: discount per tick of the clock that observations end with, where `n_step` is more than 1.

        Returns:
            Columns (number, ...) `obs`, `new_obs`, `actions`, `rewards`, `terminateds`.

        Raises:
            ValueError: the buffer is empty.
        """
        if not self.followed.any():
            raise ValueError("nothing is held that could be drawn")
        written = min(self.count, self.rows)
        rows = self.rng.integers(written, size=number)
        while not (valid := self.followed[rows]).all():
            rows[~valid] = self.rng.integers(written, size=number - np.count_nonzero(valid))
        rewards, last = self.rewards[rows], rows
        goes_on = np.ones(number, np.bool_)
        for _ in range(n_step - 1):
            following = (last + 1) % self.rows
            again = self.again[following]
            following = np.where(again >= 0, again, following)
            goes_on = goes_on & self.followed[following]
            if not goes_on.any():
                break
            ticks = self.obs[following, -1].astype(np.float64) - self.obs[rows, -1]
            rewards = rewards + np.where(goes_on, gamma**ticks * self.rewards[following], 0.0)
            last = np.where(goes_on, following, last)
        return {
            Columns.OBS: self._observed(Columns.OBS, rows),
            Columns.NEXT_OBS: self._observed(Columns.NEXT_OBS, (last + 1) % self.rows),
            Columns.ACTIONS: self.actions[rows],
            Columns.REWARDS: rewards.astype(np.float32),
            Columns.TERMINATEDS: self.terminated[last],
        }

    def _observed(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        into = self.memory.empty(name, (len(rows), *self.obs.shape[1:]), np.float32)
        # All rows exist; any mode but "raise" writes directly into the output.
        return np.take(self.obs, rows, axis=0, out=into, mode="clip")
