"""The tables of docs/reference that come from the code: `python -m tests.reference_pages` writes them.

A page holds regions between `<!-- generated: NAME -->` and `<!-- end -->`; the text around them is written by
hand. `make docs` writes the regions, and a test fails where they differ from the code.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from rlsched.cli.main import main as rlsched
from rlsched.sim.columns import TABLES, Feature

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
COMMAND = "python -m tests.reference_pages"
REGION = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
TYPES: Mapping[Any, str] = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    Path: "path",
    NoneType: "null",
}


def json_list(command: str) -> dict[str, Any]:
    """The JSON of a command that lists something."""
    text = StringIO()
    with redirect_stdout(text):
        code = rlsched([command, "--json", "-"])
    if code != 0:
        raise RuntimeError(f"rlsched {command} --json - ended with exit code {code}")
    return json.loads(text.getvalue())


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *([cell(text) for text in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(text: str) -> str:
    """Text without signs that Markdown reads as structure."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def code(text: str) -> str:
    """Text in backticks; empty text stays empty."""
    return f"`{text}`" if text else ""


def settings(part: str) -> str:
    """Settings of the scenario, the training or the service: a table for each section."""
    from rlsched.learn.config.training import TrainConfig
    from rlsched.scenario import Scenario
    from rlsched.serve.settings import ServeConfig

    model = {"scenario": Scenario, "training": TrainConfig, "service": ServeConfig}[part]
    sections: dict[str, list[dict[str, Any]]] = {}
    for setting in json_list("settings")["settings"]:
        if setting["part"] == part:
            head, dot, _ = setting["key"].partition(".")
            sections.setdefault(head if dot else "", []).append(setting)
    text = ""
    for section, rows in sections.items():
        text += f"### {section or 'Top level'} ({part})\n\n" if section else ""
        text += table(
            ["setting", "type", "default", "description"],
            (
                [code(row["key"]), type_of(model, row), code(row["default"]), sentence(row["doc"])]
                for row in rows
            ),
        )
        text += "\n"
    return text.rstrip("\n") + "\n"


