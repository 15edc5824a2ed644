"""Settings files with a scenario and other settings: of a training run or of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel

from rlsched.errors import BadInputError
from rlsched.scenario import Scenario, load, parse_with_base
from rlsched.settings import validate

Model = TypeVar("Model", bound=BaseModel)


def split_overrides(model: type[BaseModel], overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split `--set` assignments into those of a model and those of the scenario, by their first key."""
    of_model: list[str] = []
    of_scenario: list[str] = []
    for override in overrides:
        first = override.partition("=")[0].partition(".")[0]
        (of_model if first in model.model_fields else of_scenario).append(override)
    return of_model, of_scenario


def parse_combined(
    values: Mapping[str, Any], where: str, model: type[Model], overrides: Iterable[str] = ()
) -> tuple[Scenario, Model]:
    """Parse plain values with a model's keys, and `scenario`: a name, a file or a mapping.

    Args:
        values: of the file.
        where: their origin, for messages.
        model: of the other settings.
        overrides: `--set` assignments to either.

    Raises:
        BadInputError: a key or a value is invalid.
    """
    settings = dict(values)
    of_model, of_scenario = split_overrides(model, overrides)
    source = settings.pop("scenario", None)
    if not source:
        validate(model, settings, where, of_model)  # a misspelt key may be the cause
        raise BadInputError(
            f"{where}: scenario", "is missing", "name one: 'scenario: NAME or FILE.yaml', or a mapping"
        )
    if isinstance(source, Mapping):
        scenario = parse_with_base(source, f"{where}: scenario", of_scenario)
    else:
        scenario = load(source, of_scenario)
    return scenario, validate(model, settings, where, of_model)


def dump_combined(scenario: Scenario, settings: BaseModel) -> bytes:
    """A scenario and other settings as one YAML file, for `parse_combined`."""
    values = {"scenario": scenario.model_dump(mode="json"), **settings.model_dump(mode="json")}
    return yaml.safe_dump(values, sort_keys=False, encoding="utf-8")
