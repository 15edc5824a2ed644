"""Settings objects: frozen, checked, read from YAML and changed by `key.path=value` assignments."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from rlsched.errors import BadInputError
from rlsched.yaml_text import MOST_DEPTH, parse_yaml, reason

Model = TypeVar("Model", bound=BaseModel)


class SettingError(ValueError):
    """A validator refuses a value; its parts make the one line that a user sees.

    Args:
        key: path from the object that is checked; empty: that object.
        problem: what is wrong, with the value.
        remedy: what to do instead.
    """

    def __init__(self, key: str, problem: str, remedy: str) -> None:
        self.key, self.problem, self.remedy = key, problem, remedy
        super().__init__(f"{key}: {problem}; {remedy}" if key else f"{problem}; {remedy}")


ORIGIN: ContextVar[str] = ContextVar("ORIGIN", default="")
"""File, option or folder whose settings `validate` checks now."""


class RenamedSettingWarning(FutureWarning):
    """A setting was given by the name that it had in an earlier version."""


class Frozen(BaseModel):
    """A settings object: never changed after it was made, unknown keys refused.

    Attributes:
        renamed: former name -> present name. The former names are accepted for one version, with a
            `RenamedSettingWarning`, so that runs and files of that version still load.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    renamed: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _accept_former_names(cls, values: object) -> object:
        """Replace former names by the present ones; both together are refused."""
        if not cls.renamed or not isinstance(values, dict):
            return values
        current = dict(values)
        for former in cls.renamed.keys() & values.keys():
            name = cls.present_name(former)
            if name in values:
                raise SettingError(former, f"is given together with {name}, its new name", f"remove {former}")
            current[name] = current.pop(former)
        return current

    @classmethod
    def present_name(cls, name: str) -> str:
        """The present name of a setting; a former name is warned about."""
        present = cls.renamed.get(name)
        if present is None:
            return name
        where = f"{origin}: " if (origin := ORIGIN.get()) else ""
        hint = (
            f"{where}setting {name!r} is now called {present!r}; the old name goes away in the next version"
        )
        warnings.warn(hint, RenamedSettingWarning, stacklevel=2)
        return present

    def __eq__(self, value: object) -> bool:
        """Equal settings, whether as written or as resolved."""
        related = isinstance(value, type(self)) or isinstance(self, type(value))
        return related and self.__dict__ == value.__dict__

    @classmethod
    def preset(cls, word: str) -> dict[str, Any] | None:
        """The settings of a preset, where a section is set to its name; None: no such preset."""
        return None


LONGEST_EXCERPT = 80
"""Characters of a command-line value that a message repeats."""


def apply_overrides(
    model: type[BaseModel], values: Mapping[str, Any], overrides: Iterable[str]
) -> dict[str, Any]:
    """Set `a.b.0.c=value` paths in nested mappings and lists, without touching the original.

    A preset changes the settings that it names, and leaves the rest of its section as it is.
    """
    result = yaml.safe_load(yaml.safe_dump(dict(values)))
    for override in overrides:
        path, equals, text = override.partition("=")
        if not equals or not path:
            problem = f"{_excerpt(override)} is no assignment"
            raise BadInputError("--set", problem, "write --set key.path=value")
        *parents, last = path.split(".")
        if len(parents) > MOST_DEPTH:
            problem = f"{_excerpt(override)} has more than {MOST_DEPTH} levels"
            raise BadInputError("--set", problem, "shorten the path")
        *parents, last = present_path(model, path).split(".")
        node: Any = result
        for key in parents:
            node = _child(node, key, override)
        try:
            value = parse_yaml(text)
        except yaml.YAMLError as error:
            problem = f"{_excerpt(override)} has no YAML value ({reason(error)})"
            raise BadInputError("--set", problem, "quote the value") from None
        if isinstance(node, list):
            node[_position(node, last, override)] = value
        elif isinstance(node, dict):
            named = _preset(model, (*parents, last), value)
            current = node.get(last)
            node[last] = {**current, **named} if named is not None and isinstance(current, dict) else value
        else:
            problem = f"{_excerpt(override)} goes through a plain value"
            raise BadInputError("--set", problem, "shorten the path")
    return result


def present_path(model: type[BaseModel], path: str) -> str:
    """A dotted path with former names of settings replaced by the present ones."""
    keys: list[str] = []
    for key in path.split("."):
        at = _models_at(model, tuple(0 if _is_position(part) else part for part in keys))
        owner = next((choice for choice in at if issubclass(choice, Frozen) and key in choice.renamed), None)
        keys.append(key if owner is None else owner.present_name(key))
    return ".".join(keys)


def _preset(model: type[BaseModel], path: tuple[str, ...], value: object) -> dict[str, Any] | None:
    """The settings of the preset that a value names at a path, if it names one."""
    if not isinstance(value, str):
        return None
    at = _models_at(model, tuple(0 if _is_position(part) else part for part in path))
    presets = [choice.preset(value) for choice in at if issubclass(choice, Frozen)]
    return next((named for named in presets if named is not None), None)


