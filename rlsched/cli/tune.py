"""`rlsched tune`: search settings of scenarios, algorithms and trainings, on Ray Tune; `tune show` tells."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rlsched.cli import options, output
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rlsched.cli.bar import ProgressBar
    from rlsched.report.sweeps import SweepResult
    from rlsched.tune.folder import SweepFolder
    from rlsched.tune.follower import Progress
    from rlsched.tune.launch import Ended
    from rlsched.tune.results import Outcome
    from rlsched.tune.sweep import Sweep, Target

RUNS = Path("runs")
SHOWN = 15
"""Trials in a terminal's table; the report has all."""


class ConfigFirst(TyperGroup):
    """`rlsched tune FILE` is `rlsched tune run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command where there is none."""
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["run", *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=ConfigFirst,
    help="Search settings of scenarios and trainings on Ray Tune: rlsched tune FILE [--out DIR], which is "
    "short for rlsched tune run (its --help tells all).",
    no_args_is_help=True,
)


@app.command("run")
def run(
    config: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A sweep (YAML); tune_configs/ has some.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the sweep; left out: runs/ and the name of FILE."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep in --out.")] = False,
    trust: options.TrustOption = False,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Of a Ray cluster, all of whose nodes see --out; left out: this machine.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set any scenario or training field of what is searched."
        ),
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """Try all that a sweep says, and write down what came of it: a table, a page and the best settings.

    Ctrl-C, SIGTERM or SIGHUP stop trials after their iterations; --resume goes on from there.

    Example: rlsched tune tune_configs/pid_gains.yaml
    """
    output.Targets(json=json).check()
    if config is None and not resume:
        raise BadInputError("rlsched tune", "nothing to search", "name a sweep, as tune_configs/horizon.yaml")
    if config is None and out is None:
        raise BadInputError("--resume", "goes on with no sweep", "name its FILE or its --out")
    from rlsched.cli.bar import ProgressBar
    from rlsched.report.words import described
    from rlsched.tune.folder import SweepFolder
    from rlsched.tune.launch import run as launch
    from rlsched.tune.sweep import check, read_sweep

    folder = SweepFolder(out if out is not None else RUNS / (config or Path("tune")).stem)
    sweep = read_sweep(config, settings or ()) if config is not None else folder.read()
    if resume:
        if settings and config is None:
            raise BadInputError("--resume", "goes on with the settings of its sweep", "leave out --set")
        if folder.read() != sweep:
            raise BadInputError(
                str(folder.path), "was begun with other settings", "name another --out, or leave FILE out"
            )
        if config is None:
            check(sweep, str(folder.path))
    else:
        folder.check_free()
    output.announce_compiling()
    scenario, training = sweep.settings(str(folder.path))
    what = f"{sweep.policy} plays" if sweep.policy else f"{training.algo} on"
    resume_line = f"resume       rlsched tune --resume --out {quoted(folder.path)}"
    with ProgressBar() as bar:
        bar.console.print(f"{what} {described(scenario)}", style="bold", markup=False)
        try:
            ended = launch(
                sweep,
                folder,
                partial(show_progress, bar),
                resume=resume,
                address=address,
                trust=trust,
                say=partial(bar.console.print, markup=False, soft_wrap=True),
                log=not bar.console.is_terminal,
            )
        except KeyboardInterrupt:
            if folder.exists:
                bar.console.print(resume_line, markup=False, soft_wrap=True)
            raise
    result = write(folder)
    console = output.people(json)
    if json is not None:
        output.write_json(json, values(folder, result, ended))
    at_end = sum(trial.whole for trial in result.trials)
    console.print(
        f"{ended.reason}: {at_end} of {ended.progress.trials} trials at their end"
        + (f", {ended.progress.stopped} stopped early" if ended.progress.stopped else "")
        + (f", {ended.progress.failed} failed" if ended.progress.failed else "")
    )
    for name, error in ended.errors.items():
        console.print(f"{name} failed: {error}", style="red", markup=False)
    tell(folder, result, json)
    if ended.reason == "interrupted":
        console.print(resume_line, markup=False, soft_wrap=True)
        raise typer.Exit(130)
    if ended.progress.failed:
        raise typer.Exit(1)


@app.command("show")
def show(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a sweep, at its end or not.")],
    json: options.JsonOption = None,
) -> None:
    """Tell what came of a sweep so far, and write its table and page anew.

    Example: rlsched tune show runs/pid_gains
    """
    output.Targets(json=json).check()
    from rlsched.tune.folder import SweepFolder

    found = SweepFolder(folder)
    result = write(found)
    if json is not None:
        output.write_json(json, values(found, result, None))
    tell(found, result, json)


def show_progress(bar: ProgressBar, progress: Progress) -> None:
    """Show how far a sweep is."""
    from rlsched.tune.space import assignments

    text = f"{progress.done} of {progress.trials} trials"
    if progress.stopped:
        text += f", {progress.stopped} stopped early"
    if progress.failed:
        text += f", {progress.failed} failed"
    if progress.best is not None:
        text += f"; best so far {' '.join(assignments(progress.best[1]))}"
    bar.progress.start()
    bar.progress.update(bar.task, completed=progress.share, text=text)


