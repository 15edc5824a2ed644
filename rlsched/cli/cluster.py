"""`rlsched cluster check`: cluster files, before a cluster is paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

app = typer.Typer(help="Files that start clusters: clusters/ has some.", no_args_is_help=True)


@app.callback()
def cluster() -> None:
    """Files that start clusters: clusters/ has some."""


@app.command("check")
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="As clusters/aws.yaml.")],
    json: options.JsonOption = None,
) -> None:
    """Look through files of ray up, Kubernetes with KubeRay, Slurm, Docker and compose, without a cluster.

    Unknown keys are refused, however deep, and what does not go together. Exit code 2 where something is
    wrong, with a line for each.

    Example: rlsched cluster check clusters/aws.yaml clusters/kuberay/*.yaml
    """
    output.Targets(json=json).check()
    from rlsched.cli.main import BAD_INPUT, say
    from rlsched.cli.tables import plain_table
    from rlsched.deploy.check import check as look

    looked = [(file, *look(file, refusal, served)) for file in files]
    problems = [problem for _, _, found in looked for problem in found]
    if json is not None:
        rows = [
            {
                "file": str(file),
                "kind": found.kind if found is not None else None,
                "holds": found.holds if found is not None else None,
                "unchecked": list(found.unchecked) if found is not None else [],
                "problems": [line(problem) for problem in wrong],
            }
            for file, found, wrong in looked
        ]
        output.write_json(json, {"schema": 1, "files": rows})
    for problem in problems:
        say(f"error: {problem}")
    if problems:
        raise typer.Exit(BAD_INPUT)
    console = output.people(json)
    table = plain_table(None, ["file", "kind", "holds", "not checked"])
    for file, found, _ in looked:
        if found is not None:
            table.add_row(str(file), found.kind, found.holds, "; ".join(found.unchecked))
    console.print(table)


def line(problem: BadInputError) -> dict[str, str]:
    """A problem in its parts."""
    return {"where": problem.where, "problem": problem.problem, "remedy": problem.remedy}


def served(args: Mapping[str, Any], where: str) -> None:
    """Refuse arguments of the decision service.

    Raises:
        BadInputError: they do not fit.
    """
    from rlsched.serve.settings import ServeConfig
    from rlsched.settings import validate

    validate(ServeConfig, args, where)


def refusal(words: Sequence[str]) -> str | None:
    """Why this program would refuse its arguments; None: it would not."""
    from typer.main import get_command

    from rlsched.cli.commands import app as everything
    from rlsched.deploy.commands import refused

    return refused(get_command(everything), "rlsched", words)
