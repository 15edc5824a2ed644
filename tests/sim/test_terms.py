"""The table of terms and the compiled code that computes them agree."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

import rlsched.sim
from rlsched.evaluate.costs import episode_cost
from rlsched.jobs import JobTable
from rlsched.scenario import CostTerm, Term, terms
from rlsched.scenario.terms import COSTS, TERM_SPECS, TERMS, TermSpec
from rlsched.sim.metrics import Played
from rlsched.sim.replay import replay
from tests.strategies import scenario

SPECS = list(TERM_SPECS.values())


def kernels_by_term() -> dict[str, set[str]]:
    """Constant of a term -> functions of the core that use it."""
    used: dict[str, set[str]] = {}
    for file in Path(rlsched.sim.__file__).parent.glob("*.py"):
        for function in ast.parse(file.read_text()).body:
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Name) and node.id.lower() in TERM_SPECS and node.id.isupper():
                        used.setdefault(node.id, set()).add(f"{file.stem}.{function.name}")
    return used


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_entry_names_all_functions_that_compute_it(spec: TermSpec) -> None:
    assert kernels_by_term()[spec.name.upper()] == set(spec.kernels)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_entry_is_complete_and_its_constant_is_its_index(spec: TermSpec) -> None:
    assert getattr(terms, spec.name.upper()) == TERMS.index(spec.name)
    assert spec.formula
    assert spec.unit
    assert spec.source
    assert "power" not in spec.needs or "horizon" in spec.needs


def test_settings_know_the_terms_of_the_table() -> None:
    assert get_args(Term) == TERMS
    assert get_args(CostTerm) == COSTS


@pytest.mark.parametrize(
    "spec", [spec for spec in SPECS if spec.cost and "horizon" not in spec.needs], ids=lambda spec: spec.name
)
def test_a_cost_of_event_driven_scenarios_follows_from_starts(spec: TermSpec) -> None:
    jobs = JobTable.build(submit=[0, 0, 1], runtime=[4, 2, 3], demand=[2, 2, 1])
    played = Played.of_starts(jobs, replay(jobs, [2], "fcfs"))
    assert episode_cost(scenario(window=3), [2], spec.name, played) >= 0.0
