"""Transitions of whole episodes as arrays, and their durations in ticks."""

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
    """Transitions of pieces of episodes, one piece after the other.

    Attributes:
        obs: (row, size) observations before the actions.
        actions: (row,)
        rewards: (row,)
        logp: (row,) log probabilities of the actions when they were sampled.
        costs: (row, cost) costs with a limit.
        ends: (piece,) row of the last transition of each piece.
        after: (piece, size) observations after that transition.
        terminated: (piece,) whether the episode ended in a terminal state.
        lengths: (sequence,) rows of each training sequence; empty without memory.
        states: name -> (sequence, unit) recurrent states before the first row of each.
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
        """Collect the transitions of finalised episodes, without their lookback buffers.

        Args:
            episodes: from a runner.
            memory: for the observations.
            together: rows of a training sequence, for recurrent modules; the last of a piece may have fewer.
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
        """Values (row,) of the observation after each transition.

        Args:
            of_rows: (row,) values of `obs`.
            of_ends: (piece,) values of `after`.
        """
        shifted = np.roll(of_rows, -1)
        shifted[self.ends] = of_ends
        return shifted


def remembered(episode: SingleAgentEpisode, before: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Name -> (decision, unit) recurrent states before decisions of a piece of an episode."""
    if Columns.STATE_OUT not in episode.extra_model_outputs:
        return {}
    states = episode.extra_model_outputs[Columns.STATE_OUT]  # looks back to before the first, also once cut
    return {name: values[before + states.lookback - 1] for name, values in states.data.items()}


def shared_of(episode: SingleAgentEpisode) -> NDArray[np.int64]:
    """Numbers (row,) that replicas of an episode share; empty without replicas."""
    if SHARED not in episode.extra_model_outputs:
        return np.zeros(0, np.int64)
    numbers: NDArray[np.int64] = episode.get_extra_model_outputs(SHARED)
    return numbers


def costs_of(episode: SingleAgentEpisode) -> NDArray[np.float32]:
    """Costs (row, cost) of a piece of an episode; no columns where nothing has a limit."""
    if COSTS not in episode.extra_model_outputs:
        return np.zeros((len(episode), 0), np.float32)
    costs: NDArray[np.float32] = episode.get_extra_model_outputs(COSTS)
    return costs


@dataclass(frozen=True, eq=False)
class Timing:
    """Durations of transitions.

    Attributes:
        last: (row,) whether the transition is the last of its piece.
        ticks: (row,) duration.
    """

    last: NDArray[np.bool_]
    ticks: NDArray[np.float64]

    def share(self, per_tick: float) -> NDArray[np.float32]:
        """Factor (row,) of each transition, from the factor of one tick."""
        shares: NDArray[np.float32] = (per_tick**self.ticks).astype(np.float32)
        return shares

    @classmethod
    def of(cls, played: Transitions) -> Timing:
        """Timing of transitions, from the clock in their observations."""
        clock = played.obs[:, -1].astype(np.float64)
        ticks = played.following(clock, played.after[:, -1]) - clock
        last = np.zeros(len(clock), np.bool_)
        last[played.ends] = True
        return cls(last, ticks)
