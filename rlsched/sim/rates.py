"""Quantities of the ticks that pass, event by event (`book_interval`) and tick by tick (`book_tick`).

The functions of `rlsched.scenario.terms` say what they add to each term.
"""

from __future__ import annotations

from rlsched.scenario.term_spec import TickQuantities
from rlsched.scenario.terms import JOB_STARVATION, LONG_WAITS
from rlsched.sim.booking import book_event_rates, book_late_rates, book_power_rates, book_rates
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
    power_index,
)
from rlsched.sim.outcome import Outcome, add_term
from rlsched.sim.rules import Rules
from rlsched.sim.state import JOB_MASK, State

NO_HORIZON = (0.0,) * (len(TickQuantities._fields) - TickQuantities._fields.index("num_ready"))
"""Quantities that need a horizon, where there is none."""


@step
def book_interval(s: State, o: Outcome, rules: Rules, i: int, ticks: int) -> None:
    """Add the rates of `ticks` ticks without events to the terms, and discount later ones."""
    e = s.episodes[i]
    counted = ticks
    if rules.sparse:
        counted = min(ticks, 1) if e.now == e.transition_start else 0
    if rules.count_late:
        book_interval_late(s, o, rules, i, ticks, counted)
    if rules.gamma < 1.0:
        # Real powers: integer ones are multiplied out differently compiled and not.
        factor = e.discount * (1.0 - rules.gamma ** float(counted)) / (1.0 - rules.gamma)
        e.discount *= rules.gamma ** float(ticks)
    else:
        factor = float(counted)
    if factor == 0.0:
        return
    waiting = e.queue_hi - e.queue_lo
    in_scope = waiting
    slowdown_rate, bounded_rate = e.slowdown_rate + e.running_rate, e.bounded_rate
    if rules.window_scope:
        in_scope = min(waiting, rules.window)
        slowdown_rate, bounded_rate = first_rates(s, i, in_scope)
    used = 0.0
    for r in range(len(s.resources)):
        used += 1.0 - s.free[i, r] / s.units[i, r]
    quantities = TickQuantities(
        float(in_scope),
        slowdown_rate,
        bounded_rate,
        float(waiting),
        float(e.num_running),
        used / len(s.resources),
        *NO_HORIZON,
    )
    book_event_rates(o.terms, o.totals, i, quantities, factor)


@step
def first_rates(s: State, i: int, count: int) -> tuple[float, float]:
    """Sums of 1 / runtime, and of 1 / max(runtime, bound), over the first jobs of the queue, per tick."""
    slowdown_rate = 0.0
    bounded_rate = 0.0
    for k in range(count):
        job = s.jobs[i, s.queue[i, s.episodes[i].queue_lo + k]]
        slowdown_rate += job.slowdown_rate
        bounded_rate += job.bounded_rate
    return slowdown_rate, bounded_rate


@shared
def book_interval_late(s: State, o: Outcome, rules: Rules, i: int, ticks: int, counted: int) -> None:
    """Add waits beyond `Rules.starvation` in `ticks` ticks to the terms JOB_STARVATION and LONG_WAITS.

    The queue is in submit order, so the jobs that wait longest are at its front and no others are looked at.

    Args:
        s: state.
        o: outcome.
        rules: of the scenario.
        i: environment; its clock and discount are those of the first tick.
        ticks: number of ticks, without events.
        counted: number of them for which rates are earned.
    """
    e = s.episodes[i]
    scope = rules.window if rules.window_scope else e.num_jobs
    starving = 0.0
    long_waits = 0.0
    for k in range(e.queue_hi - e.queue_lo):
        # Ticks until its wait counts; below 0 it has counted before.
        begin = s.jobs[i, s.queue[i, e.queue_lo + k]].submit - e.now + rules.starvation
        if begin >= ticks:
            break
        first = float(int(max(0.0, begin)))  # the tick in which it begins to count
        if begin >= 0.0:
            long_waits += rules.gamma**first
        if k < scope and first < counted:
            part = min(1.0, first + 1.0 - begin)
            starving += rules.gamma**first * (part - 1.0 + discounted(rules.gamma, counted - first))
    o.terms[i, JOB_STARVATION] -= e.discount * starving
    o.terms[i, LONG_WAITS] -= e.discount * long_waits


