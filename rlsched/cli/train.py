"""`rlsched train`: train a policy, watch it, go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rlsched.learn.run import Summary


def train(
    config: Annotated[
        Path | None, typer.Argument(help="a training file (YAML): training settings and `scenario`")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="a scenario by name or file")] = None,
    trace: Annotated[Path | None, typer.Option(help="a job trace (SWF) to train on")] = None,
    algo: Annotated[str | None, typer.Option(help="see `rlsched algorithms`")] = None,
    steps: Annotated[int | None, typer.Option(help="decisions to train for")] = None,
    minutes: Annotated[float | None, typer.Option(help="stop after so many minutes")] = None,
    seed: Annotated[int | None, typer.Option(help="of the training")] = None,
    out: Annotated[Path, typer.Option(help="run folder")] = Path("runs/train"),
    resume: Annotated[bool, typer.Option(help="go on with the run in --out")] = False,
    address: Annotated[str | None, typer.Option(help="of a Ray cluster; left out: this machine")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="any scenario or training field: key.path=value")
    ] = None,
    json_file: Annotated[str | None, typer.Option("--json", help="write the summary; - is stdout")] = None,
) -> None:
    """Train a scheduler with Ray RLlib.

    Ctrl-C saves and stops; --resume goes on. Example: rlsched train --scenario lublin-256 --out runs/first
    """
    from rlsched.cli.output import Targets, people, write_json
    from rlsched.errors import BadInputError
    from rlsched.learn.config import make_config, read_config, split_overrides
    from rlsched.learn.folder import RunFolder
    from rlsched.scenario import load

    Targets(json=json_file).check()
    console = people(json_file)
    folder = RunFolder(out)
    overrides = list(settings or [])
    for name, value in {"algo": algo, "steps": steps, "minutes": minutes, "seed": seed}.items():
        if value is not None:
            overrides.append(f"{name}={value}")
    if trace is not None:
        overrides.insert(0, f"workload.file={trace}")
    if resume:
        if config or scenario or trace:
            raise BadInputError("--resume", "goes on with the settings of its run", "leave out the others")
        parsed, training = folder.read()
        allowed = {"steps", "minutes"}
        changed = {text.partition("=")[0] for text in overrides} - allowed
        if changed:
            raise BadInputError(
                "--resume", f"cannot change {', '.join(sorted(changed))}", "only steps and minutes may grow"
            )
        training = make_config(training.model_dump(mode="json"), "--resume", overrides)
    elif config is not None:
        if scenario is not None:
            raise BadInputError("--scenario", "and a training file are both given", "give one of them")
        parsed, training = read_config(config, overrides)
    else:
        for_training, for_scenario = split_overrides(overrides)
        parsed = load(scenario or ("hpc-trace" if trace else "lublin-256"), for_scenario)
        training = make_config({}, "--set", for_training)

    from rlsched.cli.watch import RichDisplay
    from rlsched.learn.run import train as run

    with RichDisplay(training) as display:
        summary = run(parsed, training, folder, display, resume=resume, address=address)
    values = summary_values(summary)
    if json_file is not None:
        write_json(json_file, values)
    console.print(
        f"{summary.reason}: {summary.standing.steps:,} decisions in {summary.standing.seconds:.0f} s; "
        f"best validation {summary.metric} {values['best']:.2f} "
        f"({summary.best_heuristic[0]} greedy: {summary.best_heuristic[1]:.2f})"
    )
    console.print(f"run folder  {out}\ncompare it  rlsched evaluate {out} --report {out}/report")
    if summary.reason == "interrupted":
        console.print(f"go on       rlsched train --resume --out {out}")
        raise typer.Exit(130)


def summary_values(summary: Summary) -> dict[str, Any]:
    """The summary as plain values."""
    return {
        "schema": 1,
        "folder": str(summary.folder),
        "reason": summary.reason,
        "steps": summary.standing.steps,
        "iterations": summary.standing.iteration,
        "seconds": summary.standing.seconds,
        "metric": summary.metric,
        "best": summary.standing.best_value,
        "within_hoarding_limits": summary.standing.best_excess == 0,
        "best_heuristic": {"policy": summary.best_heuristic[0], "value": summary.best_heuristic[1]},
    }
