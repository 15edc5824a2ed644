"""`rlsched bench`: speed of the simulator, of training and of the decision service on this machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rlsched.cli.bench_serve import Measured, Service
    from rlsched.cli.bench_train import Speed

app = typer.Typer()

SecondsOption = Annotated[float, typer.Option("--seconds", metavar="S", help="Time for each figure.")]


@dataclass(frozen=True)
class Figure:
    """One measured figure, as the JSON of `rlsched bench` holds it.

    Attributes:
        name: quantity, as in `decisions_per_s`.
        case: the workload that it was measured on.
        value: the figure, in its unit.
        unit: as in "1/s".
        against: what it is compared with; None: with nothing.
        ratio: speed relative to `against`; None where there is nothing to compare with.
    """

    name: str
    case: str
    value: float
    unit: str = "1/s"
    against: str | None = None
    ratio: float | None = None


@app.callback()
def bench() -> None:
    """Measure speed: of the simulator, of training, and of the decision service."""


@app.command("core")
def core(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    seconds: SecondsOption = 3.0,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Measure the simulator core on one thread: decisions of environments, and jobs that heuristics schedule.

    Decisions are random legal ones in 64 environments of the --scenario (default lublin-256), including
    observations and the loading of episodes. The memory of an environment is measured, too. Green datacenters
    follow, with a decision at every tick. Heuristics schedule sequences of 1,024 jobs from the --trace, or
    else from the scenario.

    Example: rlsched bench core --seconds 3 --json core.json
    """
    _check_seconds(seconds)
    env_scenario = options.named_scenario("--scenario", scenario or "lublin-256", set_ or [])
    replay_scenario = options.trace_scenario(trace, []) if trace is not None else env_scenario
    if replay_scenario.decision.tick_driven:
        replay_scenario = options.named_scenario("--scenario", "lublin-256")  # replays have no ticks
    options.check_trace(env_scenario)
    targets = output.Targets(json).check()

    from rlsched.cli import bench_core

    show_core(bench_core.measure_core(env_scenario, replay_scenario, seconds, seed or 0), targets)


def show_core(figures: Iterable[Figure], targets: output.Targets) -> None:
    """Measure figures of the core while they are iterated over, then show them as a table, and as JSON."""
    from rlsched.cli.tables import plain_table
    from rlsched.report.words import number

    with output.busy("measuring"):
        measured = list(figures)
    rows = [
        (
            figure.name.replace("_per_s", "").replace("_", " "),
            figure.case,
            f"{figure.value:,.0f} {figure.unit}",
            "" if figure.ratio is None else f"{number(figure.ratio)} x {figure.against}",
        )
        for figure in measured
    ]
    table = plain_table(["what", "case", "figure", "times as fast as"], rows, right={"figure"})
    show_figures(targets, table, [], ", one used", measured)


