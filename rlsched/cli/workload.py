"""`rlsched workload`: statistics of the jobs of scenarios and traces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.report.words import sizes

if TYPE_CHECKING:
    from rlsched.scenario import Scenario
    from rlsched.workloads.statistics import Sample, Statistics

JOBS = 20_000
"""Jobs that are drawn from a model by default."""

app = typer.Typer(no_args_is_help=True)


@app.callback()
def workload() -> None:
    """Describe the jobs of scenarios and traces."""


AgainstOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME|FILE", help="Traces or scenarios to compare with. Repeatable."),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=options.whole_number(1),
        help="Jobs to draw from a model (default 20,000).",
    ),
]
DrawOption = Annotated[
    Path | None, typer.Option(metavar="OUT.png", help="Draw sizes, runtimes, arrivals, requests.")
]


@app.command("describe")
def describe(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    against: AgainstOption = None,
    jobs: JobsOption = None,
    seed: options.SeedOption = None,
    draw: DrawOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Show statistics of the jobs of a scenario or a trace, and of others for comparison.

    They include all jobs of a trace, and a sample of the jobs of a model.

    Example: rlsched workload describe --scenario lublin-256 --against datasets/sample.swf.gz --draw jobs.png
    """
    chosen = options.choose_scenario(scenario, trace, set_ or [], None)
    targets = output.Targets(json).check()
    if draw is not None:
        output.check_file("--draw", draw, (".png",))
    options.check_trace(chosen)
    from dataclasses import asdict

    from rlsched.cli.tables import plain_table
    from rlsched.workloads.statistics import QUANTILES, statistics

    samples = [_sample(str(trace.name) if trace is not None else chosen.name, chosen, jobs, seed)]
    samples += [_named(name, jobs, seed) for name in options.items(against)]
    columns = [statistics(sample) for sample in samples]
    targets.write({"quantiles": QUANTILES, "workloads": [asdict(column) for column in columns]})
    console = targets.console
    names, texts = [column.name for column in columns], [_texts(column) for column in columns]
    rows = [[label, *(column[label] for column in texts)] for label in texts[0]]
    console.print(plain_table(["jobs of", *names], rows, right=names))
    if draw is not None:
        _draw(samples, draw)
        console.print(f"drawn        {draw}")


def _draw(samples: Sequence[Sample], path: Path) -> None:
    from rlsched.files import write_whole
    from rlsched.report.style import to_png
    from rlsched.report.workload import draw_workloads

    write_whole(path, to_png(draw_workloads(samples)))


def _named(name: str, jobs: int | None, seed: int | None) -> Sample:
    """A sample of a scenario or a trace."""
    if options.is_scenario(name):
        return _sample(name, options.named_scenario("--against", name), jobs, seed)
    return _sample(Path(name).name, options.trace_scenario(Path(name), []), jobs, seed)


def _sample(name: str, scenario: Scenario, jobs: int | None, seed: int | None) -> Sample:
    from rlsched.workloads.statistics import sample

    return sample(name, scenario, jobs or JOBS, seed or 0)


def _texts(w: Statistics) -> dict[str, str]:
    """Labels of rows, and their text for a workload."""

    def spread(values: list[float], form: str = ",.0f") -> str:
        return " ".join(format(value, form) for value in values)

    def share(value: float) -> str:
        return f"{100 * value:.1f} %"

    def plain(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return {
        "jobs": f"{w.jobs:,}",
        "units": sizes(w.units),
        "load": plain(w.load, ".3f"),
        "on one unit": share(w.serial),
        "on 2, 4, 8, ... units": share(w.power_of_two),
        "units, 5 25 50 75 95 100 %": spread(w.sizes),
        "runtime, s": spread(w.runtimes_s),
        "mean gap, s": plain(w.gap_s, ",.0f"),
        "variation of gaps": plain(w.gap_variation, ".2f"),
        "busiest hour": _hour(w.hourly, max(w.hourly)),
        "quietest hour": _hour(w.hourly, min(w.hourly)),
        "runtime / requested": spread(w.accuracy, ".2f"),
        "longer than requested": share(w.overdue),
        "request one of 20 values": share(w.popular),
        "users": f"{w.users:,}" if w.users else "-",
        "queues": f"{w.queues:,}" if w.queues else "-",
    }


def _hour(hourly: list[float], share: float) -> str:
    """The hour of the day with this share of all jobs."""
    return f"{hourly.index(share):02d}:00, {100 * share:.1f} %"