def write(folder: SweepFolder) -> SweepResult:
    """Write table, best settings and page of a sweep.

    Raises:
        BadInputError: there is none, or its folder cannot be written.
    """
    from rlsched.files import write_whole
    from rlsched.report.sweeps import render_sweep
    from rlsched.tune.results import outcomes, save

    found = outcomes(folder)
    save(folder, *found)
    result = to_report(folder, *found)
    page, pictures = render_sweep(result)
    try:
        for name, png in pictures.items():
            write_whole(folder.path / name, png)
        write_whole(folder.report, page.encode())
    except OSError as error:
        raise BadInputError(str(folder.path), f"cannot be written ({error})", "make room") from None
    return result


def to_report(
    folder: SweepFolder, sweep: Sweep, targets: tuple[Target, ...], found: list[Outcome]
) -> SweepResult:
    """A sweep as its page wants it."""
    import numpy as np

    from rlsched.report.sweeps import SweepResult, TrialRow
    from rlsched.settings_files import as_yaml
    from rlsched.tune.results import front, objectives_of
    from rlsched.tune.space import text

    numbers = {key for key, domain in sweep.space.items() if domain.numeric}
    ahead = {one.name for one in front(found, targets)}
    rows = [
        TrialRow(
            name=one.name,
            settings={key: one.point[key] if key in numbers else text(one.point[key]) for key in sweep.space},
            values=np.array([objectives_of(one.point, [run], targets) for run in one.runs])
            .reshape(len(one.runs), len(targets))
            .T,
            whole=one.whole,
            front=one.name in ahead,
            excess=one.excess if one.runs else 0.0,
            steps=sum(run.steps for run in one.runs),
            seconds=sum(run.seconds for run in one.runs),
        )
        for one in found
    ]
    scenario, config = sweep.settings(str(folder.path))
    search = sweep.search
    drawn = f", {search.samples} points, seed {search.seed}" if search.samples else ""
    who = f"{sweep.policy} plays {sweep.episodes} episodes" if sweep.policy else f"{config.algo} is trained"
    return SweepResult(
        title=f"{folder.path.name}: sweep over {', '.join(sweep.space)}",
        description=sweep.description,
        objectives={target.metric: target.mode == "min" for target in targets},
        trials=rows,
        facts={
            "Scenario": scenario.name,
            "Each trial": f"{who}, seeds {', '.join(map(str, sweep.seeds))}",
            "Search": f"{search.kind}{drawn}",
        },
        settings=as_yaml(sweep).decode(),
        limited=bool(scenario.objective.limits)
        or any(key.startswith("objective.costs") for key in sweep.space)
        or any(row.excess > 0 for row in rows),  # who hoards is behind, too
    )


def values(folder: SweepFolder, result: SweepResult, ended: Ended | None) -> dict[str, Any]:
    """The outcome as plain values."""
    trials = [
        {
            "trial": trial.name,
            "settings": dict(trial.settings),
            "objectives": {
                name: None if mean != mean else float(mean)
                for name, mean in zip(result.objectives, trial.means, strict=True)
            },
            "whole": trial.whole,
            "front": trial.front,
            "excess": trial.excess,
            "steps": trial.steps,
            "seconds": trial.seconds,
        }
        for trial in result.trials
    ]
    told = {} if ended is None else {"reason": ended.reason, "failed": dict(ended.errors)}
    return {"schema": 1, "folder": str(folder.path), **told, "trials": trials}


def tell(folder: SweepFolder, result: SweepResult, json: str | None) -> None:
    """The best trials, where everything is, and what to do next."""
    from rlsched.cli.tables import FAINT, plain_table
    from rlsched.report.sweeps import findings, scale_of
    from rlsched.report.words import labelled, number

    console = output.people(json)
    scales = [scale_of(result, k) for k in range(len(result.objectives))]
    headed = [labelled(list(result.objectives)[k], scales[k]) for k in result.reached]
    several = len(result.objectives) > 1
    limits = [*(["limits"] if result.limited else []), *(["front"] if several else [])]
    columns = ["trial", *result.keys, *headed, *limits]
    table = plain_table(None, columns, right=[*result.keys, *headed])
    for trial in result.trials[:SHOWN]:
        told = [value if isinstance(value, str) else number(value) for value in trial.settings.values()]
        for k in result.reached:
            each = trial.values[k]
            spread = f" [{scales[k](each.min())}, {scales[k](each.max())}]" if each.size > 1 else ""
            told.append(scales[k](trial.means[k]) + spread)
        if result.limited:
            told.append("kept" if trial.excess <= 0 else f"broken by {100 * trial.excess:.1f} %")
        if several:
            told.append("yes" if trial.front else "")
        table.add_row(trial.name + ("" if trial.whole else " (not ended)"), *told)
    console.print(table)
    if any(trial.values.shape[1] > 1 for trial in result.trials):
        console.print("means of seeds [lowest, highest seed]; episodes differ by more", style=FAINT)
    if len(result.trials) > SHOWN:
        console.print(f"and {len(result.trials) - SHOWN} more in the page")
    for line in findings(result):
        console.print(line, markup=False)
    console.print(
        f"page         {folder.report}\ntable        {folder.results}", markup=False, soft_wrap=True
    )
    fronts = len(list(folder.path.glob("front-*.yaml")))
    if fronts:
        console.print(f"front        {folder.path}/front-1.yaml to front-{fronts}.yaml", soft_wrap=True)
    if folder.best.exists():
        sweep = folder.read()
        if sweep.policy is None:
            command = f"rlsched train {quoted(folder.best)} --out {quoted(f'{folder.path}-best')}"
            console.print(f"train it     {command}", markup=False, soft_wrap=True)
        else:
            command = f"rlsched simulate --scenario {quoted(folder.best)} --policy {sweep.policy}"
            console.print(f"play it      {command}", markup=False, soft_wrap=True)
