"""One tick of a scenario with a horizon: what happens when the clock has moved, in its order.

Completions, capacity and shortfall, plans that are undone, planned starts, expiry, arrivals, the end.
Rules: docs/green.md.
"""

from __future__ import annotations

from rlsched.sim.compiled import shared, step
from rlsched.sim.energy import (
    BATTERY_KWH,
    BROWN_KWH,
    CARBON_KG,
    CHARGED_KWH,
    CURTAILED_KWH,
    ENERGY_KWH,
    ON_SHARE,
    RENEWABLE_KWH,
    USED_SHARE,
    flow,
    forecast,
    forecast_next,
    power_index,
)
from rlsched.sim.events import complete_one
from rlsched.sim.grid import hold, overfull, shift
from rlsched.sim.outcome import TERMINATED, TRUNCATED, Outcome, book
from rlsched.sim.pools import (
    arrive,
    book_change,
    book_start,
    leave_pools,
    refill,
    start_planned,
    suspend,
    undo_one_plan,
    wait_no_more,
    weakest,
)
from rlsched.sim.rules import (
    BOUNDED_SLOWDOWN,
    BROWN_ENERGY,
    CARBON,
    CURTAILMENT,
    DELAYED_JOBS,
    ENERGY,
    FINISHED_VALUE,
    JOB_STARVATION,
    LONG_RUNNING,
    LONG_WAITS,
    LOST_VALUE,
    MAKESPAN,
    MAX_TICKS,
    NO_LIMIT,
    NO_NEW_JOB,
    ON_TIME_VALUE,
    QOS_VIOLATION,
    READY_WAITING,
    REJECTED,
    RUNNING_VALUE,
    SLOWDOWN,
    TERMINAL_BSLD,
    THROUGHPUT,
    UNUSED_CAPACITY,
    UTILIZATION,
    WAIT_TIME,
    WAIT_WAITING,
    WAITING_VALUE,
    Rules,
)
from rlsched.sim.state import JOB_BITS, JOB_MASK, State


