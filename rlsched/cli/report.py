"""`rlsched report`: pages of what was done."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def report() -> None:
    """Draw pages of what was done: 'serve' of what a service decided."""


@app.command("serve")
def serve(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder that rlsched serve was told with --log.")
    ],
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cluster to show; left out: the last one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to; left out: report.html in RUN.")
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """Draw the page that `rlsched serve` showed, of what it decided last: queue, schedule, power, agreement.

    Example: rlsched report serve runs/served
    """
    target = run / "report.html" if out is None else out
    output.Targets(json=json).check()
    output.check_file("--out", target, (".html",))

    from rlsched.files import write_whole
    from rlsched.serve.log.journal import read_journal
    from rlsched.serve.log.service_log import POLICIES
    from rlsched.serve.page.drawing import counted
    from rlsched.serve.page.html import page

    shown = read_journal(run, cluster)
    if cluster is not None and shown.cluster != cluster:
        known = ", ".join(shown.clusters)
        raise BadInputError("--cluster", f"nothing was decided about {cluster!r}", f"name one of {known}")
    try:
        policies = jsons.loads((run / POLICIES).read_text("utf-8"))["policies"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInputError(
            str(run / POLICIES), f"cannot be read ({error})", "name the whole folder of a log"
        ) from None
    write_whole(target, page(policies, shown, live=False).encode())
    console = output.people(json)
    console.print(f"drawn        {counted(shown.recent.states, 'state')} of {shown.cluster} to {target}")
    others = ", ".join(name for name in shown.clusters if name != shown.cluster)
    console.print(f"others       {others or 'none'} (--cluster NAME)")
    if json is not None:
        told = {"schema": 1, "page": str(target), "cluster": shown.cluster, "states": shown.recent.states}
        output.write_json(json, told)
