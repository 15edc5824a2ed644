"""`rlsched trace`: look at job traces, cut and scale them, and make them of a site's accounting."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError
from rlsched.files import quoted
from rlsched.reading import lines_of, most_bytes

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from rlsched.jobs import JobTable
    from rlsched.workloads.swf import Trace

app = typer.Typer(no_args_is_help=True)
importing = typer.Typer(no_args_is_help=True)
app.add_typer(importing, name="import")

OVERSIZED = "oversized_dropped"
"""A name of `swf.REPAIRS`."""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A job trace (SWF, plain or gzip).")]
OutOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="OUT.swf", help="The trace to write; .gz: gzip.")
]
ProcessorsOption = Annotated[
    int | None,
    typer.Option(
        "--processors",
        metavar="N",
        parser=options.whole_number(1),
        help="Of the machine, where the header does not say it.",
    ),
]


@app.callback()
def trace() -> None:
    """Look at job traces, cut and scale them, and import them from Slurm."""


@importing.callback()
def import_trace() -> None:
    """Make traces of what a site's batch system wrote down."""


@app.command("info")
def info(file: FileArgument, processors: ProcessorsOption = None, json: options.JsonOption = None) -> None:
    """Say what a trace holds, what its header says, and what was dropped or repaired on reading.

    Example: rlsched trace info datasets/sample.swf.gz
    """
    output.Targets(json=json).check()
    from rlsched.workloads.days import natural_load
    from rlsched.workloads.swf import read

    found = read(file)
    units = _processors(file, found, processors)
    jobs, load = found.jobs, natural_load(found.jobs, units)
    repairs = _with_oversized(found, units)
    days = int(jobs.submit[-1] - jobs.submit[0]) / 86_400
    told = {
        "schema": 1,
        "file": str(file),
        "jobs": len(jobs),
        "processors": units,
        "days": days,
        "load": load if days else None,
        "header": found.header,
        "repairs": repairs,
    }
    if json is not None:
        output.write_json(json, told)
    console = output.people(json)
    for key, value in found.header.items():
        console.print(f"{key:<16} {value.splitlines()[0] if value else ''}", style="dim", markup=False)
    console.print(f"{len(jobs):,} jobs in {days:,.1f} days on {units:,} processors: a load of {load:.3f}")
    _say_repairs(repairs, json)
    console.print(f"more: rlsched workload describe --trace {quoted(file)}", markup=False)


@app.command("check")
def check(file: FileArgument, processors: ProcessorsOption = None, json: options.JsonOption = None) -> None:
    """Look through a trace. Exit code 2 where simulations leave lines out, with a line for each reason.

    These are lines that are no jobs, and jobs that ask for more processors than the machine has. What is
    repaired without losing a job is said, and no error.

    Example: rlsched trace check datasets/sample.swf.gz
    """
    output.Targets(json=json).check()
    from rlsched.cli.main import say
    from rlsched.workloads.swf import REPAIRS, read

    found = read(file)
    repairs = _with_oversized(found, processors or found.processors)
    dropped = {name: count for name, count in repairs.items() if name.endswith("_dropped")}
    jobs = len(found.jobs) - repairs.get(OVERSIZED, 0)
    if json is not None:
        output.write_json(json, {"schema": 1, "file": str(file), "jobs": jobs, "repairs": repairs})
    _say_repairs({name: count for name, count in repairs.items() if name not in dropped}, json)
    for name, count in list(dropped.items())[1:]:
        say(f"error: {file}: {count:,} {REPAIRS[name]}")
    if dropped:
        name, count = next(iter(dropped.items()))
        remedy = f"rlsched trace cut {quoted(file)} --out OUT.swf writes the {len(found.jobs):,} other jobs"
        if name == OVERSIZED:
            remedy = (
                "--processors N names a larger machine, and --set workload.oversized=scale cuts them down"
            )
        raise BadInputError(str(file), f"{count:,} {REPAIRS[name]}", remedy)
    output.people(json).print(f"whole: {jobs:,} jobs")


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
        float | None, typer.Option("--days", metavar="D", help="Days to keep, from the first job on.")
    ] = None,
    processors: ProcessorsOption = None,
    json: options.JsonOption = None,
) -> None:
    """Write a part of a trace: jobs from a row on, in the order of their submit times.

    Example: rlsched trace cut datasets/sample.swf.gz --first 100 --jobs 500 --out runs/part.swf
    """
    if jobs is not None and days is not None:
        raise BadInputError("--jobs, --days", "both are given", "leave one out")
    if days is not None and not days > 0:
        raise BadInputError("--days", f"value {days:g}", "give a number above 0")
    found = _opened(file, out, json)
    table = found.jobs
    if first >= len(table):
        raise BadInputError("--first", f"value {first}: {file} has {len(table):,} jobs", "name a row of it")
    end = len(table) if jobs is None else first + jobs
    if days is not None:
        end = int((table.submit < table.submit[first] + 86_400 * days).sum())
    if end > len(table):
        problem = f"value {jobs}: from row {first} on there are {len(table) - first:,}"
        raise BadInputError("--jobs", problem, "ask for fewer")
    part = table.take(slice(first, end))
    _write(file, out, found, part, processors, f"rows {first} to {end - 1}", json)


