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

    known = [load(name) for name in names()]
    rows: list[dict[str, Any]] = [
        {
            "name": scenario.name,
            "description": scenario.description,
            "workload": scenario.workload.kind,
            "units": [resource.units for resource in scenario.cluster.resources],
            "episode_jobs": scenario.episode.jobs,
        }
        for scenario in known
    ]
    if json is not None:
        output.list_json(json, "scenarios", rows)
        return
    from rlsched.cli.tables import plain_table

    table = plain_table(None, ["scenario", "cluster", "jobs", "what it is"])
    for row in rows:
        table.add_row(row["name"], _cluster(row["units"]), row["workload"], row["description"])
    output.console().print(table)


def _cluster(units: list[Any]) -> str:
    return ", ".join("from the trace" if count is None else f"{count:,} units" for count in units)


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
