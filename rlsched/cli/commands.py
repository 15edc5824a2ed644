"""All commands as one app."""

from __future__ import annotations

from typing import Annotated

import typer

from rlsched.cli import (
    advise,
    bench,
    cluster,
    collect,
    dataset,
    evaluate,
    exchange,
    export,
    listings,
    report,
    scenarios,
    serve,
    settings,
    simulate,
    trace,
    train,
    tune,
    workload,
)

app = typer.Typer(
    help="Train batch job schedulers by reinforcement learning, and compare them with heuristics.",
    epilog="Begin with: rlsched simulate --scenario lublin-256 --policy fcfs,sjf",
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("simulate")(simulate.simulate)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(scenarios.app, name="scenarios")
app.command("collect")(collect.collect)
dataset.app.command("export")(exchange.export)
dataset.app.command("import")(exchange.import_dataset)
app.add_typer(dataset.app, name="dataset")
app.add_typer(tune.app, name="tune")
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.add_typer(advise.app, name="advise")
app.add_typer(report.app, name="report")
for listing in (listings.policies, listings.objectives, listings.algorithms):
    app.command()(listing)
app.command("settings")(settings.settings)
app.add_typer(bench.app, name="bench")
app.add_typer(cluster.app, name="cluster")
app.add_typer(trace.app, name="trace")
app.add_typer(workload.app, name="workload")


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (or set RLSCHED_DEBUG=1).")
    ] = False,
) -> None:
    """Train batch job schedulers by reinforcement learning, and compare them with heuristics."""
    if version:
        import rlsched

        print(f"rlsched {rlsched.__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
