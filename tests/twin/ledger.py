"""What was booked: for the last transition with discount, since the start of the episode without."""

from __future__ import annotations

from dataclasses import fields

from .power import Energy
from .terms import EVENTS, RATES, Tick


class Ledger:
    """All terms by name.

    Attributes:
        terms: of the last transition, discounted from its beginning.
        totals: since the start of the episode: every tick, every event, no discount.
        energies: likewise kWh of each flow, and `carbon_kg`.
        began: the tick at which the transition began.
    """

    def __init__(self, gamma: float, first_tick_only: bool) -> None:
        self.gamma, self.first_tick_only = gamma, first_tick_only
        self.totals = dict.fromkeys((*RATES, *EVENTS), 0.0)
        self.energies = {field.name: 0.0 for field in fields(Energy)}

    def begin_transition(self, now: int) -> None:
        self.terms = dict.fromkeys((*RATES, *EVENTS), 0.0)
        self.began = now

    def book_event(self, term: str, amount: float, now: int) -> None:
        self.terms[term] += self.gamma ** (now - self.began) * amount
        self.totals[term] += amount

    def book_tick(self, tick: Tick) -> None:
        """The tick that ends; a transition may be rewarded for the first of its ticks only."""
        for name, term in RATES.items():
            amount = term(tick)
            self.totals[name] += amount
            if tick.now == self.began or not self.first_tick_only:
                self.terms[name] += self.gamma ** (tick.now - self.began) * amount
        for name in self.energies:
            self.energies[name] += getattr(tick.energy, name)
