"""Playing many episodes in one vector, each to its end: for heuristics and learned policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlsched.jobs import IntArray
from rlsched.sim.metrics import Played
from rlsched.sim.simulator import Playable, VectorSimulator


def play_all(
    sim: VectorSimulator,
    episodes: Sequence[Playable],
    act: Callable[[], IntArray],
    *,
    begin: Callable[[int, int], None] = lambda env, number: None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Played]:
    """Play every episode to its end, as many side by side as there are environments.

    Args:
        sim: with room for each of them.
        episodes: jobs and power of each.
        act: (env,) actions for the state of `sim`; where an episode is over, the no-op.
        begin: called with the environment and the number of an episode that was just loaded.
        progress: called with 1 whenever an episode has ended.

    Returns:
        How each episode went.
    """
    playing: dict[int, int] = {}
    results: dict[int, Played] = {}
    coming = iter(range(len(episodes)))

    def load(env: int) -> None:
        number = next(coming, None)
        if number is None:
            playing.pop(env, None)
            return
        playing[env] = number
        sim.load(env, episodes[number].jobs, power=episodes[number].power)
        begin(env, number)

    for env in range(min(sim.num_envs, len(episodes))):
        load(env)
    while True:
        for env in np.flatnonzero(sim.terminated | sim.truncated).tolist():
            if env in playing:
                number = playing[env]
                results[number] = sim.played(env, episodes[number].jobs)
                progress(1)
                load(env)
        if not playing:
            return [results[number] for number in range(len(episodes))]
        sim.step(act())
