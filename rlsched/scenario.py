"""Scenario: everything that shapes an experiment, in one frozen and checked object.

Written into every run folder and checkpoint, so that each can be run again from itself. Units are
part of the field names or of their descriptions; a key that is not known here is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rlsched.errors import BadInputError

Model = TypeVar("Model", bound=BaseModel)

RewardTerm = Literal[
    "slowdown", "bounded_slowdown", "wait_time", "utilization", "makespan", "throughput", "terminal_bsld"
]
ObservationBlock = Literal["jobs", "event_horizon", "queue", "outlook"]

OBJECTIVE_PRESETS: dict[str, dict[str, float]] = {
    "slowdown": {"slowdown": 1.0},
    "bounded_slowdown": {"bounded_slowdown": 1.0},
    "utilization": {"utilization": 1.0},
    "makespan": {"makespan": 1.0},
}


class Frozen(BaseModel):
    """A settings object: never changed after it was made, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Resource(Frozen):
    """One resource type of the cluster."""

    name: str = "processors"
    units: int | None = Field(None, ge=1, description="units in the cluster; left out: the trace's header")
    units_per_node: int | None = Field(
        None, ge=1, description="demand is rounded up to whole nodes of this size; left out: one unit"
    )


class Cluster(Frozen):
    """The machine that jobs run on."""

    tick_s: int = Field(1, ge=1, description="seconds per tick")
    resources: tuple[Resource, ...] = Field((Resource(),), min_length=1)


class LublinWorkload(Frozen):
    """Jobs drawn from the Lublin-Feitelson model (JPDC 63(11), 2003)."""

    kind: Literal["lublin"]
    load: float | None = Field(
        None,
        gt=0,
        description="offered work / capacity; arrivals are stretched to it; left out: the model's own",
    )
    max_runtime_s: int | None = Field(None, ge=1, description="longer jobs are drawn again")


class SwfWorkload(Frozen):
    """Jobs read from a trace in the Standard Workload Format."""

    kind: Literal["swf"]
    file: Path
    rules: Literal["standard", "rlscheduler"] = Field(
        "standard", description="rlscheduler: the loading rules of that simulator, for published figures"
    )
    training_jobs: tuple[int, int | None] | None = Field(
        None, description="rows [from, to) that training may see; left out: the first 80 %"
    )


Workload = Annotated[LublinWorkload | SwfWorkload, Field(discriminator="kind")]


class Decision(Frozen):
    """What the agent may do and when it is asked."""

    action_rule: Literal["commit", "fit"] = Field(
        "commit",
        description="commit: a job that does not fit gets a reservation; fit: only jobs that fit now",
    )
    time_rule: Literal["smdp", "sparse", "tick"] = "smdp"
    placement: Literal["now"] = "now"
    window: int = Field(128, ge=1, description="waiting jobs that the agent sees, oldest first")
    skip_forced: bool = Field(True, description="take a decision with one legal action without asking")


class Observation(Frozen):
    """What the agent sees."""

    blocks: tuple[ObservationBlock, ...] = Field(("jobs", "event_horizon", "queue"), min_length=1)
    event_horizon: int = Field(60, ge=1, description="expected releases that are shown")
    time_scale_s: int = Field(5_000_000, ge=2, description="times are log-scaled against this and clipped")

    @field_validator("blocks")
    @classmethod
    def _no_repeats(cls, blocks: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(blocks)) != len(blocks):
            raise ValueError("names a block twice")
        return blocks


class Objective(Frozen):
    """What is rewarded: a weighted sum of named terms."""

    reward: dict[RewardTerm, float] = Field({"bounded_slowdown": 1.0}, min_length=1)
    scope: Literal["all", "window"] = Field("all", description="which waiting jobs count")
    gamma: float = Field(1.0, gt=0, le=1, description="discount per tick inside a decision (smdp)")
    baseline: tuple[str, ...] = Field(
        (),
        description="greedy orders; an episode's reward is divided by jobs x the best one's bounded slowdown",
    )

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, value: object) -> object:
        if isinstance(value, str):
            if value not in OBJECTIVE_PRESETS:
                raise ValueError(f"unknown preset {value!r}; one of {', '.join(OBJECTIVE_PRESETS)}")
            return {"reward": OBJECTIVE_PRESETS[value]}
        return value


class Episode(Frozen):
    """How long an episode is and where it is cut from."""

    jobs: int | None = Field(1024, ge=1, description="jobs in an episode; null: the whole trace")
    end: Literal["all_finished", "no_new_job", "max_ticks"] = "all_finished"
    max_ticks: int | None = Field(None, ge=1)
    offsets: tuple[int, ...] = Field((), description="trace rows at which evaluation episodes start")

    @model_validator(mode="after")
    def _ends(self) -> Episode:
        if (self.end == "max_ticks") != (self.max_ticks is not None):
            raise ValueError("end: max_ticks and max_ticks: N go together")
        return self


class Scenario(Frozen):
    """What is simulated."""

    schema_version: Literal[1] = 1
    name: str = "custom"
    description: str = ""
    cluster: Cluster = Cluster()
    workload: Workload
    decision: Decision = Decision()
    observation: Observation = Observation()
    objective: Objective = Objective()
    episode: Episode = Episode()


def names() -> list[str]:
    """Names of the scenarios that come with the package."""
    folder = resources.files("rlsched") / "scenarios"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load(name_or_file: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario by its name or from a YAML file.

    Args:
        name_or_file: one of `names()`, or a path that ends in .yaml or .yml.
        overrides: `key.path=value` assignments, the value in YAML syntax; applied in order.

    Raises:
        BadInputError: no such scenario, not YAML, or a key or value that does not fit.
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
    """Check plain values (of a YAML file, of a run folder) and make them a Scenario.

    Overrides apply to all settings, those that the values leave to their defaults, too.
    """
    scenario = validate(Scenario, values, where)
    assignments = list(overrides)
    if not assignments:
        return scenario
    return validate(Scenario, apply_overrides(scenario.model_dump(mode="json"), assignments), "--set")


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
        of_pydantic = {"lublin", "swf", "[key]"}  # its marks of a union's variant, a mapping's key
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