@app.command("train")
def train(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    turns: Annotated[
        int, typer.Option("--turns", metavar="N", min=1, help="Measured iterations of each trainer.")
    ] = 5,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Measure training end to end: PPO as `rlsched train` runs it, and as RLlib does by itself.

    Both take turns in one process, with the same environments, networks, batch, epochs and minibatches.

    Example: rlsched bench train --scenario green-10 --set sampling.fragment=256
    """
    from rlsched.cli.train_settings import settings_given

    named = scenario or (None if trace is not None else "lublin-256")
    simulated, training = settings_given(None, named, trace, set_ or [])
    training = training.model_copy(update={"algo": "ppo", "seed": seed or 0})
    targets = output.Targets(json).check()

    from rlsched.cli import bench_train

    with output.busy("measuring"):
        speeds = bench_train.measure_training(simulated, training, turns)
    show_train(simulated.name, speeds, bench_train.RLLIB, targets)


def show_train(case: str, speeds: list[Speed], against: str, targets: output.Targets) -> None:
    """Show the speed of trainers on a scenario as a table, and as JSON relative to the trainer `against`."""
    from rlsched.cli import bench_train
    from rlsched.cli.tables import plain_table
    from rlsched.report.words import number

    numeric = ["decisions / s", "sampled / s", "simulate", "forward", "learn", "rest"]
    rows = [
        (
            *(speed.name, f"{speed.decisions:,.0f}", f"{speed.sampled:,.0f}"),
            *(f"{100 * share:.0f} %" for share in speed.shares.values()),
        )
        for speed in speeds
    ]
    first, *rivals = speeds
    lines = [
        f"{first.name} is {number(first.decisions / rival.decisions)} times as fast as {rival.name}"
        for rival in rivals
    ]
    table = plain_table(["trainer", *numeric], rows, right=numeric)
    show_figures(targets, table, lines, "", bench_train.figures(case, speeds, against))


@app.command("serve")
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that rlsched export wrote.")],
    replicas: Annotated[
        list[str] | None,
        typer.Option("--replicas", metavar="N,N", help="Replicas of the service (default 1,2)."),
    ] = None,
    clients: Annotated[
        list[str] | None,
        typer.Option("--clients", metavar="N,N", help="Concurrent clients (default 1,8,32)."),
    ] = None,
    seconds: SecondsOption = 8.0,
    json: options.JsonOption = None,
) -> None:
    """Measure the decision service end to end: latency and throughput under load from another process.

    Requests hold clusters from the policy's own episodes, one at a time and in batches.

    Example: rlsched bench serve runs/policy --clients 8
    """
    _check_seconds(seconds)
    replica_counts = _counts("--replicas", replicas, (1, 2))
    client_counts = _counts("--clients", clients, (1, 8, 32))
    if not (folder / "policy.json").is_file():
        raise BadInputError(
            "DIR", f"{str(folder)!r} holds no exported policy", "name a folder that rlsched export wrote"
        )
    targets = output.Targets(json).check()

    from rlsched.cli import bench_serve

    show_serve(bench_serve.measure_service(folder, replica_counts, client_counts, seconds), targets)


def show_serve(results: Iterable[Measured | Service], targets: output.Targets) -> None:
    """Measure loads while they are iterated over, then show them as a table, and as JSON."""
    from rlsched.cli import bench_serve
    from rlsched.cli.tables import plain_table
    from rlsched.report.words import number

    measured: list[bench_serve.Measured] = []
    with output.busy("measuring"):
        for result in results:
            if isinstance(result, bench_serve.Service):
                targets.console.print(f"ready after {result.started_s:.1f} s")
            else:
                measured.append(result)
    rows = [
        (
            *(result.case, str(result.replicas or "-"), str(result.clients), f"{result.per_s:,.0f}"),
            *(f"{result.load.p50_ms:.1f}", f"{result.load.p99_ms:.1f}", str(result.load.failed)),
        )
        for result in measured
    ]
    columns = ["requests", "replicas", "clients", "clusters / s", "p50 ms", "p99 ms", "failed"]
    figures = bench_serve.figures(measured)
    lines = [
        f"{figure.case}: {number(figure.ratio)} x {figure.against}"
        for figure in figures
        if figure.ratio is not None
    ]
    table = plain_table(columns, rows, right=columns[1:])
    show_figures(targets, table, lines, ", shared with the clients", figures)


def show_figures(
    targets: output.Targets,
    table: RenderableType,
    lines: Sequence[str],
    cores: str,
    figures: Sequence[Figure],
    **values: Any,
) -> None:
    """Print a table, lines below it and the machine, and write the figures as JSON.

    Args:
        targets: output of the command.
        table: to print.
        lines: to print.
        cores: use of the cores, in words.
        figures: of the JSON.
        values: further values of the JSON.
    """
    console, machine = targets.console, machine_values()
    console.print(table)
    for line in lines:
        console.print(line)
    console.print(f"{machine['cpu']}, {machine['cores']} cores{cores}", style="dim")
    targets.write({"machine": machine, "figures": [asdict(figure) for figure in figures], **values})


def machine_values() -> dict[str, Any]:
    """The machine and the versions that figures depend on."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("rlsched", "numba", "numpy")},
    }


def _check_seconds(seconds: float) -> None:
    if seconds <= 0:
        raise BadInputError("--seconds", f"value {seconds:g}", "give a time above 0 for each figure")


def _counts(option: str, values: list[str] | None, default: tuple[int, ...]) -> list[int]:
    """Whole numbers from 1 on.

    Raises:
        BadInputError: an item is not such a number.
    """
    texts = options.items(values)
    for text in texts:
        if not (text.isascii() and text.isdigit() and len(text) <= options.DIGITS and int(text) >= 1):
            raise BadInputError(option, f"value {text!r}", "give whole numbers from 1 on, as in 1,2")
    return [int(text) for text in texts] or list(default)
