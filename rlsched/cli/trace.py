"""`rlsched trace`: describe, check, cut, scale and import job traces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output, trace_import
from rlsched.cli.trace_import import OutOption
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.jobs import JobTable
    from rlsched.workloads.swf import Trace

app = typer.Typer(no_args_is_help=True)
app.add_typer(trace_import.app, name="import")

OVERSIZED = "oversized_dropped"
"""A key of `swf.REPAIRS`."""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A job trace (SWF, plain or gzip).")]
ProcessorsOption = Annotated[
    int | None,
    typer.Option(
        "--processors",
        metavar="N",
        parser=options.whole_number(1),
        help="Processors of the machine, if the header does not have them.",
    ),
]


@app.callback()
def trace() -> None:
    """Describe, check, cut and scale job traces, and import them from Slurm."""


@app.command("info")
def info(file: FileArgument, processors: ProcessorsOption = None, json: options.JsonOption = None) -> None:
    """Show the size, header and load of a trace, and jobs that were dropped or repaired.

    Example: rlsched trace info datasets/sample.swf.gz
    """
    targets = output.Targets(json).check()
    from rlsched.workloads.days import natural_load
    from rlsched.workloads.swf import read

    swf = read(file)
    units = _processors(file, swf, processors)
    jobs, load = swf.jobs, natural_load(swf.jobs, units)
    repairs = _with_oversized(swf, units)
    days = int(jobs.submit[-1] - jobs.submit[0]) / 86_400
    figures = {"jobs": len(jobs), "processors": units, "days": days, "load": load if days else None}
    targets.write({"file": str(file), **figures, "header": swf.header, "repairs": repairs})
    console = targets.console
    for key, value in swf.header.items():
        console.print(f"{key:<16} {value.splitlines()[0] if value else ''}", style="dim")
    console.print(f"{len(jobs):,} jobs in {days:,.1f} days on {units:,} processors: a load of {load:.3f}")
    _print_repairs(console, repairs)
    console.print(f"more: rlsched workload describe --trace {quoted(file)}")


@app.command("check")
def check(file: FileArgument, processors: ProcessorsOption = None, json: options.JsonOption = None) -> None:
    """Check a trace. The exit code is 2 if simulations drop lines; every reason is printed.

    Dropped lines are lines without a job, and jobs that request more processors than the machine has. Repairs
    that lose no job are printed, too, but are not errors.

    Example: rlsched trace check datasets/sample.swf.gz
    """
    targets = output.Targets(json).check()
    from rlsched.cli.main import say
    from rlsched.workloads.swf import REPAIRS, read

    swf = read(file)
    repairs = _with_oversized(swf, processors or swf.processors)
    dropped = {name: count for name, count in repairs.items() if name.endswith("_dropped")}
    jobs = len(swf.jobs) - repairs.get(OVERSIZED, 0)
    targets.write({"file": str(file), "jobs": jobs, "repairs": repairs})
    _print_repairs(targets.console, {name: count for name, count in repairs.items() if name not in dropped})
    for name, count in list(dropped.items())[1:]:
        say(f"error: {file}: {count:,} {REPAIRS[name]}")
    if dropped:
        name, count = next(iter(dropped.items()))
        remedy = f"rlsched trace cut {quoted(file)} --out OUT.swf writes the other {len(swf.jobs):,} jobs"
        if name == OVERSIZED:
            remedy = (
                "--processors N names a larger machine, and --set workload.oversized=scale cuts them down"
            )
        raise BadInputError(str(file), f"{count:,} {REPAIRS[name]}", remedy)
    targets.console.print(f"whole: {jobs:,} jobs")


@app.command("cut")
def cut(
    file: FileArgument,
    out: OutOption,
    first: Annotated[
        int, typer.Option(metavar="ROW", min=0, help="Row of the first job to keep, counted from 0.")
    ] = 0,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", parser=options.whole_number(1), help="Jobs to keep (all)."),
    ] = None,
    days: Annotated[
        float | None, typer.Option("--days", metavar="D", help="Days to keep, from the first job.")
    ] = None,
    processors: ProcessorsOption = None,
    json: options.JsonOption = None,
) -> None:
    """Write a part of a trace: jobs from a row on, by submit time.

    Example: rlsched trace cut datasets/sample.swf.gz --first 100 --jobs 500 --out runs/part.swf
    """
    if jobs is not None and days is not None:
        raise BadInputError("--jobs, --days", "both are given", "remove one")
    if days is not None and not days > 0:
        raise BadInputError("--days", f"value {days:g}", "give a number above 0")
    from rlsched.workloads.swf import read

    targets = output.Targets(json).check()
    output.check_file("--out", out)
    swf = read(file)
    table = swf.jobs
    if first >= len(table):
        raise BadInputError("--first", f"value {first}: {file} has {len(table):,} jobs", "give a smaller row")
    end = len(table) if jobs is None else first + jobs
    if days is not None:
        end = int((table.submit < table.submit[first] + 86_400 * days).sum())
    if end > len(table):
        problem = f"value {jobs}: from row {first} on there are {len(table) - first:,}"
        raise BadInputError("--jobs", problem, "give a smaller number")
    part = table.take(slice(first, end))
    _write(file, out, swf, part, processors, f"rows {first} to {end - 1}", targets)


@app.command("scale")
def scale(
    file: FileArgument,
    out: OutOption,
    load: Annotated[
        float | None, typer.Option("--load", metavar="L", help="New load: submitted work / capacity.")
    ] = None,
    factor: Annotated[
        float | None,
        typer.Option("--factor", metavar="F", help="Factor on the load: 2 halves all interarrival times."),
    ] = None,
    processors: ProcessorsOption = None,
    json: options.JsonOption = None,
) -> None:
    """Write a trace with another load, by scaling the interarrival times.

    Example: rlsched trace scale datasets/sample.swf.gz --load 0.9 --out runs/busy.swf
    """
    if (load is None) == (factor is None):
        raise BadInputError("--load, --factor", "one of them is needed", "give a load or a factor")
    name, value = ("--load", load) if factor is None else ("--factor", factor)
    if not 0 < (value or 0) < float("inf"):
        raise BadInputError(name, f"value {value:g}", "give a number above 0")
    from rlsched.workloads.days import natural_load, stretch_to, stretched
    from rlsched.workloads.swf import read

    targets = output.Targets(json).check()
    output.check_file("--out", out)
    swf = read(file)
    units = _processors(file, swf, processors)
    before = natural_load(swf.jobs, units)
    wanted = load if load is not None else before * (factor or 1.0)
    scaled = stretched(swf.jobs, stretch_to(swf.jobs, units, wanted, name))
    _write(file, out, swf, scaled, processors, f"load {wanted:.4g} instead of {before:.4g}", targets)


def _with_oversized(swf: Trace, processors: int | None) -> dict[str, int]:
    """Repairs on reading, and jobs that a simulation drops because they do not fit the machine."""
    wide = 0 if processors is None else int((swf.jobs.demand[:, 0] > processors).sum())
    return swf.repairs | ({OVERSIZED: wide} if wide else {})


def _processors(file: Path, swf: Trace, processors: int | None) -> int:
    units = processors or swf.processors
    if units is None:
        raise BadInputError(str(file), "has no number of processors in its header", "add --processors N")
    return units


def _write(
    file: Path,
    out: Path,
    swf: Trace,
    jobs: JobTable,
    processors: int | None,
    change: str,
    targets: output.Targets,
) -> None:
    from rlsched.workloads.swf import rewrite

    rewrite(file, out, jobs, note=f"rlsched: {change} of {file.name}", processors=processors)
    targets.write({"file": str(file), "out": str(out), "jobs": len(jobs), "repairs": swf.repairs})
    _print_repairs(targets.console, swf.repairs)
    targets.console.print(f"written      {out}: {len(jobs):,} jobs, {change}")


def _print_repairs(console: Console, repairs: Mapping[str, int]) -> None:
    from rlsched.workloads.swf import REPAIRS

    for name, count in repairs.items():
        console.print(f"{count:>10,}  {REPAIRS[name]} ({name})")