@app.command("scale")
def scale(
    file: FileArgument,
    out: OutOption,
    load: Annotated[
        float | None, typer.Option("--load", metavar="L", help="Offered work / capacity to bring it to.")
    ] = None,
    factor: Annotated[
        float | None,
        typer.Option("--factor", metavar="F", help="Factor on the load instead: 2 halves all gaps."),
    ] = None,
    processors: ProcessorsOption = None,
    json: options.JsonOption = None,
) -> None:
    """Write a trace whose jobs come closer together, or further apart, and are else the same.

    Example: rlsched trace scale datasets/sample.swf.gz --load 0.9 --out runs/busy.swf
    """
    if (load is None) == (factor is None):
        raise BadInputError("--load, --factor", "one of them is needed", "give a load, or a factor on it")
    name, value = ("--load", load) if factor is None else ("--factor", factor)
    if not 0 < (value or 0) < float("inf"):
        raise BadInputError(name, f"value {value:g}", "give a number above 0")
    found = _opened(file, out, json)
    from rlsched.workloads.days import natural_load, stretch_to, stretched

    units = _processors(file, found, processors)
    before = natural_load(found.jobs, units)
    wanted = load if load is not None else before * (factor or 1.0)
    scaled = stretched(found.jobs, stretch_to(found.jobs, units, wanted, name))
    _write(file, out, found, scaled, processors, f"load {wanted:.4g} instead of {before:.4g}", json)


