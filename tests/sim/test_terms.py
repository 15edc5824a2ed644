"""The entries of the table of terms are complete, and agree with their functions and with the core."""

from __future__ import annotations

import ast
import random
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import rlsched.sim
from rlsched.scenario import CostTerm, Term, terms
from rlsched.scenario.term_spec import JobQuantities, TermSpec, TickQuantities
from rlsched.scenario.terms import COSTS, TERM_SPECS, TERMS

SPECS = list(TERM_SPECS.values())
each_entry = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
EVENT_DRIVEN = frozenset(
    {"num_in_scope", "slowdown_rate", "bounded_rate", "num_waiting", "num_running", "used_share"}
)
"""Quantities that need nothing."""
NEEDS = {
    "num_late": {"every_job"},
    "starvation": {"every_job"},
    "energy_kwh": {"power"},
    "brown_kwh": {"power"},
    "curtailed_kwh": {"power"},
    "carbon_kg": {"power"},
}
"""Needs of a quantity beside a horizon."""


def random_ticks(rng: random.Random, count: int) -> list[TickQuantities]:
    """Quantities of ticks, all from 0 to 1."""
    return [TickQuantities(*[rng.random() for _ in TickQuantities._fields]) for _ in range(count)]


def kernels_by_term() -> dict[str, set[str]]:
    """Name of a term -> functions of the core that use its constant."""
    used: dict[str, set[str]] = {}
    for file in Path(rlsched.sim.__file__).parent.glob("*.py"):
        for function in ast.parse(file.read_text()).body:
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Name) and node.id.lower() in TERM_SPECS and node.id.isupper():
                        used.setdefault(node.id.lower(), set()).add(f"{file.stem}.{function.name}")
    return used


@each_entry
def test_an_entry_names_all_special_cases(spec: TermSpec) -> None:
    assert kernels_by_term().get(spec.name, set()) == set(spec.kernels)


def test_constants_are_indices() -> None:
    named = {name: getattr(terms, name.upper()) for name in TERMS if hasattr(terms, name.upper())}
    assert set(kernels_by_term()) <= set(named)
    assert named == {name: TERMS.index(name) for name in named}


@each_entry
def test_an_entry_is_complete(spec: TermSpec) -> None:
    assert spec.formula
    assert spec.unit
    assert spec.source
    assert spec.rate or spec.on_finish or spec.on_rejection or spec.on_suspension or spec.kernels
    assert "power" not in spec.needs or "horizon" in spec.needs
    if spec.on_finish or spec.on_rejection or spec.on_suspension:
        assert "horizon" in spec.needs or spec.kernels


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.rate], ids=lambda spec: spec.name)
def test_an_entry_has_the_needs_of_the_quantities_it_reads(spec: TermSpec) -> None:
    assert spec.rate is not None
    quantities = set(spec.rate.__code__.co_names) & set(TickQuantities._fields)
    for quantity in quantities - EVENT_DRIVEN:
        assert NEEDS.get(quantity, set()) <= spec.needs, quantity
        assert "horizon" in spec.needs or spec.kernels, quantity
    if not spec.kernels:
        assert spec.scope == bool(quantities & {"num_in_scope", "slowdown_rate", "bounded_rate"})


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.rate], ids=lambda spec: spec.name)
def test_a_rate_is_computed_alike_for_numbers_and_arrays_and_has_the_sign_of_its_formula(
    spec: TermSpec,
) -> None:
    assert spec.rate is not None
    ticks = random_ticks(random.Random(0), 20)
    rates = [spec.rate(tick) for tick in ticks]
    columns = TickQuantities(*[np.array(column) for column in zip(*ticks, strict=True)])
    assert np.broadcast_to(spec.rate(columns), len(ticks)).tolist() == rates
    assert_sign(rates, spec.formula)


@each_entry
def test_amounts_of_events_have_the_sign_of_the_formula(spec: TermSpec) -> None:
    jobs = [JobQuantities(now=now, submit=1.0, due=3.0, value=4.0) for now in (2.0, 5.0)]  # in time, and late
    for amount in (spec.on_finish, spec.on_rejection, spec.on_suspension):
        if amount is not None:
            assert_sign([float(amount(job)) for job in jobs], spec.formula)


def assert_sign(values: list[float], formula: str) -> None:
    """Some value is not zero, and all others have the sign with which the formula begins."""
    sign = -1.0 if formula.startswith("-") else 1.0
    assert any(values)
    assert all(sign * value >= 0 for value in values)


def test_settings_know_the_terms_of_the_table() -> None:
    assert get_args(Term) == TERMS
    assert get_args(CostTerm) == COSTS
