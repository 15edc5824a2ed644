"""One transition of every environment of a vector: the one compiled entry that opens and steps episodes.

It is one long function on purpose: whatever is inlined into a function that is itself inlined is compiled
once at each level, and half of the time to compile went there.
"""

from __future__ import annotations

from rlsched.jobs import IntArray
from rlsched.sim.clock import open_grid, pass_tick
from rlsched.sim.compiled import kernel
from rlsched.sim.decide import act, judge, judge_end, wait
from rlsched.sim.events import happen
from rlsched.sim.observe import View, observe, unshow
from rlsched.sim.outcome import Outcome, begin, close
from rlsched.sim.rules import Rules
from rlsched.sim.state import State

NOTHING, OPEN, LEAVE = -1, -2, -3
"""Stand in the place of an action: do nothing first, begin an episode, leave the environment alone."""


@kernel
def step_all(s: State, o: Outcome, rules: Rules, v: View, actions: IntArray) -> int:
    """Step all environments; where an episode is over, nothing happens.

    OPEN goes from freshly loaded jobs to the first question; what is earned before it is nobody's.

    Returns:
        The first environment with an illegal action, before anything has moved, or -1.
    """
    idle = rules.num_actions - 1
    for i in range(len(actions)):
        if actions[i] == LEAVE or actions[i] == OPEN:
            continue
        if actions[i] < 0 or actions[i] > idle or o.mask[i, actions[i]] == 0:
            return i
    for i in range(len(actions)):
        action = actions[i]
        if action == LEAVE:
            continue
        e = s.episodes[i]
        begin(s, o, i)
        if action == OPEN:
            unshow(s, v, i)
            if rules.horizon > 0:
                open_grid(s, o, rules, i)
            else:
                happen(s, i, e.now, True)
                judge_end(s, rules, i)
            action = NOTHING
        asked = False
        while e.over == 0 and not asked:
            if action == idle:
                if rules.horizon > 0:
                    pass_tick(s, o, rules, i)
                else:
                    wait(s, o, rules, i)
            elif action != NOTHING:
                act(s, o, rules, i, action)
            if e.over == 0:
                legal, action = judge(s, o, rules, i)
                forced = rules.skip_forced or (not rules.tick_rule and action == idle)
                asked = legal > 1 or not forced
        if e.over != 0:
            o.mask[i, :] = 0
            o.mask[i, idle] = 1  # an episode that is over still shows a legal action: nothing
        if actions[i] == OPEN:
            begin(s, o, i)
        close(s, o, rules, i)
        observe(s, o, v, i, rules.window)
    return -1
