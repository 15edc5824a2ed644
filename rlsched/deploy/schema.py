"""JSON schemas of cluster files: reading those of this package, and reporting violations."""

from __future__ import annotations

import gzip
import json
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import validator_for

from rlsched.deploy.findings import Place, one_of


@cache
def load_schema(name: str) -> dict[str, Any]:
    """A schema of this package, by its file name. Callers must not change it."""
    path = Path(__file__).parent / "schemas" / name
    if path.suffix == ".gz":
        return dict(json.loads(gzip.decompress(path.read_bytes())))
    return dict(yaml.safe_load(path.read_text("utf-8")))


def check_schema(place: Place, value: Any, schema: dict[str, Any]) -> bool:
    """Report each violation of a JSON schema, and return whether there is none.

    A mapping with a `$comment` in its schema may have keys of a newer version than that. Of its unknown keys
    only those that resemble a known key are faults; the others are listed as unchecked.
    """
    before = len(place.report.problems)
    validator = validator_for(schema, Draft202012Validator)(schema)
    errors = [best_match([error]) for error in validator.iter_errors(value)]
    for error in sorted(errors, key=lambda error: [str(key) for key in error.absolute_path]):
        error_place = place
        for key in error.absolute_path:
            error_place = error_place / key
        if error.validator == "additionalProperties":
            _report_unknown_keys(error_place, error)
        else:
            error_place.error(*_explain(error))
    return len(place.report.problems) == before


def _report_unknown_keys(place: Place, error: ValidationError) -> None:
    known = error.schema.get("properties", {})
    version = error.schema.get("$comment")
    for key in error.instance:
        if key in known or f"'{key}'" not in error.message:
            continue
        if version and not get_close_matches(key, known, n=1):
            place.report.unchecked.append(f"{'.'.join((*place.path, key))}: not in {version}")
        else:
            (place / key).error("unknown key", one_of(key, known))


def _explain(error: ValidationError) -> tuple[str, str]:
    """Problem and remedy of a violation; schemas of this package state some remedies as `x-remedy`."""
    rule = error.validator_value
    problem = error.message if error.validator == "required" else f"{error.instance!r} is not valid"
    match error.validator:
        case "enum":
            return problem, one_of(str(error.instance), map(str, rule))
        case "pattern":
            return problem, f"write it as {' or '.join(error.schema.get('examples', [rule]))}"
        case "type":
            return error.message, f"use {rule}" + (" (quote it)" if rule == "string" else "")
        case "const" | "not" | "required":
            return problem, error.schema.get("x-remedy", "add it")
    return error.message, "change it"
