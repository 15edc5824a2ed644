"""Options of several commands, and the values that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.evaluate.session import Choice
    from rlsched.scenario import Scenario


DIGITS = 18
"""Digits of the largest number that an option takes."""


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers from `least` to `most`; its message shows the value, unlike typer's."""
    largest = 10**DIGITS if most is None else most

    def parse(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) <= DIGITS and least <= int(text) <= largest:
            return int(text)
        short = text if len(text) <= DIGITS else f"{text[:DIGITS]}..."
        raise typer.BadParameter(
            f"value {short!r}; use a whole number from {least} {'on' if most is None else f'to {most}'}"
        )

    return parse


def number_where(fits: Callable[[float], bool], words: str) -> Callable[[str], float]:
    """A parser of numbers that fit; `words` say which do."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not fits(value):
            raise typer.BadParameter(f"value {text!r}; use a number {words}")
        return value

    return parse


discount = number_where(lambda value: 0.0 < value <= 1.0, "above 0, at most 1")
"""A parser of a discount per tick."""

chance = number_where(lambda value: 0.0 <= value <= 1.0, "from 0 to 1")
"""A parser of a probability."""

TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-checkpoint",
        help="With --resume: accept a checkpoint that another user, home folder or version wrote. Reading it "
        "executes its pickles.",
    ),
]


class Protocol(StrEnum):
    """Published experiments that can be reproduced."""

    rlscheduler = "rlscheduler"


ScenarioOption = Annotated[
    str | None,
    typer.Option(
        "--scenario", "-s", metavar="NAME|FILE", help="A name from 'rlsched scenarios', or a YAML file."
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        "-t",
        metavar="FILE",
        help="A job trace (SWF, plain or gzip). Its header describes the machine, unless --scenario does.",
    ),
]


def set_option(field: str, example: str) -> Any:
    """The option `--set` of a command.

    Args:
        field: kind of setting, as in "scenario field".
        example: an assignment.
    """
    text = f"Set any {field}, as in --set {example}; 'rlsched settings' lists them. Repeatable."
    return typer.Option("--set", metavar="KEY=VALUE", help=text)


SetOption = Annotated[list[str] | None, set_option("scenario field", "cluster.resources.0.units=128")]
JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the figures as JSON to a file, or to stdout (-), which then has nothing else.",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIR", help="Write an HTML report with pictures into this folder."),
]
EpisodesOption = Annotated[
    int | None,
    typer.Option(
        "--episodes", "-n", metavar="N", parser=whole_number(1), help="Number of episodes (default 20)."
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", parser=whole_number(1), help="Jobs per episode."),
]
OffsetsOption = Annotated[
    list[str] | None,
    typer.Option("--offsets", metavar="ROW,ROW", help="Trace rows at which episodes start, from 0."),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        parser=whole_number(0),
        help="Random seed of episodes and intervals (default 0).",
    ),
]
ProtocolOption = Annotated[
    Protocol | None,
    typer.Option(
        "--protocol",
        help="rlscheduler: ten sequences of 1,024 jobs, loaded and measured as in the publication.",
    ),
]


def items(values: Iterable[str] | None) -> list[str]:
    """Comma-separated and repeated options as one list without duplicates."""
    parts = (part.strip() for value in values or () for part in value.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def rows(values: Iterable[str] | None) -> tuple[int, ...]:
    """Trace rows from `--offsets`.

    Raises:
        BadInputError: an item is not a row number.
    """
    texts = [part.strip() for value in values or () for part in value.split(",")]
    for text in texts:
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
            raise BadInputError("--offsets", f"{text!r} is not a trace row", "give numbers, as in 0,1024")
    return tuple(map(int, texts))


def choose_scenario(
    scenario: str | None, trace: Path | None, overrides: Sequence[str], protocol: Protocol | None
) -> Scenario:
    """The scenario of `--scenario`, `--trace` or both, with `--set` applied.

    Raises:
        BadInputError: neither is given, they contradict each other, or they are wrong.
    """
    if scenario is None and trace is None:
        raise BadInputError(
            "--scenario, --trace",
            "neither is given",
            "give one: a scenario by its name or file, or a job trace",
        )
    chosen = given_scenario(scenario, trace, overrides)
    check_overrides(overrides, chosen, protocol)
    return chosen


def given_scenario(scenario: str | None, trace: Path | None, overrides: Sequence[str]) -> Scenario:
    """The scenario of the options: named, of a trace on the machine of its header, or named with a trace.

    Raises:
        BadInputError: it is wrong, or draws its jobs from a model although a trace is given.
    """
    if trace is None:
        return named_scenario("--scenario", scenario or "", overrides)
    if scenario is None:
        return trace_scenario(trace, overrides)
    workload = named_scenario("--scenario", scenario).workload
    if workload.kind != "swf":
        raise BadInputError(
            "--scenario, --trace",
            f"both are given, but scenario {scenario!r} draws its jobs from the {workload.kind} model",
            f"remove one, or name a scenario with a trace: {', '.join(_trace_scenarios())}",
        )
    return named_scenario("--scenario", scenario, [trace_setting(trace), *overrides])


def _trace_scenarios() -> list[str]:
    """Names of the scenarios with a trace."""
    from rlsched.scenario import load, names

    return [name for name in names() if load(name).workload.kind == "swf"]


def trace_setting(trace: Path) -> str:
    """The assignment that names a trace."""
    import json

    return f"workload.file={json.dumps(str(trace))}"


def named_scenario(where: str, name: str, overrides: Sequence[str] = ()) -> Scenario:
    """A scenario by its name or file; `where` names the option in messages.

    Raises:
        BadInputError: there is none, or it is wrong, or its trace is missing.
    """
    from rlsched.scenario import load, names

    if not is_scenario(name):
        close = get_close_matches(name, names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise BadInputError(
            where, f"unknown scenario {name!r}", f"{hint}use a .yaml file or one of {', '.join(names())}"
        )
    return load(name, overrides)


def is_scenario(name: str) -> bool:
    """Whether this is the name of a scenario or of a YAML file."""
    from rlsched.scenario import names

    return name in names() or Path(name).suffix in {".yaml", ".yml"}


def trace_scenario(trace: Path, overrides: Sequence[str]) -> Scenario:
    """The scenario of a trace on the machine of its header."""
    from rlsched.scenario import load

    return load("hpc-trace", [trace_setting(trace), *overrides])


def check_trace(scenario: Scenario) -> None:
    """Check that the trace of a scenario exists.

    Raises:
        BadInputError: there is no such file.
    """
    file = getattr(scenario.workload, "file", None)
    if file is not None and not file.exists():
        raise BadInputError(
            f"scenario {scenario.name}",
            f"workload.file {str(file)!r}: no such file",
            "name the trace with --trace FILE, or with --set workload.file=FILE",
        )


def check_overrides(overrides: Sequence[str], scenario: Scenario, protocol: Protocol | None) -> None:
    """Refuse `--set` assignments without effect, and a protocol in scenarios with a planning horizon.

    Raises:
        BadInputError: the protocol or the command fixes a key, or the protocol does not support the scenario.
    """
    fixed = {}
    if protocol and scenario.decision.tick_driven:
        raise BadInputError(
            "--protocol",
            f"{protocol.value} does not support power, plans and pools, which scenario {scenario.name!r} has",
            "remove it, or give --trace without --scenario",
        )
    if not scenario.decision.tick_driven:
        fixed = dict.fromkeys(("episode.end", "episode.max_ticks"), "here all jobs are completed")
    if protocol:
        protocols = ("episode", "workload.rules", "cluster.tick_s")
        fixed |= {key: f"--protocol {protocol.value} fixes {key}" for key in protocols}
    for override in overrides:
        path = override.partition("=")[0]
        for key, reason in fixed.items():
            if path == key or path.startswith(f"{key}."):
                raise BadInputError("--set", f"{override!r}: {reason}", "remove it")


WindowOption = Annotated[
    int | None,
    typer.Option(
        "--window",
        metavar="N",
        parser=whole_number(1),
        help="Trained policies observe the N oldest waiting jobs (default: as many as in training).",
    ),
]


def check_window(window: int | None, scenario: Scenario) -> None:
    """Refuse `--window` in scenarios with a ready pool.

    Raises:
        BadInputError: it is given for a scenario with a planning horizon.
    """
    if window is not None and scenario.decision.tick_driven:
        raise BadInputError(
            "--window",
            f"value {window} is not supported in scenarios with a ready pool (decision.horizon)",
            f"set the size of the pool: --set decision.window={window}",
        )


def choice(
    *,
    episodes: int | None,
    jobs: int | None,
    offsets: Iterable[str] | None,
    seed: int | None,
    protocol: Protocol | None,
    whole_trace: bool,
) -> Choice:
    """The episodes of the options.

    Raises:
        BadInputError: options contradict each other.
    """
    from rlsched.evaluate.session import Choice

    chosen = Choice(
        episodes=episodes,
        jobs=jobs,
        offsets=rows(offsets) if offsets else (),
        seed=seed,
        protocol="rlscheduler" if protocol else None,
        whole_trace=whole_trace,
    )
    chosen.check()
    return chosen