@importing.command("sacct")
def sacct(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="What sacct --parsable2 or --json printed; '-': stdin.")
    ],
    out: OutOption,
    processors: Annotated[
        int | None,
        typer.Option(
            "--processors",
            metavar="N",
            parser=options.whole_number(1),
            help="Of the machine; left out: the most that were in use at a full hour.",
        ),
    ] = None,
    eligible: Annotated[
        bool, typer.Option("--eligible", help="Jobs come when they could have started, not when submitted.")
    ] = False,
    time_zone: Annotated[
        str | None,
        typer.Option("--time-zone", metavar="AREA/CITY", help="Of the site, as in Europe/Stockholm."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Only its jobs, where FILE has others, too."),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="TEXT", help="Between columns, as given to sacct: '|'."),
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """Make a trace of what Slurm's accounting says, and say which lines are no jobs of it, and why.

    Runs that ended are jobs: steps, jobs that never started or still run, and runs after which a job was put
    back into the queue are left out. Numbers of jobs may have been used again. Users, accounts and partitions
    become numbers. The command for a site is in docs/guide/bring-a-trace.md.

    Example: rlsched trace import sacct sacct.txt --out runs/site.swf
    """
    output.Targets(json=json).check()
    output.check_file("--out", out)
    from rlsched.cli.tables import plain_table
    from rlsched.workloads.sacct import DROPPED, REPAIRED, import_sacct

    if delimiter == "":
        raise BadInputError("--delimiter", "is empty", "give what stands between columns, or leave it out")
    delimiter = delimiter and delimiter.replace("\\t", "\t")
    zone = None if time_zone is None else _zone(time_zone)
    where = "stdin" if file == output.STDOUT else file
    with _lines(file) as lines, output.busy(f"reading {where}"):
        try:
            found = import_sacct(
                lines,
                where,
                out,
                processors=processors,
                eligible=eligible,
                zone=zone,
                cluster=cluster,
                delimiter=delimiter,
            )
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise BadInputError(where, f"cannot be read, or {out} written ({reason})", "see both") from None
    if json is not None:
        output.write_json(json, {"schema": 1, "file": where, "out": str(out), **found.as_json()})
    console = output.people(json)
    console.print(f"{found.lines:,} lines, {found.jobs:,} jobs")
    if found.counts:
        table = plain_table(None, ["lines", "what they are"], right=["lines"])
        for name, meaning in (DROPPED | REPAIRED).items():
            if count := found.counts.get(name):
                table.add_row(f"{count:,}", f"{meaning}{'' if name in REPAIRED else ' (dropped)'}")
        console.print(table)
    if found.unused:
        console.print(f"not used     {', '.join(found.unused)}", markup=False)
    if processors is None:
        told = "the most in use at a full hour; --processors N says how many there are"
        console.print(f"processors   {found.processors:,}, {told}")
    elif processors < found.most_in_use:
        console.print(
            f"processors   {processors:,}, but {found.most_in_use:,} were in use at once", style="yellow"
        )
    if not found.zone_known:
        console.print("hours        of UTC; --time-zone AREA/CITY makes them those of the site's day")
    console.print(f"written      {out}")
    console.print(f"look at it   rlsched workload describe --trace {quoted(out)}", markup=False)


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInputError("--time-zone", f"{name!r} is unknown", "name one as Europe/Stockholm") from None


@contextmanager
def _lines(file: str) -> Iterator[Iterator[str]]:
    """What was printed, plain or gzip.

    Raises:
        BadInputError: there is no such file, or it is no text, or larger than what is read.
    """
    from rlsched.workloads.sacct_forms import LINES_BYTES

    where = "stdin" if file == output.STDOUT else file
    with ExitStack() as stack:
        stream: IO[bytes] = sys.stdin.buffer
        if file != output.STDOUT:
            try:
                stream = stack.enter_context(Path(file).open("rb"))
            except OSError as error:
                remedy = "give a file that sacct --parsable2 printed, or '-'"
                raise BadInputError(file, f"cannot be read ({error.strerror})", remedy) from None
        yield stack.enter_context(closing(lines_of(stream, where, most_bytes(LINES_BYTES))))


def _opened(file: Path, out: Path, json: str | None) -> Trace:
    output.Targets(json=json).check()
    output.check_file("--out", out)
    from rlsched.workloads.swf import read

    return read(file)


def _with_oversized(found: Trace, processors: int | None) -> dict[str, int]:
    """What was dropped or repaired on reading, and what a simulation leaves out as it fits no machine."""
    wide = 0 if processors is None else int((found.jobs.demand[:, 0] > processors).sum())
    return found.repairs | ({OVERSIZED: wide} if wide else {})


def _processors(file: Path, found: Trace, given: int | None) -> int:
    units = given or found.processors
    if units is None:
        raise BadInputError(
            str(file), "does not say how many processors the machine has", "add --processors N"
        )
    return units


def _write(
    file: Path, out: Path, found: Trace, jobs: JobTable, processors: int | None, what: str, json: str | None
) -> None:
    from rlsched.workloads.swf import rewrite

    rewrite(file, out, jobs, note=f"rlsched: {what} of {file.name}", processors=processors)
    if json is not None:
        told = {"schema": 1, "file": str(file), "out": str(out), "jobs": len(jobs), "repairs": found.repairs}
        output.write_json(json, told)
    _say_repairs(found.repairs, json)
    output.people(json).print(f"written      {out}: {len(jobs):,} jobs, {what}", markup=False)


def _say_repairs(repairs: Mapping[str, int], json: str | None) -> None:
    """What was dropped or put right on reading."""
    from rlsched.workloads.swf import REPAIRS

    for name, count in repairs.items():
        output.people(json).print(f"{count:>10,}  {REPAIRS[name]} ({name})", markup=False)