def _child(node: Any, key: str, override: str) -> Any:
    if isinstance(node, list):
        return node[_position(node, key, override)]
    if isinstance(node, dict):
        if not isinstance(node.get(key), dict | list):
            node[key] = {}  # a key that does not belong there is refused when the whole is checked
        return node[key]
    raise BadInputError("--set", f"{_excerpt(override)} goes through a plain value", "shorten the path")


def _position(items: list[Any], key: str, override: str) -> int:
    if not _is_position(key) or int(key) >= len(items):
        allowed = f"use 0..{len(items) - 1}" if items else "the list is empty: set it as a whole"
        raise BadInputError("--set", f"{_excerpt(override)}: no element {_excerpt(key)}", allowed)
    return int(key)


def _excerpt(text: str) -> str:
    """A command-line value, shortened for a message."""
    return repr(text if len(text) <= LONGEST_EXCERPT else f"{text[:LONGEST_EXCERPT]}...")


def _is_position(key: str) -> bool:
    """Whether a part of a path is an index of a list; longer numbers are no indices."""
    return key.isascii() and key.isdigit() and len(key) <= 9


def validate(
    model: type[Model], values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()
) -> Model:
    """Check values against a settings model; the first error becomes one line.

    Args:
        model: of the settings.
        values: plain values of a file or a run folder.
        where: their origin, for messages.
        overrides: `--set` assignments; they apply to all settings, those that the values leave to their
            defaults, too.

    Raises:
        BadInputError: with the path of the key, the value, and what is allowed there.
    """
    assignments = list(overrides)
    if assignments:
        settings = validate(model, values, where)
        values, where = apply_overrides(model, settings.model_dump(mode="json"), assignments), "--set"
    token = ORIGIN.set(where)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # A misspelt key is the cause where another one is missing for it.
        details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
        raise _one_line(model, details[0], where) from None
    finally:
        ORIGIN.reset(token)


_OF_PYDANTIC = {"lublin", "swf", "poisson", "mao", "[key]"}
"""Parts of a path that are its marks of a union's variant and of a mapping's key."""


def _one_line(model: type[BaseModel], first: ErrorDetails, where: str) -> BadInputError:
    """The first error of pydantic as one line with place, value and remedy."""
    keys = [str(part) for part in first["loc"] if part not in _OF_PYDANTIC]
    kind, value, context = first["type"], first["input"], first.get("ctx", {})

    def line(problem: str, remedy: str, *more: str) -> BadInputError:
        path = ".".join([*keys, *more])
        return BadInputError(f"{where}: {path}" if path else where, problem, remedy)

    if kind == "extra_forbidden":
        known = _siblings(model, first["loc"])
        close = get_close_matches(keys[-1], known, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        return line("unknown key", f"{meant}use one of {', '.join(known)}")
    if kind == "missing":
        return line("is missing", "give it a value")
    if kind == "union_tag_invalid":
        return line(f"value {context['tag']!r}", f"use one of {context['expected_tags']}", "kind")
    if kind == "union_tag_not_found" and isinstance(value, dict):
        kinds = [
            repr(kind)
            for variant in _models_at(model, first["loc"])
            for kind in get_args(variant.model_fields["kind"].annotation)
        ]
        return line("is missing", f"use one of {', '.join(kinds)}", "kind")
    refused = context.get("error")
    if isinstance(refused, SettingError):
        return line(refused.problem, refused.remedy, *([refused.key] if refused.key else []))
    message = str(refused) if isinstance(refused, ValueError) else first["msg"]
    if not (isinstance(value, dict) and value):
        return line(f"value {as_written(value)}", message)
    return line(message, "change one of them") if refused else line("is a mapping", message)


def as_written(value: object) -> str:
    """A value as a user would have written it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return repr(str(value) if isinstance(value, Path) else value)


def _siblings(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed where an unknown one was given."""
    return sorted({name for choice in _models_at(model, path[:-1]) for name in choice.model_fields})


def _models_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[type[BaseModel]]:
    """Settings models that may occur at a path."""
    choices: list[type[BaseModel]] = [model]
    for part in path:
        if isinstance(part, int):
            continue
        nested = [inner for choice in choices for inner in _models_in(choice, part)]
        if nested:
            choices = nested
        else:  # the tag of a union, of which the member of that name is kept, or the key of a mapping
            tagged = [c for c in choices if "kind" in c.model_fields]
            choices = [c for c in tagged if part in str(c.model_fields["kind"])] if tagged else choices
    return choices


def _models_in(model: type[BaseModel], name: str) -> list[type[BaseModel]]:
    models: list[type[BaseModel]] = []

    def walk(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            models.append(annotation)
        for part in getattr(annotation, "__args__", ()):
            if part is not Ellipsis:
                walk(part)

    if name in model.model_fields:
        walk(model.model_fields[name].annotation)
    return models