@step
def discounted(gamma: float, ticks: float) -> float:
    """Sum of gamma ** 0, gamma ** 1, ... over `ticks` ticks; real powers, as in `book_interval`."""
    return (1.0 - gamma**ticks) / (1.0 - gamma) if gamma < 1.0 else ticks


@step
def book_tick(s: State, o: Outcome, rules: Rules, i: int) -> None:
    """Book the tick that began at `now`: energies and every rate."""
    e = s.episodes[i]
    factor = e.discount
    if rules.sparse and e.now > e.transition_start:
        factor = 0.0  # only the first tick of a transition counts [Cunha 2022, 4.6]
    energy = 0.0, 0.0, 0.0, 0.0
    if rules.plant.powered:
        energy = account_energy(s, o, rules, i)
    num_late, starvation = 0, 0.0
    if rules.count_late:
        num_late, starvation = count_late(s, o, rules, i)
    in_scope = e.num_waiting
    slowdown_rate, bounded_rate = e.slowdown_rate + e.running_rate, e.bounded_rate
    if rules.window_scope:
        in_scope = e.num_ready
        slowdown_rate, bounded_rate = first_rates(s, i, in_scope)
    used = 0.0
    on = 0.0
    for r in range(len(s.resources)):
        used += (s.on[i, r, 0] - s.free[i, r]) / s.units[i, r]
        on += s.on[i, r, 0] / s.units[i, r]
    used /= len(s.resources)
    o.accounts[i, USED_SHARE] += used
    o.accounts[i, ON_SHARE] += on / len(s.resources)
    quantities = TickQuantities(
        float(in_scope),
        slowdown_rate,
        bounded_rate,
        float(e.num_waiting),
        float(e.num_running),
        used,
        float(e.num_ready),
        float(e.queue_hi - e.queue_lo - e.num_ready),
        float(e.num_planned),
        float(e.num_suspended),
        e.running_value_rate,
        e.waiting_value,
        float(num_late),
        starvation,
        *energy,
    )
    book_rates(o.terms, o.totals, i, quantities, factor)
    if rules.plant.powered:
        book_power_rates(o.terms, o.totals, i, quantities, factor)
    if rules.count_late:
        book_late_rates(o.terms, o.totals, i, quantities, factor)


@step
def account_energy(s: State, o: Outcome, rules: Rules, i: int) -> tuple[float, float, float, float]:
    """Account the energy of the tick that began at `now`.

    Returns:
        Energy drawn, that from the grid, that curtailed, in kWh, and the carbon, in kg.
    """
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
    return used * kwh, f.brown * kwh, f.curtailed * kwh, carbon


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
    """Part of the tick that began at `now` lies beyond the longest wait that is no starvation."""
    return min(1.0, max(0.0, s.episodes[i].now + 1 - s.jobs[i, row].submit - rules.starvation))


@step
def count_late(s: State, o: Outcome, rules: Rules, i: int) -> tuple[int, float]:
    """Count the jobs past due and those that wait for too long: a look at every job in the system.

    A long wait begins in the tick in which a waiting job has waited for `Rules.starvation` ticks.

    Returns:
        Unfinished jobs past due, and the job ticks of waits beyond `Rules.starvation`.
    """
    e = s.episodes[i]
    late = 0
    long_waits = 0
    starving = 0.0
    for k in range(e.queue_hi - e.queue_lo + e.num_planned + e.num_suspended):
        row = waiting_row(s, i, k)
        late += e.now > s.job_values[i, row].due
        part = starved(s, rules, i, row)
        starving += part
        long_waits += part > 0.0 and e.now - s.jobs[i, row].submit <= rules.starvation
    for k in range(e.num_running):
        late += e.now > s.job_values[i, s.started[i, s.ends[i, k] & JOB_MASK]].due
    add_term(s, o, i, LONG_WAITS, -long_waits)
    return late, starving
