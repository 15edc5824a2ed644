"""`rlsched bench`: how fast this machine is at what rlsched does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rlsched.cli import options, output
from rlsched.errors import BadInputError

app = typer.Typer()


@app.callback()
def bench() -> None:
    """Measure speed: of the simulator, of training and learning, and of the decision service."""


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
    written and episodes loaded, beside what each of these holds in memory; then of green datacenters, where
    every tick is one. Replays are of sequences of 1,024 jobs from the --trace, or else from the scenario. In
    a clone of the repository, the plain Python twin of the core runs the same beside it.

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
    table = plain_table(None, ["what", "case", "figure", "times as fast as"], {"figure"})
    shown = []
    with output.busy("measuring"):
        for figure in figures:
            shown.append(figure)
            beside = "" if figure.ratio is None else f"{number(figure.ratio)} x {figure.against}"
            table.add_row(
                figure.name.replace("_per_s", "").replace("_", " "),
                figure.case,
                f"{figure.value:,.0f} {figure.unit}",
                beside,
            )
    console.print(table)
    if bench_twin.module("env") is None:
        console.print("the slow twin is in the repository only (tests/twin): nothing to compare with")
    machine = bench_core.machine()
    console.print(f"{machine['cpu']}, {machine['cores']} cores, one used", style="dim", markup=False)
    if json is not None:
        output.write_json(json, bench_core.to_json(shown))


@app.command("train")
def train(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    turns: Annotated[
        int, typer.Option("--turns", metavar="N", min=1, help="Iterations of each that count.")
    ] = 5,
    seed: options.SeedOption = None,
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Measure training end to end: PPO as `rlsched train` runs it, as RLlib does, and as a plain torch loop.

    All take turns in one process, with the same environments, networks, batch, epochs and minibatches. The
    plain loop is in the repository (benchmarks/), and MaskablePPO of sb3-contrib, whose network is its own,
    takes turns where that is installed (pip install 'rlsched[bench]'): told to do the same, and as it comes.

    Example: rlsched bench train --scenario green-10 --set sampling.fragment=256
    """
    from rlsched.cli.train import settings_given

    named = scenario or (None if trace is not None else "lublin-256")
    simulated, training = settings_given(None, named, trace, set_ or [])
    training = training.model_copy(update={"algo": "ppo", "seed": seed or 0})
    targets = output.Targets(json=json)
    targets.check()

    from rlsched.cli import bench_core, bench_train
    from rlsched.cli.tables import plain_table
    from rlsched.report.words import number

    with output.busy("measuring"):
        speeds = bench_train.measure(simulated, training, turns)
    table = plain_table(
        None,
        ["who", "decisions / s", "sampled / s", "simulate", "forward", "learn", "rest"],
        {"decisions / s", "sampled / s", "simulate", "forward", "learn", "rest"},
    )
    for speed in speeds:
        shares = [f"{100 * share:.0f} %" for share in speed.shares.values()]
        table.add_row(speed.name, f"{speed.decisions:,.0f}", f"{speed.sampled:,.0f}", *shares)
    console = output.people(json)
    console.print(table)
    ours, *others = speeds
    for other in others:
        times = ours.decisions / other.decisions
        console.print(f"{ours.name} is {number(times)} times as fast as {other.name}", markup=False)
    machine = bench_core.machine()
    console.print(f"{machine['cpu']}, {machine['cores']} cores", style="dim", markup=False)
    if json is not None:
        found = bench_train.figures(simulated.name, speeds)
        output.write_json(json, bench_core.to_json(found))


