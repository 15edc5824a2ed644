"""The bar of what goes on for long: a share, a text and the time that it took, on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from rlsched.cli.output import console


class Bar:
    """A bar that is shown from its first `start` on, and gone with its block."""

    def __init__(self) -> None:
        self.console = console(stderr=True)
        self.progress = Progress(
            BarColumn(30),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
        )
        self.task = self.progress.add_task("", total=1.0, text="starting")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress.live.is_started:  # rich ends even a bar that never was with an empty line
            self.progress.stop()
