"""One transition of every environment of a vector: the one compiled entry that opens and steps episodes.

It is one long function on purpose: whatever is inlined into a function that is itself inlined is compiled
once at each level, and half of the time to compile went there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.sim.clock import open_grid, pass_tick
from rlsched.sim.compiled import by_mode, kernel
from rlsched.sim.decide import act_grid, act_queue, mask_grid, mask_queue, open_queue, pass_event
from rlsched.sim.kernel_arguments import KernelArguments, unpack
from rlsched.sim.observe import clear_observation, observe
from rlsched.sim.outcome import begin, close

NOTHING = -1
"""Stands in the place of an action: do nothing first."""

open_episode = by_mode(open_grid, open_queue)
pass_time = by_mode(pass_tick, pass_event)
mask_actions = by_mode(mask_grid, mask_queue)
act = by_mode(act_grid, act_queue)


@kernel
def step_all(arguments: KernelArguments, envs: NDArray[np.uint64], actions: IntArray, opening: bool) -> int:
    """Step environments; where an episode is over, nothing happens.

    Args:
        arguments: State, Outcome, Rules and View.
        envs: (stepped,) which ones. They are listed even where it is all of them: with a running index LLVM
            keeps a pointer into every array up to date, used or not, 50 ns per environment. Unsigned numbers
            need no look at whether they are negative.
        actions: (stepped,) action of each.
        opening: advance from freshly loaded jobs to the first decision instead; there are no actions, and
            rewards before it count for none.

    Returns:
        Index of the first illegal action, found before anything has moved, or -1.
    """
    s, o, rules, v = unpack(arguments)
    noop = rules.num_actions - 1
    if not opening:
        for k in range(len(actions)):
            if actions[k] < 0 or actions[k] > noop or o.mask[envs[k], actions[k]] == 0:
                return k
    for k in range(len(envs)):
        i = envs[k]
        action = NOTHING if opening else actions[k]
        e = s.episodes[i]
        begin(s, o, i)
        if opening:
            clear_observation(s, v, i)
            open_episode(s, o, rules, i)
        at_decision = False
        while e.over == 0 and not at_decision:
            if action == noop:
                pass_time(s, o, rules, i)
            elif action != NOTHING:
                act(s, o, rules, i, action)
            if e.over == 0:
                legal, action = mask_actions(s, o, rules, i)
                forced = rules.skip_forced or (not rules.tick_rule and action == noop)
                at_decision = legal > 1 or not forced
        if e.over != 0:
            o.mask[i, :] = 0
            o.mask[i, noop] = 1  # an episode that is over still has a legal action
        if opening:
            begin(s, o, i)
        close(s, o, rules, i)
        observe(s, o, v, i, rules.window)
    return -1
