"""Booking of the table of terms: compiled code made of the table's functions when this module is imported.

numba takes a function in a closure for a constant, so all of a booking is compiled into one piece of code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rlsched.jobs import FloatArray
from rlsched.scenario.term_spec import EVERY_JOB, HORIZON, POWER, JobQuantities, TermSpec, TickQuantities
from rlsched.scenario.terms import TERM_SPECS, TERMS
from rlsched.sim.compiled import inlined, step
from rlsched.sim.state import State

Quantities = TypeVar("Quantities", TickQuantities, JobQuantities)
Booking = Callable[[FloatArray, FloatArray, int, Quantities, float], None]
"""Adds amounts for these quantities to terms (env, term), times a factor, and to totals (env, term)."""


@inlined
def _nothing(terms: FloatArray, totals: FloatArray, i: int, quantities: Any, factor: float) -> None:
    """The booking of no term."""


def booking(kind: str, specs: Iterable[TermSpec], *, total: bool = True) -> Booking[Any]:
    """A compiled booking of all terms that have a function of this kind.

    Args:
        kind: attribute of `TermSpec`, such as rate.
        specs: terms.
        total: add to the totals, too.
    """
    chain: Booking[Any] = _nothing
    for spec in specs:
        if getattr(spec, kind) is not None:
            chain = _with_term(chain, TERMS.index(spec.name), inlined(getattr(spec, kind)), total)
    return chain


def _with_term(
    book_others: Booking[Quantities], index: int, amount: Callable[[Quantities], Any], total: bool
) -> Booking[Quantities]:
    """The booking of one more term, of this index."""

    @inlined
    def add(terms: FloatArray, totals: FloatArray, i: int, quantities: Quantities, factor: float) -> None:
        book_others(terms, totals, i, quantities, factor)
        value = amount(quantities)
        terms[i, index] += factor * value
        if total:
            totals[i, index] += value

    return add


# Of each need its own, since terms that are not needed would cost a twentieth of a tick.
book_rates = booking("rate", (spec for spec in TERM_SPECS.values() if spec.needs <= HORIZON))
book_power_rates = booking("rate", (spec for spec in TERM_SPECS.values() if spec.needs == POWER))
book_late_rates = booking("rate", (spec for spec in TERM_SPECS.values() if spec.needs >= EVERY_JOB))
book_event_rates = booking("rate", (spec for spec in TERM_SPECS.values() if not spec.needs), total=False)
"""Without a horizon; terms that need a look at every job have a function of their own there."""
book_finish = booking("on_finish", TERM_SPECS.values())
book_rejection = booking("on_rejection", TERM_SPECS.values())
book_suspension = booking("on_suspension", TERM_SPECS.values())


@step
def job_quantities(s: State, i: int, row: int) -> JobQuantities:
    """Quantities of a job now, in tick-driven scenarios."""
    job_value = s.job_values[i, row]
    return JobQuantities(
        float(s.episodes[i].now), float(s.jobs[i, row].submit), float(job_value.due), job_value.value
    )
