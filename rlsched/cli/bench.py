"""`rlsched bench`: how fast this machine is at what rlsched does."""

from __future__ import annotations

from typing import Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

app = typer.Typer()


@app.callback()
def bench() -> None:
    """Measure speed: 'core' is the simulator."""


@app.command("core")
def core(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="Time for each figure.")] = 3.0,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Measure the simulator core on one thread: decisions of environments, and jobs replayed by queue orders.

    Decisions are random legal ones of 64 environments of the --scenario (lublin-256), with observations
    written and episodes loaded; then of green datacenters, where every tick is one. Replays are of sequences
    of 1,024 jobs from the --trace, or else from the scenario. In a clone of the repository, the plain Python
    twin of the core runs the same beside it.

    Example: rlsched bench core --seconds 3 --json core.json
    """
    if seconds <= 0:
        raise BadInputError("--seconds", f"value {seconds:g}", "give a time above 0 for each figure")
    overrides = set_ or []
    played = options.named_scenario("--scenario", scenario or "lublin-256", overrides)
    replayed = options.trace_scenario(trace, []) if trace is not None else played
    if replayed.decision.horizon is not None:
        replayed = options.named_scenario("--scenario", "lublin-256")  # replays go from event to event
    options.check_trace(played)
    targets = output.Targets(json=json)
    targets.check()

    from rlsched.cli import bench_core, bench_twin
    from rlsched.cli.tables import plain_table
    from rlsched.report.words import number

    console = output.people(json)
    figures = bench_core.measure(played, replayed, seconds, seed or 0)
    table = plain_table(None, ["what", "case", "per second", "times as fast as"], {"per second"})
    shown = []
    with output.busy("measuring"):
        for figure in figures:
            shown.append(figure)
            beside = "" if figure.ratio is None else f"{number(figure.ratio)} x {figure.against}"
            table.add_row(figure.name.replace("_per_s", ""), figure.case, f"{figure.value:,.0f}", beside)
    console.print(table)
    if bench_twin.module("env") is None:
        console.print("the slow twin is in the repository only (tests/twin): nothing to compare with")
    machine = bench_core.machine()
    console.print(f"{machine['cpu']}, {machine['cores']} cores, one used", style="dim", markup=False)
    if json is not None:
        output.write_json(json, bench_core.to_json(shown))
