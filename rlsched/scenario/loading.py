"""Scenarios by name, from YAML files and from plain values, and the files that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from rlsched.errors import BadInputError
from rlsched.scenario.power import Power
from rlsched.scenario.scenario import Scenario
from rlsched.scenario.workload import SwfWorkload
from rlsched.settings import validate
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
    if text in names():
        source = (resources.files("rlsched") / "scenarios" / f"{text}.yaml").read_text("utf-8")
        return parse(read_yaml(source, text), text, overrides)
    path = Path(text)
    if path.suffix not in {".yaml", ".yml"}:
        raise BadInputError(
            "--scenario", f"unknown scenario {text!r}", f"use a .yaml file or one of {', '.join(names())}"
        )
    return parse(read_yaml(read_text(path), text), text, overrides)


def parse(values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> Scenario:
    """Make a Scenario of plain values (of a YAML file, of a run folder), see `validate`."""
    return validate(Scenario, values, where, overrides)


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
