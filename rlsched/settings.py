"""Settings objects: frozen, checked, read from YAML and changed by `key.path=value` assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from rlsched.errors import BadInputError

Model = TypeVar("Model", bound=BaseModel)


class Frozen(BaseModel):
    """A settings object: never changed after it was made, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def read_text(path: Path) -> str:
    """The text of a settings file.

    Raises:
        BadInputError: the file is missing or not text.
    """
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(str(path), f"cannot be read ({error})", "give a YAML file in UTF-8") from None


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """A YAML document that must be a mapping."""
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadInputError(where, f"is not YAML ({error})", "mend the syntax") from None
    if not isinstance(values, dict):
        raise BadInputError(where, f"holds {type(values).__name__}", "give a mapping of keys to values")
    return values


def apply_overrides(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Set `a.b.0.c=value` paths in nested mappings and lists, without touching the original."""
    result = yaml.safe_load(yaml.safe_dump(dict(values)))
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path:
            raise BadInputError("--set", f"{override!r} is no assignment", "write --set key.path=value")
        *parents, last = path.split(".")
        node: Any = result
        for key in parents:
            node = _child(node, key, override)
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise BadInputError("--set", f"{override!r} has no YAML value", "quote the value") from None
        if isinstance(node, list):
            node[_position(node, last, override)] = value
        elif isinstance(node, dict):
            node[last] = value
        else:
            raise BadInputError("--set", f"{override!r} goes through a plain value", "shorten the path")
    return result


def _child(node: Any, key: str, override: str) -> Any:
    if isinstance(node, list):
        return node[_position(node, key, override)]
    if isinstance(node, dict):
        if not isinstance(node.get(key), dict | list):
            node[key] = {}  # a key that does not belong there is refused when the whole is checked
        return node[key]
    raise BadInputError("--set", f"{override!r} goes through a plain value", "shorten the path")


def _position(items: list[Any], key: str, override: str) -> int:
    if not (key.isascii() and key.isdigit()) or int(key) >= len(items):
        allowed = f"use 0..{len(items) - 1}" if items else "the list is empty: set it as a whole"
        raise BadInputError("--set", f"{override!r}: no element {key!r}", allowed)
    return int(key)


def validate(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """Check values against a settings model; the first error becomes one line.

    Raises:
        BadInputError: with the path of the key, the value, and what is allowed there.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        # pydantic's marks of a union's variant and of a mapping's key
        of_pydantic = {"lublin", "swf", "poisson", "mao", "[key]"}
        path = ".".join(str(part) for part in first["loc"] if part not in of_pydantic)
        if first["type"] == "extra_forbidden":
            raise BadInputError(
                f"{where}: {path}", "unknown key", f"use one of {', '.join(_siblings(model, first['loc']))}"
            ) from None
        if first["type"] == "missing":
            raise BadInputError(f"{where}: {path}", "is missing", "give it a value") from None
        given = first["input"] if not isinstance(first["input"], dict) else "a mapping"
        raise BadInputError(f"{where}: {path or 'the whole'}", f"value {given!r}", first["msg"]) from None


def _siblings(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed where an unknown one was given."""
    choices: list[type[BaseModel]] = [model]
    for part in path[:-1]:
        if isinstance(part, int):
            continue
        nested = [inner for choice in choices for inner in _models_in(choice, part)]
        if nested:
            choices = nested
        else:  # the tag of a union: keep the member of that name
            choices = [c for c in choices if "kind" in c.model_fields and part in str(c.model_fields["kind"])]
    return sorted({name for choice in choices for name in choice.model_fields})


def _models_in(model: type[BaseModel], name: str) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []

    def walk(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.append(annotation)
        for part in getattr(annotation, "__args__", ()):
            if part is not Ellipsis:
                walk(part)

    if name in model.model_fields:
        walk(model.model_fields[name].annotation)
    return found
