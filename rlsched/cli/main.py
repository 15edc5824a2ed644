"""Entry point of the command line, and its exit codes and errors."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rlsched.errors import BadInputError, visible
from rlsched.files import ensure_home
from rlsched.learn.interrupts import ended_by_signals

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# Text of typer before the reason; errors of rlsched begin with the option, too.
_INVALID = re.compile(r"^Invalid value for '([^']+)'(?: / '[^']+')*: (?:Value error, )?")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments without the program's name (default: those of this process).

    Returns:
        The exit code: 0 done, 1 failed while running, 2 bad input, 3 a policy fails the gate of
        `evaluate --gate`, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments or os.environ.get("RLSCHED_DEBUG", "") not in {"", "0"}
    arguments = [argument for argument in arguments if argument != "--debug"]  # allowed anywhere
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # terminals without these characters show question marks
    with suppress(OSError):  # reported where it matters
        ensure_home()
    try:
        with ended_by_signals():
            code = execute(arguments)
        sys.stdout.flush()
    except BrokenPipeError as error:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has closed the pipe, as head does; else Python reports it again on exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        return explain(error, debug)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        return explain(error, debug)
    if code == INTERRUPTED:
        eval("None")  # where it came through code in a string, `python -m` would die by SIGINT at its end
        say("interrupted")
    return code if isinstance(code, int) else DONE


def execute(arguments: Sequence[str]) -> object:
    """Execute a command; returns its exit code, if it has one."""
    import typer  # after signal handlers: importing all commands takes a second
    from typer.main import get_command

    from rlsched.cli.commands import app

    try:
        with hints_of_renamed_settings():
            return get_command(app).main(arguments, prog_name="rlsched", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None


@contextmanager
def hints_of_renamed_settings() -> Iterator[None]:
    """Print each `RenamedSettingWarning` once, as one line on stderr without a place in the code."""
    from rlsched.settings import RenamedSettingWarning

    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_hint(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, RenamedSettingWarning):
                say(f"hint: {message}")
            else:
                show(message, category, *place, **more)

        warnings.simplefilter("once", RenamedSettingWarning)
        warnings.showwarning = show_hint
        yield


def explain(error: Exception, debug: bool) -> int:
    """Print an error in one line; returns its exit code."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        # Any argument that names a file may be too long; the system reports it.
        name = str(error.filename or "a file")
        error = BadInputError(name, "the name is too long for the file system", "give a shorter one")
    if isinstance(error, BadInputError):
        say(f"error: {error}")
        return BAD_INPUT
    if hasattr(error, "format_message"):  # a wrong option, reported by typer or click
        command = getattr(getattr(error, "ctx", None), "command_path", "rlsched")
        message = _INVALID.sub(r"\1: ", error.format_message().rstrip("."))
        if message:  # else its help was shown, because there was nothing to do
            say(f"error: {message}; see {command} --help")
        return BAD_INPUT
    say(f"failed: {type(error).__name__}: {error}{'' if debug else ' (--debug shows where)'}")
    for note in () if debug else getattr(error, "__notes__", ()):  # a traceback has them already
        print(note, file=sys.stderr)
    return FAILED


def say(text: str) -> None:
    """Print one line on stderr."""
    print(visible(" ".join(text.split())), file=sys.stderr)
