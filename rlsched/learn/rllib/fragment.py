"""Fragments of episodes in arrays, from which pieces of episodes are cut without a copy."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.rllib.memory import Memory

Observations = NDArray[np.float32]
"""(env, size) vector, mask and clock of every environment."""


@dataclass(eq=False)
class Ongoing:
    """Unfinished episodes, which continue from one fragment to the next."""

    obs: Observations  # (env, size) that wait for an action
    ids: list[str]  # (env,)
    steps: IntArray  # (env,) decisions so far
    returns: FloatArray  # (env,) sums of rewards so far
    began: FloatArray  # (env,) starts, in seconds of the process's clock
    states: dict[str, NDArray[Any]]  # recurrent states of the module, each (env, ...); empty without memory
    noop_draws: FloatArray  # (env,) random numbers that decide on the no-op again; NaN: draw a new one

    @classmethod
    def start(cls, obs: Observations, states: dict[str, Any]) -> Ongoing:
        """Begin an episode in every environment."""
        envs = len(obs)
        now, none = np.full(envs, time.perf_counter()), np.full(envs, np.nan)
        ids = [new_id() for _ in obs]
        return cls(obs, ids, np.zeros(envs, np.int64), np.zeros(envs), now, states, none)

    def copy(self, source: IntArray) -> None:
        """Let environment k continue the episode of environment source[k]."""
        self.ids = [id_ if k == source[k] else new_id() for k, id_ in enumerate(self.ids)]
        self.obs = self.obs[source]
        for column in (self.steps, self.returns, self.began):
            column[:] = column[source]
        self.noop_draws[:] = np.nan  # replicas differ from here on
        self.states = {name: state[source] for name, state in self.states.items()}


@dataclass(frozen=True)
class Cut:
    """End of an episode, or of its part in a fragment."""

    t: int  # steps of the fragment until then
    id: str  # of the episode
    before: int  # steps of the episode until then, in all fragments
    terminated: bool  # the episode ended in a terminal state
    truncated: bool  # the episode ended, but not in a terminal state


class Fragment:
    """Arrays of the transitions of a fragment, environment by environment.

    Observations are written into the next row of their environment. Where an episode ends, its last
    observation comes before the first of the next episode. Rows that are never written take addresses, but
    no memory.

    Args:
        obs: (env, size) first observations.
        states: recurrent states of the module at the start; empty without memory.
        length: steps.
        memory: for the observations and states.
    """

    def __init__(self, obs: Observations, states: dict[str, Any], length: int, memory: Memory) -> None:
        envs, size = obs.shape
        self.length, self.t = length, 0
        self.envs, self.row = np.arange(envs), np.zeros(envs, np.int64)
        self.obs = memory.empty("obs", (envs, 2 * length + 1, size), np.float32)
        self.obs[:, 0] = obs
        self.actions = np.empty((envs, length), np.int64)
        self.rewards = np.empty((envs, length), np.float32)
        self.columns: dict[str, NDArray[Any]] = {}
        self.states = {
            name: memory.empty(name, (envs, length + 1, *state.shape[1:]), state.dtype)
            for name, state in states.items()
        }
        self.write_states(states)
        self.cuts: list[list[Cut]] = [[] for _ in range(envs)]

    def write(
        self,
        actions: IntArray,
        rewards: FloatArray,
        following: Observations,
        columns: dict[str, NDArray[Any]],
    ) -> None:
        """Write one transition of every environment.

        Args:
            actions: (env,)
            rewards: (env,)
            following: (env, size) next observations.
            columns: name -> (env, ...) other outputs of the module or the environments.
        """
        t = self.t
        self.actions[:, t] = actions
        self.rewards[:, t] = rewards
        for name, values in columns.items():
            if name not in self.columns:
                self.columns[name] = np.empty((len(values), self.length, *values.shape[1:]), values.dtype)
            self.columns[name][:, t] = values
        self.row += 1
        self.obs[self.envs, self.row] = following
        self.t += 1

    def begin_again(self, env: int, cut: Cut, obs: Observations) -> None:
        """End an environment's episode after the last written step, and begin the next one."""
        self.cuts[env].append(cut)
        self.row[env] += 1
        self.obs[env, self.row[env]] = obs

    def write_states(self, states: dict[str, Any]) -> None:
        """Write the recurrent states before the next step."""
        for name, state in states.items():
            self.states[name][:, self.t] = state

    def episodes(self, space: Any, action_space: Any) -> list[SingleAgentEpisode]:
        """All pieces of episodes in the fragment, as RLlib's episodes; views of the arrays."""
        pieces = []
        for env, cuts in enumerate(self.cuts):
            starts = [0, *(cut.t for cut in cuts)]
            for number, (start, cut) in enumerate(zip(starts, cuts, strict=False)):
                length, steps = cut.t - start, slice(start, cut.t)
                if not length:
                    continue
                outputs: dict[str, Any] = {
                    name: InfiniteLookbackBuffer(values[env, steps]) for name, values in self.columns.items()
                }
                if self.states:
                    # RLlib's learners look back from the first step to the state before it.
                    before = {name: values[env, start : cut.t + 1] for name, values in self.states.items()}
                    outputs[Columns.STATE_OUT] = InfiniteLookbackBuffer(before, lookback=1)
                observations = self.obs[env, start + number : cut.t + number + 1]
                piece = SingleAgentEpisode(
                    id_=cut.id,
                    observations=InfiniteLookbackBuffer(observations),
                    observation_space=space,
                    infos=InfiniteLookbackBuffer([{}] * (length + 1)),
                    actions=InfiniteLookbackBuffer(self.actions[env, steps]),
                    action_space=action_space,
                    rewards=InfiniteLookbackBuffer(self.rewards[env, steps]),
                    terminated=cut.terminated,
                    truncated=cut.truncated,
                    extra_model_outputs=outputs,
                    t_started=cut.before - length,
                    len_lookback_buffer=0,
                )
                pieces.append(piece)
        return pieces


def new_id() -> str:
    """Identifier of a new episode."""
    return uuid.uuid4().hex
