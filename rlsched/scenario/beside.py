"""Settings files that hold a scenario beside settings of another kind: of a training, of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from rlsched.errors import BadInputError
from rlsched.scenario import Scenario, load, parse
from rlsched.settings import validate
from rlsched.settings_files import read_text, read_yaml

Model = TypeVar("Model", bound=BaseModel)


def split_overrides(model: type[BaseModel], overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """Tell `--set` assignments to a model from those to the scenario, by their first key."""
    own: list[str] = []
    scenario: list[str] = []
    for override in overrides:
        first = override.partition("=")[0].partition(".")[0]
        (own if first in model.model_fields else scenario).append(override)
    return own, scenario


def read_beside(
    path: Path,
    model: type[Model],
    overrides: Iterable[str] = (),
    usual: str | Mapping[str, Any] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> tuple[Scenario, Model]:
    """Read a file with a model's keys, and `scenario`: a name, a file or a mapping.

    Args:
        path: of the file.
        model: of the other settings.
        overrides: `--set` assignments to either.
        usual: scenario where the file names none; left out: it must.
        beside: other settings, that come before those of the file.

    Raises:
        BadInputError: the file, a key or a value is wrong.
    """
    values = read_yaml(read_text(path), str(path)) | dict(beside or {})
    return parse_beside(values, str(path), model, overrides, usual)


def parse_beside(
    given: Mapping[str, Any],
    where: str,
    model: type[Model],
    overrides: Iterable[str] = (),
    usual: str | Mapping[str, Any] | None = None,
) -> tuple[Scenario, Model]:
    """The same of plain values.

    Raises:
        BadInputError: a key or a value is wrong.
    """
    values = dict(given)
    own, for_scenario = split_overrides(model, overrides)
    simulated = values.pop("scenario", None) or usual
    if simulated is None:
        validate(model, values, where, own)  # a misspelt key is the cause where this one is missing
        raise BadInputError(
            f"{where}: scenario", "is missing", "name one: 'scenario: NAME or FILE.yaml', or a mapping"
        )
    if isinstance(simulated, Mapping):
        scenario = parse(simulated, f"{where}: scenario", for_scenario)
    else:
        scenario = load(simulated, for_scenario)
    return scenario, validate(model, values, where, own)


def yaml_with_scenario(scenario: Scenario, settings: BaseModel) -> bytes:
    """The two as one file, which `read_beside` reads again."""
    values = {"scenario": scenario.model_dump(mode="json"), **settings.model_dump(mode="json")}
    return yaml.safe_dump(values, sort_keys=False, encoding="utf-8")
