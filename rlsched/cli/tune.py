"""`rlsched tune`: searches settings of scenarios, algorithms and trainings, on Ray Tune."""

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
    from rich.console import Console

    from rlsched.cli.watch import ProgressBar
    from rlsched.tune.folder import SweepFolder
    from rlsched.tune.launch import SweepEnd
    from rlsched.tune.progress import Progress
    from rlsched.tune.sweep import Sweep

RUNS = Path("runs")


class ConfigFirst(TyperGroup):
    """`rlsched tune FILE` is `rlsched tune run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the command `run` where none is given."""
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["run", *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=ConfigFirst,
    help="Search settings of scenarios and trainings with Ray Tune. 'rlsched tune FILE' is short for "
    "'rlsched tune run FILE'.",
    no_args_is_help=True,
)


@app.command("run")
def run(
    config: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A sweep (YAML), as in tune_configs/.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the sweep (default: runs/ and the name of FILE)."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the sweep in --out.")] = False,
    trust: options.TrustOption = False,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a Ray cluster whose nodes all see --out (default: this machine).",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any field of the sweep's scenario or training."),
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """Run all trials of a sweep, and write a table, a report and the best settings.

    Ctrl-C, SIGTERM and SIGHUP stop trials after their iterations; --resume continues them.

    Example: rlsched tune tune_configs/pid_gains.yaml
    """
    targets = output.Targets(json).check()
    from rlsched.cli.tune_report import as_values, print_result, write_result

    sweep, folder = _open(config, out, settings or [], resume=resume)
    output.announce_compiling()
    resume_line = f"resume       rlsched tune --resume --out {quoted(folder.path)}"
    end = _search(sweep, folder, resume_line, resume=resume, address=address, trust=trust)
    result = write_result(folder)
    console = targets.console
    targets.write(as_values(folder, result, end))
    _print_end(console, end, completed=sum(trial.whole for trial in result.trials))
    print_result(console, folder, result)
    if end.reason == "interrupted":
        console.print(resume_line, soft_wrap=True)
        raise typer.Exit(130)
    if end.progress.failed:
        raise typer.Exit(1)


@app.command("show")
def show(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a sweep, complete or not.")],
    json: options.JsonOption = None,
) -> None:
    """Show the results of a sweep so far, and write its table and report again.

    Example: rlsched tune show runs/pid_gains
    """
    targets = output.Targets(json).check()
    from rlsched.cli.tune_report import as_values, print_result, write_result
    from rlsched.tune.folder import SweepFolder

    sweep_folder = SweepFolder(folder)
    result = write_result(sweep_folder)
    targets.write(as_values(sweep_folder, result, None))
    print_result(targets.console, sweep_folder, result)


def _open(
    config: Path | None, out: Path | None, settings: list[str], *, resume: bool
) -> tuple[Sweep, SweepFolder]:
    """The sweep of the command line, checked, and its folder.

    Raises:
        BadInputError: the arguments or the sweep are wrong, or they do not fit the folder.
    """
    if config is None and not resume:
        raise BadInputError("rlsched tune", "no sweep is given", "name one, as tune_configs/horizon.yaml")
    if config is None and out is None:
        raise BadInputError("--resume", "no sweep is given", "name its FILE or its --out")
    if config is None and settings:
        raise BadInputError("--resume", "uses the settings of its sweep", "remove --set")
    from rlsched.tune.folder import SweepFolder
    from rlsched.tune.sweep_file import check_sweep, read_sweep

    folder = SweepFolder(out if out is not None else RUNS / (config or Path("tune")).stem)
    sweep = read_sweep(config, settings) if config is not None else folder.read()
    if not resume:
        folder.check_free()
    elif folder.read() != sweep:
        raise BadInputError(
            str(folder.path), "was started with other settings", "name another --out, or leave FILE out"
        )
    elif config is None:
        check_sweep(sweep, str(folder.path))
    return sweep, folder


def _search(
    sweep: Sweep, folder: SweepFolder, resume_line: str, *, resume: bool, address: str | None, trust: bool
) -> SweepEnd:
    """Run the trials behind a progress bar, or with lines on stderr where that is no terminal."""
    from rlsched.cli.watch import ProgressBar
    from rlsched.report.words import described
    from rlsched.tune.launch import run_sweep

    scenario, training = sweep.settings(str(folder.path))
    activity = f"{sweep.policy} plays" if sweep.policy else f"{training.algo} on"
    with ProgressBar() as bar:
        bar.console.print(f"{activity} {described(scenario)}", style="bold")
        try:
            return run_sweep(
                sweep,
                folder,
                partial(show_progress, bar),
                resume=resume,
                address=address,
                trust=trust,
                write_line=partial(bar.console.print, soft_wrap=True),
                log=not bar.console.is_terminal,
            )
        except KeyboardInterrupt:
            if folder.exists:
                bar.console.print(resume_line, soft_wrap=True)
            raise


def show_progress(bar: ProgressBar, progress: Progress) -> None:
    """Show the progress of a sweep."""
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


def _print_end(console: Console, end: SweepEnd, *, completed: int) -> None:
    """Print why the sweep ended, and the errors of failed trials."""
    progress = end.progress
    console.print(
        f"{end.reason}: {completed} of {progress.trials} trials completed"
        + (f", {progress.stopped} stopped early" if progress.stopped else "")
        + (f", {progress.failed} failed" if progress.failed else "")
    )
    for name, error in end.errors.items():
        console.print(f"{name} failed: {error}", style="red")
