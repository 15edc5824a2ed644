"""The slow twin of `rlsched.sim`: plain Python, one function per rule of the simulator's specification.

It exists to be read and to be right. Whatever is fast, shared or clever belongs into the compiled core;
the tests drive both with the same jobs and actions and compare everything that can be seen.

    jobs    a job, a running job, a machine
    rules   shadow time, extra units, who may start behind a reservation, availability profile
    replay  priority keys and the four kinds of backfilling
    compat  the rules of RLScheduler's simulator
    env     the decision process: legal actions, time rules, rewards, ends

With a horizon (`docs/reference/green-rules.md`):

    task    a job on its way: what it is worth, when it is due, what of it is left
    pools   the places of a job, who enters the ready pool
    grid    who holds what in the ticks to come, where a job fits
    power   supply, battery, forecast, energy
    terms   what a tick is rewarded for
    ledger  what was booked
    datacenter  the steps of a tick
    green   the decision process: legal actions, what they do
"""
