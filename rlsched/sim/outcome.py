"""Outputs of a step of the core, and the booking of rewards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray
from rlsched.scenario.terms import TERMS
from rlsched.sim.compiled import step
from rlsched.sim.energy import ACCOUNTS
from rlsched.sim.rules import Rules
from rlsched.sim.state import State

TERMINATED, TRUNCATED = 1, 2


class Outcome(NamedTuple):
    """Masks, rewards and ends of N environments."""

    mask: NDArray[np.int8]  # (env, action) 1 where legal
    fits: NDArray[np.int8]  # (env, slot) 1 where the slot's job fits now
    first: NDArray[np.int32]  # (env, slot) tick-driven: row of the grid for the job, or NOWHERE
    terms: FloatArray  # (env, term) of the last transition, discounted
    totals: FloatArray  # (env, term) of the episode, not discounted; tick-driven scenarios only
    accounts: FloatArray  # (env, account) energies of the episode, see `energy.ACCOUNTS`
    reward: FloatArray  # (env,) scale x weighted terms
    elapsed: IntArray  # (env,) ticks of the last transition
    terminated: NDArray[np.bool_]  # (env,)
    truncated: NDArray[np.bool_]  # (env,)

    @classmethod
    def room(cls, num_envs: int, window: int, num_actions: int) -> Outcome:
        """Arrays for `num_envs` environments."""
        return cls(
            mask=np.zeros((num_envs, num_actions), np.int8),
            fits=np.zeros((num_envs, window), np.int8),
            first=np.zeros((num_envs, window), np.int32),
            terms=np.zeros((num_envs, len(TERMS))),
            totals=np.zeros((num_envs, len(TERMS))),
            accounts=np.zeros((num_envs, len(ACCOUNTS))),
            reward=np.zeros(num_envs),
            elapsed=np.zeros(num_envs, np.int64),
            terminated=np.zeros(num_envs, np.bool_),
            truncated=np.zeros(num_envs, np.bool_),
        )


@step
def begin(s: State, o: Outcome, i: int) -> None:
    """Open a transition."""
    e = s.episodes[i]
    e.transition_start = e.now
    e.discount = 1.0
    o.terms[i, :] = 0.0


@step
def close(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Write reward, elapsed ticks and end flags of the transition."""
    e = s.episodes[i]
    total = 0.0
    for k in range(len(rules.weights)):
        if rules.weights[k] != 0.0:
            total += rules.weights[k] * o.terms[i, k]
    o.reward[i] = e.scale * total
    o.elapsed[i] = e.now - e.transition_start
    o.terminated[i] = e.over == TERMINATED
    o.truncated[i] = e.over == TRUNCATED


@step
def add_term(s: State, o: Outcome, i: int, term: int, amount: float) -> None:
    """Add an amount to a reward term at the current tick, in tick-driven scenarios."""
    o.terms[i, term] += s.episodes[i].discount * amount
    o.totals[i, term] += amount
