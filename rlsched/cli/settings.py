"""`rlsched settings`: all keys of `--set`, of scenarios, training and the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from rlsched.cli import options, output
from rlsched.errors import BadInputError
from rlsched.settings import as_written

Part = Literal["scenario", "training", "service"]


@dataclass(frozen=True)
class Setting:
    """A setting: path in `--set`, owner, default as YAML (or empty), names it may have, description."""

    key: str
    part: Part
    default: str
    choices: tuple[str, ...]
    doc: str


def settings(
    prefix: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Only keys that start with this, as in 'power'.")
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """List every setting that --set knows, with its default: of the scenario, the training and the service.

    Example: rlsched settings network
    """
    from rlsched.learn.config.training import TrainConfig
    from rlsched.scenario import Scenario
    from rlsched.serve.settings import ServeConfig

    every = [*walk(TrainConfig, "training"), *walk(Scenario, "scenario"), *walk(ServeConfig, "service")]
    selected = [
        setting
        for setting in every
        if prefix is None or setting.key == prefix or setting.key.startswith(f"{prefix.rstrip('.')}.")
    ]
    if not selected:
        known = ", ".join(dict.fromkeys(setting.key.partition(".")[0] for setting in every))
        raise BadInputError("KEY", f"no setting starts with {prefix!r}", f"use one of {known}")
    targets = output.Targets(json).check()
    targets.write({"settings": [asdict(setting) for setting in selected]})
    if json is not None:
        return
    from rlsched.cli.tables import plain_table

    lines = [
        (s.key, s.part, s.default, "; ".join(filter(None, (" | ".join(s.choices), s.doc)))) for s in selected
    ]
    targets.console.print(plain_table(["setting", "of the", "default", "what it is"], lines))


def walk(
    model: type[BaseModel],
    part: Part,
    before: str = "",
    only: str = "",
    visited: set[type[BaseModel]] | None = None,
    defaults: BaseModel | None = None,
) -> Iterator[Setting]:
    """All settings of a model and of the models in it; a model of several fields is listed once.

    Args:
        model: with fields.
        part: owner of the settings.
        before: path to the model.
        only: its kind, if a field has several kinds of models.
        visited: kinds that are listed already.
        defaults: values instead of the model's defaults.
    """
    visited = set() if visited is None else visited
    for name, field in model.model_fields.items():
        if name == "schema_version" or (only and name == "kind"):
            continue
        key, kinds = f"{before}{name}", list(_models(field.annotation))
        words = _literal(field.annotation)
        if len(kinds) > 1:
            words = tuple(word for kind in kinds for word in _literal(kind.model_fields["kind"].annotation))
            yield Setting(f"{key}.kind", part, "", words, field.description or "")
        if not kinds or field.default is None:
            doc = (field.description or "") + (f" ({only})" if only else "")
            default = field.default if defaults is None else getattr(defaults, name)
            yield Setting(key, part, _default(default), words, doc.strip())
        inside = f"{key}.0." if get_origin(field.annotation) is tuple else f"{key}."
        for kind in kinds:
            if len(kinds) == 1:
                default = field.default if defaults is None else getattr(defaults, name)
                inner = default if isinstance(default, kind) else None
                yield from walk(kind, part, inside, only, visited, inner)
            elif kind not in visited:
                visited.add(kind)
                word = "".join(_literal(kind.model_fields["kind"].annotation))
                yield from walk(kind, part, inside, word, visited)


def _default(value: Any) -> str:
    """A default as in `--set`; empty if there is none."""
    if value is PydanticUndefined:
        return ""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_default, value))}]"
    return value if isinstance(value, str) else as_written(value)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {Union, UnionType, Annotated, tuple}:
        for inner in get_args(annotation):
            yield from _models(inner)


def _literal(annotation: Any) -> tuple[str, ...]:
    """Names that a field may hold, if it holds names."""
    if get_origin(annotation) is Literal:
        return tuple(str(word) for word in get_args(annotation))
    if get_origin(annotation) in {Union, UnionType}:
        inner = [member for member in get_args(annotation) if member is not NoneType]
        return _literal(inner[0]) if len(inner) == 1 else ()
    return ()
