"""`rlsched trace import`: traces from the accounting of a batch system."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
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

    from rich.console import Console

    from rlsched.workloads.sacct_records import Imported

app = typer.Typer(no_args_is_help=True)

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE|-", help="Output of sacct --parsable2 or --json; '-': stdin.")
]
OutOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="OUT.swf", help="The trace to write; .gz: gzip.")
]
ProcessorsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=options.whole_number(1),
        help="Processors of the machine (default: the most in use at a full hour).",
    ),
]
EligibleOption = Annotated[
    bool, typer.Option("--eligible", help="Use the eligible time of jobs instead of their submit time.")
]
TimeZoneOption = Annotated[
    str | None, typer.Option(metavar="AREA/CITY", help="Time zone of the site, as in Europe/Stockholm.")
]
ClusterOption = Annotated[str | None, typer.Option(metavar="NAME", help="Import only jobs of this cluster.")]
DelimiterOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Delimiter of columns, as given to sacct (default '|').")
]


@app.callback()
def import_trace() -> None:
    """Make traces from the accounting of a batch system."""


@app.command("sacct")
def sacct(
    file: FileArgument,
    out: OutOption,
    processors: ProcessorsOption = None,
    eligible: EligibleOption = False,
    time_zone: TimeZoneOption = None,
    cluster: ClusterOption = None,
    delimiter: DelimiterOption = None,
    json: options.JsonOption = None,
) -> None:
    """Make a trace from Slurm's accounting, and show the lines that are not jobs, with reasons.

    Each run that ended is a job. Steps, jobs that never started or still run, and runs before a requeue are
    dropped. Job numbers may occur again. Users, accounts and partitions become numbers. The command for a
    site is in docs/guide/bring-a-trace.md.

    Example: rlsched trace import sacct sacct.txt --out runs/site.swf
    """
    targets = output.Targets(json).check()
    output.check_file("--out", out)
    from rlsched.workloads.sacct import import_sacct

    if delimiter == "":
        raise BadInputError("--delimiter", "is empty", "give the text between columns, or remove it")
    zone = None if time_zone is None else _zone(time_zone)
    where = "stdin" if file == output.STDOUT else file
    with _lines(file) as lines, output.busy(f"reading {where}"):
        try:
            imported = import_sacct(
                lines,
                where,
                out,
                processors=processors,
                eligible=eligible,
                zone=zone,
                cluster=cluster,
                delimiter=delimiter and delimiter.replace("\\t", "\t"),
            )
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            problem = f"cannot be read, or {out} written ({reason})"
            raise BadInputError(where, problem, "check both files") from None
    targets.write({"file": where, "out": str(out), **imported.as_json()})
    _print_import(targets.console, imported, out, processors)


def _print_import(console: Console, imported: Imported, out: Path, processors: int | None) -> None:
    """Print dropped and repaired lines, and assumptions of the import."""
    from rlsched.cli.tables import plain_table
    from rlsched.workloads.sacct import DROPPED, REPAIRED

    console.print(f"{imported.lines:,} lines, {imported.jobs:,} jobs")
    rows = [
        (f"{imported.counts[name]:,}", f"{meaning}{'' if name in REPAIRED else ' (dropped)'}")
        for name, meaning in (DROPPED | REPAIRED).items()
        if imported.counts.get(name)
    ]
    if rows:
        console.print(plain_table(["lines", "what they are"], rows, right=["lines"]))
    if imported.unused:
        console.print(f"not used     {', '.join(imported.unused)}")
    if processors is None:
        note = "the most in use at a full hour; --processors N sets their number"
        console.print(f"processors   {imported.processors:,}, {note}")
    elif processors < imported.most_in_use:
        console.print(
            f"processors   {processors:,}, but {imported.most_in_use:,} were in use at once", style="yellow"
        )
    if not imported.zone_known:
        console.print("hours        of UTC; --time-zone AREA/CITY sets the zone of the site")
    console.print(f"written      {out}")
    console.print(f"describe it  rlsched workload describe --trace {quoted(out)}")


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInputError("--time-zone", f"{name!r} is unknown", "give one as Europe/Stockholm") from None


@contextmanager
def _lines(file: str) -> Iterator[Iterator[str]]:
    """The lines of a file or of stdin, plain or gzip.

    Raises:
        BadInputError: there is no such file, or it is not text, or it is too large.
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
