"""`rlsched report`: pages of recorded decisions."""

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
    """Draw pages of recorded decisions."""


@app.command("serve")
def serve(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Log of a service: the folder of rlsched serve --log.")
    ],
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cluster to show (default: the last one).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page to write (default: report.html in RUN).")
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """Draw the status page of `rlsched serve` with its last decisions: queue, schedule, power, agreement.

    Example: rlsched report serve runs/served
    """
    target = run / "report.html" if out is None else out
    targets = output.Targets(json).check()
    output.check_file("--out", target, (".html",))

    from rlsched.files import write_whole
    from rlsched.report.words import count_of
    from rlsched.serve.log.service_log import POLICIES, read_journal
    from rlsched.serve.page.html import page

    journal = read_journal(run, cluster)
    if cluster is not None and journal.cluster != cluster:
        known = ", ".join(journal.clusters)
        raise BadInputError("--cluster", f"there are no decisions on {cluster!r}", f"name one of {known}")
    try:
        policies = jsons.loads((run / POLICIES).read_text("utf-8"))["policies"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInputError(
            str(run / POLICIES), f"cannot be read ({error})", "name the whole folder of a log"
        ) from None
    write_whole(target, page(policies, journal, live=False).encode())
    console = targets.console
    console.print(f"drawn        {count_of(journal.recent.states, 'state')} of {journal.cluster} to {target}")
    rest = ", ".join(name for name in journal.clusters if name != journal.cluster)
    console.print(f"others       {rest or 'none'} (--cluster NAME)")
    targets.write({"page": str(target), "cluster": journal.cluster, "states": journal.recent.states})