@shared
def open_grid(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Begin an episode: an empty grid, a first forecast, the first arrivals."""
    e = s.episodes[i]
    s.used[i, :, :] = 0
    o.totals[i, :] = 0.0
    o.accounts[i, :] = 0.0
    e.battery_wh = rules.plant.initial_wh
    forecast(s, rules, i)
    for r in range(len(s.resources)):
        s.free[i, r] = s.on[i, r, 0]
    enter_tick(s, o, rules, i)


@step
def pass_tick(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Book the tick that began at `now`, and go on to the next one."""
    e = s.episodes[i]
    book_tick(s, o, rules, i)
    e.now += 1
    e.discount *= rules.gamma
    e.actions_now = 0
    shift(s, i)
    complete(s, o, rules, i)
    # A running job at or beyond its expected end is expected to end at the next tick.
    overdue = hold_overdue(s, o, rules, i)
    for r in range(len(s.resources)):
        s.free[i, r] -= s.on[i, r, 0]
    changed = forecast_next(s, rules, i)
    for r in range(len(s.resources)):
        s.free[i, r] += s.on[i, r, 0]
    meet_shortfall(s, o, rules, i)
    if changed:
        e.freed += 1
    if changed or overdue:
        undo_plans(s, o, rules, i)
    refill(s, rules, i)
    start_planned(s, i)
    enter_tick(s, o, rules, i)


@step
def enter_tick(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Expiry and arrivals, and whether that is the end."""
    e = s.episodes[i]
    if rules.expiry < NO_LIMIT:
        give_up(s, o, rules, i)
    while e.next_arrival < e.num_jobs and s.jobs[i, e.next_arrival].submit <= e.now:
        row = e.next_arrival
        if not arrive(s, rules, i):
            lose(s, o, i, row)
    if e.num_finished + e.num_rejected == e.num_jobs:
        e.over = TERMINATED
        book(s, o, i, TERMINAL_BSLD, -mean_bounded_slowdown(s, i))
    elif rules.end == NO_NEW_JOB and e.next_arrival == e.num_jobs:
        e.over = TERMINATED
        forget(s, o, rules, i)
    elif rules.end == MAX_TICKS and e.now - e.first_submit >= rules.max_ticks:
        e.over = TRUNCATED


@shared
def forget(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Book that nothing comes of the jobs that run or are planned where nothing comes after the end."""
    e = s.episodes[i]
    for k in range(e.num_running):
        row = s.started[i, s.ends[i, k] & JOB_MASK]
        book_start(s, o, rules, i, row, max(1, s.jobs[i, row].expected_end - e.now), -1.0)
    for k in range(e.num_planned):
        row = s.planned[i, k]
        ticks = s.lots[i, row].planned - e.now + s.jobs[i, row].requested
        book_start(s, o, rules, i, row, ticks, -1.0)


@shared
def mean_bounded_slowdown(s: State, i: int) -> float:
    """Mean over the finished jobs of max(1, response / max(runtime, bound)); 0 where none has finished."""
    total = 0.0
    finished = 0
    for j in range(s.episodes[i].num_jobs):
        job = s.jobs[i, j]
        if job.end >= 0:
            total += max(1.0, (job.end - job.submit) * job.bounded_rate)
            finished += 1
    return total / max(1, finished)


@step
def complete(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Let the jobs that have run for their runtime end."""
    e = s.episodes[i]
    while e.num_running > 0 and s.ends[i, 0] >> JOB_BITS <= e.now:
        row = complete_one(s, i, True)
        lot = s.lots[i, row]
        early = s.jobs[i, row].expected_end - e.now
        if early > 0:
            hold(s, i, row, 0, early, -1)
            e.freed += 1
        e.running_price = e.running_price - lot.price if e.num_running > 0 else 0.0
        book(s, o, i, THROUGHPUT, 1.0)
        book(s, o, i, FINISHED_VALUE, lot.value)
        book_change(s, o, rules, i, row, max(0, early), 0)
        if e.now <= lot.due:
            book(s, o, i, ON_TIME_VALUE, lot.value)


@step
def hold_overdue(s: State, o: Outcome, rules: Rules, i: int) -> bool:
    """Put the running jobs at or beyond their expected end into row 0; whether there are any."""
    e = s.episodes[i]
    place, at = 0, 0
    found = False
    for _ in range(e.num_running):
        if at == s.block_size[i, s.block_order[i, place]]:
            place, at = place + 1, 0
        code = s.blocks[i, s.block_order[i, place], at]
        if code >> JOB_BITS > e.now:
            break
        hold(s, i, code & JOB_MASK, 0, 1, 1)
        book_change(s, o, rules, i, code & JOB_MASK, 0, 1)
        found = True
        at += 1
    return found


@step
def meet_shortfall(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Suspend running jobs until the rest fits what is on."""
    while True:
        short = False
        for r in range(len(s.resources)):
            short |= s.free[i, r] < 0
        if not short:
            return
        suspend(s, o, rules, i, weakest(s, i, True))


@shared
def undo_plans(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Take planned jobs back until no row is overfull, or no planned job is to blame."""
    first = 0
    while first < s.used.shape[2]:
        if not overfull(s, i, first):
            first += 1
        elif s.episodes[i].num_planned == 0 or not undo_one_plan(s, o, rules, i):
            return


@shared
def give_up(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Reject waiting jobs that are no longer worth running."""
    e = s.episodes[i]
    position = 0
    while position < e.queue_hi - e.queue_lo:
        row = s.queue[i, e.queue_lo + position]
        lot = s.lots[i, row]
        if e.now <= lot.due + rules.expiry:
            position += 1
            continue
        leave_pools(s, i, position)
        wait_no_more(s, i, row)
        lot.rejected = 1
        e.num_rejected += 1
        lose(s, o, i, row)
    refill(s, rules, i)


@step
def lose(s: State, o: Outcome, i: int, row: int) -> None:
    """Book a job that was rejected."""
    book(s, o, i, REJECTED, -1.0)
    book(s, o, i, LOST_VALUE, -s.lots[i, row].value)


@step
def book_rate(s: State, o: Outcome, i: int, term: int, amount: float, factor: float) -> None:
    """Book a rate for the tick that began at `now`."""
    o.terms[i, term] += factor * amount
    o.totals[i, term] += amount


@step
def book_tick(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Book the tick that began at `now`: energies and every rate."""
    e = s.episodes[i]
    factor = e.discount
    if rules.sparse and e.now > e.asked_at:
        factor = 0.0  # only the first tick of a transition counts [H 4.6]
    if rules.plant.powered:
        book_energy(s, o, rules, i, factor)
    ready = e.num_ready
    waiting = e.num_waiting
    behind = e.queue_hi - e.queue_lo - ready
    slowdown_rate, bounded_rate = e.slowdown_rate + e.running_rate, e.bounded_rate
    counted = waiting
    if rules.window_scope:
        counted = ready
        slowdown_rate = 0.0
        bounded_rate = 0.0
        for k in range(ready):
            job = s.jobs[i, s.queue[i, e.queue_lo + k]]
            slowdown_rate += job.slowdown_rate
            bounded_rate += job.bounded_rate
    used = 0.0
    on = 0.0
    for r in range(len(s.resources)):
        used += (s.on[i, r, 0] - s.free[i, r]) / s.units[i, r]
        on += s.on[i, r, 0] / s.units[i, r]
    used /= len(s.resources)
    o.accounts[i, USED_SHARE] += used
    o.accounts[i, ON_SHARE] += on / len(s.resources)
    book_rate(s, o, i, SLOWDOWN, -slowdown_rate, factor)
    book_rate(s, o, i, BOUNDED_SLOWDOWN, -bounded_rate, factor)
    book_rate(s, o, i, WAIT_TIME, -counted, factor)
    book_rate(s, o, i, UTILIZATION, used, factor)
    book_rate(s, o, i, MAKESPAN, -1.0, factor)
    book_rate(s, o, i, UNUSED_CAPACITY, used - 1.0, factor)
    book_rate(s, o, i, RUNNING_VALUE, e.running_price, factor)
    book_rate(s, o, i, READY_WAITING, -ready, factor)
    book_rate(s, o, i, WAIT_WAITING, -behind, factor)
    book_rate(s, o, i, LONG_RUNNING, -e.num_running, factor)
    book_rate(s, o, i, DELAYED_JOBS, -waiting, factor)
    book_rate(s, o, i, WAITING_VALUE, -e.waiting_value, factor)
    if rules.count_late:
        book_late(s, o, rules, i, factor)


@step
def book_energy(s: State, o: Outcome, rules: Rules, i: int, factor: float) -> None:
    """Account the energy of the tick that began at `now`."""
    e = s.episodes[i]
    plant = rules.plant
    index = power_index(s, i, e.now)
    supply = s.supply_w[i, index]
    used = 0.0
    for r in range(len(s.resources)):
        free = s.free[i, r]
        used += (s.on[i, r, 0] - free) * plant.unit_w[r] + free * plant.idle_w[r]
    f = flow(plant, supply, used, e.battery_wh)
    e.battery_wh = f.level
    kwh = plant.tick_h / 1000.0
    carbon = f.brown * kwh * s.carbon[i, index] / 1000.0
    o.accounts[i, ENERGY_KWH] += used * kwh
    o.accounts[i, RENEWABLE_KWH] += supply * kwh
    o.accounts[i, BATTERY_KWH] += f.discharge * kwh
    o.accounts[i, BROWN_KWH] += f.brown * kwh
    o.accounts[i, CHARGED_KWH] += f.charge * kwh
    o.accounts[i, CURTAILED_KWH] += f.curtailed * kwh
    o.accounts[i, CARBON_KG] += carbon
    book_rate(s, o, i, ENERGY, -used * kwh, factor)
    book_rate(s, o, i, BROWN_ENERGY, -f.brown * kwh, factor)
    book_rate(s, o, i, CURTAILMENT, -f.curtailed * kwh, factor)
    book_rate(s, o, i, CARBON, -carbon, factor)


@step
def waiting_row(s: State, i: int, k: int) -> int:
    """The k-th of the jobs that wait: in the queue, planned, suspended."""
    e = s.episodes[i]
    queued = e.queue_hi - e.queue_lo
    if k < queued:
        return s.queue[i, e.queue_lo + k]
    if k < queued + e.num_planned:
        return s.planned[i, k - queued]
    return s.suspended[i, k - queued - e.num_planned]


@step
def starved(s: State, rules: Rules, i: int, row: int) -> float:
    """Which part of the tick that began at `now` lies beyond the longest wait that is no starvation."""
    return min(1.0, max(0.0, s.episodes[i].now + 1 - s.jobs[i, row].submit - rules.starvation))


@step
def book_late(s: State, o: Outcome, rules: Rules, i: int, factor: float) -> None:
    """Count the jobs past due and those that wait for too long: a look at every job in the system.

    A long wait begins in the tick in which a waiting job has waited for `Rules.starvation` ticks.
    """
    e = s.episodes[i]
    late = 0
    long_waits = 0
    starving = 0.0
    for k in range(e.queue_hi - e.queue_lo + e.num_planned + e.num_suspended):
        row = waiting_row(s, i, k)
        late += e.now > s.lots[i, row].due
        part = starved(s, rules, i, row)
        starving += part
        long_waits += part > 0.0 and e.now - s.jobs[i, row].submit <= rules.starvation
    for k in range(e.num_running):
        late += e.now > s.lots[i, s.started[i, s.ends[i, k] & JOB_MASK]].due
    book_rate(s, o, i, QOS_VIOLATION, -late, factor)
    book_rate(s, o, i, JOB_STARVATION, -starving, factor)
    book(s, o, i, LONG_WAITS, -long_waits)
