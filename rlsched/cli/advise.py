"""`rlsched advise slurm`: what a policy would do now, beside a Slurm that goes on deciding."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rlsched.integrations.slurm.asking import Local, Remote
    from rlsched.integrations.slurm.mapping import Mapped
    from rlsched.serve.api.schema import Answer

app = typer.Typer(
    help="Ask a policy about a cluster that another scheduler runs. Nothing is changed there.",
    epilog="Begin with: rlsched advise slurm DIR --squeue q.json --sinfo n.json",
    no_args_is_help=True,
)

STALE_S = 300

ROWS = 30
"""Jobs that go on waiting which a table shows."""


@app.callback()
def advise() -> None:
    """Ask a policy about a cluster that another scheduler runs. Nothing is changed there."""


@app.command("slurm")
def slurm(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Folder that rlsched export wrote; or give --url.")
    ] = None,
    squeue: Annotated[
        str, typer.Option(metavar="FILE|-", help="What 'squeue --all --json' printed; '-': stdin.")
    ] = "",
    sinfo: Annotated[
        str, typer.Option(metavar="FILE|-", help="What 'sinfo --all --Node --json' printed; '-': stdin.")
    ] = "",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask a running rlsched serve instead of DIR.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --url: a file with the token that it wants.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --url: one of several; left out: the first.")
    ] = None,
    fallback: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:RULE]", help="With DIR: heuristic beside the policy; left out: fcfs:easy."
        ),
    ] = None,
    gate: Annotated[
        Path | None,
        typer.Option(
            metavar="TRACE",
            help="With DIR: hold the policy against the heuristics on the last jobs of this trace (SWF), the "
            "site's own; where it stands back, the advice is the heuristic's.",
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="P", help="Only jobs and nodes of this partition; left out: all.")
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(
            metavar="cpus|nodes",
            help="What its first resource counts; left out: nodes where it is called so, else CPUs.",
        ),
    ] = None,
    default_limit: Annotated[
        str | None,
        typer.Option(
            metavar="MINUTES",
            parser=options.whole_number(1),
            help="Taken as time limit of jobs that have none, and whose partition has none.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            parser=options.whole_number(1),
            help="Unix time at which both were printed; left out: now.",
        ),
    ] = None,
    as_scontrol: Annotated[
        bool,
        typer.Option(
            "--as-scontrol", help="Print commands that an operator may run, and how to take them back."
        ),
    ] = False,
    json: options.JsonOption = None,
) -> None:
    """What a policy would start now on a cluster that Slurm runs, and why the others wait.

    It reads what squeue and sinfo print, and changes nothing: Slurm goes on deciding.

    Example: squeue --all --json > q.json; sinfo --all --Node --json > n.json;
    rlsched advise slurm runs/policy --squeue q.json --sinfo n.json
    """
    output.Targets(json=json).check()
    _check(folder, url, squeue, sinfo)
    for name, given, of in (
        ("--token-file", token_file, url),
        ("--policy", policy, url),
        ("--fallback", fallback, folder),
        ("--gate", gate, folder),
    ):
        if given is not None and of is None:
            raise BadInputError(
                name, f"value {str(given)!r} means nothing here", "see rlsched advise slurm --help"
            )
    if units not in (None, "cpus", "nodes"):
        raise BadInputError("--units", f"value {units!r}", "use cpus or nodes")
    if as_scontrol and json == output.STDOUT:
        raise BadInputError(
            "--json, --as-scontrol", "both write to stdout", "give --json a file: it has both"
        )

    from rlsched.integrations.slurm.answers import read_answer
    from rlsched.integrations.slurm.mapping import map_cluster
    from rlsched.integrations.slurm.telling import as_json

    policy_ = _opened(folder, fallback, gate, url, token_file, policy)
    limit_s = None if default_limit is None else 60 * int(default_limit)
    asked = replace(policy_.about, counted=units, partition=partition, default_limit_s=limit_s)
    asked.kinds()
    found = read_answer("--squeue", squeue), read_answer("--sinfo", sinfo)
    mapped = map_cluster(*found, asked, int(time.time() if at is None else at))
    if as_scontrol and at is None:
        _check_fresh(squeue, sinfo, mapped.age_s)
    with output.busy("deciding"):
        answer = policy_.decide(mapped.request)
    notes = [*mapped.notes, *_of_who(answer, policy_.remembers, policy_.gate)]
    _tell(mapped, answer, notes, as_scontrol, json)
    if json is not None:
        release = found[0].release or found[1].release or None
        output.write_json(json, as_json(mapped, answer, notes, release))


def _check(folder: Path | None, url: str | None, squeue: str, sinfo: str) -> None:
    """Raises BadInputError where options do not go together."""
    if (folder is None) == (url is None):
        problem = "neither is given" if folder is None else "both are given"
        remedy = "give one: a folder that rlsched export wrote, or where rlsched serve answers"
        raise BadInputError("DIR, --url", problem, remedy)
    for name, given, command in (
        ("--squeue", squeue, "squeue --all --json"),
        ("--sinfo", sinfo, "sinfo --all --Node --json"),
    ):
        if not given:
            raise BadInputError(name, "is not given", f"give what this printed: {command}")
    if squeue == sinfo == output.STDOUT:
        raise BadInputError("--squeue, --sinfo", "both are stdin", "give one of them as a file")


def _check_fresh(squeue: str, sinfo: str, quiet_s: int) -> None:
    """Refuse commands that follow from a state of some minutes ago, however new its files are.

    Args:
        squeue: where it is from.
        sinfo: likewise.
        quiet_s: seconds since Slurm last changed a job.
    """
    ages = [time.time() - Path(name).stat().st_mtime for name in (squeue, sinfo) if name != output.STDOUT]
    age = max([*ages, quiet_s])
    if age > STALE_S:
        problem = f"what squeue and sinfo said is {age / 60:.0f} minutes old, too old to be acted on"
        remedy = "take it anew; where nothing has happened since, give the time with --at"
        raise BadInputError("--as-scontrol", problem, remedy)


def _opened(
    folder: Path | None,
    fallback: str | None,
    gate: Path | None,
    url: str | None,
    token_file: Path | None,
    policy: str | None,
) -> Local | Remote:
    """Who is asked."""
    from rlsched.integrations.slurm.asking import Local, Remote
    from rlsched.serve.settings import Gate

    if folder is None:
        return Remote(url or "", token_file, policy)
    if not (folder / "policy.json").is_file():
        remedy = "name a folder that rlsched export wrote, as in: rlsched export runs/first runs/policy"
        raise BadInputError("DIR", f"{str(folder)!r} holds no exported policy", remedy)
    output.announce_compiling()
    with output.busy("loading the policy"):
        return Local(folder, fallback, None if gate is None else Gate(trace=gate))


def _of_who(answer: Answer, remembers: bool, gate: str) -> list[str]:
    """What is to be known of who decided."""
    found = [gate] if gate else []
    if answer.decided_by != "policy":
        found.append(f"the heuristic decided, not the policy: {answer.because or 'it was not asked'}")
    if remembers:
        found.append("the policy remembers what it saw before, and was asked as if this were the first time")
    return found


def _tell(mapped: Mapped, answer: Answer, notes: list[str], as_scontrol: bool, json: str | None) -> None:
    """Say it to people: commands alone on stdout, or the table."""
    from rlsched.integrations.slurm.commands import script

    if as_scontrol:
        print(script(mapped, answer, notes), end="")
        return
    console = output.people(json)
    _show_cluster(console, mapped)
    console.print(_table(mapped, answer))
    waiting = len(mapped.rows) - len(_started(answer))
    if waiting > ROWS:
        console.print(f"and {waiting - ROWS} more wait; --json tells of all")
    if mapped.left_out:
        console.print()
        console.print(_left_out(mapped))
    console.print()
    for note in notes:
        console.print(f"note: {note}", soft_wrap=True)


def _show_cluster(console: Console, mapped: Mapped) -> None:
    request = mapped.request
    for kind, there, free, unexplained, out in zip(
        mapped.kinds, request.units or (), request.free or (), mapped.unexplained, mapped.out, strict=True
    ):
        name = kind if kind in ("cpus", "nodes") else f"gres/{kind}"
        gone = f", {unexplained:,} in use by no job of squeue" if unexplained else ""
        gone += f", {out:,} out of service" if out else ""
        console.print(f"{name:12} {free:,} free of {there:,}{gone}")
    console.print(f"{'jobs':12} {len(request.running):,} hold units, {len(request.waiting):,} may start")
    console.print()


def _started(answer: Answer) -> set[int | str]:
    return {decision.job for decision in answer.decisions if decision.action == "start"}


def _table(mapped: Mapped, answer: Answer) -> Table:
    from rich.text import Text

    from rlsched.cli.tables import plain_table
    from rlsched.integrations.slurm.telling import rows_of

    heuristic = answer.fallback.name if answer.fallback else "fallback"
    columns = [
        "job",
        "user",
        "partition",
        "waits",
        "nodes",
        "CPUs",
        "asks for",
        "what",
        "why",
        "score",
        heuristic,
    ]
    table = plain_table(None, columns, right=("waits", "nodes", "CPUs", "asks for", "score"))
    left = ROWS
    for row in rows_of(mapped, answer):
        if row["action"] == "wait":
            left -= 1
            if left < 0:
                break
        cells = [str(row["job"]), row["user"], row["partition"], _span(row["waits_s"]), str(row["nodes"])]
        cpus, demand = row["cpus"], row["demand"]
        # Whole nodes hold more than was asked for, and that is what is reckoned with.
        held = f" ({demand[0]})" if len(demand) == 1 and demand[0] not in {cpus, row["nodes"]} else ""
        cells += [f"{cpus}{held}", _span(row["requested_s"]), row["what"], row["why"] or ""]
        cells += ["" if row["score"] is None else f"{row['score']:.2f}", row["fallback"] or ""]
        table.add_row(*map(Text, cells), style="" if row["action"] != "wait" else "dim")
    return table


def _left_out(mapped: Mapped) -> Table:
    from rich.text import Text

    from rlsched.cli.tables import plain_table

    table = plain_table(
        "Not asked about: they wait for something else", ["reason", "jobs", "which"], right=("jobs",)
    )
    for reason, left in sorted(mapped.left_out.items(), key=lambda item: -item[1].count):
        named = ", ".join(map(str, left.jobs[:8]))
        table.add_row(Text(reason), str(left.count), Text(f"{named}{', ...' if left.count > 8 else ''}"))
    return table


def _span(seconds: int) -> str:
    """A time as squeue writes it: days-hours:minutes."""
    days, rest = divmod(max(0, seconds), 86_400)
    return (
        f"{days}-{rest // 3600:02d}:{rest // 60 % 60:02d}"
        if days
        else f"{rest // 3600}:{rest // 60 % 60:02d}"
    )
