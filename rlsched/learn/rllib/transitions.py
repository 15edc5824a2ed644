"""Decisions of whole episodes as arrays, one after the other, and what time they took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rlsched.learn.rllib.memory import Memory
from rlsched.learn.rllib.sampling import COSTS, SHARED


@dataclass(frozen=True, eq=False)
class Transitions:
    """Pieces of episodes, one after the other.

    Attributes:
        obs: (row, size) in which something was done.
        actions: (row,)
        rewards: (row,)
        logp: (row,) log probabilities of the actions when they were chosen.
        costs: (row, cost) those with a limit.
        ends: (piece,) row of the last transition of each.
        after: (piece, size) observations after that.
        terminated: (piece,) nothing follows.
        lengths: (sequence,) rows that follow each other and are learned from together; none where nothing
            is remembered.
        states: name -> (sequence, unit) what was remembered before the first of them.
        shared: (row,) the same number where replicas play the same episode; empty without replicas.
    """

    obs: NDArray[np.float32]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    logp: NDArray[np.float32]
    costs: NDArray[np.float32]
    ends: NDArray[np.int64]
    after: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    states: dict[str, NDArray[np.float32]]
    shared: NDArray[np.int64]

    @classmethod
    def of(cls, episodes: Sequence[SingleAgentEpisode], memory: Memory, together: int = 0) -> Transitions:
        """Those of finalised episodes, and of what comes before a cut in them nothing.

        Args:
            episodes: from a runner.
            memory: for the observations.
            together: rows of a sequence, where something is remembered; the last of a piece has fewer.
        """
        observed = [episode.get_observations() for episode in episodes]
        lengths = [len(episode) for episode in episodes]
        obs = memory.empty("obs", (sum(lengths), *observed[0].shape[1:]), np.float32)
        starts = [np.arange(0, length, together) if together else np.arange(0) for length in lengths]
        before = [remembered(episode, first) for episode, first in zip(episodes, starts, strict=True)]
        return cls(
            obs=np.concatenate([of_one[:-1] for of_one in observed], out=obs),
            actions=np.concatenate([episode.get_actions() for episode in episodes]),
            rewards=np.concatenate([episode.get_rewards() for episode in episodes]).astype(np.float32),
            logp=np.concatenate(
                [episode.get_extra_model_outputs(Columns.ACTION_LOGP) for episode in episodes]
            ),
            costs=np.concatenate([costs_of(episode) for episode in episodes]),
            ends=np.cumsum(lengths) - 1,
            after=np.stack([obs[-1] for obs in observed]),
            terminated=np.array([episode.is_terminated for episode in episodes]),
            lengths=np.concatenate(
                [np.diff(first, append=length) for first, length in zip(starts, lengths, strict=True)]
            ),
            states={name: np.concatenate([of[name] for of in before]) for name in before[0]},
            shared=np.concatenate([shared_of(episode) for episode in episodes]),
        )

    def following(self, of_rows: NDArray[Any], of_ends: NDArray[Any]) -> NDArray[Any]:
        """(row,) what belongs to the observation after each transition.

        Args:
            of_rows: (row,) what belongs to `obs`.
            of_ends: (piece,) what belongs to `after`.
        """
        shifted = np.roll(of_rows, -1)
        shifted[self.ends] = of_ends
        return shifted


def remembered(episode: SingleAgentEpisode, before: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Name -> (decision, unit) what was remembered before decisions of a piece of an episode."""
    if Columns.STATE_OUT not in episode.extra_model_outputs:
        return {}
    states = episode.extra_model_outputs[Columns.STATE_OUT]  # looks back to before the first, also once cut
    return {name: values[before + states.lookback - 1] for name, values in states.data.items()}


def shared_of(episode: SingleAgentEpisode) -> NDArray[np.int64]:
    """(row,) the number that replicas of an episode share; empty without replicas."""
    if SHARED not in episode.extra_model_outputs:
        return np.zeros(0, np.int64)
    numbers: NDArray[np.int64] = episode.get_extra_model_outputs(SHARED)
    return numbers


def costs_of(episode: SingleAgentEpisode) -> NDArray[np.float32]:
    """(row, cost) of a piece of an episode; none where nothing has a limit."""
    if COSTS not in episode.extra_model_outputs:
        return np.zeros((len(episode), 0), np.float32)
    costs: NDArray[np.float32] = episode.get_extra_model_outputs(COSTS)
    return costs


@dataclass(frozen=True, eq=False)
class Timing:
    """What time transitions take.

    Attributes:
        last: (row,) its piece of an episode ends with it.
        ticks: (row,)
    """

    last: NDArray[np.bool_]
    ticks: NDArray[np.float64]

    def share(self, per_tick: float) -> NDArray[np.float32]:
        """(row,) what is left after each, of which so much is left after a tick."""
        shares: NDArray[np.float32] = (per_tick**self.ticks).astype(np.float32)
        return shares

    @classmethod
    def of(cls, played: Transitions) -> Timing:
        """That of transitions."""
        clock = played.obs[:, -1].astype(np.float64)
        ticks = played.following(clock, played.after[:, -1]) - clock
        last = np.zeros(len(clock), np.bool_)
        last[played.ends] = True
        return cls(last, ticks)
