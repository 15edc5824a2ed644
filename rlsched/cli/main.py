"""The console entry: one app, one way for a command to end badly."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from rlsched.cli import (
    advise,
    algorithms,
    bench,
    cluster,
    collect,
    dataset,
    evaluate,
    exchange,
    export,
    objectives,
    policies,
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
from rlsched.errors import BadInputError

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# What typer says before the reason: our own errors begin with the option, too.
_INVALID = re.compile(r"^Invalid value for '([^']+)'(?: / '[^']+')*: (?:Value error, )?")

app = typer.Typer(
    help="Train batch job schedulers by reinforcement learning, and compare them with heuristics.",
    epilog="Begin with: rlsched simulate --scenario lublin-256 --policy fcfs,sjf --backfill none,easy",
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
app.command("policies")(policies.policies)
app.command("objectives")(objectives.objectives)
app.command("algorithms")(algorithms.algorithms)
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
        bool, typer.Option("--debug", help="Show where an error came from (or set RLSCHED_DEBUG=1).")
    ] = False,
) -> None:
    """Train batch job schedulers by reinforcement learning, and compare them with heuristics."""
    if version:
        import rlsched

        print(f"rlsched {rlsched.__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments without the program's name; of this process where left out.

    Returns:
        The exit code: 0 done, 1 failed while running, 2 bad input, 3 a policy does not pass the gate of
        `evaluate --gate`, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or os.environ.get("RLSCHED_DEBUG", "") not in {"", "0"}
    arguments = [argument for argument in arguments if argument != "--debug"]  # it may stand anywhere
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without our signs shows a question mark
    try:
        code = get_command(app).main(arguments, prog_name="rlsched", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError as error:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # Who read us has gone (as head does). Python would complain once more when it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        return explain(error, debug)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        return explain(error, debug)
    if code == INTERRUPTED:
        say("interrupted")
    return code if isinstance(code, int) else DONE


def explain(error: Exception, debug: bool) -> int:
    """Say in one line what went wrong; the exit code for it."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, BadInputError):
        say(f"error: {error}")
        return BAD_INPUT
    if hasattr(error, "format_message"):  # of typer, or of click below older ones: an option that is wrong
        command = getattr(getattr(error, "ctx", None), "command_path", "rlsched")
        message = _INVALID.sub(r"\1: ", error.format_message().rstrip("."))
        if message:  # else its help has been shown, for want of anything to do
            say(f"error: {message}; see {command} --help")
        return BAD_INPUT
    say(f"failed: {type(error).__name__}: {error}{'' if debug else ' (--debug shows where)'}")
    for note in () if debug else getattr(error, "__notes__", ()):  # a traceback has them already
        print(note, file=sys.stderr)
    return FAILED


def say(text: str) -> None:
    """One line on stderr."""
    print(" ".join(text.split()), file=sys.stderr)
