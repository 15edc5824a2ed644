"""`rlsched scenarios`: the scenarios that come with rlsched, and their settings."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rlsched.cli import options, output

app = typer.Typer()


@app.callback(invoke_without_command=True)
def scenarios(context: typer.Context, json: options.JsonOption = None) -> None:
    """List the scenarios that come with rlsched; 'show NAME' prints all settings of one.

    Example: rlsched scenarios show lublin-256 > mine.yaml
    """
    if context.invoked_subcommand is not None:
        return
    from rlsched.scenario import load, names

    rows: list[dict[str, Any]] = [
        {
            "name": scenario.name,
            "description": scenario.description,
            "workload": scenario.workload.kind,
            "units": [resource.units for resource in scenario.cluster.resources],
            "episode_jobs": scenario.episode.jobs,
        }
        for scenario in map(load, names())
    ]
    targets = output.Targets(json).check()
    targets.write({"scenarios": rows})
    if json is not None:
        return
    from rlsched.cli.tables import plain_table

    lines = [
        (
            row["name"],
            ", ".join("from the trace" if count is None else f"{count:,} units" for count in row["units"]),
            *(row["workload"], row["description"]),
        )
        for row in rows
    ]
    targets.console.print(plain_table(["scenario", "cluster", "jobs", "what it is"], lines))


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A scenario's name, or a YAML file.")],
    set_: options.SetOption = None,
) -> None:
    """Print all settings of a scenario as YAML, a file for --scenario.

    Example: rlsched scenarios show lublin-256 --set workload.load=0.9 > mine.yaml
    """
    import yaml

    scenario = options.named_scenario("scenarios show", name, set_ or [])
    settings = scenario.model_dump(mode="json")
    print(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), end="")