def sentence(text: str) -> str:
    """A description with a capital letter where it starts with a plain word."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def type_of(model: type[BaseModel], setting: Mapping[str, Any]) -> str:
    """The values that a setting takes."""
    if setting["choices"]:
        return ", ".join(map(code, setting["choices"]))
    annotations = list(annotations_at(model, [part for part in setting["key"].split(".") if part != "0"]))
    return type_name(annotations[0]) if annotations else ""


def annotations_at(model: type[BaseModel], path: Sequence[str]) -> Iterator[Any]:
    """Annotations of the fields at a path of names; unions of models give one for each."""
    field = model.model_fields.get(path[0])
    if field is None:
        return
    if len(path) == 1:
        yield field.annotation
        return
    for inner in models_in(field.annotation):
        yield from annotations_at(inner, path[1:])


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The settings models that an annotation contains."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def type_name(annotation: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(inner[0])
    if origin in {Union, UnionType}:
        return " or ".join(dict.fromkeys(map(type_name, inner)))
    if origin is Literal:
        return ", ".join(code(str(word)) for word in inner)
    if origin in {tuple, list, frozenset, set}:
        members = [part for part in inner if part is not Ellipsis]
        return "list of " + " and ".join(dict.fromkeys(map(type_name, members)))
    if origin is not None:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return TYPES.get(annotation, "any")


def presets() -> str:
    """Presets of objectives."""
    rows = (
        [
            code(preset["name"]),
            " + ".join(f"{weight:g} x `{term}`" for term, weight in preset["reward"].items()),
            ", ".join(map(code, preset.get("costs", ()))),
        ]
        for preset in json_list("objectives")["objectives"]
    )
    return table(["preset", "reward", "costs"], rows)


def terms() -> str:
    """Reward and cost terms."""
    rows = (
        [
            code(term["name"]),
            term["formula"],
            term["unit"],
            "yes" if term["cost"] else "",
            "yes" if term["horizon"] else "",
            term["source"],
        ]
        for term in json_list("objectives")["terms"]
    )
    return table(["term", "each tick", "unit", "cost", "only with a horizon", "source"], rows)


MODES = {
    "both": "all",
    "events": "event-driven",
    "ticks": "tick-driven",
    "supply": "tick-driven, with `supply`",
}
"""Scenarios in which a feature is observed."""


def observation(block: str) -> str:
    """Features of a block of observations."""
    always, with_supply = TABLES[block].features(), TABLES[block].features(ticks=True, supply=True)
    rows = (
        [code(feature_name(feature)), feature.meaning, MODES[feature.mode]]
        for feature in dict.fromkeys([*always, *with_supply])
    )
    return table(["feature", "meaning", "scenarios"], rows)


def feature_name(feature: Feature) -> str:
    """Name of a feature with the numbers of its repetitions."""
    if feature.repeats is None:
        return f"{feature.name}_R"
    numbers = ", ".join(map(str, feature.repeats))
    return f"{feature.name}_N (N: {numbers})" if numbers else feature.name


def names_and_docs(key: str) -> str:
    """One of the lists of `rlsched policies`."""
    return table(["name", "rule"], ([code(row["name"]), row["doc"]] for row in json_list("policies")[key]))


def algorithms() -> str:
    """Learning algorithms."""
    rows = (
        [code(row["name"]), row["doc"], code(f"{row['section']}.*"), row["source"]]
        for row in json_list("algorithms")["algorithms"]
    )
    return table(["algorithm", "description", "settings", "source"], rows)


def scenarios() -> str:
    """Shipped scenarios."""
    rows = (
        [
            code(row["name"]),
            ", ".join("from the trace" if count is None else f"{count:,}" for count in row["units"]),
            row["workload"],
            str(row["episode_jobs"] or "by the clock"),
            row["description"],
        ]
        for row in json_list("scenarios")["scenarios"]
    )
    return table(["scenario", "units", "workload", "jobs in an episode", "description"], rows)


def metrics() -> str:
    """Metrics of an episode."""
    from rlsched.evaluate.measures import METRICS

    rows = (
        [code(name), metric.unit, "lower" if metric.lower_is_better else "higher", metric.doc]
        for name, metric in METRICS.items()
    )
    return table(["metric", "unit", "better", "definition"], rows)


def commands() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command

    from rlsched.cli.commands import app

    return "\n".join(command_sections(get_command(app), "rlsched"))


def command_sections(command: Any, path: str) -> Iterator[str]:
    """A command and the commands below it."""
    parameters = [
        [parameter_name(parameter), parameter.help or "", default(parameter)]
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    ]
    yield f"## {path}\n"
    for paragraph in (command.help or "").split("\n\n"):
        example = paragraph.removeprefix("Example: ")
        yield f"{cell(paragraph) if example == paragraph else code(example)}\n"
    if parameters:
        yield table(["argument or option", "description", "default"], parameters)
    for name, inner in getattr(command, "commands", {}).items():
        yield from command_sections(inner, f"{path} {name}")


def parameter_name(parameter: Any) -> str:
    """Names of an option, or the place of an argument."""
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return code(metavar or parameter.name.upper())
    return code(", ".join(parameter.opts) + (f" {metavar}" if metavar and not parameter.is_flag else ""))


def default(parameter: Any) -> str:
    """The default that a user sees; empty for none."""
    value = parameter.default
    return "" if parameter.required or value in (None, False, "") or callable(value) else code(str(value))


REGIONS: Mapping[str, Callable[[], str]] = {
    "scenario-settings": lambda: settings("scenario"),
    "training-settings": lambda: settings("training"),
    "service-settings": lambda: settings("service"),
    "presets": presets,
    "terms": terms,
    "heuristics": lambda: names_and_docs("policies"),
    "backfills": lambda: names_and_docs("backfills"),
    "placements": lambda: names_and_docs("placements"),
    "algorithms": algorithms,
    "scenarios": scenarios,
    "metrics": metrics,
    **{f"observation-{block}": partial(observation, block) for block in TABLES},
    "commands": commands,
}


def current(page: Path) -> str:
    """The text of a page with its regions as the code has them now."""
    return REGION.sub(lambda match: f"{match[1]}\n{REGIONS[match[2]]()}\n{match[3]}", page.read_text("utf-8"))


def pages() -> list[Path]:
    """The pages of docs/reference that have regions."""
    return [page for page in sorted(FOLDER.glob("*.md")) if REGION.search(page.read_text("utf-8"))]


def main() -> int:
    """Write all pages."""
    for page in pages():
        page.write_text(current(page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
