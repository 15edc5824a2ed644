"""`rlsched advise slurm`: advice from a policy for a cluster that Slurm schedules."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rlsched.integrations.slurm.cluster_view import SlurmView
    from rlsched.integrations.slurm.policies import ExportedPolicy
    from rlsched.serve.api.schema import Answer

app = typer.Typer(
    help="Get advice from a policy for a cluster of another scheduler. Nothing is changed there.",
    epilog="Start with: rlsched advise slurm DIR --squeue q.json --sinfo n.json",
    no_args_is_help=True,
)

STALE_S = 300
"""Age from which on --as-scontrol is refused."""

MAX_WAITING_ROWS = 30
"""Most jobs that wait in the table."""

COMMANDS = {"--squeue": "squeue --all --json", "--sinfo": "sinfo --all --Node --json"}

FolderArgument = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="Folder that rlsched export wrote; or give --url.")
]
SqueueOption = Annotated[
    str, typer.Option(metavar="FILE|-", help="Output of 'squeue --all --json'; '-': stdin.")
]
SinfoOption = Annotated[
    str, typer.Option(metavar="FILE|-", help="Output of 'sinfo --all --Node --json'; '-': stdin.")
]
UrlOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of a running rlsched serve, instead of DIR.")
]
TokenFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With --url: file with the service's token.")
]
PolicyOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --url: name of the policy (default: the first).")
]
FallbackOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:RULE]", help="With DIR: heuristic to compare the policy with (default fcfs:easy)."
    ),
]
GateOption = Annotated[
    Path | None,
    typer.Option(
        metavar="TRACE",
        help="With DIR: compare the policy with the heuristics on the last jobs of this trace (SWF) of the "
        "site; where the policy is behind, the heuristic gives the advice.",
    ),
]
PartitionOption = Annotated[
    str | None, typer.Option(metavar="P", help="Only jobs and nodes of this partition (default: all).")
]
UnitsOption = Annotated[
    str | None,
    typer.Option(
        metavar="cpus|nodes",
        help="What the first resource counts (default: nodes if it has that name, else CPUs).",
    ),
]
DefaultLimitOption = Annotated[
    str | None,
    typer.Option(
        metavar="MINUTES",
        parser=options.whole_number(1),
        help="Time limit of jobs that have none, and whose partition has none.",
    ),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        metavar="SECONDS",
        parser=options.whole_number(1),
        help="Unix time of the output of squeue and sinfo (default: now).",
    ),
]
ScontrolOption = Annotated[
    bool,
    typer.Option("--as-scontrol", help="Print commands for an operator to run, and commands to undo them."),
]


@app.callback()
def advise() -> None:
    """Get advice from a policy for a cluster of another scheduler. Nothing is changed there."""


@app.command("slurm")
def slurm(
    folder: FolderArgument = None,
    squeue: SqueueOption = "",
    sinfo: SinfoOption = "",
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    policy: PolicyOption = None,
    fallback: FallbackOption = None,
    gate: GateOption = None,
    partition: PartitionOption = None,
    units: UnitsOption = None,
    default_limit: DefaultLimitOption = None,
    at: AtOption = None,
    as_scontrol: ScontrolOption = False,
    json: options.JsonOption = None,
) -> None:
    """Show which jobs a policy would start now on a cluster of Slurm, and why the others wait.

    It reads the output of squeue and sinfo and changes nothing: Slurm still decides.

    Example: squeue --all --json > q.json; sinfo --all --Node --json > n.json;
    rlsched advise slurm runs/policy --squeue q.json --sinfo n.json
    """
    targets = output.Targets(json).check()
    _check_source(
        folder,
        url,
        {"--token-file": token_file, "--policy": policy},
        {"--fallback": fallback, "--gate": gate},
    )
    _check_states(squeue, sinfo, units)
    if as_scontrol and json == output.STDOUT:
        remedy = "give --json a file: it has both"
        raise BadInputError("--json, --as-scontrol", "both write to stdout", remedy)

    from rlsched.integrations.slurm.advice import advice_json
    from rlsched.integrations.slurm.cluster_view import build_view
    from rlsched.integrations.slurm.command_output import read_output
    from rlsched.integrations.slurm.policies import ServedPolicy

    advisor = (
        ServedPolicy(url or "", token_file, policy) if folder is None else _exported(folder, fallback, gate)
    )
    limit_s = None if default_limit is None else 60 * int(default_limit)
    settings = replace(advisor.settings, first_resource=units, partition=partition, default_limit_s=limit_s)
    settings.kinds()
    queue, nodes = read_output("--squeue", squeue), read_output("--sinfo", sinfo)
    view = build_view(queue, nodes, settings, int(time.time() if at is None else at))
    if as_scontrol and at is None:
        _check_age(squeue, sinfo, view.age_s)
    with output.busy("deciding"):
        answer = advisor.decide(view.request)
    notes = [*view.notes, *_policy_notes(answer, advisor.remembers, advisor.gate_line)]
    if as_scontrol:
        from rlsched.integrations.slurm.scontrol import script

        print(script(view, answer, notes), end="")
    else:
        _print_advice(targets.console, view, answer, notes)
    targets.write(advice_json(view, answer, notes, queue.release or nodes.release or None))


def _check_source(
    folder: Path | None, url: str | None, with_url: Mapping[str, object], with_folder: Mapping[str, object]
) -> None:
    """Check that one source of policies is given, and only options that fit it."""
    if (folder is None) == (url is None):
        problem = "neither is given" if folder is None else "both are given"
        remedy = "give one: a folder that rlsched export wrote, or the address of rlsched serve"
        raise BadInputError("DIR, --url", problem, remedy)
    unfit, needs = (with_url, "--url") if url is None else (with_folder, "DIR")
    for name, value in unfit.items():
        if value is not None:
            problem = f"value {str(value)!r} needs {needs}"
            raise BadInputError(name, problem, "see rlsched advise slurm --help")


def _exported(folder: Path, fallback: str | None, gate: Path | None) -> ExportedPolicy:
    from rlsched.integrations.slurm.policies import ExportedPolicy
    from rlsched.serve.settings import Gate

    if not (folder / "policy.json").is_file():
        remedy = "name a folder that rlsched export wrote, as in: rlsched export runs/first runs/policy"
        raise BadInputError("DIR", f"{str(folder)!r} holds no exported policy", remedy)
    output.announce_compiling()
    with output.busy("loading the policy"):
        return ExportedPolicy(folder, fallback, None if gate is None else Gate(trace=gate))


def _check_states(squeue: str, sinfo: str, units: str | None) -> None:
    for name, value in (("--squeue", squeue), ("--sinfo", sinfo)):
        if not value:
            raise BadInputError(name, "is not given", f"give the output of {COMMANDS[name]}")
    if squeue == sinfo == output.STDOUT:
        raise BadInputError("--squeue, --sinfo", "both are stdin", "give one of them as a file")
    if units not in (None, "cpus", "nodes"):
        raise BadInputError("--units", f"value {units!r}", "use cpus or nodes")


def _check_age(squeue: str, sinfo: str, unchanged_s: int) -> None:
    """Refuse commands for a state that is some minutes old; Slurm has not changed it for `unchanged_s`."""
    ages = [time.time() - Path(name).stat().st_mtime for name in (squeue, sinfo) if name != output.STDOUT]
    age = max([*ages, unchanged_s])
    if age > STALE_S:
        problem = f"the output of squeue and sinfo is {age / 60:.0f} minutes old, too old to act on"
        remedy = "run both again; where nothing has happened since, give the time with --at"
        raise BadInputError("--as-scontrol", problem, remedy)


def _policy_notes(answer: Answer, remembers: bool, gate_line: str) -> list[str]:
    """Notes on the policy and on the fallback."""
    notes = [gate_line] if gate_line else []
    if answer.decided_by != "policy":
        reason = answer.because or "the policy was not used"
        notes.append(f"the heuristic decided, not the policy: {reason}")
    if remembers:
        notes.append("the policy has a memory (LSTM), which was empty for this advice")
    return notes


def _print_advice(console: Console, view: SlurmView, answer: Answer, notes: list[str]) -> None:
    _print_cluster(console, view)
    console.print(_job_table(view, answer))
    waiting = len(view.rows) - sum(decision.action == "start" for decision in answer.decisions)
    if waiting > MAX_WAITING_ROWS:
        console.print(f"and {waiting - MAX_WAITING_ROWS} more wait; --json has all of them")
    if view.excluded:
        console.print()
        console.print(_excluded_table(view))
    console.print()
    for note in notes:
        console.print(f"note: {note}", soft_wrap=True)


def _print_cluster(console: Console, view: SlurmView) -> None:
    request = view.request
    for kind, total, free, unexplained, out_of_service in zip(
        view.kinds,
        request.units or (),
        request.free or (),
        view.unexplained,
        view.out_of_service,
        strict=True,
    ):
        name = kind if kind in ("cpus", "nodes") else f"gres/{kind}"
        text = f", {unexplained:,} in use by no job of squeue" if unexplained else ""
        text += f", {out_of_service:,} out of service" if out_of_service else ""
        console.print(f"{name:12} {free:,} free of {total:,}{text}")
    console.print(f"{'jobs':12} {len(request.running):,} hold units, {len(request.waiting):,} may start")
    console.print()


def _job_table(view: SlurmView, answer: Answer) -> Table:
    from rich.text import Text

    from rlsched.cli.tables import plain_table
    from rlsched.integrations.slurm.advice import advice_rows

    heuristic = answer.fallback.name if answer.fallback else "fallback"
    columns = ["job", "user", "partition", "waits", "nodes", "CPUs", "requests", "action", "why", "score"]
    right = ("waits", "nodes", "CPUs", "requests", "score")
    table = plain_table([*columns, heuristic], right=right)
    waiting = 0
    for row in advice_rows(view, answer):
        waiting += row["action"] == "wait"
        if waiting > MAX_WAITING_ROWS:
            break
        cells = [str(row["job"]), row["user"], row["partition"], _duration(row["waits_s"]), str(row["nodes"])]
        cpus, demand = row["cpus"], row["demand"]
        # Whole nodes have more CPUs than the job requests; the policy counts them all.
        held = f" ({demand[0]})" if len(demand) == 1 and demand[0] not in {cpus, row["nodes"]} else ""
        cells += [f"{cpus}{held}", _duration(row["requested_s"]), row["action_text"], row["why"] or ""]
        cells += ["" if row["score"] is None else f"{row['score']:.2f}", row["fallback"] or ""]
        table.add_row(*map(Text, cells), style="" if row["action"] != "wait" else "dim")
    return table


def _excluded_table(view: SlurmView) -> Table:
    from rich.text import Text

    from rlsched.cli.tables import plain_table

    lines = []
    for reason, excluded in sorted(view.excluded.items(), key=lambda item: -item[1].count):
        labels = ", ".join([*map(str, excluded.jobs[:8]), *["..."][: excluded.count > 8]])
        lines.append((Text(reason), str(excluded.count), Text(labels)))
    title = "Not in the advice: jobs that wait for something else"
    return plain_table(["reason", "jobs", "labels"], lines, right=("jobs",), title=title)


def _duration(seconds: int) -> str:
    """A duration as squeue prints it: days-hours:minutes."""
    days, rest = divmod(max(0, seconds), 86_400)
    hours, minutes = rest // 3600, f"{rest // 60 % 60:02d}"
    return f"{days}-{hours:02d}:{minutes}" if days else f"{hours}:{minutes}"
