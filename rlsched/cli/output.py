"""Where results go: checked before anything long starts, written whole or not at all."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

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
"""Names of JSON files that runs, policies, datasets and sweeps consist of."""
PIPE_WIDTH = 150  # columns of a table that no terminal bounds
PROGRESS_AFTER_S = 1.0


def console(*, stderr: bool = False) -> Console:
    """A console for people. Text is shown as it is: names of files may look like markup or emoji codes.

    Numbers keep one colour: rich would paint every digit.
    """
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            """What strings look like, those in cells of tables, too: files name what they hold."""
            return super().render_str(visible(text), **options)

    found = Plain(stderr=stderr, highlight=False, soft_wrap=False, markup=False, emoji=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = PIPE_WIDTH
    return found


def people(target: str | None) -> Console:
    """Where to talk to people: stdout, or stderr where JSON has stdout for itself."""
    return console(stderr=target == STDOUT)


def check_file(option: str, path: Path, endings: tuple[str, ...] = ()) -> None:
    """Make sure that a file can be written, before anything runs. Nothing is left behind.

    Raises:
        BadInputError: it cannot, or its name has another ending.
    """
    if endings and path.suffix.lower() not in endings:
        raise BadInputError(option, f"{str(path)!r}: unknown format", f"end it in {' or '.join(endings)}")
    if path.is_dir():
        raise BadInputError(option, f"{str(path)!r} is a folder", "name a file in it")
    _check_no_input(option, path, within=not endings)  # pages and pictures are read by no command
    if path.exists() and not path.is_file():
        return  # a pipe or a device: found out when it is written to
    # Its folder is made with it: files in runs/ are asked for before there is one.
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not there.is_dir():
        problem = f"cannot write {str(path)!r} ({there.name!r} is a file)"
        raise BadInputError(option, problem, "name a file in a folder")
    probe = unfinished_name(there / path.name)
    try:
        probe.touch()
    except OSError as error:
        raise BadInputError(
            option, f"cannot write {str(path)!r} ({error.strerror})", "name a folder that is yours"
        ) from None
    finally:
        probe.unlink(missing_ok=True)


def _check_no_input(option: str, path: Path, *, within: bool) -> None:
    """Refuse to write over a file that the command reads, or into one that it writes to for another option.

    Args:
        option: that says to write.
        path: what is written to.
        within: files that a folder which the command reads consists of are refused, too.

    Raises:
        BadInputError: another argument or option of the command names that file, or a `KEY=FILE` does.
    """
    import typer

    # Typer has a copy of click in it, and older versions use click itself.
    package = typer.Context.__mro__[1].__module__.rpartition(".")[0]
    context = import_module(f"{package}.globals").get_current_context(silent=True)
    if context is None:
        return
    for parameter in context.command.params:
        if option in parameter.opts:
            continue
        name = parameter.opts[0]
        name = name if name.startswith("-") else name.upper()
        value = context.params.get(parameter.name or "")
        for given in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(given, str | Path):
                continue
            named = list(_named(str(given)))
            if any(map(partial(_same_file, path), named)):
                problem = f"{str(path)!r} is also the file of {name}"
                raise BadInputError(option, problem, "name another file")
            if not within or not _is_artefact(path):
                continue
            if any(map(partial(_is_in, path), named)):
                problem = f"{str(path)!r} belongs to a folder that is read"
                raise BadInputError(option, problem, "name another file")


def _named(text: str) -> Iterator[str]:
    """What may name a file: an argument, and the value of a `KEY=VALUE`."""
    yield text
    yield text.partition("=")[2]


def _is_artefact(path: Path) -> bool:
    """Whether folders consist of such files; figures of an earlier command may be replaced."""
    return path.is_file() and (path.suffix != ".json" or path.name in ARTEFACTS)


def _is_in(path: Path, folder: str) -> bool:
    """Whether a file is in a folder, at any depth; an empty text names none."""
    return folder != "" and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _same_file(path: Path, other: str) -> bool:
    if other in {"", STDOUT}:
        return False
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them is not there yet, or is no name of a file
        return path.absolute() == Path(other).absolute()


def check_folder(option: str, path: Path) -> None:
    """Make sure that a folder can be made and written to, before anything runs. Nothing is left behind.

    Raises:
        BadInputError: it cannot.
    """
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise BadInputError(option, f"{str(there)!r} is a file", "name a folder")
    check_file(option, there / "probe")


@dataclass(frozen=True)
class Targets:
    """What a comparison is written to, as asked for; None: not at all."""

    json: str | None = None
    report: Path | None = None
    render: Path | None = None

    def check(self, *, ticks: bool = False) -> None:
        """Make sure that all can be written, before anything runs.

        Args:
            ticks: what is run has a horizon, so that there is something to film.

        Raises:
            BadInputError: one cannot.
        """
        if self.json is not None and self.json != STDOUT:
            check_file("--json", Path(self.json))
        if self.report is not None:
            check_folder("--report", self.report)
        if self.render is not None:
            if self.films and not ticks:
                raise BadInputError(
                    "--render",
                    f"{str(self.render)!r}: a film shows ticks, and without decision.horizon there are none",
                    "end it in .png",
                )
            check_file("--render", self.render, (".png", ".gif") if ticks else (".png",))

    @property
    def films(self) -> bool:
        """Whether the picture is to move."""
        return self.render is not None and self.render.suffix.lower() == ".gif"


def announce_compiling() -> None:
    """Say why a first run begins with a silence; what numba compiles then, it keeps."""
    from rlsched.sim.caching import cache_folder

    folder = Path(rlsched.__file__).parent / "sim"
    if not any(Path(cache_folder(folder) or folder / "__pycache__").rglob("*.nbi")):
        console(stderr=True).print("compiling the simulator, once: about a minute")


def write_json(target: str, values: Mapping[str, Any]) -> None:
    """Write values as JSON to a file, whole or not at all, or to stdout."""
    text = json.dumps(values, allow_nan=False, indent=1) + "\n"
    if target == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_whole(Path(target), text.encode())


def list_json(target: str, name: str, rows: Sequence[Mapping[str, Any]], **more: object) -> None:
    """Write a listing as JSON: `{"schema": 1, name: rows, ...}`.

    Raises:
        BadInputError: the file cannot be written.
    """
    Targets(json=target).check()
    write_json(target, {"schema": 1, name: list(rows), **more})


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for what takes more than a second; gives the function that counts up."""
    with stages({doing: total}) as (step,):
        yield step


@contextmanager
def stages(totals: Mapping[str, int]) -> Iterator[list[Callable[[int], None]]]:
    """A bar for each part of what takes more than a second; gives the functions that count up.

    They start by a timer, because the first step may be the longest. Nothing is shown where nobody looks.

    Args:
        totals: what is done -> how much of it.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    look = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    shown = console(stderr=True)
    bar = Progress(*look, console=shown, transient=True, disable=not shown.is_terminal)
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
    """A sign on stderr that something takes its time; nothing where nobody looks."""
    from rich.text import Text

    shown = console(stderr=True)
    return shown.status(Text(doing)) if shown.is_terminal else nullcontext()


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """So far."""
        return time.perf_counter() - self._began
