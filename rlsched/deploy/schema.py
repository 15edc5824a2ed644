"""JSON schemas, and their errors in the words of this house."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator, Draft202012Validator, ValidationError

from rlsched.deploy.findings import Place, Problems, one_of
from rlsched.settings import as_written

FOLDER = Path(__file__).parent / "schemas"
KUBERAY = "1.5"
"""Version of the operator whose kinds `schemas/ray.yaml` describes."""
NAMED = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "string": "text",
}


@cache
def kept(name: str) -> dict[str, Any]:
    """A schema of this package."""
    path = FOLDER / name
    if path.suffix == ".gz":
        return dict(json.loads(gzip.decompress(path.read_bytes())))
    return dict(yaml.safe_load(path.read_text("utf-8")))


def kinds() -> dict[str, dict[str, Any]]:
    """The schemas of Kubernetes' and Ray's kinds, by `apiVersion kind`."""
    kubernetes, ray = kept("kubernetes.json.gz"), kept("ray.yaml")
    definitions = kubernetes["$defs"] | {name: _by_hand(one) for name, one in ray["$defs"].items()}
    return {
        kind: {"$defs": definitions, "$ref": f"#/$defs/{name}"}
        for kind, name in (kubernetes["kinds"] | ray["kinds"]).items()
    }


BY_HAND = "x-by-hand"
"""Marks the schemas of mappings of ours: a newer operator may know more keys than they do."""


def _by_hand(schema: Any) -> Any:
    """The schema, with all mappings in it marked."""
    if isinstance(schema, list):
        return [_by_hand(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    marked = {name: _by_hand(part) for name, part in schema.items()}
    return marked | {BY_HAND: True} if schema.get("additionalProperties") is False else marked


def unknown_keys(values: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Where a newer operator may know keys that a schema of ours does not, and that are like none it does."""
    for error in Draft202012Validator(schema).iter_errors(values):
        for leaf in _leaves(error):
            if leaf.validator == "additionalProperties":
                for key in filter(partial(_is_newer, leaf), _extra(leaf)):
                    yield ".".join(map(str, (*leaf.absolute_path, key)))


def _is_newer(error: ValidationError, key: str) -> bool:
    known = error.schema.get("properties", {})
    return error.schema.get(BY_HAND, False) and not get_close_matches(key, known, n=1)


def fits(place: Place, values: Any, schema: dict[str, Any], *, draft7: bool = False) -> Problems:
    """Hold values against a schema.

    Args:
        place: they stand at.
        values: of a file.
        schema: of them.
        draft7: what it is written in; else 2020-12.
    """
    validator = (Draft7Validator if draft7 else Draft202012Validator)(schema)
    found = [leaf for error in validator.iter_errors(values) for leaf in _leaves(error)]
    misspelt = [
        (tuple(error.absolute_path), key)
        for error in found
        if error.validator == "additionalProperties"
        for key in _extra(error)
    ]
    for error in sorted(found, key=lambda error: [str(part) for part in error.absolute_path]):
        here = place
        for part in error.absolute_path:
            here = here / part
        yield from _lines(here, error, [key for path, key in misspelt if path == tuple(error.absolute_path)])


def _leaves(error: ValidationError) -> Iterable[ValidationError]:
    """What is wrong in the one alternative that was meant, where it can be told."""
    if error.validator not in {"anyOf", "oneOf"} or not error.context:
        return [error]
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    meant = [
        inner
        for inner in branches.values()
        if not any(one.validator == "type" and not one.path for one in inner)
    ]
    return [leaf for one in meant[0] for leaf in _leaves(one)] if len(meant) == 1 else [error]


def _extra(error: ValidationError) -> list[str]:
    """The keys that a mapping has and its schema does not."""
    patterns = error.schema.get("patternProperties", {})
    return [
        key
        for key in error.instance
        if key not in error.schema.get("properties", {})
        and not any(re.search(pattern, key) for pattern in patterns)
    ]


def _lines(place: Place, error: ValidationError, misspelt: list[str]) -> Problems:
    """An error, a line for each key that it is about."""
    kind, given, rule = str(error.validator), error.instance, error.validator_value
    if kind == "additionalProperties":
        for key in _extra(error):
            known = error.schema.get("properties", {})
            if _is_newer(error, key):
                continue
            if known:
                yield (place / key).unknown("key", key, known)
            else:
                yield (place / key).wrong("is no name", "use letters, digits, '.', '_' and '-'")
    elif kind == "required":
        # Its absence follows from the misspelt key, which has a line of its own.
        missing = [key for key in rule if key not in given and f"'{key}'" in error.message]
        for key in missing:
            if not get_close_matches(key, misspelt, n=1):
                yield (place / key).wrong("is missing", "give it a value")
    elif kind == "type":
        names = [NAMED.get(name, name) for name in ([rule] if isinstance(rule, str) else rule)]
        quote = " (quote it)" if names == ["text"] and isinstance(given, bool | int | float) else ""
        yield place.wrong(said(given), f"use {' or '.join(names)}{quote}")
    elif kind == "enum":
        yield place.wrong(said(given), one_of(str(given), map(str, rule)))
    elif kind in {"anyOf", "oneOf"}:
        names = sorted({NAMED[str(one["type"])] for one in rule if one.get("type") in NAMED})
        yield place.wrong(said(given), f"use {' or '.join(names)}" if names else "see its schema")
    elif kind == "pattern":
        examples = error.schema.get("examples")
        form = f"it as {' or '.join(examples)}" if examples else f"it as {rule}"
        yield place.wrong(said(given), f"write {form}")
    elif kind in {"minimum", "maximum"}:
        yield place.wrong(said(given), f"use at {'least' if kind == 'minimum' else 'most'} {rule}")
    else:  # format, uniqueItems and the like say it themselves
        yield place.wrong(said(given), f"{kind} {rule}")


def said(value: object) -> str:
    """A value, as far as a line can hold it."""
    if isinstance(value, dict | list):
        return "is a mapping" if isinstance(value, dict) else "is a list"
    return f"value {as_written(value)}"
