"""`rlsched workload`: what the jobs of a scenario or a trace are like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.report.words import sizes

if TYPE_CHECKING:
    from rlsched.scenario import Scenario
    from rlsched.workloads.statistics import Sample, Statistics

JOBS = 20_000
"""That are drawn of a model."""

app = typer.Typer(no_args_is_help=True)


@app.callback()
def workload() -> None:
    """Describe the jobs of scenarios and traces."""


@app.command("describe")
def describe(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against", metavar="NAME|FILE", help="Traces or scenarios to show beside it. Repeatable."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=options.whole_number(1),
            help="Jobs to draw where a model does (20,000).",
        ),
    ] = None,
    seed: options.SeedOption = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="OUT.png", help="Draw sizes, runtimes, arrivals, requests."),
    ] = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Say what the jobs of a scenario or a trace are like, beside those of others.

    Of a trace all jobs count, of a model those that it draws.

    Example: rlsched workload describe --scenario lublin-256 --against datasets/sample.swf.gz --draw jobs.png
    """
    chosen = options.choose_scenario(scenario, trace, set_ or [], None)
    output.Targets(json=json).check()
    if draw is not None:
        output.check_file("--draw", draw, (".png",))
    options.check_trace(chosen)
    from dataclasses import asdict

    from rlsched.cli.tables import plain_table
    from rlsched.workloads.statistics import QUANTILES, statistics

    samples = [_sample(str(trace.name) if trace is not None else chosen.name, chosen, jobs, seed)]
    samples += [_named(name, jobs, seed) for name in options.items(against)]
    found = [statistics(one) for one in samples]
    if draw is not None:
        from rlsched.files import write_whole
        from rlsched.report.style import to_png
        from rlsched.report.workload import draw_workloads

        write_whole(draw, to_png(draw_workloads(samples)))
    if json is not None:
        rows = [asdict(one) for one in found]
        output.write_json(json, {"schema": 1, "quantiles": QUANTILES, "workloads": rows})
    table = plain_table(None, ["jobs of", *(one.name for one in found)], right=[one.name for one in found])
    for label, texts in _rows(found):
        table.add_row(label, *texts)
    console = output.people(json)
    console.print(table)
    if draw is not None:
        console.print(f"drawn        {draw}")


def _named(name: str, jobs: int | None, seed: int | None) -> Sample:
    """Of a scenario or a trace, told by its name."""
    if options.is_scenario(name):
        return _sample(name, options.named_scenario("--against", name), jobs, seed)
    return _sample(Path(name).name, options.trace_scenario(Path(name), []), jobs, seed)


def _sample(name: str, scenario: Scenario, jobs: int | None, seed: int | None) -> Sample:
    from rlsched.workloads.sampling import sample

    return sample(name, scenario, jobs or JOBS, seed or 0)


def _rows(found: list[Statistics]) -> list[tuple[str, list[str]]]:
    """(row,) what it is, and a text for each workload."""

    def spread(values: list[float], form: str = ",.0f") -> str:
        return " ".join(format(value, form) for value in values)

    def share(value: float) -> str:
        return f"{100 * value:.1f} %"

    def plain(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return [
        ("jobs", [f"{one.jobs:,}" for one in found]),
        ("units", [sizes(one.units) for one in found]),
        ("load", [plain(one.load, ".3f") for one in found]),
        ("on one unit", [share(one.serial) for one in found]),
        ("on 2, 4, 8, ... units", [share(one.power_of_two) for one in found]),
        ("units, 5 25 50 75 95 100 %", [spread(one.sizes) for one in found]),
        ("runtime, s", [spread(one.runtimes_s) for one in found]),
        ("mean gap, s", [plain(one.gap_s, ",.0f") for one in found]),
        ("variation of gaps", [plain(one.gap_variation, ".2f") for one in found]),
        ("busiest hour", [_hour(one.hourly, max(one.hourly)) for one in found]),
        ("quietest hour", [_hour(one.hourly, min(one.hourly)) for one in found]),
        ("runtime / requested", [spread(one.accuracy, ".2f") for one in found]),
        ("longer than requested", [share(one.overdue) for one in found]),
        ("request one of 20 values", [share(one.popular) for one in found]),
        ("users", [f"{one.users:,}" if one.users else "-" for one in found]),
        ("queues", [f"{one.queues:,}" if one.queues else "-" for one in found]),
    ]


def _hour(hourly: list[float], which: float) -> str:
    return f"{hourly.index(which):02d}:00, {100 * which:.1f} %"
