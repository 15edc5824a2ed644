"""Options that several commands share, and how what they were given is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.evaluate.session import Choice
    from rlsched.scenario import Scenario


def whole_number(least: int) -> Callable[[str], int]:
    """A parser of numbers from `least` on; its message shows the value, which typer's own does not."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise typer.BadParameter(f"value {text!r}; use a whole number from {least} on")
        return int(text)

    return parse


class Protocol(StrEnum):
    """Published experiments that can be run again."""

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
        "--trace", "-t", metavar="FILE", help="A job trace (SWF, plain or gzip) on the machine of its header."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set any scenario field, as in --set cluster.resources.0.units=128. Repeatable.",
    ),
]
JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the figures as JSON; '-': to stdout, and nothing else there.",
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIR", help="Write an HTML report with pictures into this folder."),
]
EpisodesOption = Annotated[
    int | None,
    typer.Option(
        "--episodes",
        "-n",
        metavar="N",
        parser=whole_number(1),
        help="How many episodes (20).",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", parser=whole_number(1), help="Jobs in each episode."),
]
OffsetsOption = Annotated[
    list[str] | None,
    typer.Option("--offsets", metavar="ROW,ROW", help="Trace rows at which episodes start, counted from 0."),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", parser=whole_number(0), help="Seed of drawn episodes and intervals (0)."
    ),
]
ProtocolOption = Annotated[
    Protocol | None,
    typer.Option(
        "--protocol",
        help="rlscheduler: ten sequences of 1,024 jobs, loaded and measured as published figures were.",
    ),
]


def items(values: Iterable[str] | None) -> list[str]:
    """Comma-separated and repeated options as one list without repeats."""
    parts = (part.strip() for value in values or () for part in value.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def rows(values: Iterable[str] | None) -> tuple[int, ...]:
    """Trace rows from `--offsets`.

    Raises:
        BadInputError: something is not a row number.
    """
    texts = [part.strip() for value in values or () for part in value.split(",")]
    for text in texts:
        if not (text.isascii() and text.isdigit()):
            raise BadInputError("--offsets", f"{text!r} is no trace row", "give numbers, as in 0,1024")
    return tuple(map(int, texts))


def choose_scenario(
    scenario: str | None, trace: Path | None, overrides: Sequence[str], protocol: Protocol | None
) -> Scenario:
    """The scenario that `--scenario` or `--trace` names, with `--set` applied.

    Raises:
        BadInputError: both or neither are given, or they are wrong.
    """
    if (scenario is None) == (trace is None):
        raise BadInputError(
            "--scenario, --trace",
            "neither is given" if scenario is None else "both are given",
            "give one: a scenario by its name or file, or a job trace",
        )
    if trace is not None:
        chosen = trace_scenario(trace, overrides)
    else:
        chosen = named_scenario("--scenario", scenario or "", overrides)
    check_overrides(overrides, chosen, protocol)
    return chosen


def named_scenario(where: str, name: str, overrides: Sequence[str] = ()) -> Scenario:
    """A scenario by its name or file; `where` is what the user typed the name for.

    Raises:
        BadInputError: there is none, or it is wrong, or its trace is not there.
    """
    from rlsched.scenario import load, names

    if name not in names() and Path(name).suffix not in {".yaml", ".yml"}:
        close = get_close_matches(name, names(), n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise BadInputError(
            where, f"unknown scenario {name!r}", f"{meant}use a .yaml file or one of {', '.join(names())}"
        )
    return load(name, overrides)


def trace_scenario(trace: Path, overrides: Sequence[str]) -> Scenario:
    """The scenario of a trace on the machine of its header."""
    import json

    from rlsched.scenario import load

    return load("hpc-trace", [f"workload.file={json.dumps(str(trace))}", *overrides])


def check_trace(scenario: Scenario) -> None:
    """Say how to name a trace where the one a scenario points to is not there.

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
    """Refuse `--set` assignments that the command would have to ignore.

    Raises:
        BadInputError: a key that a protocol or the command fixes.
    """
    fixed = {}
    if scenario.decision.horizon is None:
        fixed = dict.fromkeys(("episode.end", "episode.max_ticks"), "every job is run to its end here")
    if protocol:
        protocols = ("episode", "workload.rules", "cluster.tick_s")
        fixed |= {key: f"--protocol {protocol.value} fixes {key}" for key in protocols}
    for override in overrides:
        path = override.partition("=")[0]
        for key, reason in fixed.items():
            if path == key or path.startswith(f"{key}."):
                raise BadInputError("--set", f"{override!r}: {reason}", "leave it out")


def choice(
    *,
    episodes: int | None,
    jobs: int | None,
    offsets: Iterable[str] | None,
    seed: int | None,
    protocol: Protocol | None,
    whole: bool,
) -> Choice:
    """Which episodes the options ask for; contradictions are refused.

    Raises:
        BadInputError: options that do not go together.
    """
    from rlsched.evaluate.session import Choice

    chosen = Choice(
        episodes=episodes,
        jobs=jobs,
        offsets=rows(offsets) if offsets else (),
        seed=seed,
        protocol="rlscheduler" if protocol else None,
        whole=whole,
    )
    chosen.check()
    return chosen


def says_episodes(overrides: Iterable[str]) -> bool:
    """Whether a `--set` assignment shapes the episodes."""
    return any(override.partition("=")[0].partition(".")[0] == "episode" for override in overrides)