@app.command("learn")
def learn(
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    algos: Annotated[
        list[str] | None,
        typer.Option("--algos", metavar="A,B", help="Algorithms (ppo,appo,dqn,reinforce,priority_search)."),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Runs of each algorithm.")] = 1,
    minutes: Annotated[
        float, typer.Option("--minutes", metavar="M", help="Of each run, validation included, at the most.")
    ] = 5.0,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the runs.")] = Path(
        "runs/bench-learn"
    ),
    json: options.JsonOption = None,
    set_: options.SetOption = None,
) -> None:
    """Measure how long algorithms train until they beat every heuristic.

    A run ends with the first policy that keeps all limits in validation and is better than the best heuristic
    there, by the 95 % interval of the difference; or after --minutes. It is validated after every iteration;
    the seconds of training leave that out.

    Example: rlsched bench learn --scenario lublin-256 --algos ppo --seeds 3
    """
    from rlsched.cli.train import settings_given
    from rlsched.evaluate.contestants import check_name
    from rlsched.learn.config.training import FROM_DATASETS, SECTIONS

    playing = [algo for algo in SECTIONS if algo not in FROM_DATASETS]
    chosen = options.items(algos) or ["ppo", "appo", "dqn", "reinforce", "priority_search"]
    for algo in chosen:
        check_name("--algos", "algorithm", algo, playing)
    if minutes <= 0:
        raise BadInputError("--minutes", f"value {minutes:g}", "give a time above 0 for each run")
    named = scenario or (None if trace is not None else "lublin-256")
    simulated, training = settings_given(None, named, trace, set_ or [])
    training = training.model_copy(update={"minutes": minutes})
    targets = output.Targets(json=json)
    targets.check()

    from rlsched.cli import bench_core, bench_learn
    from rlsched.cli.tables import plain_table
    from rlsched.report.words import number

    numeric = ["seed", "decisions", "training s", "with validation", "best", "best heuristic"]
    table = plain_table(None, ["algorithm", "ahead", *numeric], set(numeric))
    races = []
    for one in bench_learn.race(
        simulated, training, chosen, range(training.seed, training.seed + seeds), out
    ):
        races.append(one)
        table.add_row(
            one.algo,
            "yes" if one.ahead else "interrupted" if one.interrupted else "no",
            str(one.seed),
            f"{one.decisions:,}",
            f"{one.learning_s:.0f}",
            f"{one.seconds:.0f}",
            number(one.reached),
            number(one.heuristic),
        )
    console = output.people(json)
    console.print(table)
    machine = bench_core.machine()
    console.print(f"{machine['cpu']}, {machine['cores']} cores", style="dim", markup=False)
    console.print(f"runs: {out}", markup=False)
    if json is not None:
        told = bench_learn.figures(simulated.name, races)
        output.write_json(json, bench_core.to_json(told) | {"runs": [asdict(one) for one in races]})
    if any(one.interrupted for one in races):
        raise typer.Exit(130)


@app.command("serve")
def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that rlsched export wrote.")],
    replicas: Annotated[
        list[str] | None, typer.Option("--replicas", metavar="N,N", help="Replicas of the service (1,2).")
    ] = None,
    clients: Annotated[
        list[str] | None, typer.Option("--clients", metavar="N,N", help="Clients at once (1,8,32).")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="Time for each figure.")] = 8.0,
    json: options.JsonOption = None,
) -> None:
    """Measure the decision service end to end: latency and throughput, asked by another process.

    It is asked about clusters as the policy's own episodes bring them, one by one and in batches. In a clone
    of the repository, FastAPI with `serve.batch` (benchmarks/stock_service.py) is asked for actions beside.

    Example: rlsched bench serve runs/policy --clients 8
    """
    if seconds <= 0:
        raise BadInputError("--seconds", f"value {seconds:g}", "give a time above 0 for each figure")
    counts = {
        option: _counts(option, given, usual)
        for option, given, usual in (("--replicas", replicas, (1, 2)), ("--clients", clients, (1, 8, 32)))
    }
    if not (folder / "policy.json").is_file():
        raise BadInputError(
            "DIR", f"{str(folder)!r} holds no exported policy", "name what rlsched export wrote"
        )
    output.Targets(json=json).check()

    from rlsched.cli import bench_core, bench_serve, repository
    from rlsched.cli.tables import plain_table
    from rlsched.report.words import number

    stock = repository.file("benchmarks.stock_service")
    found: list[bench_serve.Measured] = []
    console = output.people(json)
    columns = ["asked", "replicas", "clients", "clusters / s", "p50 ms", "p99 ms", "failed"]
    table = plain_table(None, columns, set(columns[1:]))
    with output.busy("measuring"):
        for told in bench_serve.measure(folder, counts["--replicas"], counts["--clients"], seconds, stock):
            if isinstance(told, bench_serve.Service):
                console.print(f"ready after {told.started_s:.1f} s")
                continue
            found.append(told)
            load = told.load
            table.add_row(
                told.case,
                str(told.replicas or "-"),
                str(told.clients),
                f"{told.per_s:,.0f}",
                f"{load.p50_ms:.1f}",
                f"{load.p99_ms:.1f}",
                str(load.failed),
            )
    console.print(table)
    figures = bench_serve.figures(found)
    for figure in figures:
        if figure.ratio is not None:
            console.print(
                f"{figure.case}: {number(figure.ratio)} times as many as {figure.against}", markup=False
            )
    machine = bench_core.machine()
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, clients among them", style="dim", markup=False
    )
    if json is not None:
        output.write_json(json, bench_core.to_json(figures))


def _counts(option: str, given: list[str] | None, usual: tuple[int, ...]) -> list[int]:
    """Whole numbers from 1 on.

    Raises:
        BadInputError: one is none.
    """
    texts = options.items(given)
    for text in texts:
        known = text.isascii() and text.isdigit() and len(text) <= options.DIGITS
        if not (known and int(text) >= 1):
            raise BadInputError(option, f"value {text!r}", "give whole numbers from 1 on, as in 1,2")
    return [int(text) for text in texts] or list(usual)
