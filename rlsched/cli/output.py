"""Output of commands: files are checked before a long run, and written atomically."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, Self

import rlsched
from rlsched.errors import BadInputError, visible
from rlsched.files import unfinished_name, write_whole

if TYPE_CHECKING:
    from rich.console import Console

STDOUT = "-"
ARTEFACTS = frozenset(
    f"{name}.json"
    for name in (
        *("dataset", "example", "figures", "gate", "inputs", "job", "manifest", "point", "policies"),
        *("policy", "process", "results", "scenario", "standing", "validation", "versions"),
    )
)
"""Names of JSON files in runs, policies, datasets and sweeps."""
PIPE_WIDTH = 150  # columns of a table that no terminal bounds
PROGRESS_AFTER_S = 1.0


def console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is, without markup, emoji codes and coloured numbers."""
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            """Render a string, with escapes for invisible characters."""
            return super().render_str(visible(text), **options)

    plain = Plain(stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False)
    if not plain.is_terminal and "COLUMNS" not in os.environ:
        plain.width = PIPE_WIDTH
    return plain


def check_file(option: str, path: Path, endings: tuple[str, ...] = ()) -> None:
    """Check that a file can be written, without leaving it behind.

    Raises:
        BadInputError: it cannot be written, or its name has another ending.
    """
    if endings and path.suffix.lower() not in endings:
        raise BadInputError(option, f"{str(path)!r}: unknown format", f"end it in {' or '.join(endings)}")
    if path.is_dir():
        raise BadInputError(option, f"{str(path)!r} is a folder", "name a file in it")
    _check_no_input(option, path, within=not endings)  # no command reads pages and pictures
    if path.exists() and not path.is_file():
        return  # a pipe or a device: errors appear on writing
    # The folder is created with the file, as runs/ often is.
    existing = next(folder for folder in path.absolute().parents if folder.exists())
    if not existing.is_dir():
        problem = f"cannot write {str(path)!r} ({existing.name!r} is a file)"
        raise BadInputError(option, problem, "name a file in a folder")
    probe = unfinished_name(existing / path.name)
    try:
        probe.touch()
    except OSError as error:
        raise BadInputError(
            option, f"cannot write {str(path)!r} ({error.strerror})", "name a folder with write permission"
        ) from None
    finally:
        probe.unlink(missing_ok=True)


def _check_no_input(option: str, path: Path, *, within: bool) -> None:
    """Refuse a target that is an input of the command, or the target of another option.

    Args:
        option: of the target.
        path: the target.
        within: also refuse files that belong to an input folder.
    """
    import typer

    # Typer has a copy of click in it, and older versions use click itself.
    package = typer.Context.__mro__[1].__module__.rpartition(".")[0]
    context = import_module(f"{package}.globals").get_current_context(silent=True)
    artefact = within and path.is_file() and (path.suffix != ".json" or path.name in ARTEFACTS)
    for parameter in () if context is None else context.command.params:
        if option in parameter.opts:
            continue
        name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.opts[0].upper()
        value = context.params.get(parameter.name or "")
        for item in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(item, str | Path):
                continue
            named = (str(item), str(item).partition("=")[2])  # a file, or KEY=FILE
            if any(map(partial(_same_file, path), named)):
                raise BadInputError(option, f"{str(path)!r} is also the file of {name}", "name another file")
            if artefact and any(map(partial(_is_in, path), named)):
                problem = f"{str(path)!r} belongs to a folder that is read"
                raise BadInputError(option, problem, "name another file")


def _is_in(path: Path, folder: str) -> bool:
    """Whether a file is in a folder, at any depth; an empty text names no folder."""
    return folder != "" and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _same_file(path: Path, name: str) -> bool:
    if name in {"", STDOUT}:
        return False
    try:
        return path.samefile(name)
    except (OSError, ValueError):  # one of them does not exist, or is not a file name
        return path.absolute() == Path(name).absolute()


def check_folder(option: str, path: Path) -> None:
    """Check that a folder can be created and written to, without leaving it behind.

    Raises:
        BadInputError: it cannot be.
    """
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not existing.is_dir():
        raise BadInputError(option, f"{str(existing)!r} is a file", "name a folder")
    check_file(option, existing / "probe")


@dataclass(frozen=True)
class Targets:
    """Output of a command: a text for people, and files; None: not written."""

    json: str | None = None
    report: Path | None = None
    render: Path | None = None

    def check(self, *, ticks: bool = False) -> Self:
        """Check that all files can be written; returns the targets.

        Args:
            ticks: the scenario has a planning horizon, so that a film is possible.

        Raises:
            BadInputError: one of them cannot be written.
        """
        if self.json is not None and self.json != STDOUT:
            check_file("--json", Path(self.json))
        if self.report is not None:
            check_folder("--report", self.report)
        if self.render is not None:
            if self.films and not ticks:
                problem = f"{str(self.render)!r}: a film shows ticks, which need decision.horizon"
                raise BadInputError("--render", problem, "end it in .png")
            check_file("--render", self.render, (".png", ".gif") if ticks else (".png",))
        return self

    @cached_property
    def console(self) -> Console:
        """The console for texts: stdout, or stderr if JSON goes to stdout."""
        return console(stderr=self.json == STDOUT)

    def write(self, values: Mapping[str, Any]) -> None:
        """Write `{"schema": 1, ...}` as JSON, atomically, where `--json` names a file or stdout."""
        if self.json is None:
            return
        text = json.dumps({"schema": 1, **values}, allow_nan=False, indent=1) + "\n"
        if self.json == STDOUT:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            write_whole(Path(self.json), text.encode())

    @property
    def films(self) -> bool:
        """Whether the picture is a film."""
        return self.render is not None and self.render.suffix.lower() == ".gif"


def announce_compiling() -> None:
    """Tell the user that a first run compiles the simulator, which numba caches."""
    from rlsched.sim.caching import cache_folder

    folder = Path(rlsched.__file__).parent / "sim"
    if not any(Path(cache_folder(folder) or folder / "__pycache__").rglob("*.nbi")):
        console(stderr=True).print("compiling the simulator, once: about a minute")


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for work of more than a second; yields the function that counts up."""
    with stages({doing: total}) as (step,):
        yield step


@contextmanager
def stages(totals: Mapping[str, int]) -> Iterator[list[Callable[[int], None]]]:
    """A bar for each part of work of more than a second; yields the functions that count up.

    A timer starts them, because the first step may be the longest. They are shown in terminals only.

    Args:
        totals: amount of work, by its name.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text, stderr = TextColumn("{task.description}", markup=False), console(stderr=True)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal)
    tasks = {
        doing: bar.add_task(f"{doing} (the first run ever compiles for a minute)", total=total)
        for doing, total in totals.items()
    }
    timer = Timer(PROGRESS_AFTER_S, bar.start)
    timer.daemon = True

    def step(doing: str, count: int) -> None:
        bar.update(tasks[doing], advance=count, description=doing)

    timer.start()
    try:
        yield [partial(step, doing) for doing in totals]
    finally:
        timer.cancel()
        timer.join(timeout=PROGRESS_AFTER_S)
        bar.stop()


def busy(doing: str) -> AbstractContextManager[object]:
    """A spinner on stderr, in terminals only."""
    from rich.text import Text

    stderr = console(stderr=True)
    return stderr.status(Text(doing)) if stderr.is_terminal else nullcontext()
