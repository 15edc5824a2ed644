"""`rlsched settings`: every key that `--set` knows, of the scenario, of the training and of the service."""

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
    """One key.

    Attributes:
        key: path of names, as `--set` takes it.
        part: whose it is.
        default: as YAML, where the scenario or file says nothing; empty: it must be given.
        choices: that there are, where they are named.
        doc: what it is, with its unit.
    """

    key: str
    part: Part
    default: str
    choices: tuple[str, ...]
    doc: str


def settings(
    about: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Only keys that begin like this, as in 'power'.")
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
    found = [
        one
        for one in every
        if about is None or one.key == about or one.key.startswith(f"{about.rstrip('.')}.")
    ]
    if not found:
        known = ", ".join(dict.fromkeys(one.key.partition(".")[0] for one in every))
        raise BadInputError("KEY", f"no setting begins with {about!r}", f"use one of {known}")
    if json is not None:
        output.list_json(json, "settings", [asdict(one) for one in found])
        return
    from rlsched.cli.tables import plain_table

    table = plain_table(None, ["setting", "of the", "default", "what it is"])
    for one in found:
        told = "; ".join(text for text in (" | ".join(one.choices), one.doc) if text)
        table.add_row(one.key, one.part, one.default, told)
    output.console().print(table)


def walk(
    model: type[BaseModel],
    part: Part,
    before: str = "",
    only: str = "",
    told: set[type[BaseModel]] | None = None,
    given: BaseModel | None = None,
) -> Iterator[Setting]:
    """Every setting of a model and of the models in it; those of several kinds are told of once.

    Args:
        model: whose fields are told.
        part: whose they are.
        before: path to the model.
        only: where it is one of several kinds, which.
        told: kinds that were told of already.
        given: values that stand for the model's own defaults.
    """
    told = set() if told is None else told
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
            default = field.default if given is None else getattr(given, name)
            yield Setting(key, part, _default(default), words, doc.strip())
        inside = f"{key}.0." if get_origin(field.annotation) is tuple else f"{key}."
        for kind in kinds:
            if len(kinds) == 1:
                default = field.default if given is None else getattr(given, name)
                usual = default if isinstance(default, kind) else None
                yield from walk(kind, part, inside, only, told, usual)
            elif kind not in told:
                told.add(kind)
                word = "".join(_literal(kind.model_fields["kind"].annotation))
                yield from walk(kind, part, inside, word, told)


def _default(value: Any) -> str:
    """As `--set` takes it; nothing where there is none."""
    if value is PydanticUndefined:
        return ""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_default, value))}]"
    return value if isinstance(value, str) else as_written(value)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The settings objects that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {Union, UnionType, Annotated, tuple}:
        for inner in get_args(annotation):
            yield from _models(inner)


def _literal(annotation: Any) -> tuple[str, ...]:
    """The words that a field may hold, if it holds words."""
    if get_origin(annotation) is Literal:
        return tuple(str(word) for word in get_args(annotation))
    if get_origin(annotation) in {Union, UnionType}:
        inner = [one for one in get_args(annotation) if one is not NoneType]
        return _literal(inner[0]) if len(inner) == 1 else ()
    return ()
