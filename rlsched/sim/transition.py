"""One transition of every environment of a vector: the one compiled entry that opens and steps episodes.

It is one long function on purpose: whatever is inlined into a function that is itself inlined is compiled
once at each level, and half of the time to compile went there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.clock import open_grid, pass_tick
from rlsched.sim.compiled import by_horizon, kernel
from rlsched.sim.decide import act_grid, act_queue, judge_grid, judge_queue, open_queue, wait
from rlsched.sim.kept import Kept, taken
from rlsched.sim.observe import observe, unshow
from rlsched.sim.outcome import begin, close

NOTHING = -1
"""Stands in the place of an action: do nothing first."""

open_episode = by_horizon(open_grid, open_queue)
pass_time = by_horizon(pass_tick, wait)
judge = by_horizon(judge_grid, judge_queue)
act = by_horizon(act_grid, act_queue)


@kernel
def step_all(kept: Kept, envs: NDArray[np.uint64], actions: IntArray, opening: bool) -> int:
    """Step environments; where an episode is over, nothing happens.

    Args:
        kept: State, Outcome, Rules and View.
        envs: (stepped,) which ones. They are listed even where it is all of them: with a running index LLVM
            keeps a pointer into every array up to date, used or not, 50 ns per environment. Unsigned numbers
            need no look at whether they are negative.
        actions: (stepped,) what each of them does.
        opening: go from freshly loaded jobs to the first question instead; there are no actions, and what is
            earned before the question is nobody's.

    Returns:
        Where the first illegal action stands, before anything has moved, or -1.
    """
    s, o, rules, v = taken(kept)
    idle = rules.num_actions - 1
    if not opening:
        for k in range(len(actions)):
            if actions[k] < 0 or actions[k] > idle or o.mask[envs[k], actions[k]] == 0:
                return k
    for k in range(len(envs)):
        i = envs[k]
        action = NOTHING if opening else actions[k]
        e = s.episodes[i]
        begin(s, o, i)
        if opening:
            unshow(s, v, i)
            open_episode(s, o, rules, i)
        asked = False
        while e.over == 0 and not asked:
            if action == idle:
                pass_time(s, o, rules, i)
            elif action != NOTHING:
                act(s, o, rules, i, action)
            if e.over == 0:
                legal, action = judge(s, o, rules, i)
                forced = rules.skip_forced or (not rules.tick_rule and action == idle)
                asked = legal > 1 or not forced
        if e.over != 0:
            o.mask[i, :] = 0
            o.mask[i, idle] = 1  # an episode that is over still shows a legal action: nothing
        if opening:
            begin(s, o, i)
        close(s, o, rules, i)
        observe(s, o, v, i, rules.window)
    return -1
