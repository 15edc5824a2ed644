"""Scenarios that are based on others: what is inherited, what is replaced, what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.scenario import Scenario, parse, parse_with_base

GREEN = {"base": "green-10"}


def parsed(*overrides: str, values: dict[str, Any]) -> Scenario:
    return parse_with_base(values, "mine", overrides)


def refused(*, values: dict[str, Any]) -> str:
    with pytest.raises(BadInputError) as caught:
        parsed(values=values)
    return str(caught.value)


def test_a_base_and_what_is_changed_in_it() -> None:
    changed = parsed(values=GREEN | {"name": "mine", "decision": {"window": 9}, "objective": {"gamma": 0.9}})
    expected = scenario.load(
        "green-10", ["name=mine", "description=''", "decision.window=9", "objective.gamma=0.9"]
    )
    assert changed == expected
    assert parsed("decision.window=8", values=GREEN | {"decision": {"window": 9}}).decision.window == 8


def test_what_a_key_holds_is_replaced_and_not_merged() -> None:
    changed = parsed(values=GREEN | {"objective": {"reward": {"on_time_value": 1.0}}, "power": None})
    assert changed.objective.reward == {"on_time_value": 1.0}
    assert changed.power is None


def test_a_section_of_another_kind_is_replaced() -> None:
    changed = parsed(values=GREEN | {"workload": {"kind": "mao"}})
    assert changed.workload == parsed(values=GREEN | {"workload": {"kind": "mao", "rate": 0.7}}).workload
    assert parsed(values=GREEN | {"workload": {"kind": "poisson", "long_share": 0.1}}).workload.load == 1.0


def test_a_section_without_a_kind_is_of_the_kind_of_the_other(tmp_path: Path) -> None:
    base = tmp_path / "grid.yaml"
    base.write_text("base: green-10\npower: {grid_kw: 3}\n")
    power = parsed(values={"base": str(base), "power": {"kind": "constant"}}).power
    assert power is not None
    assert power.grid_kw == 3


def test_a_preset_changes_what_it_names(tmp_path: Path) -> None:
    """As with --set; and a base that has one keeps it."""
    preset = parsed(values=GREEN | {"objective": "total_value_at_start"})
    assert preset.objective == scenario.load("green-10", ["objective=total_value_at_start"]).objective
    base = tmp_path / "preset.yaml"
    base.write_text("base: green-10\nobjective: total_value_at_start\n")
    changed = parsed(values={"base": str(base), "objective": {"gamma": 0.9}}).objective
    assert (changed.reward, changed.gamma) == (preset.objective.reward, 0.9)


def test_artefacts_name_no_base() -> None:
    """What a program wrote is whole: a foreign artefact reads no files."""
    with pytest.raises(BadInputError, match="base: unknown key"):
        parse(GREEN, "policy.json")


def test_a_base_has_another_name_than_what_is_built_on_it() -> None:
    assert parsed(values=GREEN).name == "custom"
    assert parsed(values=GREEN).description == ""


def test_a_base_may_be_a_file_with_a_base(tmp_path: Path) -> None:
    first = tmp_path / "first.yaml"
    first.write_text("base: green-10\ndecision: {window: 9}\n")
    second = tmp_path / "second.yaml"
    second.write_text(f"base: {first}\nepisode: {{max_ticks: 100}}\n")
    loaded = scenario.load(second)
    assert (loaded.decision.window, loaded.episode.max_ticks, loaded.cluster.tick_s) == (9, 100, 3600)


def test_bases_that_are_refused(tmp_path: Path) -> None:
    itself = tmp_path / "itself.yaml"
    itself.write_text(f"base: {itself}\n")
    with pytest.raises(BadInputError) as caught:
        scenario.load(itself)
    assert str(caught.value) == f"{itself}: base: {itself} is based on itself; name another scenario"
    assert refused(values={"base": 3}) == "mine: base: value 3 is no name; name a scenario or a .yaml file"
    assert refused(values={"base": "green"}).startswith(
        "mine: base: unknown scenario 'green'; use a .yaml file"
    )
    assert "no such file" in refused(values={"base": "none.yaml"})
    assert refused(values=GREEN | {"episode": {"job": 1}}).startswith(
        "mine, based on green-10: episode.job: unknown key"
    )
    chain = [tmp_path / f"{k}.yaml" for k in range(10)]
    for file, following in pairwise(chain):
        file.write_text(f"base: {following}\n")
    assert f"{chain[7]}: base: more than 8 bases" in refused(values={"base": str(chain[0])})
