"""Scenarios by name, from YAML files and from plain values, and the files that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from rlsched.errors import BadInputError
from rlsched.scenario.objective import Objective
from rlsched.scenario.power import Power
from rlsched.scenario.scenario import Scenario
from rlsched.scenario.workload import SwfWorkload
from rlsched.settings import as_written, validate
from rlsched.settings_files import read_text, read_yaml


def names() -> list[str]:
    """Names of the scenarios of the package; sizes of one scenario are in ascending order."""
    folder = resources.files("rlsched") / "scenarios"
    stems = [entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return sorted(stems, key=_by_size)


def _by_size(name: str) -> list[tuple[bool, int, str]]:
    """Sort key of names: green-50 comes before green-100, and sizes before words."""
    return [(not part.isdigit(), len(part) if part.isdigit() else 0, part) for part in name.split("-")]


def load(name_or_file: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario by its name or from a YAML file.

    Args:
        name_or_file: one of `names()`, or a path that ends in .yaml or .yml.
        overrides: `key.path=value` assignments, the value in YAML syntax; applied in order.

    Raises:
        BadInputError: there is no such scenario, or it is not YAML, or has an invalid key or value.
    """
    text = str(name_or_file)
    return parse_with_base(_read(text, "--scenario"), text, overrides)


def _read(name_or_file: str, where: str) -> dict[str, Any]:
    """Plain values of a scenario as its file has them."""
    if name_or_file in names():
        source = resources.files("rlsched") / "scenarios" / f"{name_or_file}.yaml"
        return read_yaml(source.read_text("utf-8"), name_or_file)
    path = Path(name_or_file)
    if path.suffix not in {".yaml", ".yml"}:
        raise BadInputError(
            where, f"unknown scenario {name_or_file!r}", f"use a .yaml file or one of {', '.join(names())}"
        )
    return read_yaml(read_text(path), name_or_file)


def parse(values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> Scenario:
    """Make a Scenario of its plain values (of a run folder, of an artefact), see `validate`."""
    return validate(Scenario, values, where, overrides)


MOST_BASES = 8
"""Most scenarios that stand behind another, each the base of the one before."""


def parse_with_base(values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> Scenario:
    """Make a Scenario of what a user wrote, which may be changes of a `base`, a name or a file.

    A key of a section replaces that key of the base, with all that it holds. A section of another `kind`
    replaces the whole section. Name and description are not those of the base.

    Raises:
        BadInputError: a base, a key or a value is invalid.
    """
    sources = [where]
    written = [values]
    while "base" in written[-1]:
        base, field = written[-1]["base"], f"{sources[-1]}: base"
        if not isinstance(base, str):
            problem = f"value {as_written(base)} is no name"
            raise BadInputError(field, problem, "name a scenario or a .yaml file")
        if base in sources or len(sources) > MOST_BASES:
            problem = f"{base} is based on itself" if base in sources else f"more than {MOST_BASES} bases"
            raise BadInputError(field, problem, "name another scenario")
        written.append(_read(base, field))
        sources.append(base)
    result: dict[str, Any] = {}
    for changes in reversed(written):
        result = _changed(result, changes)
    return validate(Scenario, result, ", based on ".join(sources), overrides)


def _changed(scenario: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a scenario with changes of its sections, see `parse_with_base`."""
    result = {key: value for key, value in scenario.items() if key not in ("name", "description")}
    for key, value in changes.items():
        section = result.get(key)
        if key == "objective" and isinstance(value, str):
            value = Objective.preset(value) or value
        if isinstance(value, Mapping) and isinstance(section, Mapping):
            kinds = {part["kind"] for part in (section, value) if "kind" in part}
            result[key] = value if len(kinds) == 2 else {**section, **value}
        elif key != "base":
            result[key] = value
    return result


def as_scenario(scenario: Scenario | Mapping[str, Any] | str | Path) -> Scenario:
    """A scenario from itself, its plain values, its name or its file.

    Raises:
        BadInputError: see `load`.
    """
    if isinstance(scenario, Scenario):
        return scenario
    return parse(scenario, "scenario") if isinstance(scenario, Mapping) else load(scenario)


def rooted(scenario: Scenario) -> Scenario:
    """The scenario with absolute paths, so that a run can resume from any folder."""
    sections = {
        name: part.model_copy(update={"file": part.file.resolve()})
        for name, part in (("workload", scenario.workload), ("power", scenario.power))
        if isinstance(part, SwfWorkload | Power) and part.file is not None
    }
    return scenario.model_copy(update=sections)


def files(scenario: Scenario) -> dict[str, Path]:
    """Data files of a scenario: kind of data -> path."""
    paths = {}
    if isinstance(scenario.workload, SwfWorkload):
        paths["trace"] = scenario.workload.file
    if scenario.power is not None and scenario.power.file is not None:
        paths["power series"] = scenario.power.file
    return paths
