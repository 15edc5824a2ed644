"""`rlsched cluster check`: checks cluster files before a cluster is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from rlsched.cli import options, output
from rlsched.errors import visible

app = typer.Typer(help="Check files that start clusters, as in clusters/.", no_args_is_help=True)


@app.callback()
def cluster() -> None:
    """Check files that start clusters, as in clusters/."""


@app.command("check")
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files, as clusters/aws.yaml.")],
    json: options.JsonOption = None,
) -> None:
    """Check files of ray up, Kubernetes with KubeRay, Slurm, Docker and compose, without a cluster.

    JSON schemas check the keys, and rules check values that depend on each other. shellcheck and docker
    compose are used if they are installed. The exit code is 2 if there are faults; each is one line.

    Example: rlsched cluster check clusters/aws.yaml clusters/kuberay/*.yaml
    """
    targets = output.Targets(json).check()
    from rlsched.cli.main import BAD_INPUT, say
    from rlsched.cli.tables import plain_table
    from rlsched.deploy.check import check as check_file

    reports = {file: check_file(file, refusal, check_service) for file in files}
    problems = [problem for report in reports.values() for problem in report.problems]
    rows = [
        {
            "file": str(file),
            "kind": report.kind,
            "holds": "; ".join(report.summary) or None,
            "unchecked": report.unchecked,
            "problems": [
                {"where": fault.where, "problem": fault.problem, "remedy": fault.remedy}
                for fault in report.problems
            ],
        }
        for file, report in reports.items()
    ]
    targets.write({"files": rows})
    for problem in problems:
        say(f"error: {problem}")
    if problems:
        raise typer.Exit(BAD_INPUT)
    lines = [
        (str(file), report.kind, visible("; ".join(report.summary)), visible("; ".join(report.unchecked)))
        for file, report in reports.items()
    ]
    targets.console.print(plain_table(["file", "kind", "holds", "not checked"], lines))


def check_service(args: Mapping[str, Any], where: str) -> None:
    """Check arguments of the decision service; BadInputError: one is wrong."""
    from rlsched.serve.settings import ServeConfig
    from rlsched.settings import validate

    validate(ServeConfig, args, where)


def refusal(words: Sequence[str]) -> str | None:
    """The reason why `ray` or `rlsched` refuses its arguments; None: it does not. Nothing is run.

    Args:
        words: of a command, which begins with `ray` or `rlsched`.
    """
    name, *arguments = words
    command = _command(name)
    parent = None
    if {"-h", "--help"} & set(arguments):
        return None  # click would print the help
    try:
        while hasattr(command, "resolve_command"):
            rest = []
            if arguments:  # else click would print the help
                parent = command.make_context(name, arguments, parent=parent)
                rest = [*getattr(parent, "_protected_args", ()), *parent.args]
            if not rest:
                return None if command.invoke_without_command else "it names no command"
            name, command, arguments = command.resolve_command(parent, rest)
        command.make_context(name, arguments, parent=parent)
    except Exception as error:
        if not hasattr(error, "format_message"):  # only errors in arguments are expected
            raise
        return " ".join(str(error.format_message()).split()).rstrip(".")
    return None


@cache
def _command(name: str) -> Any:
    """The click command of `ray` or `rlsched`."""
    if name == "ray":
        from ray.scripts.scripts import cli

        return cli
    from typer.main import get_command

    from rlsched.cli.commands import app as rlsched_app

    return get_command(rlsched_app)
